#!/bin/sh
# Replays recorded cases as they are and with strided inputs: tests/replay.sh AMP FOLDER. Without FOLDER: $AMP_GOLDEN, or a skip.
set -eu
amp=$1
folder=${2:-${AMP_GOLDEN:-}}
missing=$(dirname "$0")/replay_missing.txt
wrong=$(dirname "$0")/replay_wrong.txt
if [ -z "$folder" ]; then
    echo "skipped: AMP_GOLDEN does not name a folder of recorded cases"
    exit 77
fi
"$amp" replay --allow-missing "$missing" --allow-wrong "$wrong" "$folder"
"$amp" replay --allow-missing "$missing" --allow-wrong "$wrong" --strided "$folder"
