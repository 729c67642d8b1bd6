#!/bin/sh
# check_cuda.sh AMP LIBAMP LIBAMP_CUDA FAKE_CUDA: no library links anything of CUDA, and each thing that may be missing has a
# sentence of its own.
set -eu
amp=$1 library=$2 module=$3 fake=$4
fail() { echo "check_cuda: $*" >&2; exit 1; }

for file in "$library" "$module"; do
    readelf -d "$file" | grep NEEDED | grep -iE 'cuda|cublas|nvidia' && fail "$file links a library of CUDA"
    nm -D --undefined-only "$file" | grep -E ' (cu[A-Z]|cuda[A-Z]|cublas)' && fail "$file needs a symbol of CUDA"
done
[ "$(nm -D --defined-only "$module" | awk '{ print $3 }')" = amp_cuda_module_entry_point ] || fail "the module shows more"

says() {
    dir=$1 sentence=$2
    LD_LIBRARY_PATH=$dir "$amp" info | grep -F "$sentence" >/dev/null && return
    LD_LIBRARY_PATH=$dir "$amp" info | grep 'cuda ' >&2
    fail "amp info does not say: $sentence"
}
says "$fake" "autocast to f16 (default) or bf16"
AMP_FAKE_DEVICES=0 says "$fake" "there is a CUDA driver, but no CUDA device"
says "$fake/old_driver" "the CUDA driver is too old: it has no cuInit"
says "$fake/wrong_abi" "libamp_cuda.so has ABI 12345, this libamp needs"
says "$fake/no_entry" "libamp_cuda.so has no amp_cuda_module_entry_point; it belongs to another libamp"
if ! ldconfig -p | grep -q libcuda.so.1; then
    says "" "the CUDA driver (libcuda.so.1) is not installed"
fi
