/* amp_graph_trace: a function of the program as a graph. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/tensor_impl.h"
#include "graph/graph.h"

enum { MOST_VALUES = 4096, NAME_BYTES = 8 };

/* What the graph's texts and values lie in; released with it. */
typedef struct traced {
    amp_graph_function function;
    void *context;
    amp_graph_value *values; /* inputs, then outputs; behind them their names, and the graph's */
} traced;

static amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    const traced *t = context;
    const amp_status status = t->function(t->context, inputs, outputs);
    return status != AMP_OK ? status : amp_pending_error();
}

static void release(void *context) {
    traced *t = context;
    amp_free(t->values);
    amp_free(t);
}

/* "0", "1", … of any shape and dtype. */
static const char *describe(traced *t, const char *name, int inputs, int outputs) {
    const int count = inputs + outputs;
    char *names = (char *)(t->values + count), *own = names + (size_t)count * NAME_BYTES;
    for (int i = 0; i < count; i++) {
        char *text = names + (size_t)i * NAME_BYTES;
        snprintf(text, NAME_BYTES, "%d", i < inputs ? i : i - inputs);
        t->values[i] = (amp_graph_value){.name = text, .rank = AMP_GRAPH_OPEN};
    }
    return strcpy(own, name);
}

amp_graph *amp_graph_trace(const char *name, amp_graph_function function, void *context, int inputs, int outputs,
                           const amp_graph_options *given) {
    amp_graph_options options = {0};
    if (amp_failed() || amp_graph_read_options("graph_trace", &options, given) != AMP_OK) return NULL;
    if (!name || !function || inputs < 0 || outputs < 1 || inputs > MOST_VALUES || outputs > MOST_VALUES) {
        (void)amp_fail(AMP_ERROR_INVALID, "graph_trace: %s",
                       !name       ? "the name is NULL"
                       : !function ? "the function is NULL"
                                   : "a function has 0 to 4096 inputs and 1 to 4096 outputs");
        return NULL;
    }
    const size_t each = sizeof(amp_graph_value) + NAME_BYTES,
                 bytes = (size_t)(inputs + outputs) * each + strlen(name) + 1;
    traced *t = amp_alloc(sizeof *t);
    if (t) *t = (traced){function, context, amp_alloc(bytes)};
    if (!t || !t->values) {
        amp_free(t);
        (void)amp_fail(AMP_ERROR_MEMORY, "graph_trace: no memory for a graph");
        return NULL;
    }
    const amp_graph_source source = {.name = describe(t, name, inputs, outputs),
                                     .input_count = inputs,
                                     .output_count = outputs,
                                     .inputs = t->values,
                                     .outputs = t->values + inputs,
                                     .compute = compute,
                                     .is_programs = true,
                                     .exact = options.exact,
                                     .release = release,
                                     .context = t};
    amp_graph *g = amp_graph_new(&source);
    if (!g) release(t);
    return g;
}
