#!/bin/sh
# emulated.sh MACHINE PROGRAM FILTER [PROGRAM FILTER]...: runs those tests of GoogleTest programs on an emulated CPU, all in
# one boot. MACHINE is amx, avx512bf16 (no AMX) or avx512 (no BF16 either). AMP_EMULATOR names a command that does it:
#     $AMP_EMULATOR [--without "FEATURE..."] --add FILE... PROGRAM ARGUMENT...
# runs PROGRAM on a CPU with AMX less those features, with the files and the shared libraries that they need, and ends with
# its exit status. Without it, and where this CPU is such a machine, the test is skipped (exit 77).
set -eu
machine=$1
shift
case $machine in
amx) without= feature=amx_bf16 better=none ;;
avx512bf16) without="amx amx_bf16 amx_int8" feature=avx512_bf16 better=amx_bf16 ;;
avx512) without="amx amx_bf16 amx_int8 avx512bf16" feature=avx512f better=avx512_bf16 ;;
*) echo "emulated.sh: '$machine' is none of amx, avx512bf16, avx512" >&2; exit 2 ;;
esac
if grep -qw $feature /proc/cpuinfo && ! grep -qw $better /proc/cpuinfo; then
    echo "skipped: this CPU is such a machine, the tests run on it directly"
    exit 77
fi
if [ -z "${AMP_EMULATOR:-}" ]; then
    echo "skipped: this CPU is no $machine machine, and AMP_EMULATOR does not name an emulator"
    exit 77
fi

# AMP_EXPECT_ISA makes test_machine fail where the emulator, or our detection, would let every other test skip. The rows
# of a table that are AVX-512's compute the same on every machine that has them: the one with AMX sees them all.
each='
export AMP_EXPECT_ISA=$1
shift
status=0
while [ $# -gt 0 ]; do
    filter=$2
    if [ $AMP_EXPECT_ISA != amx ]; then
        case $filter in *-*) filter="$filter:*/*avx512*" ;; *) filter="$filter-*/*avx512*" ;; esac
    fi
    echo "== $1 --gtest_filter=$filter"
    "$1" --gtest_filter="$filter" || status=1
    shift 2
done
exit $status'

add=
for argument in "$@"; do
    [ ! -x "$argument" ] || add="$add --add $argument"
done
# shellcheck disable=SC2086  # build folders have no spaces
exec "$AMP_EMULATOR" --timeout 1800 ${without:+--without "$without"} $add /bin/sh -c "$each" emulated "$machine" "$@"
