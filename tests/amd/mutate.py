#!/usr/bin/env python3
"""Shows that prove.py can fail: breaks the kernel sources in one place at a time, builds them for gfx942 and runs the proof's checks on
the result, each of which must object.

    mutate.py [NAME ...]                    default: all

Needs what prove.py needs, and kernels_amd/build.py's compiler.  The result of the last run is in notes/amd-proof.md.
"""
import pathlib
import sys
import tempfile

import numpy as np

import device
import prove

sys.path.insert(0, str(device.ROOT / "kernels_amd"))
import build  # noqa: E402

ARCH = "gfx942"
# name: (text in the single source, its replacement); each occurs once
MUTATIONS = {
    "encode: barrier 1 dropped": ("barrier();                                  // 1: values all read", ""),
    "encode: barrier 2 dropped": ("barrier();                                  // 2: planes complete", ""),
    "encode: barrier 3 dropped": ("barrier();                                  // 3: counts here, planes all read", ""),
    "encode: barrier 4 dropped": ("barrier();                                  // 4: whole words stored", ""),
    "encode: barrier 5 dropped": ("barrier();                                  // 5: coded bytes complete", ""),
    "encode: barrier 6 dropped": ("barrier();                                  // 6: shared memory free\n  }\n}", "}\n}"),
    "decode: barrier 0 dropped": ("barrier();                                  // 0: coded bytes here", ""),
    "decode: barrier 1 dropped": ("barrier();                                  // 1: level-2 counts here", ""),
    "decode: barrier 2 dropped": ("barrier();                                  // 2: level-1 counts here", ""),
    "decode: barrier 3 dropped": ("barrier();                                  // 3: coded bytes all read", ""),
    "decode: barrier 4 dropped": ("barrier();                                  // 4: planes complete", ""),
    "decode: barrier 5 dropped": ("barrier();                                  // 5: sums here, planes all read", ""),
    "decode: barrier 6 dropped": ("barrier();                                  // 6: shared memory free\n  }\n  report();", "}\n  report();"),
    "look-back reads plainly": ("(word = load_relaxed(sizes + 8ull * c) - tag)", "(word = ((u64)load_word(sizes + 8ull * c + 4) << 32 | load_word(sizes + 8ull * c)) - tag)"),
    "look-back ignores the epoch": ("(word = load_relaxed(sizes + 8ull * c) - tag)", "(word = load_relaxed(sizes + 8ull * c) & 0x7fff)"),
    "ticket not reset": ("store_relaxed(l->state + TICKET, 0);", ""),
    "field state not reset": ("store_relaxed(state, 0); store_relaxed(state + 8, 0);", "store_relaxed(state, 0);"),
    "a chunk past the capacity": ("if (start + size <= here->capacity) copy_out", "if (start + size <= here->capacity + 1) copy_out"),
    "a table entry past the capacity": ("if (entry + 4 <= here->capacity) store_word", "if (entry <= here->capacity) store_word"),
    "one byte selector": ("join = second ? 0x05040100u : 0x03020706u;", "join = second ? 0x05040100u : 0x03020607u;"),
    "second try missing": ("if (any(missed | !(bin < E::RADIUS))) PFPL_UNROLL for (u32 e = 0; e < N; e++) codes[e] = quantize(x[e], step);", ""),
    "tail read past the stream": ("if (there >= (length + 15 & ~15u)) {", "if (true) {"),
    "counts of a chunk not compared": ("if (counts.total != end - e0) intact = some = false;", "if (counts.total > end - e0) intact = some = false;"),
    "raw entry's length not checked": ("return entry & RAW_FLAG ? length != CHUNK_BYTES : length", "return entry & RAW_FLAG ? false : length"),
}
CHECKS = (lambda gpu: prove.check_identity(gpu, np.float32), lambda gpu: prove.check_overflow(gpu, np.float32), lambda gpu: prove.check_refusals(gpu, np.float32, 150),
          lambda gpu: prove.check_ranges(gpu, np.float32), lambda gpu: prove.check_wraps(gpu, np.float32), lambda gpu: prove.check_schedules(gpu, np.float32, range(8)))


def caught(source, folder):
    path = folder / "mutated.co"
    build.compile_source(source, ARCH, 64, path)
    gpu = device.Device(ARCH, path)
    for check in CHECKS:
        try:
            check(gpu)
        except Exception as error:               # the emulator's and numpy's count as well
            return f"{type(error).__name__}: {error}"
    return None


def main(argv):
    if device.emulator() is None:
        sys.exit(f"mutate.py: no emulator at {device.EMULATOR} (set PFPL_SHARED)")
    source, missed = build.single_source(), []
    for name in argv[1:] or MUTATIONS:
        old, new = MUTATIONS[name]
        if source.count(old) != 1:
            sys.exit(f"mutate.py: {name}: its text occurs {source.count(old)} times")
        with tempfile.TemporaryDirectory() as temporary:
            how = caught(source.replace(old, new), pathlib.Path(temporary))
        print(f"{name}: {'NOT caught' if how is None else how[:150]}", flush=True)
        if how is None:
            missed.append(name)
    sys.exit(len(missed) > 0)


if __name__ == "__main__":
    main(sys.argv)
