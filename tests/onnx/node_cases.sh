#!/bin/sh
# ONNX's node tests in the folder that AMP_ONNX_CASES names, or a skip: tests/onnx/node_cases.sh ONNX_NODE_CASES
# [FAKE_CUDA]. With the folder of tests/fake_cuda's libraries they run on the CUDA backend over the fake driver.
set -eu
if [ -z "${AMP_ONNX_CASES:-}" ]; then
    echo "skipped: AMP_ONNX_CASES does not name a folder of ONNX's node tests"
    exit 77
fi
list=$(dirname "$0")/node_cases_missing.txt
if [ $# -eq 1 ]; then
    exec "$1" "$AMP_ONNX_CASES" --missing "$list"
fi
LD_LIBRARY_PATH=$2:$(dirname "$1")/.. # the latter for sanitizers: their dlopen knows no run path
export LD_LIBRARY_PATH
exec "$1" "$AMP_ONNX_CASES" --missing "$list" --device cuda
