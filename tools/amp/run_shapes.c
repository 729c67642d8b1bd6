/* amp run: the extents of inputs, by the model, --shape, files, and each other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "run.h"

/* ---- What is given ----------------------------------------------------------------------------------------------- */
static bool fits(const amp_graph_value *wanted, int rank, const int64_t *shape, amp_dtype dtype) {
    const bool rounds = wanted->dtype == AMP_BF16 && dtype == AMP_F32; /* .npy has no bf16 */
    if (dtype != AMP_DTYPE_NONE && wanted->dtype != AMP_DTYPE_NONE && dtype != wanted->dtype && !rounds) return false;
    if (wanted->rank == AMP_GRAPH_OPEN) return true;
    bool good = rank == wanted->rank;
    for (int d = 0; good && d < rank; d++) good = wanted->shape[d] == AMP_GRAPH_OPEN || wanted->shape[d] == shape[d];
    return good;
}

static int complain(const amp_graph_value *wanted, int rank, const int64_t *shape, amp_dtype dtype, const char *what) {
    char *wants = run_declared_text(wanted), *has = run_shape_text(rank, shape);
    const bool typed = dtype != AMP_DTYPE_NONE;
    const int code = !wants || !has
                         ? run_no_memory()
                         : run_fail(AMP_EXIT_USAGE, "input '%s' wants %s %s, but %s %s%s%s", wanted->name,
                                    wanted->dtype == AMP_DTYPE_NONE ? "any type" : amp_dtype_name(wanted->dtype), wants,
                                    what, typed ? amp_dtype_name(dtype) : "", typed ? " " : "", has);
    free(wants);
    free(has);
    return code;
}

int run_shape_give(run_input *input, int rank, const int64_t *shape, amp_dtype dtype, const char *what) {
    if (!fits(input->wanted, rank, shape, dtype)) return complain(input->wanted, rank, shape, dtype, what);
    input->rank = rank;
    memcpy(input->shape, shape, (size_t)rank * sizeof *shape);
    return AMP_EXIT_OK;
}

/* "1x3x640x640"; "" is rank 0. Returns the rank; -1: it is none. */
static int read_shape(const char *text, int64_t *shape) {
    int rank = 0;
    while (*text) {
        char *end;
        errno = 0;
        const long long extent = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
        if (rank == AMP_MAX_RANK || extent < 0 || errno || (*end && (*end != 'x' || !end[1]))) return -1;
        shape[rank++] = extent;
        text = *end ? end + 1 : end;
    }
    return rank;
}

int run_shape_parse(run_input *input) {
    int64_t shape[AMP_MAX_RANK];
    const int rank = read_shape(input->shape_text, shape);
    if (rank < 0)
        return run_usage("--shape of input '%s' is up to %d extents from 0 on, such as 1x3x640x640, not '%s'",
                         input->wanted->name, AMP_MAX_RANK, input->shape_text);
    return run_shape_give(input, rank, shape, AMP_DTYPE_NONE, "--shape gives");
}

/* ---- What follows from it ---------------------------------------------------------------------------------------- */
/* An input that has an extent of this name; where it is goes to *dim. */
static const run_input *find_named(const run_inputs *in, const char *name, int *dim) {
    for (int i = 0; i < in->count; i++) {
        const run_input *other = &in->items[i];
        for (*dim = 0; *dim < other->wanted->rank; (*dim)++) {
            const char *its = other->wanted->extent_names[*dim];
            if (its && other->shape[*dim] >= 0 && strcmp(its, name) == 0) return other;
        }
    }
    return NULL;
}

static bool is_batch(const char *name, int dim) {
    static const char *const names[] = {"batch", "batch_size", "batchsize", "n", "b", "bs"};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(name, names[i]) == 0) return true;
    }
    return dim == 0;
}

/* Models are about that call extents "?", or the same and give them different ones: names only help where nothing else
 * does. */
static void settle_extent(const run_inputs *in, run_input *input, int d) {
    const char *name = input->wanted->extent_names[d];
    int where;
    const run_input *other = name && strcmp(name, "?") != 0 ? find_named(in, name, &where) : NULL;
    if (!other) return;
    input->shape[d] = other->shape[where];
    input->assumed[d] = other->assumed[where];
}

/* Extents that stand under the names of others; what is a batch, 1. */
static void settle(const run_inputs *in, bool assume) {
    for (int i = 0; i < in->count; i++) {
        run_input *input = &in->items[i];
        for (int d = 0; d < input->wanted->rank; d++) {
            if (input->shape[d] < 0) settle_extent(in, input, d);
            if (!assume || input->shape[d] >= 0 || !is_batch(input->wanted->extent_names[d], d)) continue;
            input->shape[d] = 1;
            input->assumed[d] = true;
        }
    }
}

/* ---- What stays open --------------------------------------------------------------------------------------------- */
/* "1x3xHEIGHTx?" */
static void write_pattern(FILE *out, const run_input *input, bool assumed) {
    for (int d = 0; d < input->rank; d++) {
        const char *name = input->wanted->rank == input->rank ? input->wanted->extent_names[d] : NULL;
        if (d) fputc('x', out);
        if (input->shape[d] >= 0 && !(assumed && input->assumed[d])) {
            fprintf(out, "%lld", (long long)input->shape[d]);
        } else if (name && run_is_name(name)) {
            for (; *name; name++) fputc(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name, out);
        } else {
            fputc('?', out);
        }
    }
    if (input->rank == AMP_GRAPH_OPEN) fputs("1x…", out);
}

char *run_shape_pattern(const run_input *input, bool assumed) {
    char *pattern = NULL;
    size_t size;
    FILE *out = open_memstream(&pattern, &size);
    if (!out) return NULL;
    write_pattern(out, input, assumed);
    return fclose(out) == 0 ? pattern : NULL;
}

static int complain_open(const run_input *input) {
    char *declared = run_declared_text(input->wanted), *pattern = run_shape_pattern(input, false);
    const char *name = input->wanted->name;
    const int code =
        !declared || !pattern
            ? run_no_memory()
            : run_fail(AMP_EXIT_USAGE, "input '%s' %s %s leaves extents open: give --shape %s=%s, or --input %s=FILE",
                       name, amp_dtype_name(input->wanted->dtype), declared, name, pattern, name);
    free(declared);
    free(pattern);
    return code;
}

static bool is_open(const run_input *input) {
    bool open = input->rank == AMP_GRAPH_OPEN;
    for (int d = 0; d < input->rank; d++) open = open || input->shape[d] < 0;
    return open;
}

int run_shapes_find(run_inputs *in) {
    settle(in, false);
    settle(in, true);
    for (int i = 0; i < in->count; i++) {
        if (is_open(&in->items[i])) return complain_open(&in->items[i]);
    }
    return AMP_EXIT_OK;
}
