/* amp_graph_save. */
#include <string.h>

#include "core/memory.h"
#include "core/struct_size.h"
#include "core/thread.h"
#include "onnx/write/extent_terms.h"
#include "onnx/write/writer.h"

static amp_status write_model(amp_writer *w, const char *path, const amp_graph_save_options *options) {
    amp_writer other = {0};
    if (options->form != AMP_GRAPH_PORTABLE) {
        AMP_TRY(amp_writer_finish(w));
        return amp_write_file(w, path, options->external_data);
    }
    AMP_TRY(amp_writer_join(w));
    amp_status status = amp_write_portable(w, &other);
    if (status == AMP_OK) status = amp_writer_finish(&other);
    if (status == AMP_OK) status = amp_write_file(&other, path, options->external_data);
    amp_writer_end(&other);
    return status;
}

/* What the writer computes of weights is not the program's: no region, and no report, sees it. */
static amp_status write_record(const amp_graph_source *source, const amp_record *record, const char *path,
                               const amp_graph_save_options *options) {
    amp_writer w = {.source = source};
    amp_scope_frame frame;
    const unsigned layers = amp_this_thread.layers;
    amp_this_thread.layers = 0;
    amp_scope_push(&frame);
    amp_status status = amp_write_calls(&w, record);
    if (status == AMP_OK) status = write_model(&w, path, options);
    amp_writer_end(&w);
    amp_scope_pop(&frame);
    amp_this_thread.layers = layers;
    return status;
}

static amp_status save_fixed(const amp_graph *graph, const char *path, amp_tensor *const *inputs, int input_count,
                             const amp_graph_save_options *options) {
    amp_record record;
    amp_status status = amp_record_make(&record, graph, inputs, input_count);
    if (status == AMP_OK && options->fixed_inputs) *options->fixed_inputs = record.reads;
    if (status == AMP_OK) status = write_record(amp_graph_source_of(graph), &record, path, options);
    amp_record_end(&record);
    return status;
}

/* ---- Free extents ------------------------------------------------------------------------------------------------ */

enum { CAPTURES = AMP_EXTENT_CAPTURES };

typedef struct free_save {
    const amp_graph *graph;
    const amp_graph_source *source;
    amp_tensor *const *given;
    amp_free_extents extents;
    amp_tensor **inputs[CAPTURES];
    amp_record records[CAPTURES];
    amp_writer writers[CAPTURES];
} free_save;

/* The graph as it is for several extents. */
static amp_status record_all(free_save *f) {
    const int count = f->source->input_count;
    bool *varies = NULL;
    for (int c = 0; c < CAPTURES; c++) {
        f->inputs[c] = amp_alloc(((size_t)count + 1) * sizeof *f->inputs[c]);
        if (!f->inputs[c]) return amp_fail(AMP_ERROR_MEMORY, "graph_save: no memory for %d inputs", count);
        AMP_TRY(amp_free_extents_inputs(&f->extents, f->source, c, f->given, f->inputs[c]));
        AMP_TRY(amp_record_capture(&f->records[c], f->graph, f->inputs[c], count));
    }
    amp_status status = amp_record_compare(f->source->name, f->records, CAPTURES, &varies);
    for (int c = 0; status == AMP_OK && c < CAPTURES; c++)
        status = amp_record_finish(&f->records[c], f->source->name, f->inputs[c], varies);
    amp_free(varies);
    return status;
}

static amp_status write_all(free_save *f, const char *path, const amp_graph_save_options *options) {
    amp_writer to = {0};
    for (int c = 0; c < CAPTURES; c++) {
        f->writers[c].source = f->source;
        AMP_TRY(amp_write_calls(&f->writers[c], &f->records[c]));
        amp_writer_mark_used(&f->writers[c]);
    }
    amp_status status = amp_write_free(f->writers, &f->extents, &to);
    if (status == AMP_OK) status = write_model(&to, path, options);
    amp_writer_end(&to);
    return status;
}

static amp_status save_captures(free_save *f, const char *path, const amp_graph_save_options *options) {
    AMP_TRY(record_all(f));
    for (int c = 0; options->fixed_inputs && c < CAPTURES; c++) *options->fixed_inputs |= f->records[c].reads;
    const unsigned layers = amp_this_thread.layers;
    amp_this_thread.layers = 0;
    const amp_status status = write_all(f, path, options);
    amp_this_thread.layers = layers;
    return status;
}

static amp_status save_free(free_save *f, const char *path, const amp_graph_save_options *options) {
    amp_scope_frame frame;
    amp_scope_push(&frame);
    const amp_status status = save_captures(f, path, options);
    for (int c = 0; c < CAPTURES; c++) {
        amp_writer_end(&f->writers[c]);
        amp_record_end(&f->records[c]);
        amp_free(f->inputs[c]);
    }
    amp_scope_pop(&frame);
    return status;
}

static amp_status save_dynamic(const amp_graph *graph, const char *path, amp_tensor *const *inputs, int input_count,
                               const amp_graph_save_options *options) {
    free_save f = {.graph = graph, .source = amp_graph_source_of(graph), .given = inputs};
    AMP_TRY(amp_graph_check_inputs(graph, inputs, input_count));
    amp_status status = amp_free_extents_read(&f.extents, f.source, inputs, options->dynamic);
    if (status == AMP_OK) status = amp_free_extents_choose(&f.extents, graph, inputs);
    if (status == AMP_OK && options->fixed_inputs) *options->fixed_inputs = 0;
    if (status == AMP_OK)
        status =
            f.extents.count > 0 ? save_free(&f, path, options) : save_fixed(graph, path, inputs, input_count, options);
    amp_free_extents_end(&f.extents);
    return status;
}

amp_status amp_graph_save(amp_graph *graph, const char *path, amp_tensor *const *inputs, int input_count,
                          const amp_graph_save_options *given) {
    amp_graph_save_options options = {0};
    AMP_TRY(amp_pending_error());
    if (!graph || !path) return amp_fail(AMP_ERROR_INVALID, "graph_save: %s is NULL", graph ? "the path" : "the graph");
    if (given) {
        AMP_TRY(amp_struct_read("graph_save", "amp_graph_save_options", &options, sizeof options,
                                sizeof given->struct_size, given));
        AMP_TRY(amp_struct_reserved("graph_save", options.reserved, sizeof options.reserved));
    }
    if (options.form != AMP_GRAPH_TYPED && options.form != AMP_GRAPH_PORTABLE)
        return amp_fail(AMP_ERROR_INVALID,
                        "graph_save: there is no form %d; expected AMP_GRAPH_TYPED or AMP_GRAPH_PORTABLE",
                        (int)options.form);
    return options.dynamic && *options.dynamic ? save_dynamic(graph, path, inputs, input_count, &options)
                                               : save_fixed(graph, path, inputs, input_count, &options);
}
