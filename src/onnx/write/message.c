/* A model that has been made, as a file: protobuf-c's messages, packed through the library's file writer piece by
 * piece, so that weights are never copied. */
#include <stdio.h>
#include <string.h>

#include "amp/version.h"
#include "core/memory.h"
#include "io/file_map.h"
#include "onnx/model.h"
#include "onnx/read/arena.h"
#include "onnx/read/onnx.pb-c.h"
#include "onnx/write/writer.h"

enum {
    NEW_IR = 10,
    OLD_IR = 8,               /* what goes with … */
    OLD_OPSET = 18,           /* … opsets up to here, for older readers */
    PAGE = 4096,              /* external data begin at multiples of it … */
    SMALL = 1024,             /* … but for tensors below this, which stay inside */
    MOST_INSIDE = 0x7f000000, /* bytes of weights in a message, which can be 2 GiB long */
    VERSION_BYTES = 64
};

typedef struct message {
    const amp_writer *w;
    amp_onnx_arena arena;
    const char *location; /* of external data; NULL: inside */
    uint64_t offset;      /* … where the next begin */
    bool failed;
} message;

static void *get(message *m, size_t count, size_t size) {
    void *memory = m->failed ? NULL : amp_onnx_take_zeroed(&m->arena, count ? count : 1, size);
    m->failed = !memory;
    return memory;
}

/* One message of a type, initialised. */
#define NEW(m, type, INIT) ((type *)initialised((m), &(const type)INIT, sizeof(type)))
static void *initialised(message *m, const void *as, size_t size) {
    void *made = get(m, 1, size);
    return made ? memcpy(made, as, size) : NULL;
}

static char *text(message *m, const char *format, uint64_t number) {
    enum { BYTES = 24 };
    char *made = get(m, BYTES, 1);
    if (made) snprintf(made, BYTES, format, (unsigned long long)number);
    return made;
}

static int number_of(amp_dtype dtype) {
    enum { NUMBERS = 17 };
    const char *name;
    for (int number = 1; number < NUMBERS; number++) {
        if (amp_onnx_dtype_of(number, &name) == dtype) return number;
    }
    return 0;
}

static size_t bytes_of(const amp_tensor *t) {
    return (size_t)amp_tensor_elements(t) * amp_dtype_size(t->dtype);
}

/* ---- Values ---------------------------------------------------------------------------------------------------- */

static AmpOnnx__TensorShapeProto__Dimension *dimension(message *m, int64_t extent) {
    AmpOnnx__TensorShapeProto__Dimension *d =
        NEW(m, AmpOnnx__TensorShapeProto__Dimension, AMP_ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT);
    if (!d) return NULL;
    if (extent < AMP_MADE_OPEN) d->dim_param = (char *)m->w->extent_names[AMP_MADE_OPEN - 1 - extent];
    d->has_dim_value = extent >= 0;
    d->dim_value = extent;
    return d;
}

static AmpOnnx__ValueInfoProto *value_info(message *m, int value) {
    const amp_made_value *v = &m->w->values[value];
    AmpOnnx__ValueInfoProto *info = NEW(m, AmpOnnx__ValueInfoProto, AMP_ONNX__VALUE_INFO_PROTO__INIT);
    AmpOnnx__TypeProto *type = NEW(m, AmpOnnx__TypeProto, AMP_ONNX__TYPE_PROTO__INIT);
    AmpOnnx__TypeProto__Tensor *tensor = NEW(m, AmpOnnx__TypeProto__Tensor, AMP_ONNX__TYPE_PROTO__TENSOR__INIT);
    AmpOnnx__TensorShapeProto *shape = NEW(m, AmpOnnx__TensorShapeProto, AMP_ONNX__TENSOR_SHAPE_PROTO__INIT);
    void **dims = get(m, (size_t)v->rank, sizeof *dims);
    if (m->failed) return NULL;
    for (int d = 0; d < v->rank; d++) dims[d] = dimension(m, v->shape[d]);
    shape->n_dim = (size_t)v->rank;
    shape->dim = (AmpOnnx__TensorShapeProto__Dimension **)dims;
    tensor->has_elem_type = true;
    tensor->elem_type = number_of(v->dtype);
    tensor->shape = shape;
    type->tensor_type = tensor;
    info->name = (char *)v->name;
    info->type = type;
    return info;
}

static AmpOnnx__StringStringEntryProto *entry(message *m, const char *key, char *value) {
    AmpOnnx__StringStringEntryProto *e =
        NEW(m, AmpOnnx__StringStringEntryProto, AMP_ONNX__STRING_STRING_ENTRY_PROTO__INIT);
    if (!e) return NULL;
    e->key = (char *)key;
    e->value = value;
    return e;
}

/* In the file beside, from the next page on. */
static void place_outside(message *m, AmpOnnx__TensorProto *proto, size_t bytes) {
    enum { ENTRIES = 3 };
    AmpOnnx__StringStringEntryProto **entries = get(m, ENTRIES, sizeof *entries);
    if (!entries) return;
    entries[0] = entry(m, "location", (char *)m->location);
    entries[1] = entry(m, "offset", text(m, "%llu", m->offset));
    entries[2] = entry(m, "length", text(m, "%llu", bytes));
    proto->n_external_data = ENTRIES;
    proto->external_data = entries;
    proto->has_data_location = true;
    proto->data_location = AMP_ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    m->offset = (m->offset + bytes + PAGE - 1) / PAGE * PAGE;
}

static AmpOnnx__TensorProto *tensor_proto(message *m, const amp_made_value *v) {
    AmpOnnx__TensorProto *proto = NEW(m, AmpOnnx__TensorProto, AMP_ONNX__TENSOR_PROTO__INIT);
    if (!proto) return NULL;
    const size_t bytes = bytes_of(v->constant);
    proto->n_dims = (size_t)v->rank;
    proto->dims = (int64_t *)v->shape;
    proto->has_data_type = true;
    proto->data_type = number_of(v->dtype);
    proto->name = (char *)v->name;
    if (m->location && bytes >= SMALL) {
        place_outside(m, proto, bytes);
    } else {
        proto->has_raw_data = true;
        proto->raw_data = (ProtobufCBinaryData){bytes, amp_tensor_pointer(v->constant)};
    }
    return proto;
}

/* ---- Nodes ----------------------------------------------------------------------------------------------------- */

static AmpOnnx__AttributeProto *attribute(message *m, const amp_made_attribute *a) {
    AmpOnnx__AttributeProto *proto = NEW(m, AmpOnnx__AttributeProto, AMP_ONNX__ATTRIBUTE_PROTO__INIT);
    if (!proto) return NULL;
    proto->name = (char *)a->name;
    proto->has_type = true;
    proto->type = (AmpOnnx__AttributeProto__AttributeType)a->kind;
    switch (a->kind) {
    case AMP_MADE_FLOAT:
        proto->has_f = true;
        proto->f = (float)a->number;
        break;
    case AMP_MADE_INT:
        proto->has_i = true;
        proto->i = a->integers[0];
        break;
    case AMP_MADE_TEXT:
        proto->has_s = true;
        proto->s = (ProtobufCBinaryData){strlen(a->text), (uint8_t *)a->text};
        break;
    case AMP_MADE_INTS:
        proto->n_ints = (size_t)a->count;
        proto->ints = (int64_t *)a->integers;
        break;
    }
    return proto;
}

static char **names(message *m, const int *values, int count) {
    char **all = get(m, (size_t)count, sizeof *all);
    for (int i = 0; all && i < count; i++) {
        const bool there = values[i] >= 0 && m->w->values[values[i]].used;
        all[i] = there ? (char *)m->w->values[values[i]].name : "";
    }
    return all;
}

/* Those that somebody reads, and what stands before them. */
static int count_outputs(const message *m, const amp_made_node *node) {
    int count = node->output_count;
    while (count > 1 && !m->w->values[node->outputs[count - 1]].used) count--;
    return count;
}

static AmpOnnx__NodeProto *node_proto(message *m, const amp_made_node *node) {
    AmpOnnx__NodeProto *proto = NEW(m, AmpOnnx__NodeProto, AMP_ONNX__NODE_PROTO__INIT);
    void **attributes = get(m, (size_t)node->attribute_count, sizeof *attributes);
    if (m->failed) return NULL;
    for (int i = 0; i < node->attribute_count; i++) attributes[i] = attribute(m, &node->attributes[i]);
    proto->n_input = (size_t)node->input_count;
    proto->input = names(m, node->inputs, node->input_count);
    proto->n_output = (size_t)count_outputs(m, node);
    proto->output = names(m, node->outputs, (int)proto->n_output);
    proto->name = (char *)m->w->values[node->outputs[0]].name;
    proto->op_type = (char *)node->type->name;
    proto->n_attribute = (size_t)node->attribute_count;
    proto->attribute = (AmpOnnx__AttributeProto **)attributes;
    return proto;
}

/* ---- The model ------------------------------------------------------------------------------------------------- */

static AmpOnnx__GraphProto *graph_proto(message *m) {
    const amp_writer *w = m->w;
    AmpOnnx__GraphProto *g = NEW(m, AmpOnnx__GraphProto, AMP_ONNX__GRAPH_PROTO__INIT);
    void **nodes = get(m, (size_t)w->node_count, sizeof *nodes),
         **tensors = get(m, (size_t)w->constant_count, sizeof *tensors);
    void **inputs = get(m, (size_t)w->source->input_count, sizeof *inputs),
         **outputs = get(m, (size_t)w->source->output_count, sizeof *outputs);
    if (m->failed) return NULL;
    for (int k = 0; k < w->node_count; k++) {
        if (w->nodes[k].type) nodes[g->n_node++] = node_proto(m, &w->nodes[k]);
    }
    for (int i = 0; i < w->constant_count; i++)
        tensors[g->n_initializer++] = tensor_proto(m, &w->values[w->constants[i]]);
    for (int i = 0; i < w->value_count; i++) {
        if (w->values[i].input >= 0) inputs[w->values[i].input] = value_info(m, i);
    }
    for (int i = 0; i < w->source->output_count; i++) outputs[i] = value_info(m, w->outputs[i]);
    g->name = "main";
    g->node = (AmpOnnx__NodeProto **)nodes;
    g->initializer = (AmpOnnx__TensorProto **)tensors;
    g->n_input = (size_t)w->source->input_count;
    g->input = (AmpOnnx__ValueInfoProto **)inputs;
    g->n_output = (size_t)w->source->output_count;
    g->output = (AmpOnnx__ValueInfoProto **)outputs;
    return g;
}

/* What the maker of a loaded model wrote into it goes on with it: labels, letters. */
static void fill_metadata(message *m, AmpOnnx__ModelProto *model) {
    const amp_graph_source *source = m->w->source;
    model->metadata_props = get(m, (size_t)source->metadata_count, sizeof *model->metadata_props);
    for (int i = 0; !m->failed && i < source->metadata_count; i++) {
        const amp_graph_property *from = &source->metadata[i];
        AmpOnnx__PropertyProto *to = NEW(m, AmpOnnx__PropertyProto, AMP_ONNX__PROPERTY_PROTO__INIT);
        if (m->failed) return;
        to->key = (char *)(uintptr_t)from->key;
        to->has_value = true;
        to->value = (ProtobufCBinaryData){strlen(from->value), (uint8_t *)(uintptr_t)from->value};
        model->metadata_props[model->n_metadata_props++] = to;
    }
}

static AmpOnnx__ModelProto *model_proto(message *m) {
    const amp_writer *w = m->w;
    AmpOnnx__ModelProto *model = NEW(m, AmpOnnx__ModelProto, AMP_ONNX__MODEL_PROTO__INIT);
    AmpOnnx__OperatorSetIdProto *opset = NEW(m, AmpOnnx__OperatorSetIdProto, AMP_ONNX__OPERATOR_SET_ID_PROTO__INIT),
                                **opsets = get(m, 1, sizeof *opsets);
    char *version = get(m, VERSION_BYTES, 1);
    if (m->failed) return NULL;
    snprintf(version, VERSION_BYTES, "%s%s", amp_version_string(), w->portable ? AMP_ONNX_PORTABLE : "");
    opset->domain = "";
    opset->has_version = true;
    opset->version = w->opset;
    opsets[0] = opset;
    model->has_ir_version = true;
    model->ir_version = w->opset <= OLD_OPSET ? OLD_IR : NEW_IR;
    model->producer_name = AMP_ONNX_PRODUCER;
    model->producer_version = version;
    model->n_opset_import = 1;
    model->opset_import = opsets;
    model->graph = graph_proto(m);
    fill_metadata(m, model);
    return model;
}

/* ---- The file -------------------------------------------------------------------------------------------------- */

/* protobuf-c's buffer over a file; what it cannot say is kept. */
typedef struct sink {
    ProtobufCBuffer base;
    amp_file_writer file;
    amp_status status;
} sink;

static void append(ProtobufCBuffer *buffer, size_t bytes, const uint8_t *data) {
    sink *s = (sink *)buffer;
    if (s->status == AMP_OK) s->status = amp_file_write(&s->file, data, bytes);
}

static amp_status write_outside(const amp_writer *w, amp_file_writer *file) {
    static const char zeros[PAGE];
    for (int i = 0; i < w->constant_count; i++) {
        const amp_tensor *t = w->values[w->constants[i]].constant;
        const size_t bytes = bytes_of(t);
        if (bytes < SMALL) continue;
        AMP_TRY(amp_file_write_tensor(file, t));
        AMP_TRY(amp_file_write(file, zeros, (PAGE - bytes % PAGE) % PAGE));
    }
    return AMP_OK;
}

/* Both files are whole before either has its name. */
static amp_status write_both(message *m, const AmpOnnx__ModelProto *model, const char *path, const char *data_path) {
    sink model_file = {.base = {append}}, data = {.base = {append}};
    amp_status status = amp_file_create(&model_file.file, "graph_save", path);
    if (status == AMP_OK) {
        (void)amp_onnx__model_proto__pack_to_buffer(model, &model_file.base);
        status = model_file.status;
    }
    if (status == AMP_OK && m->location) {
        status = amp_file_create(&data.file, "graph_save", data_path);
        if (status == AMP_OK) status = write_outside(m->w, &data.file);
        if (status == AMP_OK) status = amp_file_commit(&data.file);
        amp_file_abandon(&data.file);
    }
    if (status == AMP_OK) status = amp_file_commit(&model_file.file);
    amp_file_abandon(&model_file.file);
    return status;
}

static uint64_t count_bytes(const amp_writer *w) {
    uint64_t bytes = 0;
    for (int i = 0; i < w->constant_count; i++) bytes += bytes_of(w->values[w->constants[i]].constant);
    return bytes;
}

amp_status amp_write_file(const amp_writer *w, const char *path, bool external) {
    static const char ending[] = ".data";
    message m = {.w = w, .arena = {.most = SIZE_MAX}};
    char *data_path = get(&m, strlen(path) + sizeof ending, 1);
    if (data_path && (external || count_bytes(w) > MOST_INSIDE)) {
        memcpy(data_path, path, strlen(path));
        memcpy(data_path + strlen(path), ending, sizeof ending);
        const char *slash = strrchr(data_path, '/');
        m.location = slash ? slash + 1 : data_path;
    }
    const AmpOnnx__ModelProto *model = model_proto(&m);
    const amp_status status = m.failed ? amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for the model", path)
                                       : write_both(&m, model, path, data_path);
    amp_onnx_arena_end(&m.arena);
    return status;
}
