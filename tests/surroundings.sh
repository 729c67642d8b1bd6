#!/bin/sh
# surroundings.sh BUILD: some test programs where a process may find itself: on one CPU of several, with more threads than
# CPUs, with a home folder that cannot be written or is not there.
set -eu
tests=$1/tests
export OMP_WAIT_POLICY=passive
status=0

try() {
    for program in test_core test_machine test_dispatch test_cpu_gemm test_cpu_product test_cpu_conv test_cpu_linalg; do
        echo "== $* $program"
        "$@" "$tests/$program" --gtest_brief=1 \
            --gtest_filter='-*OnAnyThreads*:Rows/GemmKernel.*_ref:EveryOp.*:BadInput.*' || status=1
    done
}
first=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
try taskset -c "$first"
try env OMP_NUM_THREADS=64
try env HOME=/proc XDG_CACHE_HOME=/proc # not even root can write there
try env HOME=/nonexistent XDG_CACHE_HOME=
exit $status
