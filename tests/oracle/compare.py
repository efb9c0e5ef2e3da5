#!/usr/bin/env python3
"""Compares the command's streams and restored fields with the live oracle, on fields made here: special values, odd lengths, both types.

    compare.py [SEED]

Needs numpy and cargo; builds the command in release mode.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import pfpl_oracle as oracle

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOUNDS = (1e-2, 1e-4, 3e-5, 0.7)


def fields(rng, flt):
    """Name -> field: smooth, noisy, random bits, fills and special values, at lengths round a chunk's."""
    per_chunk = oracle.CHUNK // np.dtype(flt).itemsize
    for n in (0, 1, 31, 33, per_chunk - 1, per_chunk, per_chunk + 1, 3 * per_chunk + 17):
        i = np.arange(n)
        smooth = (0.5 * np.sin(2 * np.pi * i / 4096) + 0.25 * np.cos(2 * np.pi * i / 65536)).astype(flt)
        yield f"smooth {n}", smooth
        yield f"noisy {n}", (smooth + 0.01 * rng.standard_normal(n)).astype(flt)
        yield f"random bits {n}", np.frombuffer(rng.bytes(n * np.dtype(flt).itemsize), flt)
        special = smooth.copy()
        values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e20, -1e34, np.finfo(flt).tiny / 8, np.finfo(flt).max], flt)
        where = rng.random(n) < 0.05
        special[where] = rng.choice(values, where.sum())
        yield f"special {n}", special
        yield f"ties {n}", (rng.integers(-4000, 4000, n) * np.float64(np.float32(1e-4))).astype(flt)


def target_folder():
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version=1"], cwd=ROOT, check=True, capture_output=True)
    return pathlib.Path(json.loads(metadata.stdout)["target_directory"])


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    rng = np.random.default_rng(seed)
    subprocess.run(["cargo", "build", "-q", "--release", "-p", "pfpl-cli"], cwd=ROOT, check=True)
    pfpl = target_folder() / "release" / "pfpl"
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for dtype, flt in (("f32", np.float32), ("f64", np.float64)):
            for name, field in fields(rng, flt):
                bound = BOUNDS[compared % len(BOUNDS)]
                source, stream, restored = (os.path.join(folder, n) for n in ("field." + dtype, "stream", "restored"))
                field.tofile(source)
                subprocess.run([pfpl, "compress", source, stream, "--bound", repr(bound), "--force"], check=True)
                with np.errstate(all="ignore"):
                    expected = oracle.compress(field, bound)
                    decoded = oracle.decompress(expected)
                if open(stream, "rb").read() != expected:
                    sys.exit(f"{dtype} {name} at {bound}: the stream differs from the oracle's (seed {seed})")
                subprocess.run([pfpl, "decompress", stream, restored, "--force"], check=True)
                if open(restored, "rb").read() != decoded.tobytes():
                    sys.exit(f"{dtype} {name} at {bound}: the restored field differs from the oracle's (seed {seed})")
                compared += 1
    print(f"{compared} fields: streams and restored fields equal the oracle's")


if __name__ == "__main__":
    main()
