/* amp run: what runs, for people: the model, its inputs, and which of them were made up. */
#define _GNU_SOURCE /* asprintf */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/types.h"
#include "explain/table_text.h"
#include "run.h"

/* ---- The model --------------------------------------------------------------------------------------------------- */
static int print_title(const run_model *m, const char *path) {
    const char *slash = strrchr(path, '/');
    char *text = NULL;
    if (asprintf(&text, "%s: %.*f MB, opset %" PRId64 ", %" PRId64 " node%s%s%s", slash ? slash + 1 : path,
                 m->bytes < 10000000 ? 2 : 0, (double)m->bytes / 1e6, m->opset, m->nodes, m->nodes == 1 ? "" : "s",
                 *m->producer ? ", made by " : "", m->producer) < 0)
        text = NULL;
    return run_print_paragraph(text, 0, 2);
}

static void write_source(run_table *t, const run_input *input) {
    const amp_dtype dtype = input->wanted->dtype;
    const bool real = dtype == AMP_DTYPE_NONE || amp_dtype_is_floating(dtype) || amp_dtype_is_complex(dtype);
    if (input->source != RUN_RANDOM) {
        run_cell(t, "%s", input->file);
    } else if (real) {
        run_cell(t, "random, normal");
    } else {
        run_cell(t, "random, 0 to %" PRId64, input->high - 1);
    }
}

static void write_value(run_table *t, const char *kind, const amp_graph_value *value, const run_input *input) {
    char *shape = input ? run_input_text(input) : run_declared_text(value);
    t->failed = t->failed || !shape;
    if (!t->failed) {
        run_cell(t, "%s", kind);
        run_cell(t, "%s", value->name);
        run_cell(t, "%s", value->dtype == AMP_DTYPE_NONE ? "any" : amp_dtype_name(value->dtype));
        run_cell(t, "%s", shape);
        if (input) write_source(t, input);
        if (!input) run_cell(t, "%s", "");
    }
    free(shape);
}

enum { MOST_VALUES = 24 }; /* that are listed */

static int print_values(const run_report *r) {
    const run_model *m = r->model;
    run_table t = {.columns = 5};
    for (int i = 0; i < m->input_count && i < MOST_VALUES; i++)
        write_value(&t, i ? "" : "inputs", &m->inputs[i], &r->inputs->items[i]);
    for (int i = 0; i < m->output_count && i < MOST_VALUES; i++)
        write_value(&t, i ? "" : "outputs", &m->outputs[i], NULL);
    const int code = run_table_end(&t);
    const int more_in = m->input_count - MOST_VALUES, more_out = m->output_count - MOST_VALUES;
    if (more_in > 0 || more_out > 0)
        printf("  … %d more inputs, %d more outputs; --json lists all\n", more_in > 0 ? more_in : 0,
               more_out > 0 ? more_out : 0);
    return code;
}

/* ---- What was made up -------------------------------------------------------------------------------------------- */
static void list_random(FILE *out, const run_inputs *in, int64_t seed) {
    const char *before = "Made up: ";
    for (int i = 0; i < in->count; i++) {
        if (in->items[i].source != RUN_RANDOM) continue;
        fprintf(out, "%s%s", before, in->items[i].wanted->name);
        before = ", ";
    }
    if (*before == ',') fprintf(out, " (seed %" PRId64 "); --input NAME=FILE gives a real one.", seed);
}

static bool assumes(const run_input *input, const char *name) {
    for (int d = 0; d < input->rank; d++) {
        const char *its = input->wanted->extent_names[d];
        if (input->assumed[d] && its && strcmp(its, name) == 0) return true;
    }
    return false;
}

/* An input before has shown how: those of the same name follow it. */
static bool was_said(const run_inputs *in, int index, int d) {
    const char *name = in->items[index].wanted->extent_names[d];
    for (int i = 0; name && i < index; i++) {
        if (assumes(&in->items[i], name)) return true;
    }
    return false;
}

static void list_assumed(FILE *out, const run_inputs *in, int index) {
    const run_input *input = &in->items[index];
    const char *before = "\nOpen, and 1 here: ";
    for (int d = 0; d < input->rank; d++) {
        const char *name = input->wanted->extent_names[d];
        const bool named = run_is_name(name);
        if (!input->assumed[d] || was_said(in, index, d)) continue;
        fprintf(out, "%s%s%s", before, named ? name : "the first extent of ", named ? "" : input->wanted->name);
        before = ", ";
    }
    if (*before != ',') return;
    char *pattern = run_shape_pattern(input, true);
    fprintf(out, "; to set it: --shape %s=%s.", input->wanted->name, pattern ? pattern : "…");
    free(pattern);
}

static void write_made_up(FILE *out, const run_report *r) {
    list_random(out, r->inputs, r->options->seed);
    for (int i = 0; i < r->inputs->count && i < MOST_VALUES; i++) list_assumed(out, r->inputs, i);
    if (r->options->policy) fprintf(out, "\nbf16 under the policy of %s.", r->options->policy);
    if (r->options->numa) fputc('\n', out);
    if (r->options->numa) run_nodes_write(out, r->options->nodes);
    if (r->options->packs)
        fprintf(out, "\nPacked weights: %s, %s.", r->options->packs,
                r->options->packs_written ? "written now" : "which was there");
}

static int print_made_up(const run_report *r) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return run_no_memory();
    write_made_up(out, r);
    if (fclose(out) != 0) return run_no_memory();
    if (*text) putchar('\n');
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        run_clean(line);
        amp_print_wrapped(stdout, line, run_width(), 0, 2, false);
    }
    free(text);
    return AMP_EXIT_OK;
}

int run_print_model(const run_report *r) {
    int code = print_title(r->model, r->options->model);
    putchar('\n');
    if (!code) code = print_values(r);
    if (!code) code = print_made_up(r);
    putchar('\n');
    fflush(stdout);
    return code;
}
