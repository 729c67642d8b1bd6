#!/bin/sh
# check_kernels.sh CUOBJDUMP FATBIN…: every kernel, for every GPU, fits the launches that it gets: 256 threads (AMP_BLOCK_THREADS) with
# their registers, of which a block has 65,536, and 48 KB of shared memory that it asks for itself. The tests' driver refuses
# launches of more threads, or with more arguments than the 4 KB that every driver takes.
set -eu
cuobjdump=$1
shift
[ -x "$cuobjdump" ] || { echo "skipped: the CUDA toolkit has no cuobjdump"; exit 77; }
for image; do "$cuobjdump" -res-usage "$image"; done | awk '
    /^arch = / { arch = $3 }
    /Function / { name = $2; sub(":", "", name) }
    /REG:/ {
        for (i = 1; i <= NF; i++) { split($i, field, ":"); used[field[1]] = field[2] }
        registers = int((used["REG"] + 7) / 8) * 8 # they are handed out in eights
        kernels++
        if (registers * 256 > 65536 || used["SHARED"] > 49152) {
            printf "%s, %s: %d registers, %d bytes of shared memory\n", name, arch, used["REG"], used["SHARED"]
            wrong = 1
        }
    }
    END { if (!kernels) print "no kernels were found"; exit wrong || !kernels }'
