/* amp run: a model out of an ONNX file, on inputs given or made up, in f32 and in bf16. What its files share, and amp
 * bench (bench.h) and explain (page.h) have of it; each function that can fail says what is wrong on standard error and
 * returns an exit code. */
#ifndef AMP_TOOL_RUN_H
#define AMP_TOOL_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "amp/graph.h"
#include "command.h"
#include "nodes.h"

/* ---- The command line (run_options.c) ---------------------------------------------------------------------------- */
typedef enum run_command { RUN_COMMAND = 1, BENCH_COMMAND = 2, EXPLAIN_COMMAND = 4, AUDIT_COMMAND = 8 } run_command;
typedef enum run_kind { RUN_F32, RUN_BF16, RUN_KINDS } run_kind; /* what a model is run in */
typedef enum run_layout { RUN_BY_SHAPE, RUN_NCHW, RUN_NHWC } run_layout;
enum { RUN_CHANNELS = 3 };

typedef struct run_list {
    const char **items;
    int count;
} run_list;

typedef struct run_numbers {
    double values[RUN_CHANNELS];
    int count; /* 1 is for all channels */
} run_numbers;

typedef struct run_options {
    const char *model, *output, *isa, *policy, *packs;
    run_list inputs, shapes; /* NAME=FILE, NAME=1x3 */
    bool wanted[RUN_KINDS];
    bool json, check, help, exact, cpu_time;
    bool packs_written; /* by this command; else the file was there */
    run_numa numa;
    const run_nodes *nodes; /* once they are known; NULL: --numa is none of the command's */
    amp_device device;
    run_layout layout;
    run_numbers mean, scale;
    int64_t runs, threads, seed; /* threads: 0: as they are */
    double seconds;
    const char *page;     /* amp audit: --html, … */
    double cosine, error; /* … what is asked for; 0: not that */
    int64_t sets;         /* … of inputs that are made up */
} run_options;

extern const char run_help[];
/* To be freed by run_options_free also where it fails. */
int run_options_parse(int argc, char **argv, run_command command, run_options *o);
void run_options_free(run_options *o);

/* ---- Sentences (run_text.c) -------------------------------------------------------------------------------------- */
/* The command's name in sentences: "run" until then. */
void run_name(const char *command);
/* "amp run: …", without what a terminal would obey. Returns `code`. */
int run_fail(int code, const char *format, ...) __attribute__((cold, format(printf, 2, 3)));
/* The same, with a pointer to --help: AMP_EXIT_USAGE. */
int run_usage(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));
/* libamp's error, which stands, is said and cleared: 1 where the machine is to blame, else 2. */
int run_fail_amp(void);
int run_no_memory(void);
/* Control characters, and what is no UTF-8, become question marks. */
void run_clean(char *text);
/* Whether an extent's name is one that people gave: short, and a word. */
bool run_is_name(const char *name);
/* "[batch, 3, ?]"; of a rank that is open "[…]". The caller frees it. */
char *run_declared_text(const amp_graph_value *value);
char *run_shape_text(int rank, const int64_t *shape);
/* Columns of a line on standard output: the terminal's, 60 to 100; 80 elsewhere. */
int run_width(void);
/* Prints a text in lines of that width, and frees it; NULL: there was no memory for it. */
int run_print_paragraph(char *text, int first, int indent);
/* A table, filled in cell by cell. */
typedef struct run_table {
    int columns, count;
    const bool *right; /* by column: numbers; NULL: none */
    char **cells;
    bool failed; /* for want of memory */
} run_table;

void run_cell(run_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints and frees it. The last column stands below the one before where lines would be too long. */
int run_table_end(run_table *t);
/* What is being done, on standard error where that is a terminal; the next one, or the end, takes its place. */
void run_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void run_progress_end(void);
double run_milliseconds(void); /* a clock */
/* What figures are in: the same, but CPU time of the process once that is asked for. */
double run_figure_milliseconds(void);
void run_use_cpu_time(void);

/* ---- The model (run_model.c) ------------------------------------------------------------------------------------- */
typedef struct run_model {
    amp_graph *graph;
    int input_count, output_count;
    amp_graph_value *inputs, *outputs;
    int64_t *extents; /* of the table that an integer input picks from; 0: not known */
    int64_t nodes, opset, ir_version, bytes;
    char *producer;
    double load_ms;
} run_model;

int run_model_load(run_model *m, const char *path, bool exact);
void run_model_free(run_model *m);
struct amp_onnx_graph;
/* With those of sub-graphs and functions. */
int64_t run_node_count(const struct amp_onnx_graph *g);
/* --check: what libamp lacks. */
int run_check(const run_options *o);

/* --packs (run_packs.c): maps the file, which is a part of loading; before that, in a command: writes it where there is
 * none. */
int run_use_packs(run_model *m, const run_options *o);
int run_make_packs(run_options *o);

/* ---- Inputs (run_inputs.c, run_shapes.c, run_random.c, run_pixels.c) --------------------------------------------- */
typedef enum run_source { RUN_RANDOM, RUN_NPY, RUN_IMAGE } run_source;

typedef struct run_image {
    int64_t height, width;
    bool grey;
    unsigned char *pixels; /* (height, width, 3) */
} run_image;

typedef struct run_input {
    const amp_graph_value *wanted;
    const char *file, *shape_text;
    run_source source;
    run_image image;
    run_layout layout;           /* of an image */
    int rank;                    /* AMP_GRAPH_OPEN until it is known */
    int64_t shape[AMP_MAX_RANK]; /* … */
    bool assumed[AMP_MAX_RANK];  /* 1, as nothing says what it is */
    int64_t high;                /* random integers are below it */
    amp_tensor *tensor;
} run_input;

typedef struct run_inputs {
    int count;
    run_input *items;
    amp_tensor **tensors;
} run_inputs;

/* Reads and makes the model's inputs, on the device. To be freed by run_inputs_free also where it fails. */
int run_inputs_make(run_inputs *in, const run_model *m, const run_options *o);
void run_inputs_free(run_inputs *in);
/* The extents of an input that a file or --shape (dtype: AMP_DTYPE_NONE) gives. Where they do not fit: "…, but `what`
 * [2]". */
int run_shape_give(run_input *input, int rank, const int64_t *shape, amp_dtype dtype, const char *what);
/* --shape of an input. */
int run_shape_parse(run_input *input);
/* "1x3xHEIGHTx?", what is open by its name; `assumed` extents too. The caller frees it. */
char *run_shape_pattern(const run_input *input, bool assumed);
/* "[batch=1, 3, 224, 224]". The caller frees it. */
char *run_input_text(const run_input *input);
/* Fills in what is still open: extents of the same name, 1 for the first. */
int run_shapes_find(run_inputs *in);
/* The input's tensor on the CPU. */
int run_random_make(run_input *input);
int run_pixels_make(run_input *input, const run_options *o);
/* The shape that an image gives its input. */
int run_pixels_shape(run_input *input, const run_options *o);
/* A PNG or JPEG file (run_image.c). */
int run_image_read(run_image *image, const char *path);

/* ---- Running (run_measure.c, run_cold.c) ------------------------------------------------------------------------- */
typedef struct run_times {
    double load, prepare, first, peak_bytes; /* the least of processes that did just that; 0: not measured */
    int processes;
    double *ms; /* of the runs, sorted once they are over */
    int count;
} run_times;

typedef struct run_replicas run_replicas;

typedef struct run_results {
    amp_tensor **outputs[RUN_KINDS]; /* NULL: not asked for */
    run_times times[RUN_KINDS];
    /* Once there are outputs, before the turns; NULL: nothing. Returns an exit code. */
    int (*before_turns)(const struct run_results *results, const run_model *m, void *context);
    void *context;
} run_results;

/* Instruction sets, threads, device: as the options say. Once a process, before any op. */
int run_set_up(const run_options *o);
/* The rules of runs in bf16 from now on; NULL: none. run_set_up takes those of --policy. */
struct amp_autocast_rules;
void run_use_rules(const struct amp_autocast_rules *rules);
/* A node of the rules in force that no run has come by; NULL: none. */
const char *run_unmet_rule(void);
/* All that the first run does beside computing. */
amp_status run_prepare(const run_model *m, const run_inputs *in, run_kind kind, amp_device device);
/* One run; outputs are the caller's. */
amp_status run_once(const run_model *m, const run_inputs *in, run_kind kind, amp_device device, amp_tensor **outputs);
/* One run, whose outputs nobody wants; `room` has a place for each. */
int run_timed(const run_model *m, const run_inputs *in, run_kind kind, amp_device device, amp_tensor **room,
              double *ms);
bool run_times_add(run_times *t, double ms); /* false: no memory */
void run_times_sort(run_times *t);
/* Loads the model, prepares it and runs it once, in processes that do just that. */
int run_cold(const run_options *o, run_times times[RUN_KINDS]);
/* Runs it in what is wanted, in turns. To be freed by run_results_free also where it fails. */
int run_measure(run_results *r, const run_model *m, const run_inputs *in, const run_options *o);
void run_results_free(run_results *r, const run_model *m);
double run_quantile(const run_times *t, double part);
/* What a run computes, and how many. */
typedef struct run_unit {
    const char *name; /* "images" of N x C x H x W numbers, "tokens" of N x T whole numbers, else "items" */
    int64_t count;    /* of items the first extent of the first input that has one; 0: none has */
} run_unit;

run_unit run_items(const run_inputs *in);

/* ---- What comes out (run_compare.c, run_save.c, run_print.c, run_figures.c, run_outputs.c, run_json.c) ----------- */
typedef struct run_comparison {
    bool same_shape;
    int64_t elements, different;
    double cosine, largest, magnitude; /* largest error, and largest number of f32 */
} run_comparison;

/* bf16's output against f32's. */
int run_compare(run_comparison *c, const amp_tensor *f32, const amp_tensor *bf16);
/* The first numbers of a tensor as doubles; returns how many, -1 with an error. */
int run_first_values(const amp_tensor *t, double *values, int room);

typedef struct run_report {
    const run_options *options;
    const run_model *model;
    const run_inputs *inputs;
    const run_results *results;
    run_comparison *comparisons; /* by output; NULL: only one of the two ran */
    char **files[RUN_KINDS];     /* by output; NULL: nothing was written */
    const run_replicas *replicas;
} run_report;

/* --output: makes the folder. */
int run_save_begin(const run_options *o);
/* Writes what was computed, and fills in `files`. */
int run_save(run_report *r);
int run_print_model(const run_report *r);
int run_print_figures(const run_report *r);
/* Digits behind the point that show four, if six will do. */
int run_digits_of(double value);
int run_print_outputs(const run_report *r);
int run_print_json(const run_report *r);
struct json_t;
/* Prints it, indented, and takes it over; NULL: there was no memory for it. */
int run_print_root(struct json_t *root);
/* What a run's report has that others have too: {"model": …, "seed": …, "inputs": …}; NULL: no memory. */
struct json_t *run_json_begin(const run_report *r);
/* {"mode": …, "nodes": how many there are, "used": [{"node": 0, "cpus": [0, 1]}]}: --numa, and what came of it. */
struct json_t *run_json_nodes(const run_nodes *nodes);
/* Of the times of one kind, which are at least one. */
struct json_t *run_json_times(const run_times *t, const run_inputs *in);

#endif /* AMP_TOOL_RUN_H */
