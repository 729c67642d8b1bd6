/* amp convert: a model, as libamp runs it on inputs of given extents, as a file of ONNX. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "amp/amp.h"
#include "run.h"

static const char help[] = "usage: amp convert [OPTION…] IN.onnx OUT.onnx\n\n"
                           "Writes a model with every rounding to bf16 that libamp makes under autocast: half\n"
                           "the size, and each engine that opens it computes what libamp does. The extents of\n"
                           "inputs become fixed, but for those that --dynamic names.\n\n"
                           "  --portable           ops compute in f32, and two Casts stand where libamp rounds:\n"
                           "                       opens everywhere. Without it tensors are bf16\n"
                           "  --f32                no autocast: nothing is rounded\n"
                           "  --external           weights in a file of their own, OUT.onnx.data\n"
                           "  --shape NAME=1x3x640x640\n"
                           "                       the extents of an input that the model leaves open\n"
                           "  --dynamic NAME:0=batch,NAME:1=length\n"
                           "                       extents of inputs, by dimension, that stay free, and what they\n"
                           "                       are called; --dynamic '*': those that the model has names for,\n"
                           "                       as far as they can be free\n"
                           "  --input NAME=FILE    an input from a file, where its elements decide what the\n"
                           "                       model computes; that too becomes fixed\n"
                           "  --help               this text\n";

typedef struct convert_options {
    run_options run; /* inputs and shapes of the model */
    const char *out;
    const char *dynamic; /* NULL: all extents are fixed */
    bool portable, f32, external, help;
} convert_options;

static int take_flag(convert_options *o, const char *word) {
    const struct {
        const char *name;
        bool *to;
    } flags[] = {{"--portable", &o->portable}, {"--f32", &o->f32}, {"--external", &o->external}, {"--help", &o->help}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(word, flags[i].name) != 0) continue;
        *flags[i].to = true;
        return AMP_EXIT_OK;
    }
    return run_usage("there is no option '%s'", word);
}

static int take_value(convert_options *o, const char *word, const char *value) {
    run_list *list = strcmp(word, "--shape") == 0 ? &o->run.shapes : &o->run.inputs;
    if (!value || !*value)
        return run_usage("'%s' needs a value: %s", word, list == &o->run.shapes ? "NAME=1x3x640x640" : "NAME=FILE");
    list->items[list->count++] = value;
    return AMP_EXIT_OK;
}

static int take_dynamic(convert_options *o, const char *value) {
    if (!value || !*value) return run_usage("'--dynamic' needs a value: NAME:0=batch,NAME:1=length, or '*'");
    if (o->dynamic) return run_usage("--dynamic is given twice; its extents stand behind one another, with commas");
    o->dynamic = value;
    return AMP_EXIT_OK;
}

static int parse(int argc, char **argv, convert_options *o) {
    int code = AMP_EXIT_OK;
    o->run.inputs.items = calloc((size_t)argc, sizeof *o->run.inputs.items);
    o->run.shapes.items = calloc((size_t)argc, sizeof *o->run.shapes.items);
    if (!o->run.inputs.items || !o->run.shapes.items) return run_no_memory();
    for (int i = 1; !code && i < argc; i++) {
        if (strcmp(argv[i], "--shape") == 0 || strcmp(argv[i], "--input") == 0) {
            code = take_value(o, argv[i], argv[i + 1]);
            i++;
        } else if (strcmp(argv[i], "--dynamic") == 0) {
            code = take_dynamic(o, argv[i + 1]);
            i++;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            code = take_flag(o, argv[i]);
        } else if (!o->run.model) {
            o->run.model = argv[i];
        } else if (!o->out) {
            o->out = argv[i];
        } else {
            code = run_usage("one model at a time, not also '%s'", argv[i]);
        }
    }
    if (code || o->help) return code;
    if (!o->run.model) return run_usage("a model is missing");
    return o->out ? AMP_EXIT_OK : run_usage("the name of the file to be written is missing");
}

enum { MOST_BITS = 63 };

/* ---- What was done ----------------------------------------------------------------------------------------------- */
/* "[batch, 3]"; extents of what was written, which the file knows best. */
static char *written_shape(const convert_options *o, const amp_graph *written, const run_input *input, int number) {
    amp_graph_value v;
    if (!o->dynamic || amp_graph_get_input(written, number, &v, sizeof v) != AMP_OK)
        return run_shape_text(input->rank, input->shape);
    return run_declared_text(&v);
}

static int print_input(const convert_options *o, const amp_graph *written, const run_inputs *in, int i,
                       uint64_t fixed) {
    char *shape = written_shape(o, written, &in->items[i], i), *name = strdup(in->items[i].wanted->name);
    if (!shape) {
        free(name);
        return run_no_memory();
    }
    if (name) run_clean(name);
    printf("%s %s %s%s", i ? "," : "", name ? name : "", shape,
           fixed >> (i < MOST_BITS ? i : MOST_BITS) & 1 ? " and its elements" : "");
    free(name);
    free(shape);
    return AMP_EXIT_OK;
}

static int print_line(const convert_options *o, const run_inputs *in, uint64_t fixed) {
    struct stat s = {0}, data = {0};
    char beside[4096];
    int code = AMP_EXIT_OK;
    snprintf(beside, sizeof beside, "%s.data", o->out);
    (void)stat(o->out, &s);
    if (o->external) (void)stat(beside, &data);
    amp_graph *written = o->dynamic ? amp_graph_load(o->out, NULL) : NULL;
    if (o->dynamic && !written) return run_fail_amp();
    printf("%s: %.1f MB, %s%s; extents are%s:", o->out, (double)(s.st_size + data.st_size) / 1e6,
           o->f32 ? "f32" : "bf16", o->portable ? ", portable" : "", o->dynamic ? "" : " fixed");
    for (int i = 0; !code && i < in->count; i++) code = print_input(o, written, in, i, fixed);
    printf("%s\n", in->count ? "" : " there are no inputs");
    amp_graph_release(written);
    return code;
}

static int save(const convert_options *o, const run_model *m, const run_inputs *in, uint64_t *fixed) {
    const amp_graph_save_options options = {.struct_size = sizeof options,
                                            .fixed_inputs = fixed,
                                            .form = o->portable ? AMP_GRAPH_PORTABLE : AMP_GRAPH_TYPED,
                                            .external_data = o->external,
                                            .dynamic = o->dynamic};
    amp_status status = AMP_OK;
    amp_scope {
        if (o->f32) {
            status = amp_graph_save(m->graph, o->out, in->tensors, in->count, &options);
        } else {
            amp_autocast(AMP_DEVICE_CPU) {
                status = amp_graph_save(m->graph, o->out, in->tensors, in->count, &options);
            }
        }
    }
    if (status == AMP_OK) return AMP_EXIT_OK;
    (void)run_fail_amp();
    return AMP_EXIT_USAGE;
}

static int convert(const convert_options *o) {
    run_model m = {0};
    run_inputs in = {0};
    uint64_t fixed = 0;
    int code = run_model_load(&m, o->run.model, true);
    if (!code) code = run_inputs_make(&in, &m, &o->run);
    if (!code) code = save(o, &m, &in, &fixed);
    if (!code) code = print_line(o, &in, fixed);
    run_inputs_free(&in);
    run_model_free(&m);
    return code;
}

int amp_command_convert(int argc, char **argv) {
    convert_options o = {.out = NULL};
    run_name("convert");
    int code = parse(argc, argv, &o);
    if (!code && o.help) {
        fputs(help, stdout);
    } else if (!code && o.out) {
        code = convert(&o);
    }
    run_options_free(&o.run);
    return code;
}
