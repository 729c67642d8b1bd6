#!/bin/sh
# check_cuda.sh AMP LIBAMP LIBAMP_CUDA FAKE_CUDA: no library links anything of CUDA, and each thing that may be missing
# has a sentence of its own.
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
AMP_FAKE_DEVICES=2 says "$fake" "cuda:1       Fake GPU 1, compute capability 8.0, 132 multiprocessors"
says "$fake/no_cublas:$fake" "which does not tell its version"
says "$fake/no_needed:$fake" "cannot be loaded: libamp_needed.so: cannot open shared object file"
AMP_FAKE_DEVICES=0 says "$fake" "there is a CUDA driver, but no CUDA device"
AMP_FAKE_DEVICES=-100 says "$fake" "there is a CUDA driver, but no CUDA device"
AMP_FAKE_DEVICES=-999 says "$fake" "the CUDA driver does not start: an error of the fake driver (CUDA error 999)"
AMP_FAKE_DRIVER_VERSION=11080 says "$fake" "the CUDA driver is for CUDA up to 11.8; libamp_cuda.so was built with CUDA "
says "$fake/old_driver" "the CUDA driver is too old: it has no cuInit"
says "$fake/wrong_abi" "libamp_cuda.so has ABI 12345, this libamp needs"
says "$fake/no_entry" "libamp_cuda.so has no amp_cuda_module_entry_point; it belongs to another libamp"
if ! ldconfig -p | grep -q libcuda.so.1; then
    says "" "the CUDA driver (libcuda.so.1) is not installed"
fi

# A copy of the tool whose run path leads nowhere finds no module; away from here, for cmake may pad a run path with an
# empty entry, which is the current directory.
place=$(mktemp -d)
trap 'rm -r "$place"' EXIT
built=$(dirname "$module")
nowhere=/$(printf '%*s' $((${#built} - 1)) '' | tr ' ' x)
LC_ALL=C sed "s|$built|$nowhere|g" "$amp" >"$place/amp"
chmod +x "$place/amp"
said=$(cd "$place" && LD_LIBRARY_PATH= ./amp info | grep 'cuda ')
case $said in
*'the backend module libamp_cuda.so is not installed'*) ;;
*) fail "without the module: $said" ;;
esac

# Products, and nothing else, need cuBLASLt.
without_cublas() { # OP SENTENCE FOLDERS; an empty sentence: it runs
    LD_LIBRARY_PATH=$3 "$amp" replay --device cuda --filter "$1/*" "$golden" >"$place/report" && status=0 || status=$?
    if [ -z "$2" ]; then [ $status = 0 ]; else grep -F "$2" "$place/report" >/dev/null; fi ||
        fail "without cuBLASLt, $1: $(grep -i cublas "$place/report")"
}
golden=$(dirname "$0")/../golden
without_cublas mul "" "$fake/no_cublas:$fake"
without_cublas mm "mm: cuda: libcublasLt.so" "$fake/no_cublas:$fake"
without_cublas mm "has no cublasLtCreate" "$fake/no_cublas:$fake"
without_cublas mm "cannot be loaded: libamp_needed.so" "$fake/no_needed:$fake"
mkdir "$place/driver"
cp -L "$fake/libcuda.so.1" "$place/driver/"
if ! ldconfig -p | grep -q libcublasLt.so; then
    without_cublas mm "mm: cuda: matrix products need cuBLAS: libcublasLt.so" "$place/driver"
fi
# Convolutions are products without cuDNN.
if [ -d "$fake/no_cudnn" ]; then without_cublas conv2d "" "$fake/no_cudnn:$fake"; fi
