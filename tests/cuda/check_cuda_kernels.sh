#!/bin/sh
# check_cuda_kernels.sh CUOBJDUMP FOLDER BACKEND_H KERNELS_DEF [--table]: the kernels of the fat binaries in FOLDER, for each
# architecture in them, keep what they work with in registers, but for those named here; and a block of as many threads as
# BACKEND_H launches has the registers, and 48 KB of shared memory. Those for dense operands of one dtype (flat.def) have 40
# registers at most, and no memory. KERNELS_DEF names all of them, and the file of each. --table prints a line for each:
# architecture, registers, bytes of memory for each thread, name.
set -eu
cuobjdump=$1 folder=$2 header=$3 table=$4 print=${5-}
if ! [ -x "$cuobjdump" ]; then
    echo "skipped: the toolkit has no cuobjdump, which reads what kernels use"
    exit 77
fi
threads=$(sed -n 's/.*AMP_CUDA_THREADS = \([0-9]*\).*/\1/p' "$header")
[ -n "$threads" ] || { echo "check_cuda_kernels: $header names no AMP_CUDA_THREADS" >&2; exit 1; }

known=$(mktemp)
trap 'rm "$known"' EXIT
for image in "$folder"/*.fatbin; do
    "$cuobjdump" -res-usage "$image" | sed -n "s/^ *Function \([a-z0-9_]*\):.*/AMP_CUDA_KERNEL(\1, $(basename "$image" .fatbin))/p"
done | sort -u >"$known"
grep '^AMP_CUDA_KERNEL' "$table" | sort | diff "$known" - || { echo "check_cuda_kernels: $table is out of date: run tools/gen_kernels.py" >&2; exit 1; }

for image in "$folder"/*.fatbin; do
    "$cuobjdump" -res-usage "$image" || exit 1
done | awk -v threads="$threads" -v print_all="$print" '
BEGIN {
    # Bytes of memory that a thread may have, and why.
    rules = 0
    allow("^elementwise_f64$", 48, "digits of large angles, by an index (of the CUDA library)")
    allow("^sample_grid_f(32|64)$", 288, "taps and weights, by an index")
    allow("^attention_f64_|^attention_.*_deep$", 64, "tiles of f64, and of more columns than there are registers for")
    allow("^random_wide$", 16, "the counter of the generator, on sm_100")
    allow("^attention_f32_128$", 24, "the same, on sm_75")
    allow("^flash_", 40, "numbers that are needed once for a tile of keys, or not in the loop; the most on sm_100 and sm_120")
}
function allow(names, bytes, why) { name[rules] = names; most[rules++] = bytes }
function number(label) {
    if (!match($0, label ":[0-9]+")) return 0
    return substr($0, RSTART + length(label) + 1, RLENGTH - length(label) - 1) + 0
}
function wrong(what) { print "check_cuda_kernels: sm_" architecture " " kernel ": " what > "/dev/stderr"; bad = 1 }
/^arch = / { architecture = substr($3, 4) }
/^ *Function / {
    kernel = $2
    sub(/:$/, "", kernel)
    count++
    if (!/REG:/) getline
    registers = number("REG")
    stack = number("STACK") + number("LOCAL")
    room = 0
    for (i = 0; i < rules; i++) if (kernel ~ name[i] && most[i] > room) room = most[i]
    if (registers == 0) wrong("cuobjdump tells of no registers")
    if (stack > room) wrong(stack " bytes of memory for each thread, not more than " room " are expected")
    if (number("SHARED") > 49152) wrong(number("SHARED") " bytes of shared memory")
    most_flat = architecture == 75 ? 64 : 40 # for six blocks; sm_75 has no more threads than four have
    if (kernel ~ /_flat_|^cast_/) {
        flat++
        if (registers > most_flat) wrong(registers " registers, more than " most_flat)
    }
    if (print_all) print "sm_" architecture, registers, stack, kernel
    given = int((registers + 7) / 8) * 8
    if (given * threads > 65536) wrong(registers " registers are too many for " threads " threads")
}
END {
    if (count < 100) { print "check_cuda_kernels: only " count + 0 " kernels are found" > "/dev/stderr"; bad = 1 }
    if (flat < 300) { print "check_cuda_kernels: only " flat + 0 " kernels for dense operands of one dtype" > "/dev/stderr"; bad = 1 }
    if (!bad) print count " kernels, " flat " of them for dense operands of one dtype"
    exit bad
}'
