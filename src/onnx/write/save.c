/* amp_graph_save. */
#include <string.h>

#include "core/struct_size.h"
#include "core/thread.h"
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

amp_status amp_graph_save(amp_graph *graph, const char *path, amp_tensor *const *inputs, int input_count,
                          const amp_graph_save_options *given) {
    amp_graph_save_options options = {0};
    amp_record record;
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
    amp_status status = amp_record_make(&record, graph, inputs, input_count);
    if (status == AMP_OK && options.fixed_inputs) *options.fixed_inputs = record.reads;
    if (status == AMP_OK) status = write_record(amp_graph_source_of(graph), &record, path, &options);
    amp_record_end(&record);
    return status;
}
