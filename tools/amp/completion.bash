# Completion of amp(1) for bash.

# Options of a command, or of `amp` itself.
_amp_options() {
    case $1 in
    info) echo --kernels --ops --load --json --help ;;
    run) echo --input --shape --seed --output --exact --f32 --bf16 --seconds --runs --cpu-time --threads --numa --device --isa --mean \
        --scale --layout --check --policy --packs --json --help ;;
    bench) echo --input --shape --seed --exact --f32 --bf16 --seconds --runs --threads --numa --isa --mean --scale --layout --json \
        --help ;;
    convert) echo --portable --f32 --external --shape --dynamic --input --help ;;
    audit) echo --cosine --error --output --html --input --sets --shape --seed --exact --seconds --threads --isa --mean --scale \
        --layout --json --help ;;
    explain) echo --json --all --width --help --output --input --shape --seed --exact --f32 --bf16 --seconds --runs --threads \
        --isa --mean --scale --layout -- ;;
    blas) echo --precision --check --report --json --all --cache --help -- ;;
    replay) echo --device --filter --strided --allow-missing --allow-wrong --time --load --json --help ;;
    self-check) echo --cases --report --help ;;
    *) echo --help --version ;;
    esac
}

# The words that begin as the one before the cursor does.
_amp_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_amp_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# A program and its arguments, which have completions of their own where those are loaded.
_amp_program() {
    local at=$1
    if declare -F _command_offset >/dev/null; then
        _command_offset "$at"
    elif [ "$COMP_CWORD" = "$at" ]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -c -f -- "${COMP_WORDS[COMP_CWORD]}")
    else
        _amp_files "${COMP_WORDS[COMP_CWORD]}"
    fi
}

_amp() {
    local command=${COMP_WORDS[1]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        _amp_words "info run bench convert audit explain blas replay self-check $(_amp_options amp)" "$word"
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ "$command ${COMP_WORDS[i]}" = @(explain|blas)" --" ]]; then
            _amp_program $((i + 1))
            return
        fi
    done
    case "$command $before" in
    "info --ops" | "replay --filter")
        [[ $word == -* ]] || _amp_words "$("${COMP_WORDS[0]}" info --ops 2>/dev/null | awk 'NR > 1 { print $1 }')" "$word" ;;
    "replay --device" | "run --device") _amp_words "cpu cuda" "$word" ;;
    "blas --precision") _amp_words "f32 bf16x3 bf16x2 bf16" "$word" ;;
    *" --isa") _amp_words "ref avx2 avx512 avx512bf16 amx" "$word" ;;
    *" --layout") _amp_words "nchw nhwc" "$word" ;;
    *" --numa") _amp_words "local replicate" "$word" ;;
    *" --width" | *" --shape" | *" --seed" | *" --seconds" | *" --runs" | *" --threads" | *" --mean" | *" --scale" | \
        *" --cosine" | *" --error" | *" --sets" | "blas --cache") return ;; # numbers
    "blas --report" | "info --load" | "replay --load" | "replay --allow-missing" | "replay --allow-wrong") _amp_files "$word" ;;
    "self-check --cases" | "self-check --report") _amp_files "$word" ;;
    "run "* | "bench "* | "convert "* | "audit "* | "explain "* | "replay "*) [[ $word == -* ]] || _amp_files "${word#=}" ;; # bash parts NAME=FILE
    esac
    if [[ $word == -* ]] || { [ -z "$word" ] && [ "$command $before" = "info info" ]; }; then
        _amp_words "$(_amp_options "$command")" "$word"
    fi
}

complete -F _amp amp
