#!/bin/sh
# Replays recorded gradients, and programs of several ops: tests/replay_gradients.sh AMP. They lie in $AMP_GOLDEN_TRAIN, or beside
# $AMP_GOLDEN in golden_train; else a skip.
set -eu
folder=${AMP_GOLDEN_TRAIN:-${AMP_GOLDEN:+$AMP_GOLDEN/../golden_train}}
if [ -z "$folder" ] || [ ! -d "$folder" ]; then
    echo "skipped: neither AMP_GOLDEN_TRAIN nor AMP_GOLDEN names a folder of recorded gradients"
    exit 77
fi
"$1" replay "$folder"
"$1" replay --allow-wrong "$(dirname "$0")/replay_wrong_gradients.txt" "$folder/grads"
