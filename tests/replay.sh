#!/bin/sh
# Replays recorded cases as they are and with strided inputs: tests/replay.sh AMP FOLDER [DEVICE]. An empty FOLDER is
# $AMP_GOLDEN, or a skip.
set -eu
amp=$1
folder=${2:-${AMP_GOLDEN:-}}
device=${3:-cpu}
if [ -z "$folder" ]; then
    echo "skipped: AMP_GOLDEN does not name a folder of recorded cases"
    exit 77
fi
tests=$(dirname "$0")
missing=$tests/replay_missing.txt
[ "$device" = cpu ] || missing=$tests/replay_missing_$device.txt
replay() { "$amp" replay --device "$device" --allow-missing "$missing" --allow-wrong "$tests/replay_wrong.txt" "$@" "$folder"; }
replay
replay --strided
