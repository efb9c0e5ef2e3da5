#!/usr/bin/env bash
# Installs what the tests need beside Rust: a C++ compiler (it runs the GPU kernels' sources on the CPU), Python with numpy and NVRTC (they
# check the streams against the specification and the shipped images against their sources), and for the C interface a Fortran compiler,
# CMake, HDF5 and its Python binding. Does nothing where all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v cargo >/dev/null || { echo "setup: install Rust first: https://rustup.rs" >&2; exit 1; }

need=()
for tool in c++:g++ gfortran:gfortran cmake:cmake pkg-config:pkg-config readelf:binutils h5dump:hdf5-tools; do
    command -v "${tool%%:*}" >/dev/null || need+=("${tool##*:}")
done
pkg-config --exists hdf5 2>/dev/null || need+=(libhdf5-dev)
/usr/bin/python3 -c 'import h5py' 2>/dev/null || need+=(python3-h5py)
command -v python3 >/dev/null || need+=(python3)
python3 -c 'import venv, ensurepip' 2>/dev/null || need+=(python3-venv)
if [ ${#need[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || { echo "setup: install ${need[*]} with your package manager" >&2; exit 1; }
    sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    $sudo apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
fi

venv=.cache/venv
[ -x $venv/bin/python ] || python3 -m venv $venv
stamp=$venv/$(sha256sum scripts/requirements.txt | cut -c1-16)
if [ ! -e "$stamp" ]; then
    $venv/bin/pip install -q --disable-pip-version-check -r scripts/requirements.txt
    touch "$stamp"
fi
