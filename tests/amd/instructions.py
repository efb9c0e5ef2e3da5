#!/usr/bin/env python3
"""Counts the instructions that the shipped code objects execute, by kind and a value, on the emulator: the difference between a longer and
a shorter field, so that what a launch costs once drops out.

    instructions.py [ARCH ...]              default: gfx90a (all cases), gfx942 and gfx1100 (field A at 1e-4)
    instructions.py --blocks ARCH KERNEL         executions of each basic block on field A, with its instructions

Needs what prove.py needs.
"""
import ctypes
import re
import sys
import types

import numpy as np

import device
from device import Device, oracle

KINDS = (                                        # first match wins
    ("barrier", r"s_barrier"), ("wait", r"s_waitcnt|s_nop|s_delay_alu|s_clause|s_sleep|s_inst_prefetch|s_set_inst"), ("branch", r"s_c?branch|s_endpgm|s_setpc"),
    ("scalar load", r"s_(buffer_)?load"), ("scalar", r"s_"), ("shared memory", r"ds_"), ("global memory", r"global_|flat_|buffer_"),
    ("vector, floating point", r"v_(dual_)?(pk_)?(add|sub|subrev|mul|cmp_\w+|max|min)_f(32|64)"), ("vector, other", r"v_"),
)


def profiling_emulator():
    """The emulator with a counter in front of each basic block of the code that it generates."""
    gcn, _ = device.emulator()
    text = (device.EMULATOR / "gcn.py").read_text()
    for old, new in (("body.append(f'L{a:x}: n += {cnt[a]};')", "body.append(f'L{a:x}: n += {cnt[a]}; hits[{a:#x} >> 2]++;')"),
                     ('#include "{HERE}/rt.h"\n', '#include "{HERE}/rt.h"\nu64 hits[1 << 18];\n')):
        if text.count(old) != 1:
            raise SystemExit(f"instructions.py: the emulator has changed: {old}")
        text = text.replace(old, new)
    module = types.ModuleType("gcn_profiling")
    module.__file__ = gcn.__file__
    exec(compile(text, "gcn_profiling", "exec"), module.__dict__)
    return module


class Profile(Device):
    def __init__(self, arch):
        super().__init__(arch)
        self.gcn = profiling_emulator()

    def hits(self, kernel):
        module = self.code._mods[(kernel, True)]
        return module, np.ctypeslib.as_array((ctypes.c_uint64 * (1 << 18)).in_dll(module.lib, "hits"))

    def blocks(self, kernel, run):
        """Executions of each instruction address while `run` runs."""
        run()                                    # translates, so that the counters exist
        module, hits = self.hits(kernel)
        hits[:] = 0
        run()
        executed, count = {}, 0
        for address in sorted(module.text):
            if address in self.leaders(module):
                count = int(hits[address >> 2])
            executed[address] = count
        return module, executed

    def leaders(self, module):
        if not hasattr(module, "block_starts"):
            source = open(module.csrc).read()
            module.block_starts = {int(a, 16) for a in re.findall(r"^L([0-9a-f]+): n \+=", source, re.M)}
        return module.block_starts


def field_a(n, flt, seed=1):
    i = np.arange(n)
    return (0.5 * np.sin(2 * np.pi * i / 4096) + 0.25 * np.cos(2 * np.pi * i / 65536) + 0.01 * np.random.default_rng(seed).standard_normal(n)).astype(flt)


def field_b(n, flt):
    i = np.arange(n)
    return (0.5 * np.sin(2 * np.pi * i / 4096) + 0.25 * np.cos(2 * np.pi * i / 65536)).astype(flt)


def random_bits(n, flt):
    return np.frombuffer(np.random.default_rng(3).bytes(n * np.dtype(flt).itemsize), flt)


CASES = (("A 1e-4", np.float32, field_a, 1e-4), ("B 1e-4", np.float32, field_b, 1e-4), ("B 1e-2", np.float32, field_b, 1e-2), ("A 1e-6", np.float32, field_a, 1e-6),
         ("random bits", np.float32, random_bits, 1e-3), ("A 1e-4", np.float64, field_a, 1e-4), ("A 1e-9", np.float64, field_a, 1e-9))


def kinds(module, executed):
    found = dict.fromkeys([k for k, _ in KINDS], 0)
    for address, count in executed.items():
        if count:
            mnemonic = module.text[address].split()[0]
            found[next(k for k, pattern in KINDS if re.match(pattern, mnemonic))] += count
    return found


def profile(gpu, direction, field, bound, short, long, grid=4):
    """Instructions a value by kind, times the wave's width."""
    kernel = f"pfpl_{direction}_f{8 * field.itemsize}"
    wave = 64 if gpu.arch.startswith("gfx9") else 32

    def run(n):
        part = field[:n]
        if direction == "encode":
            return gpu.blocks(kernel, lambda: gpu.encode([(part, bound, None, 0)], grid=grid))
        stream = oracle.compress(part, bound)
        return gpu.blocks(kernel, lambda: gpu.decode([(stream, n, 0, n)], part.dtype, grid=grid))

    module, few = run(short)
    few = kinds(module, few)
    module, many = run(long)
    return {k: (v - few[k]) * wave / (long - short) for k, v in kinds(module, many).items()}


def main(argv):
    if device.emulator() is None:
        sys.exit(f"instructions.py: no emulator at {device.EMULATOR} (set PFPL_SHARED)")
    if argv[1:2] == ["--blocks"]:
        gpu, kernel = Profile(argv[2]), argv[3]
        flt = np.float32 if kernel.endswith("f32") else np.float64
        field = field_a(16 * 4096, flt)
        stream = oracle.compress(field, 1e-4)
        run = (lambda: gpu.encode([(field, 1e-4, None, 0)], grid=4)) if "encode" in kernel else (lambda: gpu.decode([(stream, field.size, 0, field.size)], flt, grid=4))
        module, executed = gpu.blocks(kernel, run)
        for address in sorted(executed):
            if executed[address]:
                print(f"{executed[address]:8d}  {address:6x}  {module.text[address]}")
        return
    for arch in argv[1:] or ("gfx90a", "gfx942", "gfx1100"):
        gpu = Profile(arch)
        for name, flt, make, bound in CASES if arch == "gfx90a" else CASES[:1] + CASES[5:6]:
            chunk = oracle.CHUNK // np.dtype(flt).itemsize
            field = make(24 * chunk, flt)
            for direction in ("encode", "decode"):
                found = profile(gpu, direction, field, bound, 8 * chunk, 24 * chunk)
                issued = sum(v for k, v in found.items() if k != "wait")
                print(f"{arch} {np.dtype(flt).name} {name} {direction}: {issued:.1f} a value: " + ", ".join(f"{k} {v:.1f}" for k, v in found.items()), flush=True)


if __name__ == "__main__":
    main(sys.argv)
