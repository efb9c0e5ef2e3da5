#!/usr/bin/env bash
# Installs the plugin into a fresh folder and runs filter.py with it, with the system's Python: its h5py and the HDF5 tools share one HDF5.
set -euo pipefail
cd "$(dirname "$0")/../.."
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
hdf5/install.sh "$prefix"
cargo build -q --release -p pfpl-cli
HDF5_PLUGIN_PATH=$prefix/lib/hdf5/plugin /usr/bin/python3 hdf5/tests/filter.py "${CARGO_TARGET_DIR:-target}/release/pfpl"
