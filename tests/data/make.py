#!/usr/bin/env python3
"""Makes the files of this folder from the shared data and the format's executable specification.

    PFPL_SHARED=DIR tests/data/make.py

Needs numpy.  Writes the fields, STREAMS.tsv (field, bound, header, sha256 of the stream and of the field it decodes to), and beside
each field the smaller streams as FIELD.BOUND[.wide].pfpl.  Deterministic: running it again changes nothing.
"""
import hashlib
import os
import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
SHARED = pathlib.Path(os.environ.get("PFPL_SHARED", HERE / "../../../shared"))
sys.path.insert(0, str(SHARED / "oracle"))
import pfpl_oracle as oracle

LARGEST_STREAM = 30000             # longer ones, and wide ones of fields, are recorded by their hash alone


def specials(k, bound):
    """What a quantizer can stumble over, at this bound, shuffled; and a quiet part with single outliers."""
    rng = np.random.default_rng(2026)
    f, u = k.flt.type, k.uint
    info, eb2 = np.finfo(k.flt), 2 * float(oracle.stored_bound(bound))
    sign = 1 << (k.width - 1)
    inf = int(np.array(np.inf, k.flt).view(u))
    bits = [0, 1, 2, inf - 1, inf, inf + 1, inf | inf >> 1, sign - 1, 1 << info.nmant, (1 << info.nmant) - 1]
    bits += [int(b) for b in rng.integers(1, 1 << info.nmant, 20)] + [inf | int(b) for b in rng.integers(1, 1 << info.nmant, 20)]
    exact = np.array([b ^ s for b in bits for s in (0, sign)], u).view(k.flt)
    bins = np.concatenate([np.arange(-8.0, 8) + c for c in (0, k.radius / 2, k.radius, 2.0 * k.radius, 2.0 ** 31, 2.0 ** 63)])
    bins = np.concatenate([bins, -bins])
    with np.errstate(over="ignore"):
        near = np.concatenate([(bins + part) * eb2 for part in (0, 0.25, 0.5, 0.5 - 2.0 ** -20, 0.5 + 2.0 ** -20)]).astype(k.flt)
        near = np.concatenate([near, np.nextafter(near, f(np.inf)), np.nextafter(near, f(-np.inf))])
        scale = (10.0 ** rng.uniform(-12, 12, 300) * rng.choice([-1, 1], 300) * eb2).astype(k.flt)
    loud = np.concatenate([exact, near, scale])
    rng.shuffle(loud)
    quiet = (np.cumsum(rng.integers(-2, 3, k.per_chunk + 77)) * eb2).astype(k.flt)
    quiet[rng.integers(0, quiet.size, 12)] = rng.choice(exact, 12)
    return np.concatenate([loud, quiet, np.zeros(k.per_chunk, k.flt), loud[: 100]])


def main():
    fields = SHARED / "data/fields"
    made = {}                                             # name: (values, bounds)

    def take(name, kind, bounds, part=None, to=None):
        values = np.fromfile(fields / name, kind.flt)
        made[to or name] = (values[:part], bounds)

    take("etopo120_rose_90x180.f32", oracle.F32, (11.9, 0.119))
    take("hswm_tracer2_3x2562.f32", oracle.F32, (2.03, 0.0203))
    take("icon_log10_sic_inf_20480.f32", oracle.F32, (0.00479, 4.79e-05))
    take("coads_wind_nan_2x12x90x180.f32", oracle.F32, (0.0393, 0.000393), 90 * 180, "coads_wind_nan_90x180.f32")
    take("space_weather_ne_29x31x31.f64", oracle.F64, (0.00805, 8.05e-05), 8 * 31 * 31, "space_weather_ne_8x31x31.f64")
    for kind, ending in ((oracle.F32, "f32"), (oracle.F64, "f64")):
        made["special_1e-3." + ending] = (specials(kind, 1e-3), (1e-3,))
        made["special_0.25." + ending] = (specials(kind, 0.25), (0.25, 1.2e-38))
    made["random_bits.f32"] = (np.fromfile(SHARED / "data/fz_archives/rnd1.f32", "<f4"), (1e-4, 1e30))
    made["empty.f32"] = (np.zeros(0, "<f4"), (1.0,))
    made["empty.f64"] = (np.zeros(0, "<f8"), (1.0,))

    lines = ["field\tbound\theader\tstream bytes\tsha256 of the stream\tsha256 of the decoded field"]
    for name, (values, bounds) in made.items():
        values.tofile(HERE / name)
        for bound in bounds:
            for wide in (False, True):
                stream = oracle.compress(values, bound, wide)
                decoded = oracle.decompress(stream).tobytes()
                header = "wide" if wide else "narrow"
                digests = [hashlib.sha256(x).hexdigest() for x in (stream, decoded)]
                lines.append("\t".join([name, repr(bound), header, str(len(stream)), *digests]))
                if len(stream) <= LARGEST_STREAM and not (wide and len(values)):
                    (HERE / f"{name}.{bound!r}{'.wide' if wide else ''}.pfpl").write_bytes(stream)
    (HERE / "STREAMS.tsv").write_text("\n".join(lines) + "\n")

    archives = SHARED / "data/fz_archives"
    for name in ("sn1_1e-2.fzrze", "sn2_1e-2.fzrze", "rnd1_1e-4.fzrze", "zero1_1e-4.fzrze", "zero7_1e-4.fzrze"):
        shutil.copyfile(archives / name, HERE / name)
    (HERE / "sn2.f32").write_bytes((archives / "sn7.f32").read_bytes()[: 2 * 16384])


main()
