#!/usr/bin/env bash
# Sets up what is missing, builds the command, and with it compresses a real field that ships with the project, restores it, checks the
# bound and measures.
set -euo pipefail
cd "$(dirname "$0")/.."
field=tests/data/etopo120_rose_90x180.f32
scripts/setup.sh build
cargo build --release -p pfpl-cli
pfpl=${CARGO_TARGET_DIR:-target}/release/pfpl
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
show() { printf '\n$ pfpl %s\n' "$*"; "$pfpl" "$@"; }
show compress $field "$out/relief.pfpl" --bound 1
show inspect "$out/relief.pfpl"
show decompress "$out/relief.pfpl" "$out/relief.npy" --shape 90,180
show verify $field "$out/relief.pfpl"
show bench $field --bound 1
