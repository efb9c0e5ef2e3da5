"""Runs the shipped code objects on the instruction-level emulator with the arguments that the crate's runtime passes
(kernels_amd/README.md, kernels_shared/format.h)."""
import ctypes
import os
import pathlib
import struct
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("PFPL_SHARED", ROOT.parent / "shared"))
EMULATOR = SHARED / "amdemu"
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(EMULATOR)]

import pfpl_oracle as oracle  # noqa: E402

THREADS, INLINE_FIELDS, CONTROL, EPOCH = 256, 62, 4096, 256
NO_CHUNK = 0xFFFFFFFF
CANARY = 0xA5


def emulator():
    """The emulator's modules, or None where it is not there."""
    if not (EMULATOR / "gcn.py").is_file():
        return None
    import co
    import gcn
    return gcn, co


class Buffer:
    """Device memory between guard pages.  Of `aligned` alignment and no more where `shift` says so."""

    def __init__(self, content, aligned=16):
        _, co = emulator()
        content = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        self.size = content.size
        self.guard = co.Guard(max(self.size + (-self.size % aligned), 1), aligned)
        self.address = self.guard.addr
        self.all = self.guard.arr(np.uint8)
        self.all[:] = CANARY
        self.all[:self.size] = content

    def bytes(self):
        if not (self.all[self.size:] == CANARY).all():
            raise AssertionError("bytes behind a buffer were written")
        return np.array(self.all[:self.size])


class Plan:
    """The state of a plan: zeroed once."""

    def __init__(self, chunks, fields=INLINE_FIELDS, epoch=0):
        self.fields = fields
        self.memory = Buffer(np.zeros(CONTROL + 16 * fields + 8 * chunks, np.uint8), 128)
        self.memory.all[EPOCH:EPOCH + 8].view(np.uint64)[0] = epoch

    def epoch(self):
        return int(self.memory.all[EPOCH:EPOCH + 8].view(np.uint64)[0])

    def check_at_rest(self):
        ticket = self.memory.all[:8].view(np.uint64)[0]
        if ticket or self.memory.all[CONTROL:CONTROL + 16 * self.fields].any():
            raise AssertionError("a launch left its ticket or the fields' state behind")


class Device:
    """One architecture's shipped code object."""

    def __init__(self, arch, path=None):
        self.gcn, co = emulator()
        self.arch = arch
        self.code = co.CodeObject(str(path or ROOT / "kernels_amd" / "built" / f"pfpl.{arch}.co"))
        self.instructions = 0

    def launch(self, kernel, plan, fields, chunks, grid, in_memory, **schedule):
        records = b"".join(fields)
        if len(fields) > INLINE_FIELDS:
            in_memory = True
        listed = Buffer(np.frombuffer(records, np.uint8)) if in_memory else None
        launch = struct.pack("<QQIIII", plan.memory.address, listed.address if listed else 0, plan.fields, len(fields), chunks, 0)
        schedule = {"resident": grid, "quantum": 4000, "max_inst": 30_000_000, **schedule}
        result = self.gcn.run(self.code, kernel, grid, THREADS, [launch, b"" if in_memory else records], **schedule)
        self.instructions += result["inst"]
        plan.check_at_rest()
        return result

    def encode(self, jobs, plan=None, grid=3, in_memory=False, **schedule):
        """jobs: (field, bound, capacity or None, wide).  -> (stream bytes, length, status, chunk) of each."""
        kind = oracle.F32 if jobs[0][0].dtype.itemsize == 4 else oracle.F64
        records, held, first = [], [], 0
        for field, bound, capacity, wide in jobs:
            chunks = -(-field.size // kind.per_chunk)
            bound = oracle.stored_bound(bound)
            inverse = float(kind.flt.type(1) / (kind.flt.type(2) * kind.flt.type(bound)))
            if capacity is None:
                capacity = (32 if wide else 24) + chunks * (oracle.CHUNK + 4)
            buffers = Buffer(field, kind.flt.itemsize), Buffer(np.full(capacity, CANARY, np.uint8), 4), Buffer(np.full(16, CANARY, np.uint8), 8)
            records.append(struct.pack("<QQQQQdfIII", buffers[0].address, buffers[1].address, field.size, capacity, buffers[2].address, inverse, bound, wide, first, 0))
            held.append(buffers)
            first += chunks
        plan = plan or Plan(first, max(INLINE_FIELDS, len(jobs)))
        epoch = plan.epoch()
        self.last = self.launch(f"pfpl_encode_f{kind.width}", plan, records, first, grid, in_memory, **schedule)
        if plan.epoch() != (epoch + 1) % 2**64:
            raise AssertionError("the epoch did not advance by one")
        return [(stream.bytes(), *struct.unpack("<QII", outcome.bytes().tobytes())) for _, stream, outcome in held]

    def decode(self, jobs, flt, plan=None, grid=3, in_memory=False, **schedule):
        """jobs: (stream, n, first, count).  -> (value bytes, consumed, status, chunk) of each."""
        kind = oracle.F32 if np.dtype(flt).itemsize == 4 else oracle.F64
        records, held, chunks = [], [], 0
        for stream, n, first, count in jobs:
            size = kind.flt.itemsize
            buffers = Buffer(stream, 4), Buffer(np.full(count * size, CANARY, np.uint8), size), Buffer(np.full(16, CANARY, np.uint8), 8)
            records.append(struct.pack("<QQQQQQQII", buffers[1].address, buffers[0].address, n, len(stream), buffers[2].address, first, count, chunks, 0))
            held.append(buffers)
            if count:
                chunks += (first + count - 1) // kind.per_chunk - first // kind.per_chunk + 1
        plan = plan or Plan(chunks, max(INLINE_FIELDS, len(jobs)))
        self.last = self.launch(f"pfpl_decode_f{kind.width}", plan, records, chunks, grid, in_memory, **schedule)
        for stream, job in zip(held, jobs):
            if not np.array_equal(stream[0].bytes(), np.frombuffer(bytes(job[0]), np.uint8)):
                raise AssertionError("a decoder's input changed")
        return [(values.bytes(), *struct.unpack("<QII", outcome.bytes().tobytes())) for _, values, outcome in held]


class CountedBarriers:
    """While active, counts the barriers that waves of one kernel execute, by watching how the emulator's calls end."""

    def __init__(self, device, kernel):
        self.modules, self.key, self.barriers = device.code.__dict__.setdefault("_mods", {}), (kernel, True), 0

    def __enter__(self):
        self.module = self.modules[self.key]
        self.library = self.module.lib
        self.module.lib = self
        return self

    def __exit__(self, *_):
        self.module.lib = self.library

    def run(self, *arguments):
        end = self.library.run(*arguments)
        self.barriers += end == 1
        return end

    def __getattr__(self, name):
        return getattr(self.library, name)
