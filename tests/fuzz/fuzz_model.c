/* libFuzzer target: any bytes as an ONNX model that is loaded and run, on inputs of the types and shapes that it
 * declares. A sentence says what cannot be done; else an exact graph gives the bits of its nodes one by one, and
 * another one the same bits in every run. Nothing takes more memory than it is given, and nothing is left. The corpus
 * is one model of each op from ONNX's node tests (Apache-2.0), and what was found. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amp/amp.h"
#include "onnx/run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_VALUES = 8, MOST_ELEMENTS = 1 << 12, MOST_BYTES = 1 << 24, MOST_ROUNDS = 20 };

static void check(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "%s; the last error: %s\n", what, amp_last_error());
    abort();
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void *allocate(void *context, size_t bytes, size_t alignment) {
    (void)context;
    return bytes > MOST_BYTES ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give_back(void *context, void *block, size_t bytes) {
    (void)context;
    (void)bytes;
    free(block);
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

static void fill(amp_tensor *t, unsigned *random) {
    const size_t bytes = (size_t)amp_tensor_numel(t) * amp_dtype_size(amp_tensor_dtype(t));
    amp_tensor *wide = amp_empty(AMP_DIMS(amp_tensor_numel(t)), .dtype = AMP_F32);
    float *values = amp_data_mut(wide);
    const bool fractions = amp_dtype_is_floating(amp_tensor_dtype(t));
    for (int64_t i = 0; values && i < amp_tensor_numel(t); i++) {
        *random = *random * 1664525u + 1013904223u;
        values[i] = fractions ? (float)(*random >> 20) / 1024 - 2 : (float)(*random >> 30);
    }
    amp_tensor *narrow = amp_to(wide, amp_tensor_dtype(t));
    if (narrow && bytes > 0) memcpy(amp_data_mut(t), amp_data(narrow), bytes);
}

/* Extents that are open are 1 to 4, by name and place. */
static amp_tensor *made_up(const amp_graph_value *v, unsigned *random) {
    amp_dims shape = {.count = v->rank < 0 ? 2 : v->rank, .set = AMP_PRESENT};
    int64_t elements = 1;
    for (int d = 0; d < shape.count; d++) {
        const unsigned open = 1 + (v->extent_names[d] ? (unsigned)strlen(v->extent_names[d]) : (unsigned)d) % 4;
        shape.values[d] = v->rank < 0 || v->shape[d] < 0 ? (int64_t)open : v->shape[d];
        if (shape.values[d] > MOST_ELEMENTS || (elements *= shape.values[d]) > MOST_ELEMENTS) return NULL;
    }
    amp_tensor *t = amp_empty(shape, .dtype = v->dtype == AMP_DTYPE_NONE ? AMP_F32 : v->dtype);
    if (t) fill(t, random);
    return t;
}

static bool make_inputs(const amp_graph *g, amp_tensor **inputs) {
    unsigned random = 20261123;
    for (int i = 0; i < amp_graph_input_count(g); i++) {
        amp_graph_value v;
        check(amp_graph_get_input(g, i, &v, sizeof v) == AMP_OK, "an input cannot be described");
        inputs[i] = made_up(&v, &random);
        if (!inputs[i]) return false;
    }
    return true;
}

/* ---- What must hold ---------------------------------------------------------------------------------------------- */

typedef struct results {
    amp_status status;
    int count;
    amp_tensor *of[MOST_VALUES];
} results;

static results of_graph(amp_graph *g, amp_tensor *const *inputs) {
    results r = {.count = amp_graph_output_count(g)};
    r.status = amp_graph_run(g, inputs, amp_graph_input_count(g), r.of, r.count);
    check(r.status == AMP_OK || strlen(amp_last_error()) > 20, "no sentence");
    amp_clear_error();
    return r;
}

static results of_nodes(const amp_onnx_model *model, amp_tensor *const *inputs) {
    const amp_onnx_limits limits = {.most_rounds = MOST_ROUNDS};
    results r = {.count = model->graph->output_count};
    r.status = amp_onnx_run_model(model, &limits, inputs, r.of);
    amp_clear_error();
    return r;
}

/* A graph hands out the floating type that the model declares. */
static bool equal(amp_tensor *a, amp_tensor *b) {
    a = amp_contiguous(a);
    b = amp_contiguous(amp_dtype_is_floating(amp_tensor_dtype(b)) ? amp_to(b, amp_tensor_dtype(a)) : b);
    if (a && b && amp_tensor_dtype(a) != amp_tensor_dtype(b)) return false;
    if (a && b && amp_tensor_numel(a) != amp_tensor_numel(b)) return false;
    const size_t bytes = a ? (size_t)amp_tensor_numel(a) * amp_dtype_size(amp_tensor_dtype(a)) : 0;
    return !a || !b || memcmp(amp_data(a), amp_data(b), bytes) == 0;
}

static void same(const results *a, const results *b, const char *what) {
    check(a->status == b->status || a->status == AMP_ERROR_MEMORY || b->status == AMP_ERROR_MEMORY, what);
    for (int i = 0; a->status == AMP_OK && b->status == AMP_OK && i < a->count; i++)
        check(equal(a->of[i], b->of[i]), what);
}

static void run(const amp_onnx_model *model, amp_graph *exact, amp_graph *fused) {
    amp_tensor *inputs[MOST_VALUES];
    if (!make_inputs(exact, inputs)) return;
    const results nodes = of_nodes(model, inputs), again = of_nodes(model, inputs);
    for (int i = 0; nodes.status == AMP_OK && again.status == AMP_OK && i < nodes.count; i++) {
        if (!equal(nodes.of[i], again.of[i])) return; /* random numbers */
    }
    for (int k = 0; k < 2; k++) {
        const results by_net = of_graph(exact, inputs);
        same(&by_net, &nodes, "an exact graph and its nodes one by one");
    }
    const results first = of_graph(fused, inputs), later = of_graph(fused, inputs);
    same(&first, &later, "the first run and a later one");
}

static amp_graph *load(const char *path, bool exact) {
    return amp_graph_load(
        path,
        &(amp_graph_options){.struct_size = sizeof(amp_graph_options), .exact = exact, .most_rounds = MOST_ROUNDS});
}

static void load_and_run(const char *path) {
    amp_graph *exact = load(path, true);
    check(exact || strlen(amp_last_error()) > 20, "no sentence");
    if (!exact && getenv("AMP_TEST_TELL")) fprintf(stderr, "%s\n", amp_last_error());
    amp_clear_error();
    if (!exact) return;
    amp_graph *fused = load(path, false);
    amp_onnx_model *model = amp_onnx_read(path, NULL);
    if (fused && model && amp_onnx_resolve(model, NULL, NULL) == AMP_OK &&
        amp_graph_input_count(exact) <= MOST_VALUES && amp_graph_output_count(exact) <= MOST_VALUES) {
        amp_scope
            run(model, exact, fused);
    }
    amp_onnx_free(model);
    amp_graph_release(exact);
    amp_graph_release(fused);
    amp_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool limited;
    const amp_allocator small = {.allocate = allocate, .release = give_back};
    if (!limited) limited = amp_set_allocator(&small) == AMP_OK;
    (void)amp_set_num_threads(1);
    const int file = memfd_create("model", 0);
    char path[64];
    if (file < 0 || write(file, data, size) != (ssize_t)size) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    load_and_run(path);
    close(file);
    check(amp_memory_statistics().live_tensors == 0, "something is left");
    return 0;
}
