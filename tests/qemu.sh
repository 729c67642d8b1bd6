#!/bin/sh
# qemu.sh CPU BUILD: the tool, the first example and the tour (tests/tour.txt) of a build folder on a CPU of qemu-user's,
# which has AVX2 but no AVX-512: Nehalem, Haswell, Skylake-Server, EPYC; on qemu64, its oldest, a part. Exit 77 (skipped)
# without qemu.
set -euf
cpu=$1 build=$2
tour=$(dirname "$0")/tour.txt
command -v qemu-x86_64 >/dev/null || { echo "skipped: there is no qemu-x86_64 (scripts/setup ci installs it)"; exit 77; }
run() {
    output=$(qemu-x86_64 -cpu "$cpu" "$@" 2>&1) && code=0 || code=$?
    printf '%s\n' "$output" | grep -v "TCG doesn't support requested feature" || true
    return $code
}

case $cpu in
Nehalem | qemu64) isa=ref ;;
*) isa=avx2 ;;
esac
run "$build/amp" info | grep "bf16 runs on $isa" || { echo "qemu.sh: on $cpu bf16 should run on $isa" >&2; exit 1; }
run "$build/examples/first_steps"
# Masked loads of AVX2 read what the mask leaves out under qemu 7: no tests with unreadable pages.
pages='*StayInsideTheirArrays:Lines.*:*WhereMemoryEnds'
# Of CPUs with the same instructions the first has the whole tour; on the others, what asks for the CPU's name, ours or
# OpenBLAS's.
case $cpu in
Skylake-Server | EPYC) programs='test_(machine|core|policy|dispatch|blas|cpu_product|cpu_linalg)' ;;
*) programs='test_.*' ;;
esac
status=0
if [ "$cpu" = qemu64 ]; then # for which OpenBLAS takes kernels that do not run
    run "$build/tests/test_machine" --gtest_brief=1 --gtest_filter='Blas*'
    exit
fi
while read -r program filter; do
    printf '%s\n' "$program" | grep -Eqx "$programs" || continue
    case $filter in *-*) filter=$filter:$pages ;; *) filter=$filter-$pages ;; esac
    echo "== $program --gtest_filter=$filter"
    run "$build/tests/$program" --gtest_brief=1 --gtest_filter="$filter" </dev/null || status=1
done <"$tour"
exit $status
