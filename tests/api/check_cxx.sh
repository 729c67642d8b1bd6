#!/bin/sh
# check_cxx.sh COMPILER: amp/amp.hpp and its parts compile alone, and so does a call of every op in every form with every
# option, in C++17 and C++20, with errors that stand and errors that are thrown, without a warning. Exit 77: no such
# compiler.
set -eu
compiler=$1
command -v "$compiler" >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 tools/gen_cxx.py --calls >"$folder/every_op.cc"
compile() {
    "$compiler" "$@" -Iinclude -Wall -Wextra -Wpedantic -Werror -fsyntax-only
}
for standard in c++17 c++20; do
    compile -std=$standard "$folder/every_op.cc"
    compile -std=$standard -DAMP_EXCEPTIONS "$folder/every_op.cc"
    for header in tensor amp ops; do
        echo "#include \"amp/$header.hpp\"" | "$compiler" -std=$standard -x c++ -Iinclude -Wall -Wextra -Wpedantic \
            -Werror -fsyntax-only -
    done
done
