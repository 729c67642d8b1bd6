#!/bin/sh
# check_header.sh COMPILER HEADER: the header compiles alone, without a warning, in every language version that we name.
# Exit 77 (skipped) if the compiler is not there.
set -eu
compiler=$1
header=$2
command -v "$compiler" >/dev/null || exit 77
try() {
    printf '#include "%s"\nint defined_after_the_header;\n' "$header" |
        "$compiler" -x "$1" -std="$2" -Iinclude -Wall -Wextra -Wpedantic -Werror -fsyntax-only - || {
        echo "$header does not compile as $2 with $compiler" >&2
        exit 1
    }
}
for standard in c99 c11 c17; do try c $standard; done
for standard in c++17 c++20; do try c++ $standard; done
