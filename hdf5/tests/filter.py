#!/usr/bin/env python3
"""The HDF5 filter with h5py, h5dump and h5repack, all of one HDF5: filter.py COMMAND_PFPL, with HDF5_PLUGIN_PATH set."""
import os
import struct
import subprocess
import sys
import tempfile

import h5py
import numpy as np

FILTER = 33200
EXACT, POWER2 = 1, 2
PFPL = sys.argv[1]


def options(bound, mode=EXACT):
    return (mode, *struct.unpack("<II", struct.pack("<d", bound)))


def wave(n, dtype):
    i = np.arange(n)
    return (np.sin(i * 1e-3) + 1e-2 * np.random.default_rng(1).standard_normal(n)).astype(dtype)


def close(a, b, bound):
    return np.all(np.abs(a.astype(np.longdouble) - b.astype(np.longdouble)) <= bound)


def check(name, ok):
    print("ok   " if ok else "FAILED", name)
    if not ok:
        sys.exit(1)


def written_and_read(path):
    # 1/3 and 1e-9 are not float32: a bound squeezed through one would show in the recorded bound of the float64 chunks
    for dtype, bound in ((np.float32, 1e-4), (np.float64, 1e-9), (np.float64, 1 / 3)):
        for mode in (EXACT, POWER2):
            field = wave(200_000, dtype).reshape(400, 500)
            with h5py.File(path, "w") as f:
                f.create_dataset("x", data=field, chunks=(64, 500), compression=FILTER, compression_opts=options(bound, mode))
            with h5py.File(path) as f:
                x = f["x"]
                check(f"round trip {np.dtype(dtype)} {bound:.3g} mode {mode}", close(x[...], field, bound) and x.id.get_storage_size() < field.nbytes)
                _, stream = x.id.read_direct_chunk((0, 0))
                recorded = np.frombuffer(stream, "<f4", 1, 8)[0]
                wanted = np.float64(bound) if mode == EXACT else 2.0 ** np.floor(np.log2(bound))
                check("  recorded bound", recorded <= wanted < np.nextafter(recorded, np.float32(np.inf)))


def special_values(path):
    field = wave(50_000, np.float32)
    field[::7], field[1::7], field[2::7] = np.nan, np.inf, 1e20
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=field, chunks=(50_000,), compression=FILTER, compression_opts=options(1e-4))
    with h5py.File(path) as f:
        x = f["x"][...]
    kept = ~np.isfinite(field) | (np.abs(field) > 1e6)
    check("special values bit for bit", np.array_equal(x.view("u4")[kept], field.view("u4")[kept]) and close(x[~kept], field[~kept], 1e-4))


def incompressible(path):
    field = np.random.default_rng(2).standard_normal(100_001) * 1e20
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=field, chunks=(100_001,), compression=FILTER, compression_opts=options(1e-30), fletcher32=True)
    with h5py.File(path) as f:
        check("incompressible chunk", np.array_equal(f["x"][...].view("u8"), field.view("u8")))


def refused_at_creation(path):
    for dtype in ("i4", ">f4", "f2", "S4", [("a", "f4")]):
        with h5py.File(path, "w") as f:
            try:
                f.create_dataset("x", shape=(100,), dtype=dtype, chunks=(100,), compression=FILTER, compression_opts=options(1e-4))
                check(f"refuses {dtype}", False)
            except (ValueError, OSError, RuntimeError):
                check(f"refuses {dtype}", True)
    for bad in (options(0.0), options(float("nan")), options(1e-50), (7, 0, 0), (1,), ()):
        with h5py.File(path, "w") as f:
            try:
                f.create_dataset("x", shape=(100,), dtype="f4", chunks=(100,), compression=FILTER, compression_opts=bad)
                check(f"refuses values {bad}", False)
            except (ValueError, OSError, RuntimeError):
                check(f"refuses values {bad}", True)


def streams_made_elsewhere(path, folder):
    """What a GPU does: each chunk compressed on its own, then put into the file as it is."""
    field = wave(3 * 40_000, np.float32)
    with h5py.File(path, "w") as f:
        x = f.create_dataset("x", shape=field.shape, dtype="f4", chunks=(40_000,), compression=FILTER, compression_opts=options(1e-3))
        for k in range(3):
            source, stream = os.path.join(folder, "piece.f32"), os.path.join(folder, "piece.pfpl")
            field[k * 40_000 : (k + 1) * 40_000].tofile(source)
            # another bound for each: readers need no client data
            subprocess.run([PFPL, "compress", source, stream, "--bound", str(10.0 ** -(k + 2)), "--force"], check=True)
            x.id.write_direct_chunk((k * 40_000,), open(stream, "rb").read())
    with h5py.File(path) as f:
        x = f["x"][...]
    check("streams written with H5Dwrite_chunk", all(close(x[k * 40_000 :][:40_000], field[k * 40_000 :][:40_000], 10.0 ** -(k + 2)) for k in range(3)))


def damaged(path):
    field = wave(10_000, np.float32)
    with h5py.File(path, "w") as f:
        x = f.create_dataset("x", data=field, chunks=(10_000,), compression=FILTER, compression_opts=options(1e-3))
        stream = x.id.read_direct_chunk((0,))[1]
        x = f.create_dataset("short", data=field[:10], chunks=(10,), compression=FILTER, compression_opts=options(1e-3))
        short = x.id.read_direct_chunk((0,))[1]
        x = f.create_dataset("wide", data=field.astype("f8"), chunks=(10_000,), compression=FILTER, compression_opts=options(1e-3))
        wide = x.id.read_direct_chunk((0,))[1]
    for name, bad in (("fewer values", short), ("other type", wide), ("truncated", stream[:-5]), ("not a stream", b"x" * 100), ("bad table", stream[:24] + b"\xff" * 4 + stream[28:]), ("empty", b"")):
        with h5py.File(path, "w") as f:
            x = f.create_dataset("x", shape=field.shape, dtype="f4", chunks=(10_000,), compression=FILTER, compression_opts=options(1e-3))
            x.id.write_direct_chunk((0,), bad or b"\0")
            try:
                x[...]
                check(f"damaged chunk: {name}", False)
            except OSError:
                check(f"damaged chunk: {name}", True)


def tools(path, folder):
    field = wave(60_000, np.float64)
    plain, packed, back = path, os.path.join(folder, "packed.h5"), os.path.join(folder, "back.h5")
    with h5py.File(plain, "w") as f:
        f.create_dataset("x", data=field, chunks=(20_000,))
    mode, low, high = options(1e-6)
    subprocess.run(["h5repack", "-f", f"x:UD={FILTER},0,3,{mode},{low},{high}", plain, packed], check=True)
    with h5py.File(packed) as f:
        check("h5repack packs", f["x"].id.get_storage_size() < field.nbytes / 2 and close(f["x"][...], field, 1e-6))
        x = f["x"][...]
    dump = subprocess.run(["h5dump", "-d", "x", "-s", "0", "-c", "3", "-p", packed], check=True, capture_output=True, text=True).stdout
    check("h5dump shows the filter and values", str(FILTER) in dump and f"{x[1]:.6g}"[:6] in dump)
    subprocess.run(["h5repack", "-f", "x:NONE", packed, back], check=True)
    with h5py.File(back) as f:
        check("h5repack unpacks", np.array_equal(f["x"][...], x) and f["x"].id.get_create_plist().get_nfilters() == 0)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "test.h5")
    check("the plugin is found", h5py.h5z.filter_avail(FILTER))
    written_and_read(path)
    special_values(path)
    incompressible(path)
    refused_at_creation(path)
    streams_made_elsewhere(path, folder)
    damaged(path)
    tools(path, folder)
print("== done")
