#!/bin/sh
# Replays recorded cases on the CUDA backend over the fake driver: tests/replay_cuda.sh AMP FAKE_CUDA [FOLDER], as
# tests/replay.sh. FAKE_CUDA is the folder of tests/fake_cuda's libraries.
set -eu
LD_LIBRARY_PATH=$2:$(dirname "$1") # the latter for sanitizers: their dlopen knows no run path
export LD_LIBRARY_PATH
export AMP_DEBUG=1 # blocks are of their sizes, so that the driver sees what goes beyond them
exec "$(dirname "$0")/replay.sh" "$1" "${3:-}" cuda
