/* amp run: its inputs, from files or made up. */
#define _GNU_SOURCE /* asprintf */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "amp/amp.h"
#include "replay_device.h"
#include "run.h"

/* ---- NAME=VALUE -------------------------------------------------------------------------------------------------- */
/* ", 'x' f32 [batch, 3]" for each */
static char *list_inputs(const run_inputs *in) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    for (int i = 0; i < in->count; i++) {
        const amp_graph_value *wanted = in->items[i].wanted;
        char *declared = run_declared_text(wanted);
        fprintf(out, "%s '%s' %s %s", i ? "," : "", wanted->name, amp_dtype_name(wanted->dtype),
                declared ? declared : "");
        free(declared);
    }
    return fclose(out) == 0 ? text : NULL;
}

static int complain_unknown(const run_inputs *in, const char *option, const char *word) {
    const char *equals = strchr(word, '=');
    const int length = equals ? (int)(equals - word) : (int)strlen(word);
    char *list = list_inputs(in);
    int code;
    if (!list) {
        code = run_no_memory();
    } else if (!equals && in->count > 1) {
        code = run_usage("'%s %s' does not say of which input; the model's are%s", option, word, list);
    } else {
        code = run_fail(AMP_EXIT_USAGE, "the model has no input '%.*s'; %s%s", length, word,
                        in->count == 0   ? "it has none"
                        : in->count == 1 ? "it has"
                                         : "its inputs are",
                        list);
    }
    free(list);
    return code;
}

/* The input whose name stands before an equals sign, the longest where several do (names may have such signs too), or
 * the only one. What stands behind the sign goes to *value. */
static run_input *find_input(const run_inputs *in, const char *word, const char **value) {
    run_input *found = NULL;
    size_t longest = 0;
    for (int i = 0; i < in->count; i++) {
        const char *name = in->items[i].wanted->name;
        const size_t length = strlen(name);
        if (strncmp(word, name, length) != 0 || word[length] != '=' || (found && length < longest)) continue;
        found = &in->items[i];
        longest = length;
        *value = word + length + 1;
    }
    if (found || in->count != 1 || strchr(word, '=')) return found;
    *value = word;
    return &in->items[0];
}

static int take_words(run_inputs *in, const run_list *words, const char *option, bool files) {
    for (int i = 0; i < words->count; i++) {
        const char *value = NULL;
        run_input *input = find_input(in, words->items[i], &value);
        if (!input) return complain_unknown(in, option, words->items[i]);
        const char **to = files ? &input->file : &input->shape_text;
        if (*to) return run_usage("%s is given twice for input '%s'", option, input->wanted->name);
        *to = value;
    }
    return AMP_EXIT_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */
static int find_source(run_input *input) {
    static const struct {
        const char *magic;
        run_source source;
    } kinds[] = {{"\x93NUMPY", RUN_NPY}, {"\x89PNG\r\n", RUN_IMAGE}, {"\xff\xd8\xff", RUN_IMAGE}};
    char head[8] = {0};
    struct stat s;
    if (stat(input->file, &s) == 0 && !S_ISREG(s.st_mode))
        return run_fail(AMP_EXIT_USAGE, "'%s' is no file of the ordinary kind", input->file);
    FILE *file = fopen(input->file, "rb");
    if (!file) return run_fail(AMP_EXIT_USAGE, "cannot read '%s': %s", input->file, strerror(errno));
    const size_t bytes = fread(head, 1, sizeof head, file);
    fclose(file);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        input->source = kinds[i].source;
        if (bytes == sizeof head && memcmp(head, kinds[i].magic, strlen(kinds[i].magic)) == 0) return AMP_EXIT_OK;
    }
    return run_fail(AMP_EXIT_USAGE, "'%s' is no .npy file, and no PNG or JPEG image", input->file);
}

static int load_npy(run_input *input) {
    char *what = NULL;
    if (input->shape_text)
        return run_usage("input '%s' has a file, which has a shape: take --shape away", input->wanted->name);
    input->tensor = amp_load_npy(input->file);
    if (!input->tensor) return run_fail_amp();
    if (asprintf(&what, "'%s' holds", input->file) < 0) return run_no_memory();
    const int code = run_shape_give(input, amp_tensor_rank(input->tensor), amp_tensor_shape(input->tensor),
                                    amp_tensor_dtype(input->tensor), what);
    free(what);
    return code;
}

static int take_file(run_input *input, const run_options *o) {
    int code = find_source(input);
    if (!code && input->source == RUN_NPY) return load_npy(input);
    if (!code) code = run_image_read(&input->image, input->file);
    if (!code && input->shape_text) code = run_shape_parse(input);
    return code ? code : run_pixels_shape(input, o);
}

/* ---- All --------------------------------------------------------------------------------------------------------- */
static int take_given(run_inputs *in, const run_options *o) {
    bool images = false;
    int code = take_words(in, &o->inputs, "--input", true);
    if (!code) code = take_words(in, &o->shapes, "--shape", false);
    for (int i = 0; !code && i < in->count; i++) {
        run_input *input = &in->items[i];
        if (input->file) {
            code = take_file(input, o);
        } else if (input->shape_text) {
            code = run_shape_parse(input);
        }
        images = images || input->source == RUN_IMAGE;
    }
    if (!code && !images && (o->mean.count || o->scale.count || o->layout != RUN_BY_SHAPE))
        return run_usage("--mean, --scale and --layout are for image files, and no --input is one");
    return code;
}

/* In the type that the model wants, on the device. */
static int bring(run_input *input, const run_options *o) {
    const amp_dtype dtype = input->wanted->dtype;
    if (dtype == AMP_BF16 && input->source == RUN_NPY) {
        amp_tensor *as_read = input->tensor;
        input->tensor = amp_to(as_read, AMP_BF16);
        amp_release(as_read);
    }
    if (input->tensor && o->device != AMP_DEVICE_CPU) {
        amp_tensor *host = input->tensor;
        input->tensor = replay_move(host, o->device);
        if (input->tensor != host) amp_release(host);
    }
    return input->tensor ? AMP_EXIT_OK : run_fail_amp();
}

static int make(run_input *input, const run_options *o) {
    int code = AMP_EXIT_OK;
    if (input->source == RUN_IMAGE) code = run_pixels_make(input, o);
    if (input->source == RUN_RANDOM) code = run_random_make(input);
    return code ? code : bring(input, o);
}

static bool make_room(run_inputs *in, const run_model *m) {
    const size_t count = (size_t)m->input_count + 1; /* none is not NULL */
    *in = (run_inputs){.items = calloc(count, sizeof *in->items), .tensors = calloc(count, sizeof(amp_tensor *))};
    if (!in->items || !in->tensors) return false;
    in->count = m->input_count;
    for (int i = 0; i < in->count; i++) {
        run_input *input = &in->items[i];
        input->wanted = &m->inputs[i];
        input->rank = input->wanted->rank;
        memcpy(input->shape, input->wanted->shape, sizeof input->shape);
        input->high = m->extents[i] > 0 ? m->extents[i] : 2;
    }
    return true;
}

int run_inputs_make(run_inputs *in, const run_model *m, const run_options *o) {
    if (!make_room(in, m)) return run_no_memory();
    int code = take_given(in, o);
    if (!code) code = run_shapes_find(in);
    amp_manual_seed((uint64_t)o->seed);
    for (int i = 0; !code && i < in->count; i++) {
        code = make(&in->items[i], o);
        in->tensors[i] = in->items[i].tensor;
    }
    return code;
}

void run_inputs_free(run_inputs *in) {
    for (int i = 0; i < in->count; i++) {
        free(in->items[i].image.pixels);
        amp_release(in->items[i].tensor);
    }
    free(in->items);
    free(in->tensors);
    *in = (run_inputs){0};
}
