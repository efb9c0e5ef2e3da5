#!/usr/bin/env bash
# Compresses a real field that ships with the project, restores it, checks the bound and measures.
set -euo pipefail
cd "$(dirname "$0")/.."
field=tests/data/fields/echam_t_17x96x192.f32
cargo build -q --release -p pfpl-cli
pfpl=${CARGO_TARGET_DIR:-target}/release/pfpl
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
show() { printf '\n$ pfpl %s\n' "$*"; "$pfpl" "$@"; }
show compress $field "$out/t.pfpl" --bound 0.01
show inspect "$out/t.pfpl"
show decompress "$out/t.pfpl" "$out/t.npy" --shape 17,96,192
show verify $field "$out/t.pfpl"
show bench $field --bound 0.01
