#!/usr/bin/env bash
# Installs the library into a fresh folder and builds and runs C, C++ and Fortran programs against it, found by pkg-config and by CMake.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/../../install.sh" "$work/prefix"
export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig LD_LIBRARY_PATH=$work/prefix/lib
flags=$(pkg-config --cflags --libs pfpl)

echo "== exported symbols"
library=$work/prefix/lib/libpfpl.so
symbols=$(readelf --wide --dyn-syms "$library" | awk '$7 != "UND" && $5 != "LOCAL" && NR > 3 { print $8 }')
readelf --wide --dyn-syms "$library" | awk '$7 != "UND" && $5 == "GLOBAL" { print $8 }' | grep -v '@@PFPL_0$' | grep -v '^PFPL_0$' && { echo "not ours, or not versioned" >&2; exit 1; }
declared=$(grep -oE '\bpfpl_[a-z0-9_]+\(' "$work/prefix/include/pfpl.h" | tr -d '(' | sort -u)
for name in $declared; do grep -q "^$name@@PFPL_0\$" <<<"$symbols" || { echo "$name is declared but not exported" >&2; exit 1; }; done
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | tr '\n' ' ')
echo "$(wc -w <<<"$declared") functions; needs $needed"
for name in $needed; do case $name in libc.so.* | libm.so.* | libgcc_s.so.* | libdl.so.* | libpthread.so.* | ld-linux*) ;; *) echo "links against $name" >&2; exit 1 ;; esac; done

echo "== pkg-config"
cc -std=c11 -Wall -Wextra -Werror -pedantic -fsanitize=address -g -o "$work/c" "$here/consumer.c" $flags -lm
"$work/c"
sed -n '/^```c$/,/^```$/{/^```/d;p}' "$here/../../README.md" >"$work/readme.c"
cc -std=c11 -Wall -Wextra -Werror -pedantic -o "$work/readme" "$work/readme.c" $flags
"$work/readme"
c++ -std=c++17 -Wall -Wextra -Werror -pedantic -o "$work/cpp" "$here/consumer.cpp" $flags
"$work/cpp"
gfortran -std=f2008 -Wall -J "$work" -o "$work/fortran" "$work/prefix/share/pfpl/pfpl.f90" "$here/consumer.f90" $flags
"$work/fortran"
cc -std=c11 -static-libgcc -o "$work/static" "$here/consumer.c" $(pkg-config --cflags pfpl) "$work/prefix/lib/libpfpl.a" $(pkg-config --static --libs-only-l pfpl | sed 's/-lpfpl//') -lm
LD_LIBRARY_PATH= "$work/static"

echo "== CMake"
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 && cmake --build "$work/build" >>"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
for program in c_shared c_static cpp fortran; do "$work/build/$program"; done
echo "== done"
