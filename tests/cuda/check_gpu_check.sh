#!/bin/sh
# check_gpu_check.sh BUILD: the folder that scripts/gpu-check makes runs by itself, over the fake driver and without a
# GPU, and keeps its time limit.
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -r "$place"' EXIT
cd "$place"
fail() {
    echo "check_gpu_check: $*" >&2
    tail -n 40 gpu-check/report.txt gpu-check/logs/* >&2
    exit 1
}
mkdir -p train out
cp -r "$source/tests/golden" train/grads # recorded alike
AMP_GOLDEN="$source/tests/golden" AMP_GOLDEN_TRAIN="$place/train" "$source/scripts/gpu-check" folder "$build"
bare="env -i PATH=/usr/bin:/bin OUT=$place/out"
# returned FILE…: the results that were handed back hold these.
returned() {
    tar -tzf out/gpu-check-results.tar.gz >files || fail "no results are handed back"
    for file in "$@"; do grep -q "^\(\./\)\?$file" files || fail "the results lack $file"; done
    rm out/gpu-check-results.tar.gz
}

report=gpu-check/report.txt
# says PATTERN WHAT: the report has such a line.
says() { grep -q "$1" $report || fail "the report lacks $2"; }

printf '%s\n' '#!/bin/sh' 'echo "========= SUMMARY: 0 errors"' >clean
chmod +x clean
$bare GPU_CHECK_SANITIZER="$place/clean" gpu-check/run --fake --sanitize >printed || fail "the dry run of sanitizers fails"
for tool in memcheck racecheck initcheck; do
    says "^passed .*compute-sanitizer $tool, libamp's kernels" "a sanitizer over libamp's kernels"
    says "^passed .*compute-sanitizer $tool, ops of libraries" "a sanitizer over ops of libraries"
done
$bare gpu-check/run --fake >printed || fail "the dry run fails"
says '^DRY RUN over the fake driver' "that it is one of a dry run"
[ "$(grep -c '^passed ' $report)" -ge 6 ] || fail "steps are missing"
[ "$(grep '^passed ' $report | sed -n '2s/.*s  \(smoke\):.*/\1/p')" = smoke ] || fail "the smoke step does not come first"
says '^passed .*recorded gradients' "recorded gradients"
says '^passed .*what libraries do: NaN, biases, rounding, convolutions' "the probes"
if grep -q compute-sanitizer $report; then fail "sanitizers run beside the benches"; fi
returned report.txt logs/ products.json

# The table of goals: every figure that this machine can make was made, and none of them counts.
says '^goals: 0 reached, 0 missed, 8 not measured$' "that nothing was measured by a GPU"
for goal in "65 shapes.*products.json has 2 of 64 shapes" "8192³.*the tests' own" "overhead under autocast.*the tests' own" "PyTorch's  .*no overhead_torch.json" \
    "BERT-base.*PyTorch was not beside it" "ResNet-50.*PyTorch was not beside it" "attention.*no attention.json" "elementwise.*the tests' own"; do
    says "$goal" "the goal '$goal'"
done

# The fake's clock counts launches, products and copies: linear is one product, as cuBLASLt's, and an op one launch, as
# a copy is one. says_json FILE TEXT WHAT
says_json() { grep -q "$2" "gpu-check/$1" || fail "$1 does not say $3"; }
says_json products.json '"algorithms": 3, ' "that three algorithms were tried"
says_json products.json '"all": {"shapes": 2, "over_best": 1.0000, "over_first": 1.0000}' "that linear is one product"
says_json bandwidth.json '"op": "add", "type": "f32", .*"of_copy": 1.5000' "that add reads two tensors and writes one"
says_json bandwidth.json '"op": "gelu", "type": "f16", .*"of_copy": 0.5000' "that gelu of f16 reads and writes half of what a copy does"
says_json overhead.json '"gpu": "Fake GPU 0", .*"add": {"host": ' "what add costs the host"

status=0
$bare gpu-check/run --fake --limit 2 >printed || status=$?
[ "$status" = 4 ] || fail "a run without time ends with $status"
says '^NO TIME .*no time left' "steps without time"
status=0
$bare gpu-check/run --fake --limit >printed 2>&1 || status=$?
[ "$status" = 2 ] || fail "a limit without a number is taken"

# Where the smoke step fails, that is all: with what failed, and the results all the same.
mv gpu-check/bench_probes_program kept
printf '%s\n' '#!/bin/sh' 'echo "right  add            f32"' 'echo "WRONG  linear         f32  : 3 from the CPU"' 'exit 1' >gpu-check/bench_probes_program
chmod +x gpu-check/bench_probes_program
status=0
$bare gpu-check/run --fake >printed || status=$?
[ "$status" = 4 ] || fail "a run whose smoke step fails ends with $status"
[ "$(tail -n 1 $report)" = "gpu-check: the smoke step failed, nothing else was run: WRONG  linear         f32  : 3 from the CPU" ] ||
    fail "of a smoke step that fails it says: $(tail -n 1 $report)"
if grep -q 'recorded cases' $report; then fail "steps run after a smoke step that failed"; fi
returned report.txt logs/
mv kept gpu-check/bench_probes_program

# A step that hangs is stopped, and the next ones run. Of compute-sanitizer, findings of any kind count, and so does no
# answer, and a step that dies (the stand-in for memcheck ends the shell that waits for it).
mv gpu-check/bench_bandwidth_program kept
printf '#!/bin/sh\nsleep 1000 &\nwait\n' >gpu-check/bench_bandwidth_program
cat >sanitizer <<'END'
#!/bin/sh
case "$*" in
    *memcheck*) read -r _ _ _ shell _ <"/proc/$PPID/stat" && kill -9 "$shell" ;;
    *racecheck*)
        echo '=========     at relu_flat_f16+0x1d0'
        echo '=========     at 0x70 in void cutlass::Kernel<gemm>(Params)'
        echo '=========     at void cutlass::Kernel<gemm>(Params)+0x70'
        echo '========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)'
        ;;
esac
END
chmod +x gpu-check/bench_bandwidth_program sanitizer
if $bare GPU_CHECK_STEP=3 gpu-check/run --fake >printed; then fail "a run with failures passes"; fi
says '^TOO LONG .*elementwise ops and memory: stopped after 3 s' "the step that hangs"
says '^[a-zA-Z ]* [0-9]* s  networks' "the steps after the one that hangs"
if $bare GPU_CHECK_SANITIZER="$place/sanitizer" gpu-check/run --fake --sanitize >printed; then fail "a run with findings passes"; fi
says '^FAILED .*compute-sanitizer memcheck, .*: it left no result' "a sanitizer whose step dies"
says '^FAILED .*compute-sanitizer racecheck' "a sanitizer's warning"
says '^FAILED .*compute-sanitizer initcheck' "a sanitizer that says nothing"
says '1 findings in kernels of libamp, 2 inside of libraries' "where the findings are"
mv kept gpu-check/bench_bandwidth_program

# The goals of made-up figures, all of them: three are missed.
mkdir figures
echo '{"turns": 100, "late_turns": 1, "means": {"all": {"shapes": 64, "over_best": 0.97, "over_first": 0.99}}}' >figures/products.json
echo '{"turns": 100, "late_turns": 9, "means": {"all": {"shapes": 1, "over_best": 0.5, "over_first": 1.01}}}' >figures/square.json
echo '{"nanoseconds": {"add": {"host": 3000}, "linear": {"host": 5900}}}' >figures/overhead.json
echo '{"nanoseconds": {"add, C++": {"host": 3100}, "linear, C++": {"host": 5800}, "linear, Python": {"host": 9000}}}' >figures/overhead_torch.json
echo '{"peak_gb_per_s": 3000, "rows": [{"op": "add", "type": "f32", "of_peak": 0.9, "of_copy": 0.99}]}' >figures/bandwidth.json
echo '{"shapes": [{"shape": "1 16 16 4096 4096 64 0", "f16": {"ratio": 0.7, "us": 2, "torch_us": 1.4}}]}' >figures/attention.json
echo '{"rows": [{"network": "bert", "precision": "f16", "region": "each pass", "ms": 1, "torch_ms": 1.2, "ratio": 1.2},
    {"network": "bert", "precision": "f16", "region": "one", "ms": 1, "torch_ms": 0.9, "ratio": 0.9},
    {"network": "resnet", "precision": "f16", "region": "one", "ms": 1, "torch_ms": 1, "ratio": 1}]}' >figures/networks.json
report=goals
python3 gpu-check/gpu_goals.py figures >goals || fail "gpu_goals.py fails"
says '^goals: 5 reached, 3 missed, 0 not measured$' "the number of goals"
says '65 shapes.* reached: 0.960 (of its heuristic.s first choice: 0.990)$' "the mean over all shapes" # (0.97⁶⁴ · 0.5)^(1/65)
says '8192³.*MISSED: 0.500 .*, the host late in 9 of 100 turns$' "a product that is too slow"
says "PyTorch's  .*MISSED: add 3.00 of 3.10 µs (C++), linear 5.90 of 5.80 µs (C++)" "the faster one of PyTorch's callers"
says 'BERT-base.*MISSED: 0.90× (region: each pass, 1.20×, .*; region: one, 0.90×, 1.000 of 0.900 ms)$' "the faster one of PyTorch's ways"
echo '{"nanoseconds": {"add, Python": {"host": 3100}, "linear, Python": {"host": 9000}}}' >figures/overhead_torch.json
echo '{' >figures/networks.json
python3 gpu-check/gpu_goals.py figures >goals || fail "gpu_goals.py fails with a file that is not whole"
says '^goals: 5 reached, 1 missed, 2 not measured$' "that a file is not whole"
says "PyTorch's  .* reached: .* 9.00 µs (Python); C++ not measured$" "that PyTorch was not called from C++"

# Without a GPU it says why. (Where there is one, it is not this test's to use.)
if ! ldconfig -p | grep -q libcuda.so.1; then
    # (Of a library it takes the version that the module was built with, not one of the same name.)
    mkdir -p toolkit/lib64 toolkit/targets/any/lib
    touch gpu-check/fake_driver/libcunothing.so.7 toolkit/lib64/libcunothing.so.6 toolkit/targets/any/lib/libcunothing.so.7
    status=0
    printf '%s\n' '#!/bin/sh' 'case "$*" in *torch*) sleep 1000 ;; esac' 'exec python3 "$@"' >slow_python
    chmod +x slow_python
    $bare CUDA_HOME="$place/toolkit" AMP_PYTHON="$place/slow_python" GPU_CHECK_IMPORT=1 gpu-check/run >printed || status=$?
    grep -q 'import torch, the second time, in .*slow_python: status 1' gpu-check/logs/machine.log || fail "a slow import is not tried again"
    returned report.txt logs/
    [ "$status" = 3 ] || fail "without a driver the status is $status"
    [ "$(tail -n 1 gpu-check/report.txt)" = "gpu-check: no GPU can be used: the CUDA driver (libcuda.so.1) is not installed" ] ||
        fail "without a driver it says: $(tail -n 1 gpu-check/report.txt)"
    grep -q "^libcunothing.so.7: $place/toolkit/targets/any/lib$" gpu-check/logs/libraries.log || fail "another version of a library is taken"

    # With a driver but without nvidia-smi, which is no failure; what is left of the time is for no other step.
    $bare AMP_FAKE_DRIVER="$place/gpu-check/fake_driver" CUDA_HOME="$place/toolkit" gpu-check/run --limit 30 >printed || true
    report=gpu-check/report.txt
    command -v nvidia-smi >/dev/null || says '^NOT RUN .*nvidia-smi: it is not installed' "that there is no nvidia-smi"
fi
