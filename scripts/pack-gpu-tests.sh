#!/usr/bin/env bash
# Packs the device tests and benches into one folder that runs on a GPU machine with neither Rust nor this repository:
#   scripts/pack-gpu-tests.sh FOLDER        then there: FOLDER/run.sh tests | patterns | sanitize | bench [ROW...] | host [ROW] | hip
# The machine's C library must be this one's version or later.
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
build() { # NAME CARGO_ARGUMENTS...: builds one executable and copies it without its symbols
  local name=$1; shift
  local executable
  executable=$(cargo "$@" --no-run 2>&1 | tee /dev/stderr | sed -n 's/.*Executable.*(\(.*\))/\1/p')
  strip -o "$out/$name" "$executable"
}
for name in cuda_identity cuda_order cuda_memory cuda_patterns cuda_sanitize hip_device; do
  build "$name" test --release -p pfpl --test "$name"
done
build cuda_bench bench -p pfpl --bench cuda
for name in agreement bound refusals threads; do
  build "host_$name" test --release -p pfpl-host --test "$name"
done
build host_unit test --release -p pfpl-host --lib
build host_encode bench -p pfpl-host --bench host_encode
build host_decode bench -p pfpl-host --bench host_decode
build host_threads_bench bench -p pfpl-host --bench host_threads
cargo build -q --release -p pfpl-host --example exhaustive
strip -o "$out/exhaustive" "${CARGO_TARGET_DIR:-target}/release/examples/exhaustive"
cat > "$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# tests: every device test, a skip being a failure, with each kernel image (or those named in FLAVOURS); patterns: all binary32
# patterns; sanitize: small calls under compute-sanitizer's tools, and a planted overrun that it must see; bench: the device figures, of
# all rows or of those with a part of their names given; hip: tests and figures of an AMD GPU; host: the CPU coder's tests, all binary32
# patterns on every instruction set, and figures, for another processor than the one it was built on.
set -uo pipefail
cd "$(dirname "$0")"
export PFPL_REQUIRE_CUDA=1 PFPL_REQUIRE_HIP=1 CUDA_DEVICE_MAX_CONNECTIONS=32
failed=0
case ${1:-tests} in
  tests)
    for flavour in ${FLAVOURS:-sm90 sm80 sm70}; do
      for name in cuda_identity cuda_order cuda_memory cuda_patterns cuda_sanitize; do
        echo "== $name $flavour"
        PFPL_CUDA_FLAVOUR=$flavour "./$name" || failed=1
      done
    done ;;
  patterns) PFPL_PATTERNS=all ./cuda_patterns --nocapture || failed=1 ;;
  sanitize)
    for tool in memcheck racecheck initcheck synccheck; do
      echo "== $tool"
      compute-sanitizer --tool "$tool" --error-exitcode 9 ./cuda_sanitize --test-threads 1 || failed=1
    done
    echo "== a planted overrun"
    seen=$(compute-sanitizer --tool memcheck ./cuda_sanitize --ignored 2>&1)
    grep -m 3 "Invalid .*write" <<< "$seen" || failed=1 ;;
  bench) shift; ./cuda_bench "$@" || failed=1 ;;
  host)
    for name in unit agreement bound refusals threads; do "./host_$name" || failed=1; done
    ./exhaustive || failed=1
    for name in host_encode host_decode; do "./$name" --bench "${2:-f32/A 1e-4}" || failed=1; done
    ./host_threads_bench --bench || failed=1 ;;
  hip) ./hip_device --nocapture || failed=1 ;;
  *) sed -n '2,4p' "$0" >&2; exit 2 ;;
esac
exit $failed
RUN
chmod +x "$out/run.sh"
