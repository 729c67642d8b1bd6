#!/bin/sh
# check_ops.sh COMPILER: the op macros compile as users write them, without a warning, in every version of C that we
# name; the warnings about initialisers are those that option macros tend to trip over. Exit 77: no such compiler.
set -eu
compiler=$1
command -v "$compiler" >/dev/null || exit 77
case $("$compiler" --version) in
*clang*) overrides=-Winitializer-overrides ;;
*) overrides=-Woverride-init ;;
esac
for standard in c99 c11 gnu17; do
    "$compiler" -std=$standard -Iinclude -Wall -Wextra -pedantic-errors -Werror -Wmissing-field-initializers $overrides \
        -fsyntax-only tests/api/compile/ops_in_c.c || {
        echo "ops_in_c.c does not compile as $standard with $compiler" >&2
        exit 1
    }
done

compile_bare() {
    "$compiler" -std=$2 -Iinclude -fsyntax-only -DBARE="$1" tests/api/compile/bare_numbers.c 2>&1
}
for standard in c99 gnu17; do
    compile_bare 0 $standard || {
        echo "bare_numbers.c does not compile without a bare number with $compiler" >&2
        exit 1
    }
    for number in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
        if said=$(compile_bare $number $standard); then
            echo "$compiler says nothing of number $number in bare_numbers.c" >&2
            exit 1
        fi
        case $number.$said in
        1[67].*"without a cast"* | 1[67].*"incompatible integer to pointer"*) ;;
        1[2-5].*"required arguments: "* | 14.*amp_narrow*) ;;
        [0-9].*"missing braces"* | 1[01].*"missing braces"* | *"requires explicit braces"*) ;;
        *) echo "number $number: $said" >&2 && exit 1 ;;
        esac
    done
done
