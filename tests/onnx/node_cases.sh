#!/bin/sh
# ONNX's node tests in the folder that AMP_ONNX_CASES names, or a skip: tests/onnx/node_cases.sh ONNX_NODE_CASES.
set -eu
if [ -z "${AMP_ONNX_CASES:-}" ]; then
    echo "skipped: AMP_ONNX_CASES does not name a folder of ONNX's node tests"
    exit 77
fi
exec "$1" "$AMP_ONNX_CASES" --missing "$(dirname "$0")/node_cases_missing.txt"
