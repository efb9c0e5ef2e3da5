#!/usr/bin/env bash
# Installs Debian's clang-19, lld-19 and llvm-19, which build, check and run the AMD kernels. Does nothing where they are there.
set -euo pipefail
need=()
for tool in clang-19:clang-19 ld.lld-19:lld-19 llvm-objdump-19:llvm-19; do
    command -v "${tool%%:*}" >/dev/null || need+=("${tool##*:}")
done
[ ${#need[@]} -eq 0 ] && exit
command -v apt-get >/dev/null || { echo "amd_tools: install ${need[*]} with your package manager" >&2; exit 1; }
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
