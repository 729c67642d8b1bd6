#!/bin/sh
# Replays recorded cases on the CUDA backend over the fake driver: tests/replay_cuda.sh AMP FAKE_CUDA FOLDER. Without FOLDER:
# $AMP_GOLDEN, or a skip. FAKE_CUDA is the folder of tests/fake_cuda's libraries; with "real", it runs on the machine's GPU.
set -eu
amp=$1
fake=$2
folder=${3:-${AMP_GOLDEN:-}}
missing=$(dirname "$0")/replay_missing_cuda.txt
wrong=$(dirname "$0")/replay_wrong.txt
if [ -z "$folder" ]; then
    echo "skipped: AMP_GOLDEN does not name a folder of recorded cases"
    exit 77
fi
[ "$fake" = real ] || export LD_LIBRARY_PATH="$fake:$(dirname "$amp")" # the latter for sanitizers: their dlopen knows no run path
"$amp" replay --device cuda --allow-missing "$missing" --allow-wrong "$wrong" "$folder"
"$amp" replay --device cuda --allow-missing "$missing" --allow-wrong "$wrong" --strided "$folder"
