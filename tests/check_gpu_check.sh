#!/bin/sh
# check_gpu_check.sh BUILD: the folder that scripts/gpu-check makes runs by itself, over the fake driver and without a GPU, and
# keeps its time limit.
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -r "$place"' EXIT
cd "$place"
fail() {
    echo "check_gpu_check: $*" >&2
    tail -n 20 gpu-check/report.txt gpu-check/logs/* >&2
    exit 1
}
AMP_GOLDEN="$source/tests/golden" "$source/scripts/gpu-check" folder "$build"
bare="env -i PATH=/usr/bin:/bin"

$bare gpu-check/run --fake >printed || fail "the dry run fails"
grep -q '^DRY RUN over the fake driver' gpu-check/report.txt || fail "the report does not say that it is one of a dry run"
[ "$(grep -c '^passed ' gpu-check/report.txt)" -ge 6 ] || fail "steps are missing"

if $bare gpu-check/run --fake 2 >printed; then fail "a run without time passes"; fi
grep -q '^NOT RUN .*no time left' gpu-check/report.txt || fail "steps without time are not named"

# Without a GPU it says why. (Where there is one, it is not this test's to use.)
if ! ldconfig -p | grep -q libcuda.so.1; then
    status=0
    $bare gpu-check/run >printed || status=$?
    [ "$status" = 3 ] || fail "without a driver the status is $status"
    [ "$(tail -n 1 gpu-check/report.txt)" = "gpu-check: no GPU can be used: the CUDA driver (libcuda.so.1) is not installed" ] ||
        fail "without a driver it says: $(tail -n 1 gpu-check/report.txt)"
fi
