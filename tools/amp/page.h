/* amp explain model.onnx: a page of HTML that shows what runs of a model, and why. */
#ifndef AMP_TOOL_PAGE_H
#define AMP_TOOL_PAGE_H

#include <jansson.h>
#include <stdio.h>

#include "run.h"

/* ---- What is known of the model's steps (page_collect.c) --------------------------------------------------------- */
typedef struct page_operand {
    int value, input, output; /* as in amp_graph_operand */
    bool is_constant, is_channels_last;
    const char *argument;
    amp_dtype dtype; /* AMP_DTYPE_NONE: absent */
    char *shape;
} page_operand;

typedef struct page_step {
    const char *op, *overload;
    char **places;
    page_operand *operands, *results;
    int place_count, operand_count, result_count;
    double ms;      /* median */
    json_t *record; /* explain's row; NULL: there is none */
} page_step;

typedef struct page_pass {
    const char *name;
    int places, before, after;
} page_pass;

enum { PAGE_PASSES = 16 };

/* The steps of one kind of run. */
typedef struct page_steps {
    page_step *items;
    int count, pass_count;
    double *samples; /* ms, by run, then step */
    int runs;
    double ms; /* of all steps */
    page_pass passes[PAGE_PASSES];
    bool failed; /* for want of memory */
} page_steps;

/* Runs the model step by step, some times, in what is wanted. To be freed by page_steps_free also where it fails. */
int page_collect(page_steps steps[RUN_KINDS], const run_report *r);
void page_steps_free(page_steps *steps);
/* What times of steps are told in: "ms", or "µs" where all of them together are short. */
typedef struct page_unit {
    const char *name;
    double per_ms;
} page_unit;
page_unit page_unit_of(const page_steps *steps);
/* The type that a step computes in: that of its results where nothing is computed. */
amp_dtype page_runs_in(const page_step *step);

/* ---- Who makes and reads the values (page_values.c) -------------------------------------------------------------- */
typedef struct page_values {
    int count;
    int *maker;         /* by value: the step; -1: none */
    int *first;         /* by value: the first place in the two lists below; -1: nobody reads it */
    int *reader, *next; /* a step, and the place of the next one; -1: it was the last */
} page_values;

/* To be freed by page_values_free also where it fails. */
int page_values_find(page_values *values, const page_steps *steps);
void page_values_free(page_values *values);

/* ---- Where things stand in the picture (page_layout.c, page_dot.c) ----------------------------------------------- */
typedef enum page_node_kind { PAGE_INPUT, PAGE_STEP, PAGE_OUTPUT } page_node_kind;

typedef struct page_node {
    page_node_kind kind;
    int index;                  /* of the model's input or output, or of the step */
    double font;                /* px: the larger the more time it takes */
    double width, height, x, y; /* px; x and y of its middle */
} page_node;

typedef struct page_edge {
    int from, to; /* nodes */
    const page_operand *operand;
    double *points; /* x, y, …: a start, and three for each curve */
    int point_count;
} page_edge;

typedef struct page_picture {
    page_node *nodes;
    page_edge *edges;
    int node_count, edge_count;
    double width, height;
    bool is_dots; /* Graphviz has placed it */
} page_picture;

int page_picture_make(page_picture *p, const page_steps *steps, const page_values *values, const run_report *r);
void page_picture_free(page_picture *p);
/* Lets Graphviz's dot place nodes and edges. False: there is no dot, it failed, or it took too long; nothing has
 * changed. */
bool page_dot(page_picture *p);
/* Three lines at most, of a node; the caller frees them. NULL: there is none. */
enum { PAGE_LINES = 3 };
void page_node_lines(const page_node *node, const page_steps *steps, const run_report *r, char *lines[PAGE_LINES]);

/* ---- The page (page_write.c, page_summary.c, page_step.c, page_graph.c, page_legend.c, page_style.c) ---------------------------- */
typedef struct page {
    const run_report *report;
    page_steps steps[RUN_KINDS]; /* of what was asked for */
    run_kind shown;              /* whose steps are drawn: bf16, where that ran */
    int *pairs; /* by step that is shown, the same one of f32, -1: there is none; NULL: there is only one kind */
    page_values values; /* of what is shown */
    page_picture picture;
} page;

bool page_has(const page *p, run_kind kind);
/* Text of anybody's, as text of HTML or in an attribute's quotes. */
void page_text(FILE *out, const char *text);
void page_write(FILE *out, const page *p);
void page_write_summary(FILE *out, const page *p);
void page_write_legend(FILE *out, const page *p);
void page_write_graph(FILE *out, const page *p);
/* The table of all steps, and what is told of each. */
void page_write_steps(FILE *out, const page *p);
/* "bf16", "f32" or "other": classes of style. */
const char *page_class(amp_dtype dtype);
/* The file, only once all of it is there; what is no ordinary file is written to. */
int page_save(const char *path, const char *text, size_t bytes);

/* What C99 compilers take as one text is 4095 bytes. */
extern const char page_style[], page_style_more[], page_script[], page_script_more[];

#endif /* AMP_TOOL_PAGE_H */
