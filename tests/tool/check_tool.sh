#!/bin/sh
# The tool's command line: what it prints, and its exit code for every mistake.
#     check_tool.sh AMP FIRST_STEPS PLUGIN
set -u
amp=$1
program=$2
plugin=$3
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
failed=0

# expect CODE TEXT COMMAND…: the exit code, and a part of what is printed
expect() {
    code=$1 text=$2
    shift 2
    output=$("$@" 2>&1 </dev/null)
    got=$?
    if [ "$got" != "$code" ]; then
        echo "FAILED: '$*' exits with $got, expected $code"
        failed=1
    elif ! printf '%s' "$output" | grep -q -F -e "$text"; then
        echo "FAILED: '$*' does not print '$text' but: $output"
        failed=1
    fi
}

expect 2 "usage: amp" "$amp"
expect 0 "usage: amp" "$amp" --help
expect 0 "amp 0." "$amp" --version
expect 2 "'nonsense'" "$amp" nonsense
expect 0 "Instruction sets" "$amp" info
expect 0 '"best_isa"' "$amp" info --json
expect 2 "AMP_ALLOW names 'liner', which is no op; did you mean 'linear'?" env AMP_ALLOW=liner "$amp" info
expect 2 "there is no option '--wrong'" "$amp" info --wrong
expect 2 "takes no argument, not 'xx'" "$amp" info xx
expect 0 "gemm" "$amp" info --kernels
expect 2 "there is no option '--choices'" "$amp" info --choices
expect 2 "takes no argument, not 'second'" "$amp" info --ops first second
expect 0 "scaled_dot_product_attention" "$amp" info --ops
expect 0 "add.scalar" "$amp" info --ops 'add.*'
expect 0 '"schema": "linear(' "$amp" info --ops linear --json
expect 0 "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1," "$amp" info --ops conv2d
expect 0 ".padding = AMP_DIMS(0), .dilation = AMP_DIMS(1), .groups = AMP_SET(1))" "$amp" info --ops conv2d
expect 0 "amp_topk_out(values, indices, …)" "$amp" info --ops topk
expect 0 "plugin_twice(Tensor input) -> Tensor" "$amp" info --load "$plugin" --ops plugin_twice
expect 1 "no op matches 'plugin_*'" "$amp" info --ops 'plugin_*'
expect 0 "plugin_twice" "$amp" info --load "$plugin" --ops 'plugin_*'
expect 0 "plugin_twice" env LC_ALL=C "$amp" info --ops --json --load "$plugin"
expect 2 "--load" "$amp" info --load "$folder/absent"
expect 2 "'--load' needs a value" "$amp" info --load
expect 2 "is defined already" env AMP_PLUGIN_TWICE=1 "$amp" info --load "$plugin"
expect 2 "there is no option '--wrong'" "$amp" explain --wrong
expect 2 "'--filter' needs a value" "$amp" replay --filter

# self-check: a report of what holds, of what does not, and of what was not done.
mkdir "$folder/cases" "$folder/few"
cp tests/golden/promote.* "$folder/few"
cp tests/golden/lower.safetensors "$folder/cases"
sed 's/"rtol":[^,]*,"atol":[^,]*/"rtol":0,"atol":0/' tests/golden/lower.json >"$folder/cases/lower.json"
expect 2 "there is no option '--wrong'" "$amp" self-check --wrong
expect 2 "takes no argument, not 'xx'" "$amp" self-check xx
expect 2 "'--cases' needs a value" "$amp" self-check --cases
expect 0 "agree with PyTorch's results" "$amp" self-check --cases "$folder/few" --report "$folder/report.json"
expect 0 '"verdict": "passed"' cat "$folder/report.json"
expect 1 "differ from PyTorch's results, such as" "$amp" self-check --cases "$folder/cases" --report "$folder/report.json"
expect 0 '"verdict": "FAILED"' cat "$folder/report.json"
expect 2 "cannot read recorded cases in '$folder/absent'" "$amp" self-check --cases "$folder/absent" --report "$folder/report.json"
expect 2 "$folder/absent/report.json" "$amp" self-check --cases "$folder/few" --report "$folder/absent/report.json"
expect 2 "must be one of ref, avx2" env AMP_MAX_ISA=nonsense "$amp" info
# … of what the CPU has; one without AVX2 has nothing to forbid.
"$amp" info --json | grep '"best_isa": *"ref"' >/dev/null ||
    expect 0 "AMP_MAX_ISA=ref forbids it" env AMP_MAX_ISA=ref "$amp" info
expect 0 "linear" "$amp" explain -- "$program"
expect 0 '"casts_made"' "$amp" explain --json -- "$program"
expect 0 "GFLOP/s" "$amp" explain -- "$program"
expect 0 "amp_linear_pointwise" "$amp" explain -- "$program"
expect 0 '"advice"' "$amp" explain --json -- "$program"
expect 2 "'--width' needs a value" "$amp" explain --width
expect 2 "a width is 60 to 1000, not '20'" "$amp" explain --width 20 -- "$program"
columns=$("$amp" explain --width 70 -- "$program" 2>/dev/null | LC_ALL=C.UTF-8 wc -L)
[ "$columns" -le 70 ] || { echo "FAILED: lines are $columns columns long, not --width 70"; failed=1; }
expect 1 "recorded nothing" "$amp" explain -- true
expect 1 "amp explain: cannot run '$folder/absent': No such file or directory" "$amp" explain -- "$folder/absent"
[ "$(printf '%s\n' "$output" | wc -l)" = 1 ] || { echo "FAILED: more than one line for a program that is not there: $output"; failed=1; }
expect 1 "cannot run 'no-such-program'" "$amp" explain -- no-such-program
expect 1 "ended with exit code 3" "$amp" explain -- sh -c 'exit 3'
expect 1 "linear" "$amp" explain -- sh -c "$program; exit 3" # the report all the same
expect 1 "ended with signal 9" "$amp" explain -- sh -c 'kill -9 $$'
expect 2 "missing" "$amp" explain
expect 2 "$folder/absent.onnx: cannot open it" "$amp" explain "$folder/absent.onnx"
expect 0 "MODEL.onnx" "$amp" explain --help
expect 2 "No such file" "$amp" explain "$folder/absent"
expect 2 "is no report" "$amp" explain "$folder"
expect 2 "to run it: amp explain -- $program" "$amp" explain "$program"
echo '{"ops": 1}' >"$folder/other.json"
expect 2 "no report of libamp" "$amp" explain "$folder/other.json"
env AMP_EXPLAIN="$folder/run.json" "$program" >/dev/null
expect 0 "bf16" "$amp" explain "$folder/run.json"
# Who stops the tool stops the program; what that recorded is printed, and no file stays behind.
for signal in TERM HUP; do
    mkdir "$folder/tmp"
    rm -f "$folder/out" "$folder/err" # of another round, which may have run
    TMPDIR="$folder/tmp" "$amp" explain -- sh -c "$program; echo runs; exec sleep 600" >"$folder/out" 2>"$folder/err" &
    while ! grep -q runs "$folder/err" 2>/dev/null; do sleep 0.05; done
    kill -s "$signal" $!
    wait $!
    [ $? = 1 ] && grep -q linear "$folder/out" && grep -q "ended with signal" "$folder/err" ||
        { echo "FAILED: SIG$signal is not passed on: $(cat "$folder/out" "$folder/err")"; failed=1; }
    rmdir "$folder/tmp" || failed=1
done
# A full disk.
for command in "info" "info --json" "info --ops" "info --kernels" "--help" "--version" "explain --help" \
    "bench --help" "explain $folder/run.json" "explain --json $folder/run.json" "replay --help"; do
    # shellcheck disable=SC2086
    "$amp" $command >/dev/full 2>"$folder/err"
    [ $? = 1 ] && grep -q "No space left on device" "$folder/err" ||
        { echo "FAILED: 'amp $command' does not notice that the disk is full: $(cat "$folder/err")"; failed=1; }
done
row() {
    printf '{"op": "%s", "inputs": "i64[2], f16[3]", "runs_in": "f16", "calls": 1, "nanoseconds": %s, "failures": %s}' "$@"
}
printf '{"ops": [%s, %s, %s, %s]}' "$(row slow 999000 0)" "$(row quick 400 0)" "$(row quick 400 0)" "$(row bad 200 1)" \
    >"$folder/folded.json"
expect 0 "2 more, 0.1 % of the time; --all shows them" "$amp" explain "$folder/folded.json"
expect 0 "bad" "$amp" explain "$folder/folded.json"
expect 0 "quick" "$amp" explain --all "$folder/folded.json"
expect 0 '"quick"' "$amp" explain --json "$folder/folded.json"
expect 0 " f16 " "$amp" explain "$folder/folded.json"
expect 2 "$folder/absent" "$amp" replay "$folder/absent"

exit $failed
