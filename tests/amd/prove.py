#!/usr/bin/env python3
"""Proves the shipped AMD code objects on the instruction-level emulator: byte identity with the specification both ways, refusals,
overflow, lists, ranges, counter wraps, hostile schedules under a weak memory model, barriers; and by disassembly that they contain no
fused or multiply-add floating-point instruction, no scratch and no spill.

    prove.py [--full] [ARCH ...]            default: gfx90a gfx942 gfx1100, two at a time

The emulator is amdemu in PFPL_SHARED (default ../shared); without it this says so and checks the disassembly alone.
Needs numpy, clang-19 and llvm-19.
"""
import concurrent.futures
import re
import subprocess
import sys
import time

import numpy as np

import device
from device import NO_CHUNK, ROOT, CountedBarriers, Device, Plan, oracle

ARCHITECTURES = ("gfx90a", "gfx942", "gfx1100")
KERNELS = ("pfpl_encode_f32", "pfpl_encode_f64", "pfpl_decode_f32", "pfpl_decode_f64")
WAVE = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}
LDS_LIMIT = 19 * 1024


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


# ---------------------------------------------------------------- the object itself
def check_disassembly(arch):
    path = ROOT / "kernels_amd" / "built" / f"pfpl.{arch}.co"
    text = subprocess.run(["llvm-objdump-19", "-d", f"--mcpu={arch}", path], capture_output=True, text=True, check=True).stdout
    mnemonics = re.findall(r"^\t(\S+)|:: (v_dual_\S+)", text, re.M)
    mnemonics = [a or b for a, b in mnemonics]
    expect(len(mnemonics) > 4000, f"{arch}: {len(mnemonics)} instructions disassembled")
    fused = {m for m in mnemonics if re.match(r"v_(dual_)?(pk_)?(fma|mad|mac)", m) and re.search(r"f16|f32|f64|mix", m)}
    expect(not fused, f"{arch}: {fused}")
    expect(not any(m.startswith("scratch_") for m in mnemonics), f"{arch}: scratch instructions")
    notes = subprocess.run(["llvm-readelf-19", "--notes", path], capture_output=True, text=True, check=True).stdout
    for field, limit in (("private_segment_fixed_size", 0), ("sgpr_spill_count", 0), ("vgpr_spill_count", 0), ("group_segment_fixed_size", LDS_LIMIT), ("kernarg_segment_size", 4096)):
        values = [int(v) for v in re.findall(rf"\.{field}: +(\d+)", notes)]
        expect(len(values) == len(KERNELS) and max(values) <= limit, f"{arch}: {field} {values}, at most {limit}")


# ---------------------------------------------------------------- fields
def smooth(n, flt, seed=1):
    i = np.arange(n)
    return (0.5 * np.sin(2 * np.pi * i / 4096) + 0.01 * np.random.default_rng(seed).standard_normal(n)).astype(flt)


def corpus(flt):
    """(field, bound): what the coder distinguishes."""
    rng = np.random.default_rng(7)
    size, bits = np.dtype(flt).itemsize, np.dtype(flt).itemsize * 8
    chunk = oracle.CHUNK // size
    for n in (0, 1, 31, 32, 33, chunk - 1, chunk, chunk + 1):
        yield smooth(n, flt), 1e-4
    yield smooth(2 * chunk + 5, flt)[1:], 1e-6
    yield np.zeros(chunk + 3, flt), 1e-3
    yield np.frombuffer(rng.bytes(size * (chunk + 100)), flt), 1e-3                  # random bits: raw chunks
    special = smooth(chunk + 9, flt)
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e20, -1e34, np.finfo(flt).max, np.finfo(flt).tiny, np.finfo(flt).tiny / 8, 1e-45], flt)
    where = rng.random(special.size) < 0.1
    special[where] = rng.choice(values, where.sum())
    payloads = rng.random(special.size) < 0.02
    special.view(f"<u{size}")[payloads] |= np.array(0x7FF << (bits - 12), f"<u{size}")
    yield special, 1e-3
    with np.errstate(over="ignore"):
        radius = flt(oracle.F32.radius if size == 4 else oracle.F64.radius) * flt(2) * flt(oracle.stored_bound(1e-3))
    edge = np.nextafter(np.full(200, radius, flt), flt(0)) + np.arange(-100, 100).astype(flt) * np.spacing(radius)
    yield np.concatenate([edge, -edge]), 1e-3                                        # either side of the radius
    ties = (2 * rng.integers(-40000, 40000, chunk) + 1).astype(flt) * flt(np.float32(1e-4))
    yield np.concatenate([ties, np.nextafter(ties, flt(9)), np.nextafter(ties, flt(-9))]), 1e-4     # where a contracted product decides otherwise
    yield smooth(chunk, flt) * flt(1e-30), float(np.finfo(np.float32).tiny)          # products and differences that are subnormal
    sparse = np.zeros(2 * chunk, flt)
    sparse[rng.integers(0, sparse.size, 40)] = 1
    yield sparse, 1e-2


def check_identity(gpu, flt):
    jobs = [(field, bound, None, wide) for wide in (0, 1) for field, bound in corpus(flt)]
    for in_memory in (False, True):
        results = gpu.encode(jobs, in_memory=in_memory)
        streams = []
        for (field, bound, _, wide), (stream, length, status, chunk) in zip(jobs, results):
            wanted = oracle.compress(field, bound, bool(wide))
            expect((length, status, chunk) == (len(wanted), 0, NO_CHUNK), f"outcome of {field.size} values: {length} {status} {chunk}, not {len(wanted)}")
            expect(stream[:length].tobytes() == wanted, f"stream of {field.size} values")
            streams.append(wanted)
        results = gpu.decode([(s, f.size, 0, f.size) for s, (f, *_) in zip(streams, jobs)], flt, in_memory=in_memory)
        for stream, (field, bound, *_), (values, consumed, status, chunk) in zip(streams, jobs, results):
            expect((consumed, status, chunk) == (len(stream), 0, NO_CHUNK), f"outcome of decoding {field.size} values: {consumed} {status} {chunk}")
            expect(values.tobytes() == oracle.decompress(stream).tobytes(), f"{field.size} values")
            check_bound(field, values.view(flt), oracle.stored_bound(bound))


def check_bound(field, values, bound):
    exact = np.longdouble if field.dtype.itemsize == 8 else np.float64
    with np.errstate(all="ignore"):
        error = np.abs(field.astype(exact) - values.astype(exact))
    same = field.view(f"<u{field.itemsize}") == values.view(f"<u{field.itemsize}")
    expect(bool((same | (error <= exact(bound))).all()), "a value past the bound")


# ---------------------------------------------------------------- capacities
def check_overflow(gpu, flt):
    field = smooth(45, flt)
    for wide in (0, 1):
        whole = oracle.compress(field, 1e-3, bool(wide))
        header = 32 if wide else 16
        capacities = list(range(len(whole) + 5))
        for capacity, (stream, length, status, _) in zip(capacities, gpu.encode([(field, 1e-3, c, wide) for c in capacities])):
            expect((length, status) == (len(whole), 0 if capacity >= length else 1), f"capacity {capacity}: {length} {status}")
            if capacity >= length:
                expect(stream[:length].tobytes() == whole, f"capacity {capacity}: bytes")
            elif capacity >= header:
                expect(stream[:header].tobytes() == whole[:header], f"capacity {capacity}: header")
                expect(oracle.refusal(stream.tobytes(), oracle.F32 if field.itemsize == 4 else oracle.F64, field.size)[0] == 6, "an overflown stream is truncated")
    field = smooth(3 * oracle.CHUNK // field.itemsize, flt)
    whole = oracle.compress(field, 1e-4)
    sizes = np.frombuffer(whole, "<u4", 3, 24)
    places = [24, 28, 36] + [36 + int(sizes[:k].sum()) for k in (1, 2, 3)]
    capacities = sorted({p + d for p in places for d in (-1, 0, 1)} | {len(whole)})
    for capacity, (stream, length, status, _) in zip(capacities, gpu.encode([(field, 1e-4, c, 0) for c in capacities])):
        expect((length, status) == (len(whole), 0 if capacity >= length else 1), f"capacity {capacity} of 3 chunks: {length} {status}")


# ---------------------------------------------------------------- refusals
def mutations(flt, count, seed):
    """(stream, n): damaged and odd streams, and what the specification says of them."""
    rng = np.random.default_rng(seed)
    kind = oracle.F32 if np.dtype(flt).itemsize == 4 else oracle.F64
    chunk = kind.per_chunk
    sources = []
    for field, bound, wide in ((smooth(2 * chunk + 50, flt), 1e-2, False), (np.zeros(2 * chunk, flt), 1, True), (smooth(70, flt), 1e-5, False),
                               (np.concatenate([smooth(chunk, flt), np.frombuffer(rng.bytes(100 * kind.flt.itemsize), flt)]), 1e-3, True), (smooth(0, flt), 1, False)):
        sources.append((oracle.compress(field, bound, wide), field.size))
    for i in range(count):
        stream, n = sources[rng.integers(len(sources))]
        data = bytearray(stream)
        wide = data[2] == ord("W")
        table = 32 if wide else 24
        chunks = -(-n // chunk)
        for _ in range(rng.choice([1, 1, 2])):
            what = rng.integers(8)
            if what == 0 and len(data):                                              # any bit of the header or the table
                data[rng.integers(min(len(data), table + 4 * chunks))] ^= 1 << rng.integers(8)
            elif what == 1 and len(data):                                            # any bit
                data[rng.integers(len(data))] ^= 1 << rng.integers(8)
            elif what == 2:                                                          # cut
                del data[rng.integers(len(data) + 1):]
            elif what == 3 and chunks and len(data) >= table + 4 * chunks:           # an entry of the table
                at = table + 4 * int(rng.integers(chunks))
                flipped = int.from_bytes(data[at:at + 4], "little") ^ 0x80000000
                entry = [0, 1, 2, 3, 9, 10, 16383, 16384, 0x80004000, 0x80003FFF, 0xFFFFFFFF, 0x7FFFFFFF, int(rng.integers(2**32)), flipped, flipped, 0x80000002][rng.integers(16)]
                data[at:at + 4] = int(entry).to_bytes(4, "little")
            elif what == 4 and len(data) > table + 4 * chunks + 20:                  # the end of a chunk: levels 3 and 4, its u16
                entries = np.frombuffer(stream, "<u4", chunks, table) & 0x7FFFFFFF
                end = table + 4 * chunks + int(entries[:rng.integers(1, chunks + 1)].sum())
                if end <= len(data):
                    data[end - 1 - int(rng.integers(12))] ^= 1 << rng.integers(8)
            elif what == 5 and len(data) >= 16:                                      # header words
                at = 4 * int(rng.integers(table // 4))
                data[at:at + 4] = int(rng.choice([0, 1, 0x7F7FFFFF, 0x7EFFFFFF, 0x7F000000, 0x00800000, 0x007FFFFF, 0x80000000, 0xFFFFFFFF])).to_bytes(4, "little")
            elif what == 6:                                                          # bytes after the stream
                data += rng.bytes(int(rng.integers(1, 9)))
            elif what == 7:
                n = max(0, n + int(rng.integers(-1, 2)))
        yield bytes(data), n


def check_refusals(gpu, flt, count, seed=11):
    kind = oracle.F32 if np.dtype(flt).itemsize == 4 else oracle.F64
    jobs = list(mutations(flt, count, seed))
    other = oracle.F64 if kind is oracle.F32 else oracle.F32
    jobs += [(oracle.compress(np.zeros(3, other.flt), 1, wide), 3) for wide in (False, True)]
    seen = {}
    for (stream, n), (values, consumed, status, chunk) in zip(jobs, gpu.decode([(s, n, 0, n) for s, n in jobs], flt, grid=4)):
        wanted = oracle.refusal(stream, kind, n)
        found = (status, None if chunk == NO_CHUNK else chunk)
        expect(found == wanted, f"refusal {found}, not {wanted}")
        seen[status] = seen.get(status, 0) + 1
        if status == 0:
            expect(values.tobytes() == oracle.decompress(stream).tobytes(), "values of an odd stream")
        else:
            expect(consumed == 0, "bytes consumed by a refusal")
    expect(set(seen) >= {0, 2, 3, 4, 5, 6, 7, 8}, f"statuses seen: {seen}")
    return seen


# ---------------------------------------------------------------- ranges
def check_ranges(gpu, flt):
    rng = np.random.default_rng(3)
    chunk = oracle.CHUNK // np.dtype(flt).itemsize
    field = np.concatenate([smooth(3 * chunk, flt), np.frombuffer(rng.bytes(chunk * np.dtype(flt).itemsize), flt), smooth(77, flt)])
    stream = oracle.compress(field, 1e-3)
    values = oracle.decompress(stream)
    ranges = [(0, 0), (0, 1), (chunk - 1, 2), (chunk, chunk), (5, field.size - 5), (field.size - 1, 1), (field.size, 0)]
    ranges += [(a, int(rng.integers(field.size - a))) for a in rng.integers(0, field.size, 8).tolist()]
    # the chunks that a range does not touch may hold anything
    sizes = np.frombuffer(stream, "<u4", 5, 24) & 0x7FFFFFFF
    damaged = bytearray(stream)
    damaged[44:44 + int(sizes[:2].sum())] = rng.bytes(int(sizes[:2].sum()))
    jobs = [(stream, field.size, a, n) for a, n in ranges] + [(bytes(damaged), field.size, 2 * chunk, 2 * chunk + 9)]
    for (_, _, a, n), (got, consumed, status, where) in zip(jobs, gpu.decode(jobs, flt)):
        expect((consumed, status, where) == (len(stream), 0, NO_CHUNK), f"range {a} {n}: {consumed} {status} {where}")
        expect(got.tobytes() == values[a:a + n].tobytes(), f"range {a} {n}")
    bad = bytearray(stream)
    bad[28:32] = (12345678).to_bytes(4, "little")                                    # chunk 1's entry; the range begins behind it
    status = gpu.decode([(bytes(bad), field.size, 2 * chunk, 9)], flt)[0][2:]
    expect(status == (7, 1), f"a bad entry before the range: {status}")


# ---------------------------------------------------------------- counters and schedules
def check_wraps(gpu, flt):
    field, small = smooth(3 * oracle.CHUNK // np.dtype(flt).itemsize, flt), smooth(10, flt)
    wanted = {f.size: oracle.compress(f, 1e-4) for f in (field, small)}
    for start in (0, 2**17 - 1, 2**32 - 1, 2**49 - 2, 2**64 - 2):
        plan = Plan(3, epoch=start)
        for f in (field, small, field, small):
            stream, length, status, _ = gpu.encode([(f, 1e-4, None, 0)], plan=plan, grid=2)[0]
            expect(status == 0 and stream[:length].tobytes() == wanted[f.size], f"epoch {start}")


def check_schedules(gpu, flt, seeds):
    """One plan through many launches of changing size, direction and schedule."""
    chunk = oracle.CHUNK // np.dtype(flt).itemsize
    rng = np.random.default_rng(5)
    noise = np.frombuffer(rng.bytes(chunk * np.dtype(flt).itemsize), flt)
    field = np.concatenate([smooth(2 * chunk, flt), noise, np.zeros(2 * chunk, flt), smooth(2 * chunk + 99, flt, 2)])
    fields = [(field, 1e-3), (smooth(chunk + 1, flt, 4), 1e-5), (field[:0], 1), (field[chunk:4 * chunk], 1e-2)]
    wanted = [oracle.compress(f, b) for f, b in fields]
    plan = Plan(16)
    for seed in seeds:
        schedule = dict(order=("random", "reverse", "rr")[seed % 3] if seed % 4 else "random", seed=seed, weak=True, quantum=(60, 300, 2000)[seed % 3])
        grid = (5, 3, 1, 9)[seed % 4]
        resident = (grid, 2, 1, 4)[seed // 4 % 4]
        picked = slice(0, 1) if seed % 5 == 0 else slice(seed % 3, None)
        jobs = [(f, b, None, 0) for f, b in fields[picked]]
        for (stream, length, status, _), right in zip(gpu.encode(jobs, plan=plan, grid=grid, resident=resident, **schedule), wanted[picked]):
            expect(status == 0 and stream[:length].tobytes() == right, f"schedule {seed}: stream")
        jobs = [(s, f.size, 0, f.size) for s, (f, _) in zip(wanted[picked], fields[picked])]
        jobs.append((wanted[0][:-9] + b"\0" * 9, field.size, 0, field.size))
        results = gpu.decode(jobs, flt, plan=plan, grid=grid, resident=resident, **schedule)
        for (values, _, status, _), right in zip(results[:-1], wanted[picked]):
            expect(status == 0 and values.tobytes() == oracle.decompress(right).tobytes(), f"schedule {seed}: values")
        expect(results[-1][2:] == oracle.refusal(jobs[-1][0], oracle.F32 if field.itemsize == 4 else oracle.F64, field.size), f"schedule {seed}: refusal {results[-1][2:]}")


def check_barriers(gpu, flt):
    """Barriers that a block executes a chunk, on the chunks that take the longest ways."""
    size = np.dtype(flt).itemsize
    chunk = oracle.CHUNK // size
    rng = np.random.default_rng(2)
    nearly_raw = np.frombuffer(rng.bytes(oracle.CHUNK), flt).copy()
    nearly_raw[:chunk // 8] = 0
    waves = device.THREADS // WAVE[gpu.arch]
    most = 0
    for block in (smooth(chunk, flt), nearly_raw, np.frombuffer(rng.bytes(oracle.CHUNK), flt), np.zeros(chunk, flt)):
        counts = {}
        for n in (1, 4):
            field = np.tile(block, n)
            stream = oracle.compress(field, 1e-5)
            with CountedBarriers(gpu, f"pfpl_encode_f{8 * size}") as encoding:
                gpu.encode([(field, 1e-5, None, 0)], grid=1)
            with CountedBarriers(gpu, f"pfpl_decode_f{8 * size}") as decoding:
                gpu.decode([(stream, field.size, 0, field.size)], flt, grid=1)
            counts[n] = np.array([encoding.barriers, decoding.barriers]) / waves
        most = np.maximum(most, (counts[4] - counts[1]) / 3)
    expect((most <= 7).all() and (most > 3).all(), f"barriers a chunk: {most}")
    return most


def check_architecture(arch, full):
    gpu, lines, start = Device(arch), [], time.time()
    for flt in (np.float32, np.float64):
        name = f"{arch} {np.dtype(flt).name}"
        check_identity(gpu, flt)
        check_overflow(gpu, flt)
        seen = check_refusals(gpu, flt, 1500 if full else 150)
        check_ranges(gpu, flt)
        check_wraps(gpu, flt)
        seeds = range(60 if full else 20)
        check_schedules(gpu, flt, seeds)
        barriers = check_barriers(gpu, flt)
        lines.append(f"{name}: bytes, overflow, ranges, wraps, {len(seeds)} weak schedules; refusals by status {dict(sorted(seen.items()))}; barriers a chunk: encode {barriers[0]:.0f}, decode {barriers[1]:.0f}")
    lines.append(f"{arch}: {gpu.instructions / 1e6:.0f} million wave instructions, {time.time() - start:.0f} s")
    return lines


def main(argv):
    full = "--full" in argv
    architectures = [a for a in argv[1:] if a != "--full"] or ARCHITECTURES
    for arch in architectures:
        check_disassembly(arch)
        print(f"{arch}: no fused or multiply-add floating point, no scratch, no spills, at most {LDS_LIMIT} bytes of shared memory", flush=True)
    if device.emulator() is None:
        print(f"SKIPPED: no emulator at {device.EMULATOR} (set PFPL_SHARED): the shipped AMD code objects were NOT run")
        return
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for done in concurrent.futures.as_completed([pool.submit(check_architecture, a, full) for a in architectures]):
            print("\n".join(done.result()), flush=True)


if __name__ == "__main__":
    main(sys.argv)
