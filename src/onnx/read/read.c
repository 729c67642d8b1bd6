/* A model from a file or from memory: skimmed, unpacked by protobuf-c, then built graph by graph. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "core/memory.h"
#include "onnx/read/reader.h"

enum { MOST_SHOWN = 200 }; /* bytes of a path in a sentence */

/* ---- What the parts share ---- */

amp_status(amp_onnx_read_fail)(const amp_onnx_reader *reader, amp_status code, const char *format, ...) {
    char about[MOST_SHOWN + 16];
    snprintf(about, sizeof about, "graph_load: %s", reader->shown);
    va_list arguments;
    va_start(arguments, format);
    const amp_status status = amp_fail_about(code, about, format, arguments);
    va_end(arguments);
    return status;
}

amp_status(amp_onnx_no_memory)(const amp_onnx_reader *reader) {
    return amp_onnx_read_fail(reader, AMP_ERROR_MEMORY, "no memory for the model");
}

void *amp_onnx_get(amp_onnx_reader *reader, size_t count, size_t size) {
    void *memory = amp_onnx_take_zeroed(&reader->memory->arena, count, size);
    if (!memory) amp_onnx_no_memory(reader);
    return memory;
}

char *amp_onnx_copy_text(amp_onnx_reader *reader, const char *text, size_t length) {
    char *copy = amp_onnx_get(reader, length + 1, 1);
    if (copy && length) memcpy(copy, text, length);
    return copy;
}

amp_status amp_onnx_count(amp_onnx_reader *reader, int64_t items, int64_t links, int64_t text) {
    reader->items += items;
    reader->links += links;
    reader->text += text;
    if (reader->items > AMP_ONNX_MOST_ITEMS || reader->text > AMP_ONNX_MOST_BODY_TEXT) {
        return amp_onnx_read_fail(reader, AMP_ERROR_INVALID,
                                  "the model, its functions written out, has more than %d nodes, values and attributes",
                                  AMP_ONNX_MOST_ITEMS);
    }
    if (reader->links <= AMP_ONNX_MOST_LINKS) return AMP_OK;
    return amp_onnx_read_fail(reader, AMP_ERROR_INVALID,
                              "the model's nodes, its functions written out, have more than %d inputs and outputs",
                              AMP_ONNX_MOST_LINKS);
}

const char *amp_onnx_domain_of(const char *domain) {
    return domain && strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

/* ---- What is made once ---- */

static amp_onnx_once *once_place(amp_onnx_once *once, size_t room, const void *message) {
    size_t i = (uintptr_t)message / 16 * 0x9e3779b97f4a7c15u >> 20;
    for (i &= room - 1; once[i].message && once[i].message != message;) i = (i + 1) & (room - 1);
    return &once[i];
}

void *amp_onnx_made(const amp_onnx_reader *reader, const void *message) {
    return reader->once_room ? once_place(reader->once, reader->once_room, message)->made : NULL;
}

amp_status amp_onnx_keep_made(amp_onnx_reader *reader, const void *message, void *made) {
    if (2 * (reader->once_count + 1) > reader->once_room) {
        const size_t room = reader->once_room ? 2 * reader->once_room : 64;
        amp_onnx_once *once = amp_alloc_zeroed(room * sizeof *once);
        if (!once) return amp_onnx_no_memory(reader);
        for (size_t i = 0; i < reader->once_room; i++) {
            const amp_onnx_once *old = &reader->once[i];
            if (old->message) *once_place(once, room, old->message) = *old;
        }
        amp_free(reader->once);
        reader->once = once;
        reader->once_room = room;
    }
    *once_place(reader->once, reader->once_room, message) = (amp_onnx_once){.message = message, .made = made};
    reader->once_count++;
    return AMP_OK;
}

/* ---- Unpacking ---- */

static void *arena_alloc(void *arena, size_t bytes) {
    return amp_onnx_take(arena, bytes);
}
static void arena_free(void *arena, void *memory) {
    amp_onnx_give_back(arena, memory);
}

static amp_status unpack(amp_onnx_reader *reader, const amp_onnx_skeleton *skeleton) {
    amp_onnx_arena *arena = &reader->memory->arena;
    ProtobufCAllocator allocator = {.alloc = arena_alloc, .free = arena_free, .allocator_data = arena};
    const size_t most = AMP_ONNX_UNPACKED_BASE + AMP_ONNX_UNPACKED_FACTOR * skeleton->kept;
    arena->most = most;
    reader->proto = amp_onnx__model_proto__unpack(&allocator, skeleton->bytes, skeleton->data);
    arena->most = SIZE_MAX;
    if (reader->proto) return AMP_OK;
    if (arena->over) {
        return amp_onnx_read_fail(reader, AMP_ERROR_IO, "its %zu bytes outside of raw_data unfold to more than %zu",
                                  skeleton->kept, most);
    }
    if (arena->failed) return amp_onnx_no_memory(reader);
    return amp_onnx_read_fail(reader, AMP_ERROR_IO, "this is no ONNX model: protobuf-c cannot unpack it");
}

static amp_status skim_and_unpack(amp_onnx_reader *reader) {
    const amp_onnx_source *source = &reader->memory->source;
    amp_onnx_skeleton skeleton = {0};
    AMP_TRY(amp_onnx_skim(reader->shown, source->data, source->bytes, &skeleton));
    reader->structure = XXH3_64bits(skeleton.data, skeleton.bytes);
    const amp_status status = unpack(reader, &skeleton);
    amp_free(skeleton.data);
    return status;
}

/* ---- The model ---- */

bool amp_onnx_find_opset(const amp_onnx_opsets *opsets, const char *domain, int64_t *version) {
    const int number = amp_onnx_names_find(&opsets->names, domain);
    if (number >= 0) *version = opsets->imports[number]->version;
    return number >= 0;
}

/* Of a domain that is there twice, the first. */
static amp_status fill_opsets(const amp_onnx_reader *reader, size_t count, amp_onnx_opset_proto *const *imports,
                              amp_onnx_opsets *opsets) {
    if (count > AMP_ONNX_MOST_OPSETS) {
        return amp_onnx_read_fail(reader, AMP_ERROR_INVALID, "%zu opsets are imported, expected at most %d", count,
                                  AMP_ONNX_MOST_OPSETS);
    }
    opsets->imports = imports;
    for (size_t i = 0; i < count; i++) {
        const char *domain = amp_onnx_domain_of(imports[i]->domain);
        if (amp_onnx_names_find(&opsets->names, domain) >= 0) continue;
        if (amp_onnx_names_add(&opsets->names, domain, (int)i) != AMP_OK) return amp_onnx_no_memory(reader);
    }
    return AMP_OK;
}

void amp_onnx_function_key(const char *domain, const char *name, const char *overload, char *key) {
    snprintf(key, AMP_ONNX_FUNCTION_KEY, "%s:%s:%s", amp_onnx_domain_of(domain), amp_onnx_text_of(name),
             amp_onnx_text_of(overload));
}

static amp_status add_function(amp_onnx_reader *reader, int number, amp_onnx_opsets *opsets) {
    const amp_onnx_function_proto *f = reader->proto->functions[number];
    AMP_TRY(fill_opsets(reader, f->n_opset_import, f->opset_import, opsets));
    char text[AMP_ONNX_FUNCTION_KEY];
    amp_onnx_function_key(f->domain, f->name, f->overload, text);
    if (amp_onnx_names_find(&reader->functions, text) >= 0) {
        return amp_onnx_read_fail(reader, AMP_ERROR_INVALID, "function '%.200s' is there twice", text);
    }
    const char *key = amp_onnx_copy_text(reader, text, strlen(text));
    if (!key) return amp_pending_error();
    return amp_onnx_names_add(&reader->functions, key, number) == AMP_OK ? AMP_OK : amp_onnx_no_memory(reader);
}

static amp_status check_model(amp_onnx_reader *reader) {
    const amp_onnx_model_proto *proto = reader->proto;
    if (!proto->graph) return amp_onnx_read_fail(reader, AMP_ERROR_IO, "the model has no graph: is this an ONNX file?");
    if (proto->graph->n_output == 0)
        return amp_onnx_read_fail(reader, AMP_ERROR_INVALID, "the graph has no outputs; expected at least one");
    amp_onnx_opsets *opsets = amp_onnx_get(reader, proto->n_functions + 1, sizeof *opsets);
    if (!opsets) return amp_pending_error();
    reader->opsets = opsets;
    AMP_TRY(fill_opsets(reader, proto->n_opset_import, proto->opset_import, &opsets[proto->n_functions]));
    for (size_t i = 0; i < proto->n_functions; i++) AMP_TRY(add_function(reader, (int)i, &opsets[i]));
    return AMP_OK;
}

/* Values are bytes to protobuf-c, which puts no zero behind them. */
static amp_status fill_metadata(amp_onnx_reader *reader, amp_onnx_model *model) {
    const amp_onnx_model_proto *proto = reader->proto;
    amp_graph_property *metadata = amp_onnx_get(reader, proto->n_metadata_props, sizeof *metadata);
    if (!metadata) return amp_pending_error();
    for (size_t i = 0; i < proto->n_metadata_props; i++) {
        const ProtobufCBinaryData value = proto->metadata_props[i]->value;
        metadata[i].key = amp_onnx_text_of(proto->metadata_props[i]->key);
        metadata[i].value = amp_onnx_copy_text(reader, (const char *)value.data, value.len);
        if (!metadata[i].value) return amp_pending_error();
    }
    model->metadata = metadata;
    model->metadata_count = (int)proto->n_metadata_props;
    return AMP_OK;
}

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), end = strlen(ending);
    return length >= end && strcmp(text + length - end, ending) == 0;
}

static uint64_t stamp_of(const struct amp_onnx_memory *memory) {
    uint64_t stamp = memory->source.map ? amp_file_map_stamp(memory->source.map, 0) : 0;
    for (int i = 0; i < memory->file_count; i++) stamp = amp_file_map_stamp(memory->files[i].map, stamp);
    return stamp;
}

static uint64_t sum_of(const void *context) {
    const struct amp_onnx_memory *memory = context;
    uint64_t sum = memory->source.map ? amp_file_map_sum(memory->source.map, 0) : 0;
    for (int i = 0; i < memory->file_count; i++) sum = amp_file_map_sum(memory->files[i].map, sum);
    return sum;
}

static amp_graph_weights weights_of(const amp_onnx_reader *reader) {
    const struct amp_onnx_memory *memory = reader->memory;
    return (amp_graph_weights){.tensors = memory->tensors,
                               .count = memory->tensor_count,
                               .structure = reader->structure,
                               .stamp = stamp_of(memory),
                               .sum = sum_of,
                               .context = memory};
}

static amp_status fill_model(amp_onnx_reader *reader, amp_onnx_model *model) {
    AMP_TRY(skim_and_unpack(reader));
    AMP_TRY(check_model(reader));
    const amp_onnx_model_proto *proto = reader->proto;
    (void)amp_onnx_find_opset(&reader->opsets[proto->n_functions], "", &model->opset);
    if (model->opset == 0 && proto->ir_version < 3) model->opset = 1; /* opsets came with version 3 */
    model->ir_version = proto->ir_version;
    model->producer = amp_onnx_text_of(proto->producer_name);
    AMP_TRY(fill_metadata(reader, model));
    model->is_portable = ends_with(amp_onnx_text_of(proto->producer_version), AMP_ONNX_PORTABLE) &&
                         strcmp(model->producer, AMP_ONNX_PRODUCER) == 0;
    model->graph = amp_onnx_read_graph(reader, proto->graph, NULL);
    model->weights = weights_of(reader);
    return model->graph ? AMP_OK : amp_pending_error();
}

/* ---- In and out ---- */

/* The end of a path: sentences have room for more. */
static const char *end_of(const char *path) {
    const size_t length = strlen(path);
    return length > MOST_SHOWN ? path + length - MOST_SHOWN : path;
}

/* The folder of a path, as it is written. */
static char *folder_of(amp_onnx_reader *reader, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return amp_onnx_copy_text(reader, ".", 1);
    return amp_onnx_copy_text(reader, path, slash == path ? 1 : (size_t)(slash - path));
}

static amp_onnx_model *new_model(amp_onnx_reader *reader, const char *path) {
    struct amp_onnx_memory *memory = amp_alloc_zeroed(sizeof *memory);
    if (!memory) {
        amp_onnx_no_memory(reader);
        return NULL;
    }
    memory->arena.most = SIZE_MAX;
    reader->memory = memory;
    amp_onnx_model *model = amp_onnx_get(reader, 1, sizeof *model);
    if (model) model->path = amp_onnx_copy_text(reader, path, strlen(path));
    if (model && model->path) {
        model->memory = memory;
        return model;
    }
    amp_onnx_arena_end(&memory->arena);
    amp_free(memory);
    return NULL;
}

static void end_reader(amp_onnx_reader *reader) {
    for (size_t i = 0; reader->opsets && i <= reader->proto->n_functions; i++)
        amp_onnx_names_end(&reader->opsets[i].names);
    amp_onnx_names_end(&reader->functions);
    amp_onnx_names_end(&reader->files);
    amp_free(reader->once);
}

static amp_onnx_model *read_source(amp_onnx_reader *reader, const amp_onnx_source *source, bool in_file) {
    amp_onnx_model *model = new_model(reader, reader->path);
    if (!model) return NULL;
    model->memory->source = *source;
    if (source->map) amp_file_map_retain(source->map);
    if (in_file) reader->folder = folder_of(reader, reader->path);
    const amp_status status = in_file && !reader->folder ? amp_pending_error() : fill_model(reader, model);
    end_reader(reader);
    if (status == AMP_OK) return model;
    amp_onnx_free(model);
    return NULL;
}

amp_onnx_model *amp_onnx_read(const char *path, const amp_onnx_read_options *options) {
    if (amp_failed()) return NULL;
    amp_file_map *map = amp_file_map_open("graph_load", path);
    if (!map) return NULL;
    const amp_onnx_source source = {.data = amp_file_map_data(map), .bytes = amp_file_map_bytes(map), .map = map};
    amp_onnx_reader reader = {
        .path = path, .shown = end_of(path), .data_folder = options ? options->data_folder : NULL};
    amp_onnx_model *model = read_source(&reader, &source, true);
    amp_file_map_release(map);
    return model;
}

amp_onnx_model *amp_onnx_read_bytes(const void *data, size_t bytes, const amp_onnx_read_options *options) {
    static const char in_memory[] = "a model in memory";
    if (amp_failed()) return NULL;
    const amp_onnx_source source = {.data = data, .bytes = bytes};
    amp_onnx_reader reader = {
        .path = in_memory, .shown = in_memory, .data_folder = options ? options->data_folder : NULL};
    return read_source(&reader, &source, false);
}

void amp_onnx_free(amp_onnx_model *model) {
    if (!model) return;
    struct amp_onnx_memory *memory = model->memory;
    for (int i = 0; i < memory->tensor_count; i++) amp_tensor_drop(memory->tensors[i]);
    amp_free(memory->tensors);
    for (int i = 0; i < memory->file_count; i++) amp_file_map_release(memory->files[i].map);
    amp_free(memory->files);
    if (memory->source.map) amp_file_map_release(memory->source.map);
    amp_onnx_arena_end(&memory->arena);
    amp_free(memory);
}
