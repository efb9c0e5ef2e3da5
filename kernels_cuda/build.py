#!/usr/bin/env python3
"""Compiles pfpl.cu with NVRTC into the images that the crate ships: PTX for compute capability 7.0 and 8.0, and a cubin for 9.0; and the
checkpoint example's stencil into PTX.

    build.py [OUTPUT_FOLDER]            (default: kernels_cuda/built; the stencil stays beside its source)
    build.py --check                    compares with what is there, and writes nothing

Needs the wheel nvidia-cuda-nvrtc-cu12==12.2.140 (or PFPL_NVRTC, a path to libnvrtc.so.12).  The same sources and the same NVRTC give the
same bytes: the sources are passed by their repository names, so no local path enters the images.
"""
import ctypes
import glob
import os
import site
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
STENCIL = os.path.join(HERE, "..", "examples", "checkpoint", "stencil.cu")
IMAGES = {"pfpl_sm70.ptx": "compute_70", "pfpl_sm80.ptx": "compute_80", "pfpl_sm90.cubin": "sm_90"}
OPTIONS = ["-std=c++17", "-fmad=false", "-default-device", "-dopt=on"]


def library():
    if "PFPL_NVRTC" in os.environ:
        return ctypes.CDLL(os.environ["PFPL_NVRTC"])
    for folder in site.getsitepackages() + [site.getusersitepackages()]:
        for path in glob.glob(os.path.join(folder, "nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12")):
            return ctypes.CDLL(path)
    sys.exit("build.py: no NVRTC: pip install nvidia-cuda-nvrtc-cu12==12.2.140, or set PFPL_NVRTC")


def sources():
    """Header names as the sources include them -> text."""
    found = {}
    for folder, prefix in ((HERE, ""), (os.path.join(HERE, "..", "kernels_shared"), "../kernels_shared/")):
        for name in sorted(os.listdir(folder)):
            if name.endswith(".h"):
                found[prefix + name] = open(os.path.join(folder, name), "rb").read()
    return found


def compile_image(nvrtc, arch, headers, extra=(), source=os.path.join(HERE, "pfpl.cu")):
    def check(result):
        if result:
            nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise RuntimeError(nvrtc.nvrtcGetErrorString(result).decode())

    program = ctypes.c_void_p()
    text = open(source, "rb").read()
    names = (ctypes.c_char_p * len(headers))(*[n.encode() for n in headers])
    texts = (ctypes.c_char_p * len(headers))(*headers.values())
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, os.path.basename(source).encode(), len(headers), texts, names))
    options = [f"--gpu-architecture={arch}", *OPTIONS, *extra]
    result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if result or log.value.strip():
        print(log.value.decode(), file=sys.stderr)
    check(result)
    kind = "PTX" if arch.startswith("compute") else "CUBIN"
    check(getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    check(getattr(nvrtc, f"nvrtcGet{kind}")(program, image))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return image.raw.rstrip(b"\0") if kind == "PTX" else image.raw


def main(argv):
    check = argv[1:] == ["--check"]
    out = os.path.join(HERE, "built") if check or len(argv) < 2 else argv[1]
    nvrtc, headers = library(), sources()
    images = {os.path.join(out, name): compile_image(nvrtc, arch, headers) for name, arch in IMAGES.items()}
    images[os.path.splitext(STENCIL)[0] + ".ptx"] = compile_image(nvrtc, "compute_70", {}, source=STENCIL)
    if not check:
        os.makedirs(out, exist_ok=True)
        for path, image in images.items():
            open(path, "wb").write(image)
    stale = [path for path, image in images.items() if not os.path.exists(path) or open(path, "rb").read() != image]
    if stale:
        sys.exit("not what the sources give, build.py makes them anew: " + ", ".join(os.path.relpath(path) for path in stale))
    print(f"{len(images)} images are what the sources give")


if __name__ == "__main__":
    main(sys.argv)
