#!/usr/bin/env bash
# Builds the HDF5 plugin and installs it, with libpfpl, under a prefix; then HDF5_PLUGIN_PATH=PREFIX/lib/hdf5/plugin finds it.
#
#     hdf5/install.sh [PREFIX]           (default: /usr/local)
#
# Needs cargo, a C compiler, pkg-config and HDF5's headers (Debian: libhdf5-dev), of the HDF5 that the applications use.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-/usr/local}
"$here/../capi/install.sh" "$prefix"
prefix=$(cd "$prefix" && pwd)
hdf5=$(pkg-config --cflags --libs hdf5 2>/dev/null || pkg-config --cflags --libs hdf5-serial)
native=$(sed -n 's/^Libs.private: //p' "$prefix/lib/pkgconfig/pfpl.pc")
install -d "$prefix/lib/hdf5/plugin"
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -o "$prefix/lib/hdf5/plugin/libh5zpfpl.so" -Wl,--version-script="$here/plugin.map" \
    -Wl,--gc-sections -Wl,--no-undefined -I"$prefix/include" "$here/H5Zpfpl.c" "$prefix/lib/libpfpl.a" $hdf5 $native
install -m 644 "$here/pfpl_hdf5.h" "$prefix/include/pfpl_hdf5.h"
echo "the HDF5 plugin is in $prefix/lib/hdf5/plugin"
