/* The reader of `saves`. */
#include "policy/user_gradients.h"

#include <string.h>

typedef struct word {
    const char *text;
    int length;
} word;

/* The letters up to one of `ends`; *at is behind them. */
static word next_word(const char **at, const char *ends) {
    const size_t length = strcspn(*at, ends);
    const word w = {*at, (int)length};
    *at += length;
    return w;
}

static bool is_called(const word *w, const char *name) {
    return strlen(name) == (size_t)w->length && memcmp(name, w->text, (size_t)w->length) == 0;
}

static bool is_tensor(const amp_arg_info *arg) {
    return arg->kind == AMP_ARG_TENSOR || arg->kind == AMP_ARG_TENSOR_LIST;
}

static int argument_of(const amp_schema *schema, const word *w) {
    for (int i = 0; i < schema->arg_count; i++) {
        if (is_tensor(&schema->args[i]) && is_called(w, schema->args[i].name)) return i;
    }
    return -1;
}

/* The first is "out"; the others stand last among the arguments. */
static int result_of(const amp_schema *schema, const word *w) {
    if (is_called(w, "out")) return 0;
    for (int i = 1; i < schema->output_count; i++) {
        if (is_called(w, schema->args[schema->arg_count - schema->output_count + i].name)) return i;
    }
    return -1;
}

static amp_status fail_word(const amp_schema *schema, const word *w) {
    return amp_fail(AMP_ERROR_INVALID,
                    "define_op: '%s': the gradient saves '%.*s', which is no tensor argument and no result",
                    schema->key, w->length, w->text);
}

static amp_status read_wanted(const amp_schema *schema, const char **at, unsigned *wanted) {
    do {
        ++*at; /* ':' or '+' */
        const word w = next_word(at, "+,");
        const int argument = argument_of(schema, &w);
        if (argument < 0) return fail_word(schema, &w);
        *wanted |= 1u << argument;
    } while (**at == '+');
    return AMP_OK;
}

static amp_status read_need(const amp_schema *schema, const char **at, amp_gradient_need *need) {
    const word w = next_word(at, ":,");
    const int argument = argument_of(schema, &w), result = result_of(schema, &w);
    if (argument < 0 && result < 0) return fail_word(schema, &w);
    *need = (amp_gradient_need){.index = (unsigned char)(argument < 0 ? result : argument), .is_result = argument < 0};
    return **at == ':' ? read_wanted(schema, at, &need->wanted) : AMP_OK;
}

amp_status amp_gradient_needs_parse(const amp_schema *schema, const char *saves, amp_gradient_need *needs, int *count) {
    *count = 0;
    for (const char *at = saves; at && *at; at += *at == ',') {
        if (*count == AMP_MAX_GRADIENT_NEEDS)
            return amp_fail(AMP_ERROR_INVALID, "define_op: '%s': the gradient saves more than %d tensors", schema->key,
                            AMP_MAX_GRADIENT_NEEDS);
        AMP_TRY(read_need(schema, &at, &needs[(*count)++]));
    }
    return AMP_OK;
}
