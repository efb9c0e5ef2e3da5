#!/usr/bin/env python3
"""Builds what the crate ships for AMD GPUs, into kernels_amd/built: pfpl.hip, the kernels as one source without includes (compiled on
the user's machine for other architectures), and that source compiled for three of them.

    build.py            writes built/
    build.py --check    builds elsewhere and compares: the shipped files are those of the sources, bit for bit; and the source compiles
                        for architectures that are not shipped, in both wave widths

Needs Debian's clang-19 and lld-19; no ROCm.  Other versions of clang give other bytes.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILT = HERE / "built"
CLANG = "clang-19"
SHIPPED = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}
COMPILED_ELSEWHERE = [("gfx908", 64), ("gfx1030", 32), ("gfx1030", 64), ("gfx1200", 32), ("gfx1200", 64)]
# What hiprtc is given, besides --offload-arch, by the runtime too.
OPTIONS = ["-std=c++17", "-O3", "-ffp-contract=off"]


def options(arch, wave):
    """Architectures from gfx10 on have both wave widths, and blocks that span two compute units unless told otherwise."""
    both = [] if arch.startswith("gfx9") else ["-mcumode", "-mwavefrontsize64" if wave == 64 else "-mno-wavefrontsize64"]
    return [f"--offload-arch={arch}", f"-DPFPL_WAVE={wave}", *OPTIONS, *both]


def single_source(path=HERE / "pfpl.hip", seen=None):
    """The file with its includes in place, each once."""
    seen = set() if seen is None else seen
    lines = []
    for line in path.read_text().splitlines():
        include = re.fullmatch(r'#include "(.*)"', line)
        if include:
            target = (path.parent / include[1]).resolve()
            if include[1] == "platform_lanes.h" or target in seen:
                continue
            seen.add(target)
            lines += single_source(target, seen).splitlines()
        elif line != "#pragma once":
            lines.append(line)
    return "\n".join(lines) + "\n"


def compile_source(source, arch, wave, output, extra=()):
    # from standard input and without a compilation-unit id, so that no path enters the object
    command = [CLANG, "-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-fuse-cuid=none", "-Wno-bitwise-conditional-parentheses"]
    subprocess.run([*command, *options(arch, wave), *extra, "-c", "-", "-o", str(output)], input=source.encode(), check=True)


def build(folder):
    source = single_source()
    (folder / "pfpl.hip").write_text(source)
    for arch, wave in SHIPPED.items():
        compile_source(source, arch, wave, folder / f"pfpl.{arch}.co")
    return source


def check():
    with tempfile.TemporaryDirectory() as temporary:
        fresh = pathlib.Path(temporary)
        source = build(fresh)
        names = sorted(f.name for f in fresh.iterdir())
        stale = [n for n in names if not (BUILT / n).is_file() or (BUILT / n).read_bytes() != (fresh / n).read_bytes()]
        for arch, wave in COMPILED_ELSEWHERE:
            compile_source(source, arch, wave, fresh / "elsewhere.co")
    if stale:
        sys.exit(f"kernels_amd/built does not match the sources: {', '.join(stale)}; run kernels_amd/build.py")
    print(f"kernels_amd/built matches the sources: {', '.join(names)}; compiles for " + ", ".join(f"{a} (wave{w})" for a, w in COMPILED_ELSEWHERE))


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        BUILT.mkdir(exist_ok=True)
        build(BUILT)
