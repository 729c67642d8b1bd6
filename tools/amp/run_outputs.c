/* amp run: what came out, for people. */
#define _GNU_SOURCE /* asprintf */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "amp/tensor.h"
#include "explain/table_text.h"
#include "run.h"

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

enum { FIRST_VALUES = 6, MOST_OUTPUTS = 16 };

/* Of the numbers that are shown: as many digits behind the point as all have room for, or powers of ten. */
typedef struct style {
    int digits;
    bool scientific;
} style;

static style style_of(const double *values, int count, amp_dtype dtype) {
    double most = 0;
    style s = {.digits = 4};
    for (int i = 0; i < count; i++) most = fmax(most, isfinite(values[i]) ? fabs(values[i]) : 0);
    s.scientific = most >= 1e6 || (most > 0 && most < 1e-2);
    for (; most >= 99.9999 && s.digits > 0; most /= 10) s.digits--;
    if (!amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype)) s = (style){0};
    return s;
}

static int print_first_values(const char *label, const amp_tensor *t) {
    double values[FIRST_VALUES];
    const int count = run_first_values(t, values, FIRST_VALUES);
    const amp_dtype dtype = amp_tensor_dtype(t);
    if (count < 0) return run_fail_amp();
    const style s = style_of(values, count, dtype);
    printf("    %-4s", label);
    for (int i = 0; i < count; i++) printf(s.scientific ? "%11.*e" : "%11.*f", s.digits, values[i]);
    printf("%s\n", amp_tensor_numel(t) > count ? " …" : count == 0 ? "  no elements" : "");
    return AMP_EXIT_OK;
}

static void print_comparison(const run_comparison *c, amp_dtype dtype) {
    if (!c->same_shape) {
        printf("    f32 and bf16 gave other shapes\n");
    } else if (!amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype)) {
        printf("    %" PRId64 " of %" PRId64 " differ\n", c->different, c->elements);
    } else {
        const double least = 1 - 1e-7; /* 1 is for those that are equal */
        printf("    cosine %.7f, largest error %.3g of numbers up to %.3g\n", c->cosine > least ? least : c->cosine,
               c->largest, c->magnitude);
    }
}

/* "logits [1, 1000], f32 and bf16" */
static char *title_of(const run_report *r, int index, amp_tensor *const *tensors) {
    const amp_tensor *t = tensors[RUN_F32] ? tensors[RUN_F32] : tensors[RUN_BF16];
    const amp_dtype first = amp_tensor_dtype(t), second = amp_tensor_dtype(tensors[RUN_BF16]);
    const bool two = tensors[RUN_BF16] && first != second;
    char *shape = run_shape_text(amp_tensor_rank(t), amp_tensor_shape(t)), *text = NULL;
    if (!shape || asprintf(&text, "%s %s, %s%s%s", r->model->outputs[index].name, shape, amp_dtype_name(first),
                           two ? " and " : "", two ? amp_dtype_name(second) : "") < 0)
        text = NULL;
    free(shape);
    return text;
}

static int print_output(const run_report *r, int index) {
    amp_tensor *tensors[RUN_KINDS] = {NULL};
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        if (r->results->outputs[kind]) tensors[kind] = r->results->outputs[kind][index];
    }
    const run_comparison *c = r->comparisons ? &r->comparisons[index] : NULL;
    const bool equal = c && c->same_shape && c->different == 0;
    int code = run_print_paragraph(title_of(r, index, tensors), 2, 4);
    if (!code && c && !equal) print_comparison(c, amp_tensor_dtype(tensors[RUN_F32]));
    if (equal) return code ? code : print_first_values("both", tensors[RUN_F32]);
    for (int kind = 0; !code && kind < RUN_KINDS; kind++) {
        if (tensors[kind]) code = print_first_values(names[kind], tensors[kind]);
    }
    return code;
}

static int print_files(const run_report *r) {
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        for (int i = 0; r->files[kind] && i < r->model->output_count; i++) {
            char *text = NULL;
            if (asprintf(&text, "%s %s", i || (kind && r->files[0]) ? "       " : "Written", r->files[kind][i]) < 0)
                text = NULL;
            if (!text) return run_no_memory();
            run_clean(text);
            puts(text);
            free(text);
        }
    }
    return AMP_EXIT_OK;
}

int run_print_outputs(const run_report *r) {
    const int more = r->model->output_count - MOST_OUTPUTS;
    int code = AMP_EXIT_OK;
    for (int i = 0; !code && i < r->model->output_count && i < MOST_OUTPUTS; i++) code = print_output(r, i);
    if (more > 0) printf("  … %d more; --json lists all\n", more);
    if (r->files[RUN_F32] || r->files[RUN_BF16]) putchar('\n');
    return code ? code : print_files(r);
}
