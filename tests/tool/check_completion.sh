#!/bin/sh
# check_completion.sh AMP: the completion for bash knows the commands, options and ops of the tool, and its man page their
# options: neither less nor more than --help. Exit 77: no bash.
command -v bash >/dev/null || { echo "skipped: there is no bash"; exit 77; }
exec bash -s "$1" <<'BASH'
set -u
bash -n tools/amp/completion.bash || exit 1
. tools/amp/completion.bash
amp=$1
failed=0
fail() {
    echo "FAILED: $*"
    failed=1
}

# complete_words WORD…: what is offered for the last one, a line each
complete_words() {
    COMP_WORDS=("$amp" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _amp 2>/dev/null
    printf '%s\n' "${COMPREPLY[@]}"
}
# offers EXPECTED WORD…: just these words are offered
offers() {
    local expected=$1 got
    shift
    got=$(complete_words "$@" | LC_ALL=C sort | tr '\n' ' ')
    [ "$got" = "$expected " ] || fail "'amp $*' offers '$got', expected '$expected'"
}
# has WORD WORDS…: this one is among them
has() {
    local wanted=$1
    shift
    complete_words "$@" | grep -q -x -F -e "$wanted" || fail "'amp $*' does not offer '$wanted'"
}
help_options() {
    "$amp" "$@" --help | grep -o -e '--[a-z][a-z0-9-]*' | LC_ALL=C sort -u
}

offers info i
offers "explain" exp
offers "run" ru
offers "convert" con
offers "tools/amp/completion.bash" convert tools/amp/compl
offers "--help --version" --
has replay ""
has explain ""
offers "cpu cuda" replay --device ""
offers cuda replay --device cu
[ -z "$(complete_words explain --width "")" ] || fail "files are offered for a width"
has linear info --ops lin
has layer_norm replay --filter layer
offers "--strided" replay --s
offers "--scale --seconds --seed --shape" run --s
offers "cpu cuda" run --device ""
offers "amx avx2 avx512 avx512bf16 ref" run --isa ""
offers "nchw nhwc" run --layout n
offers "replicate" bench --numa r
offers "bench" be
offers "blas" bl
offers "self-check" s
offers "tools/amp/completion.bash" self-check --report tools/amp/compl
offers "bf16 bf16x2 bf16x3" blas --precision bf
offers "tools/amp/completion.bash" blas --report tools/amp/compl
[ -z "$(complete_words blas --cache tools/amp/compl)" ] || fail "a cache's size is no file"
has "$(command -v sort)" blas -- "$(command -v sort)"
offers "amx" bench --isa am
offers "audit" a
offers "amx" audit --isa am
offers "tools/amp/completion.bash" audit --html tools/amp/compl
offers "tools/amp/completion.bash" run --policy tools/amp/compl
[ -z "$(complete_words audit --cosine tools/amp/compl)" ] || fail "a cosine is no file"
offers "--scale --seconds --seed --shape" bench --s
offers "--scale --seconds --seed --shape" explain --s
offers "tools/amp/completion.bash" bench tools/amp/compl
offers "tools/amp/completion.bash" explain --output tools/amp/compl
offers "tools/amp/completion.bash" run tools/amp/compl
offers "tools/amp/completion.bash" run --input x = tools/amp/compl
[ -z "$(complete_words run --seed tools/amp/compl)" ] || fail "a seed is no file"
offers "tools/amp/completion.bash" explain tools/amp/compl
offers "tools/amp/completion.bash" replay tools/amp/compl
offers "tools/amp/completion.bash" info --load tools/amp/compl
has "$(command -v sort)" explain -- "$(command -v sort)"
offers "tools/amp/completion.bash" explain -- cat tools/amp/compl
[ -z "$(complete_words nonsense info)" ] || fail "a command that does not exist has arguments"

all=
for command in info run bench convert audit explain blas replay self-check; do
    options=$(help_options $command)
    all="$all $options"
    offered=$(complete_words $command -- | grep -v -x -e -- | LC_ALL=C sort -u)
    [ "$options" = "$offered" ] || fail "amp $command --help has" $options ", the completion" $offered
done
page=$(sed 's/\\-/-/g' tools/amp/amp.1)
for option in $all; do
    case $page in *"$option"*) ;; *) fail "amp.1 does not know $option" ;; esac
done
for option in $(printf '%s' "$page" | sed '/^\.SH EXAMPLES/,$d' | grep -o -e '--[a-z][a-z0-9-]*' | LC_ALL=C sort -u); do
    case " $(help_options) --version $all " in *[[:space:]]"$option"[[:space:]]*) ;; *) fail "amp.1 has $option, amp has not" ;; esac
done
exit $failed
BASH
