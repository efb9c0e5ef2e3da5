#!/usr/bin/env bash
# Builds libpfpl and installs it for C, C++ and Fortran: header, static and shared library, pkg-config file, CMake package, module source.
#
#     capi/install.sh [PREFIX]           (default: /usr/local)
#
# Needs cargo and a C compiler.  The shared library is linked from the static one: rustc ignores a version script for its own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-/usr/local}
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
cd "$here/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# touching nothing, cargo would not print the native libraries again
cargo rustc -q --release -p pfpl-capi --crate-type staticlib -- --print native-static-libs 2>"$log" || { cat "$log" >&2; exit 1; }
native=$(sed -n 's/^note: native-static-libs: //p' "$log" | tail -1)
native=${native:--lgcc_s -lutil -lrt -lpthread -lm -ldl -lc}
version=$(cargo metadata --no-deps --format-version=1 | sed 's/.*"name":"pfpl-capi","version":"\([^"]*\)".*/\1/')
IFS=. read -r major minor _ <<<"$version"
abi=$major
archive=${CARGO_TARGET_DIR:-target}/release/libpfpl_capi.a

install -d "$prefix"/{lib/pkgconfig,lib/cmake/pfpl,include,share/pfpl}
install -m 644 "$archive" "$prefix/lib/libpfpl.a"
${CC:-cc} -shared -o "$prefix/lib/libpfpl.so.$version" -Wl,-soname,"libpfpl.so.$abi" -Wl,--version-script="$here/pfpl.map" \
    -Wl,--gc-sections -Wl,--no-undefined -Wl,--whole-archive "$archive" -Wl,--no-whole-archive $native
ln -sf "libpfpl.so.$version" "$prefix/lib/libpfpl.so.$abi"
ln -sf "libpfpl.so.$abi" "$prefix/lib/libpfpl.so"
install -m 644 "$here/include/pfpl.h" "$prefix/include/pfpl.h"
install -m 644 "$here/fortran/pfpl.f90" "$prefix/share/pfpl/pfpl.f90"
fill() {
    sed -e "s|@PREFIX@|$prefix|g; s|@VERSION@|$version|g; s|@ABI@|$abi|g; s|@MAJOR@|$major|g; s|@MINOR@|$minor|g" \
        -e "s|@NATIVE_LIBS@|$native|g; s|@CMAKE_NATIVE_LIBS@|${native// /;}|g" "$1" >"$2"
}
fill "$here/pfpl.pc.in" "$prefix/lib/pkgconfig/pfpl.pc"
fill "$here/cmake/pfplConfig.cmake.in" "$prefix/lib/cmake/pfpl/pfplConfig.cmake"
fill "$here/cmake/pfplConfigVersion.cmake.in" "$prefix/lib/cmake/pfpl/pfplConfigVersion.cmake"
echo "pfpl $version is in $prefix"
