#!/usr/bin/env bash
# Installs what is missing, on Debian and Ubuntu; elsewhere it names that. Does nothing where all is there.
#
#     scripts/setup.sh build         what building needs beside Rust: a C linker
#     scripts/setup.sh               what the tests need: a C++ compiler (it runs the GPU kernels' sources on the CPU), Python with numpy
#                                    and NVRTC (they check the streams against the specification and the shipped images against their
#                                    sources), and for the C interface a Fortran compiler, CMake, HDF5 and its Python binding
set -euo pipefail
cd "$(dirname "$0")/.."

minimum=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
command -v cargo >/dev/null || { echo "setup: install Rust $minimum or later first: https://rustup.rs" >&2; exit 1; }
version=$(rustc --version | cut -d' ' -f2)
printf '%s\n' "$minimum" "$version" | sort -VC || { echo "setup: Rust $version is here, $minimum or later is needed: https://rustup.rs" >&2; exit 1; }

need=()
if [ "${1:-}" = build ]; then
    command -v cc >/dev/null || need+=(gcc libc6-dev)
else
    for tool in c++:g++ gfortran:gfortran cmake:cmake pkg-config:pkg-config readelf:binutils h5dump:hdf5-tools; do
        command -v "${tool%%:*}" >/dev/null || need+=("${tool##*:}")
    done
    pkg-config --exists hdf5 2>/dev/null || need+=(libhdf5-dev)
    /usr/bin/python3 -c 'import h5py' 2>/dev/null || need+=(python3-h5py)
    command -v python3 >/dev/null || need+=(python3)
    python3 -c 'import venv, ensurepip' 2>/dev/null || need+=(python3-venv)
fi
if [ ${#need[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || { echo "setup: install ${need[*]} with your package manager" >&2; exit 1; }
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    $sudo apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
fi
[ "${1:-}" != build ] || exit 0

venv=.cache/venv
[ -x $venv/bin/python ] || python3 -m venv $venv
stamp=$venv/$(sha256sum scripts/requirements.txt | cut -c1-16)
if [ ! -e "$stamp" ]; then
    $venv/bin/pip install -q --disable-pip-version-check -r scripts/requirements.txt
    touch "$stamp"
fi
