/* amp run, bench, explain: the options of a model. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

const char run_help[] = "usage: amp run [OPTION…] MODEL.onnx\n\n"
                        "Runs a model in f32 and in bf16, in turns, and prints how long that took, the\n"
                        "memory that it took, and how near the two are. Inputs that no file is given for\n"
                        "are made up, and the report says which.\n\n"
                        "  --input NAME=FILE    an input: .npy, or a PNG or JPEG image, brought to the\n"
                        "                       size that the model wants; NAME= may be left out where\n"
                        "                       the model has one input\n"
                        "  --shape NAME=1x3x640x640\n"
                        "                       the extents of an input that is made up, or of an image\n"
                        "  --seed N             of what is made up (0): normal numbers; integers below\n"
                        "                       the extent of the table that they pick from, else 0, 1\n"
                        "  --output DIR         writes each output as DIR/NAME.npy; where both run, that\n"
                        "                       of bf16 as DIR/NAME.bf16.npy. bf16 becomes f32\n"
                        "  --f32, --bf16        only this one\n"
                        "  --policy FILE        rules for single ops and nodes, in bf16: a policy file, as\n"
                        "                       amp audit writes them\n"
                        "  --packs FILE         the weights as kernels read them, mapped instead of packed\n"
                        "                       anew; written first where there is no such file\n"
                        "  --exact              op by op: nothing is fused or laid out anew\n"
                        "  --seconds S          how long to run in all (3); at least three times each\n"
                        "  --runs N             at most N times each; 0: only the outputs, without times\n"
                        "  --cpu-time           times are CPU time of the process, on a machine that is busy\n"
                        "  --threads N          that an op may use\n"
                        "  --numa local|replicate\n"
                        "                       local: on the CPUs and in the memory of one NUMA node;\n"
                        "                       replicate: on each node a process with weights of its\n"
                        "                       own, all at once\n"
                        "  --device cpu|cuda    where it runs (cpu)\n"
                        "  --isa NAME           highest instruction set: ref, avx2, avx512, avx512bf16,\n"
                        "                       amx\n"
                        "  --mean A,B,C         an image becomes (value / 255 - mean) / scale; one number\n"
                        "  --scale A,B,C        is for all channels. Without them 0 and 1\n"
                        "  --layout nchw|nhwc   the order in which the model wants an image's extents;\n"
                        "                       without it as its shape says\n"
                        "  --check              runs nothing: lists every node that libamp cannot run\n"
                        "  --json               the report for programs\n"
                        "  --help               this text\n\n"
                        "Load, prepare (weights are packed, kernels tested, memory taken), first run and\n"
                        "memory are the least of up to three processes that do just that, for each.\n"
                        "Transparent parts of an image are white.\n";

/* ---- Values ------------------------------------------------------------------------------------------------------ */
static bool read_integer(const char *text, int64_t least, int64_t most, int64_t *value) {
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    *value = number;
    return errno == 0 && end != text && *end == 0 && number >= least && number <= most;
}

static bool read_number(const char *text, char **end, double *value) {
    *value = strtod(text, end);
    return *end != text && isfinite(*value);
}

static bool read_numbers(const char *text, run_numbers *numbers) {
    char *end = (char *)text;
    for (numbers->count = 0; numbers->count < RUN_CHANNELS; text = end + 1) {
        if (!read_number(text, &end, &numbers->values[numbers->count++])) return false;
        if (*end == 0) return numbers->count == 1 || numbers->count == RUN_CHANNELS;
        if (*end != ',') return false;
    }
    return false;
}

static int index_of(const char *word, const char *const *words) {
    int i = 0;
    while (words[i] && strcmp(word, words[i]) != 0) i++;
    return words[i] ? i : -1;
}

static const char *const devices[] = {"cpu", "cuda", NULL};
static const char *const numas[] = {"", "local", "replicate", NULL};
static const char *const layouts[] = {"", "nchw", "nhwc", NULL};

/* ---- One function for each kind of option: false where `value` is none ------------------------------------------- */
static bool take_text(void *to, const char *value) {
    *(const char **)to = value;
    return *value != 0;
}

static bool take_flag(void *to, const char *value) {
    (void)value;
    *(bool *)to = true;
    return true;
}

static bool take_item(void *to, const char *value) {
    run_list *list = to; /* has room for every word of the command line */
    list->items[list->count++] = value;
    return *value != 0;
}

static bool take_runs(void *to, const char *value) {
    return read_integer(value, 0, 1000000, to);
}

static bool take_some_runs(void *to, const char *value) {
    return read_integer(value, 1, 1000000, to);
}

static bool take_threads(void *to, const char *value) {
    return read_integer(value, 1, 4096, to);
}

static bool take_seed(void *to, const char *value) {
    return read_integer(value, 0, INT64_MAX, to);
}

static bool take_seconds(void *to, const char *value) {
    char *end;
    return read_number(value, &end, to) && *end == 0 && *(double *)to >= 0 && *(double *)to <= 1e6;
}

static bool take_error(void *to, const char *value) {
    char *end;
    return read_number(value, &end, to) && *end == 0 && *(double *)to > 0;
}

static bool take_cosine(void *to, const char *value) {
    return take_error(to, value) && *(double *)to <= 1;
}

static bool take_sets(void *to, const char *value) {
    return read_integer(value, 1, 1000, to);
}

static bool take_mean(void *to, const char *value) {
    return read_numbers(value, to);
}

static bool take_scale(void *to, const char *value) {
    run_numbers *scale = to;
    bool good = read_numbers(value, scale);
    for (int i = 0; good && i < scale->count; i++) good = scale->values[i] != 0;
    return good;
}

static bool take_device(void *to, const char *value) {
    const int i = index_of(value, devices);
    if (i >= 0) *(amp_device *)to = (amp_device)i;
    return i >= 0;
}

static bool take_numa(void *to, const char *value) {
    const int i = index_of(value, numas);
    if (i > 0) *(run_numa *)to = (run_numa)i;
    return i > 0;
}

static bool take_layout(void *to, const char *value) {
    const int i = index_of(value, layouts);
    if (i > 0) *(run_layout *)to = (run_layout)i;
    return i > 0;
}

enum {
    RUN = RUN_COMMAND,
    BENCH = BENCH_COMMAND,
    EXPLAIN = EXPLAIN_COMMAND,
    AUDIT = AUDIT_COMMAND,
    TIMING = RUN | BENCH | EXPLAIN,
    ALL = TIMING | AUDIT
};

static const struct {
    const char *name;
    unsigned commands; /* that have it */
    size_t place;
    bool (*take)(void *to, const char *value);
    const char *wants; /* of a value; NULL: there is none */
} options[] = {
    {"--input", ALL, offsetof(run_options, inputs), take_item, "NAME=FILE"},
    {"--shape", ALL, offsetof(run_options, shapes), take_item, "NAME=1x3x640x640"},
    {"--seed", ALL, offsetof(run_options, seed), take_seed, "an integer from 0 on"},
    {"--output", RUN, offsetof(run_options, output), take_text, "a folder"},
    {"--output", EXPLAIN | AUDIT, offsetof(run_options, output), take_text, "a file"},
    {"-o", EXPLAIN | AUDIT, offsetof(run_options, output), take_text, "a file"},
    {"--exact", ALL, offsetof(run_options, exact), take_flag, NULL},
    {"--f32", TIMING, offsetof(run_options, wanted[RUN_F32]), take_flag, NULL},
    {"--bf16", TIMING, offsetof(run_options, wanted[RUN_BF16]), take_flag, NULL},
    {"--policy", RUN, offsetof(run_options, policy), take_text, "a policy file"},
    {"--packs", RUN, offsetof(run_options, packs), take_text, "a file"},
    {"--cosine", AUDIT, offsetof(run_options, cosine), take_cosine, "a number above 0, up to 1"},
    {"--error", AUDIT, offsetof(run_options, error), take_error, "a number above 0"},
    {"--html", AUDIT, offsetof(run_options, page), take_text, "a file"},
    {"--sets", AUDIT, offsetof(run_options, sets), take_sets, "an integer from 1 to 1000"},
    {"--seconds", ALL, offsetof(run_options, seconds), take_seconds, "a number from 0 to 1000000"},
    {"--runs", RUN, offsetof(run_options, runs), take_runs, "an integer from 0 to 1000000"},
    {"--runs", BENCH | EXPLAIN, offsetof(run_options, runs), take_some_runs, "an integer from 1 to 1000000"},
    {"--cpu-time", RUN, offsetof(run_options, cpu_time), take_flag, NULL},
    {"--threads", ALL, offsetof(run_options, threads), take_threads, "an integer from 1 to 4096"},
    {"--numa", RUN | BENCH, offsetof(run_options, numa), take_numa, "local or replicate"},
    {"--device", RUN, offsetof(run_options, device), take_device, "cpu or cuda"},
    {"--isa", RUN | EXPLAIN | AUDIT, offsetof(run_options, isa), take_text, "the name of an instruction set"},
    {"--isa", BENCH, offsetof(run_options, isa), take_text, "names of instruction sets with commas between"},
    {"--mean", ALL, offsetof(run_options, mean), take_mean, "a number, or three with commas between"},
    {"--scale", ALL, offsetof(run_options, scale), take_scale, "a number other than 0, or three with commas between"},
    {"--layout", ALL, offsetof(run_options, layout), take_layout, "nchw or nhwc"},
    {"--check", RUN, offsetof(run_options, check), take_flag, NULL},
    {"--json", RUN | BENCH | AUDIT, offsetof(run_options, json), take_flag, NULL},
    {"--help", ALL, offsetof(run_options, help), take_flag, NULL},
};

enum { OPTION_COUNT = sizeof options / sizeof *options };

/* ---- The command line -------------------------------------------------------------------------------------------- */
static int take_option(run_options *o, run_command command, char **argv, int *i) {
    int k = 0;
    while (k < OPTION_COUNT && !(options[k].commands & command && strcmp(argv[*i], options[k].name) == 0)) k++;
    if (k == OPTION_COUNT) return run_usage("there is no option '%s'", argv[*i]);
    const char *value = options[k].wants ? argv[++*i] : "";
    if (!value) return run_usage("'%s' needs a value: %s", options[k].name, options[k].wants);
    if (options[k].take((char *)o + options[k].place, value)) return AMP_EXIT_OK;
    return run_usage("'%s' takes %s, not '%s'", options[k].name, options[k].wants, value);
}

static bool has_images_only_options(const run_options *o) {
    return o->mean.count > 0 || o->scale.count > 0 || o->layout != RUN_BY_SHAPE;
}

static int judge(run_options *o) {
    if (!o->model) return run_usage("a model is missing");
    if (has_images_only_options(o) && o->inputs.count == 0)
        return run_usage("--mean, --scale and --layout are for image files, and no --input is one");
    if (o->policy && o->wanted[RUN_F32] && !o->wanted[RUN_BF16])
        return run_usage("--policy is for bf16, and --f32 leaves that out");
    if (o->packs && o->device != AMP_DEVICE_CPU) return run_usage("--packs is for the CPU");
    if (o->numa && o->device != AMP_DEVICE_CPU) return run_usage("--numa is for the CPU");
    if (!o->wanted[RUN_F32] && !o->wanted[RUN_BF16]) o->wanted[RUN_F32] = o->wanted[RUN_BF16] = true;
    return AMP_EXIT_OK;
}

int run_options_parse(int argc, char **argv, run_command command, run_options *o) {
    run_name(argv[0]);
    *o = (run_options){.runs = INT64_MAX, .seconds = command == BENCH_COMMAND ? 10 : command == AUDIT_COMMAND ? 60 : 3};
    o->inputs.items = calloc((size_t)argc, sizeof *o->inputs.items);
    o->shapes.items = calloc((size_t)argc, sizeof *o->shapes.items);
    if (!o->inputs.items || !o->shapes.items) return run_no_memory();
    for (int i = 1; i < argc; i++) {
        const bool is_option = argv[i][0] == '-' && argv[i][1];
        if (is_option) {
            const int code = take_option(o, command, argv, &i);
            if (code) return code;
        } else if (o->model) {
            return run_usage("one model at a time, not also '%s'", argv[i]);
        } else {
            o->model = argv[i];
        }
    }
    return o->help ? AMP_EXIT_OK : judge(o);
}

void run_options_free(run_options *o) {
    free(o->inputs.items);
    free(o->shapes.items);
}
