#!/usr/bin/env bash
# Installs the plugin into a fresh folder and runs filter.py with it, with the system's Python: its h5py and the HDF5 tools share one HDF5.
set -euo pipefail
cd "$(dirname "$0")/../.."
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
hdf5/install.sh "$prefix"
cargo build -q --release -p pfpl-cli

# the core of the checkpoint example in C; h5py reads what it wrote
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
hdf5=$(pkg-config --cflags --libs hdf5 2>/dev/null || pkg-config --cflags --libs hdf5-serial)
cc -std=c11 -Wall -Wextra -Werror -g -fsanitize=address -o "$prefix/checkpoint" examples/checkpoint/checkpoint.c $(pkg-config --cflags --libs pfpl) $hdf5 -lm
ASAN_OPTIONS=detect_leaks=0 "$prefix/checkpoint" "$prefix"
HDF5_PLUGIN_PATH=$prefix/lib/hdf5/plugin /usr/bin/python3 -c "
import h5py, sys
with h5py.File(sys.argv[1]) as f:
    assert len(f) == 6 and all(f[name].shape == (40000,) and 1 < abs(f[name][...]).max() <= 10.001 for name in f)
print('h5py reads the C checkpoint')" "$prefix/checkpoint.h5"

# and a checkpoint of the example itself
cargo build -q --manifest-path examples/checkpoint/Cargo.toml
"${CARGO_TARGET_DIR:-examples/checkpoint/target}/debug/checkpoint" run --device cpu --fields 6 --side 64 --steps 10 --every 10 --folder "$prefix/checkpoints"
HDF5_PLUGIN_PATH=$prefix/lib/hdf5/plugin /usr/bin/python3 -c "
import h5py, sys
with h5py.File(sys.argv[1]) as f:
    assert f.attrs['step'] == 10 and len(f) == 6
    assert [f[name].dtype.itemsize for name in sorted(f)] == [4, 4, 8, 4, 4, 8]
    assert all(f[name].shape == (4096,) and 5 < abs(f[name][...]).max() <= 15.01 for name in f)
print('h5py reads the checkpoint')" "$prefix/checkpoints/checkpoint-0000000010.h5"

HDF5_PLUGIN_PATH=$prefix/lib/hdf5/plugin /usr/bin/python3 hdf5/tests/filter.py "${CARGO_TARGET_DIR:-target}/release/pfpl"
