#!/usr/bin/env bash
# Sets up what is missing and runs every test. Tests that need a GPU say that they skip; PFPL_REQUIRE_CUDA=1 makes that a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
cargo test --workspace "$@"
