#!/usr/bin/env bash
# Runs Python with the packages of requirements.txt.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/scripts/setup.sh"
exec "$root/.cache/venv/bin/python" "$@"
