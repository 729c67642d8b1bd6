#!/bin/sh
# emulated.sh PROGRAM FILTER [PROGRAM FILTER]...: runs those tests of GoogleTest programs on an emulated CPU with AMX and
# AVX512_BF16, all in one boot. AMP_EMULATOR names a command that does it:
#     $AMP_EMULATOR --add FILE... PROGRAM ARGUMENT...
# runs PROGRAM there, with the files and the shared libraries that they need, and ends with its exit status.
# Without it, and on a CPU that has AMX, this test is skipped (exit 77).
set -eu
if grep -qw amx_bf16 /proc/cpuinfo; then
    echo "skipped: this CPU has AMX, the tests run on it directly"
    exit 77
fi
if [ -z "${AMP_EMULATOR:-}" ]; then
    echo "skipped: this CPU has no AMX, and AMP_EMULATOR does not name an emulator"
    exit 77
fi

# AMP_EXPECT_ISA makes test_isa fail where the emulator, or our detection, would let every other test skip.
each='
export AMP_EXPECT_ISA=amx
status=0
while [ $# -gt 0 ]; do
    echo "== $1 --gtest_filter=$2"
    "$1" --gtest_filter="$2" || status=1
    shift 2
done
exit $status'

add=
for argument in "$@"; do
    [ ! -x "$argument" ] || add="$add --add $argument"
done
# shellcheck disable=SC2086  # build folders have no spaces
exec "$AMP_EMULATOR" $add /bin/sh -c "$each" emulated "$@"
