/* Constants: from the file's bytes, from lists of numbers, from files beside it. */
#include <string.h>

#include "core/memory.h"
#include "core/thread.h"
#include "onnx/read/reader.h"

enum { FROM_MAP = 4096 }; /* bytes from which a tensor stays in the file's map */
static const int64_t most_elements = INT64_C(1) << 40;

typedef enum list_kind { FLOAT_DATA, INT32_DATA, INT64_DATA, DOUBLE_DATA } list_kind;

/* A type that libamp has. */
typedef struct type_row {
    int number; /* TensorProto.DataType */
    amp_dtype dtype;
    list_kind list;
    int parts;         /* numbers in the list for each element */
    int32_t low, high; /* of those in int32_data */
} type_row;

static const type_row types[] = {
    {1, AMP_F32, FLOAT_DATA, 1, 0, 0},
    {2, AMP_U8, INT32_DATA, 1, 0, UINT8_MAX},
    {3, AMP_I8, INT32_DATA, 1, INT8_MIN, INT8_MAX},
    {5, AMP_I16, INT32_DATA, 1, INT16_MIN, INT16_MAX},
    {6, AMP_I32, INT32_DATA, 1, INT32_MIN, INT32_MAX},
    {7, AMP_I64, INT64_DATA, 1, 0, 0},
    {9, AMP_BOOL, INT32_DATA, 1, 0, 1},
    {10, AMP_F16, INT32_DATA, 1, 0, UINT16_MAX},
    {11, AMP_F64, DOUBLE_DATA, 1, 0, 0},
    {14, AMP_C64, FLOAT_DATA, 2, 0, 0},
    {15, AMP_C128, DOUBLE_DATA, 2, 0, 0},
    {16, AMP_BF16, INT32_DATA, 1, 0, UINT16_MAX},
};

static const type_row *type_of(int64_t number) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].number == number) return &types[i];
    }
    return NULL;
}

amp_dtype amp_onnx_dtype_of(int64_t number, const char **name) {
    const ProtobufCEnumDescriptor *all = &amp_onnx__tensor_proto__data_type__descriptor;
    const ProtobufCEnumValue *value = NULL;
    if (number >= 0 && number <= INT32_MAX) value = protobuf_c_enum_descriptor_get_value(all, (int)number);
    *name = value ? value->name : "of unknown type";
    const type_row *row = type_of(number);
    return row ? row->dtype : AMP_DTYPE_NONE;
}

/* One tensor on its way. */
typedef struct making {
    amp_onnx_reader *reader;
    amp_onnx_tensor_proto *proto;
    const char *what; /* for sentences: "tensor 'w'" */
    const type_row *type;
    int64_t elements;
    uint64_t bytes;
} making;

#define FAIL(code, format, ...) amp_onnx_read_fail(m->reader, (code), "%s " format, m->what, __VA_ARGS__)

static amp_status check_shape(making *m) {
    const amp_onnx_tensor_proto *proto = m->proto;
    if (proto->n_dims > AMP_MAX_RANK) {
        return FAIL(AMP_ERROR_INVALID, "has %zu dimensions, expected at most %d", proto->n_dims, AMP_MAX_RANK);
    }
    const char *shape = amp_describe_shape((int)proto->n_dims, proto->dims);
    int64_t product = 1; /* without zeroes: what lies beside them is bounded too */
    bool empty = false, many = false;
    for (size_t i = 0; i < proto->n_dims; i++) {
        const int64_t extent = proto->dims[i];
        if (extent < 0) return FAIL(AMP_ERROR_INVALID, "has shape %s: an extent is negative", shape);
        empty |= extent == 0;
        many |= extent > 0 && (__builtin_mul_overflow(product, extent, &product) || product > most_elements);
    }
    if (many) return FAIL(AMP_ERROR_INVALID, "has shape %s: expected at most 2^40 elements", shape);
    m->elements = empty ? 0 : product;
    m->bytes = (uint64_t)m->elements * amp_dtype_size(m->type->dtype);
    return AMP_OK;
}

static amp_status check_type(making *m) {
    const char *type = NULL;
    m->type = type_of(m->proto->data_type);
    if (m->type) return AMP_OK;
    (void)amp_onnx_dtype_of(m->proto->data_type, &type);
    return FAIL(AMP_ERROR_DTYPE, "is %s, a type that libamp does not have", type);
}

static amp_tensor *new_tensor(const making *m) {
    return amp_tensor_new("graph_load", m->type->dtype, (int)m->proto->n_dims, m->proto->dims);
}

/* ---- Bytes ---- */

static void release_map(void *map) {
    amp_file_map_release(map);
}

static amp_tensor *tensor_in_map(const making *m, const amp_onnx_source *source, const unsigned char *data) {
    amp_file_map_retain(source->map);
    amp_tensor *tensor = amp_tensor_over_file("graph_load", data, m->type->dtype, (int)m->proto->n_dims, m->proto->dims,
                                              release_map, source->map);
    if (!tensor) amp_file_map_release(source->map);
    return tensor;
}

static bool are_truths(const unsigned char *data, uint64_t count) {
    unsigned char all = 0;
    for (uint64_t i = 0; i < count; i++) all |= data[i];
    return all <= 1;
}

/* Of a bool, any byte but 0 is true; kernels rely on 0 or 1. */
static void make_truths(unsigned char *data, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) data[i] = data[i] != 0;
}

static bool may_stay(const making *m, const amp_onnx_source *source, const unsigned char *data) {
    if (!source->map || m->bytes < FROM_MAP) return false;
    return m->type->dtype != AMP_BOOL || are_truths(data, m->bytes);
}

static amp_tensor *tensor_of_bytes(const making *m, const amp_onnx_source *source, const amp_onnx_span *span) {
    const unsigned char *data = source->data + span->offset;
    if (may_stay(m, source, data)) return tensor_in_map(m, source, data);
    amp_tensor *tensor = new_tensor(m);
    if (!tensor || m->bytes == 0) return tensor;
    memcpy(amp_tensor_pointer(tensor), data, m->bytes);
    if (m->type->dtype == AMP_BOOL) make_truths(amp_tensor_pointer(tensor), m->bytes);
    if (source->map) amp_file_map_let_go(source->map, span->offset, span->length);
    return tensor;
}

static amp_tensor *tensor_of_raw_data(const making *m) {
    amp_onnx_span span;
    memcpy(&span, m->proto->raw_data.data, sizeof span); /* that many bytes: the skimmer wrote them */
    if (span.length == m->bytes) return tensor_of_bytes(m, &m->reader->memory->source, &span);
    FAIL(AMP_ERROR_IO, "has %llu bytes of raw_data, but %s %s is %llu", (unsigned long long)span.length,
         amp_describe_shape((int)m->proto->n_dims, m->proto->dims), amp_dtype_name(m->type->dtype),
         (unsigned long long)m->bytes);
    return NULL;
}

static amp_tensor *tensor_of_file(const making *m) {
    amp_onnx_source source;
    amp_onnx_span span;
    const amp_status status = amp_onnx_external(m->reader, m->proto, m->what, m->bytes, &source, &span);
    return status == AMP_OK ? tensor_of_bytes(m, &source, &span) : NULL;
}

/* ---- Lists of numbers ---- */

typedef struct list {
    const char *name;
    void **data;
    size_t *count;
} list;

static list list_of(const making *m) {
    amp_onnx_tensor_proto *p = m->proto;
    switch (m->type->list) {
    case FLOAT_DATA: return (list){"float_data", (void **)&p->float_data, &p->n_float_data};
    case INT32_DATA: return (list){"int32_data", (void **)&p->int32_data, &p->n_int32_data};
    case INT64_DATA: return (list){"int64_data", (void **)&p->int64_data, &p->n_int64_data};
    default: return (list){"double_data", (void **)&p->double_data, &p->n_double_data};
    }
}

/* Numbers of 32 bits to the low bytes of each. */
static amp_status take_narrow(const making *m, const int32_t *from, char *to) {
    const size_t size = amp_dtype_size(m->type->dtype);
    for (int64_t i = 0; i < m->elements; i++) {
        if (from[i] < m->type->low || from[i] > m->type->high) {
            return FAIL(AMP_ERROR_IO, "has %d in int32_data, which is no %s", (int)from[i],
                        amp_dtype_name(m->type->dtype));
        }
        memcpy(to + (size_t)i * size, &from[i], size);
    }
    return AMP_OK;
}

static amp_status take_list(const making *m, const void *from, amp_tensor *tensor) {
    char *to = amp_tensor_pointer(tensor);
    if (m->type->list == INT32_DATA) return take_narrow(m, from, to);
    if (m->bytes) memcpy(to, from, m->bytes);
    return AMP_OK;
}

static amp_tensor *tensor_of_list(const making *m) {
    const list from = list_of(m);
    if (*from.count != (uint64_t)m->elements * (unsigned)m->type->parts) {
        FAIL(AMP_ERROR_IO, "has %zu numbers in %s, but %s %s is %lld", *from.count, from.name,
             amp_describe_shape((int)m->proto->n_dims, m->proto->dims), amp_dtype_name(m->type->dtype),
             (long long)m->elements * m->type->parts);
        return NULL;
    }
    amp_tensor *tensor = new_tensor(m);
    if (!tensor) return NULL;
    if (take_list(m, *from.data, tensor) != AMP_OK) {
        amp_tensor_drop(tensor);
        return NULL;
    }
    amp_onnx_give_back(&m->reader->memory->arena, *from.data); /* the numbers are in the tensor now */
    *from.data = NULL;
    *from.count = 0;
    return tensor;
}

/* ---- */

static amp_tensor *make_tensor(making *m) {
    if (check_type(m) != AMP_OK || check_shape(m) != AMP_OK) return NULL;
    if (m->proto->data_location == AMP_ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) return tensor_of_file(m);
    return m->proto->has_raw_data ? tensor_of_raw_data(m) : tensor_of_list(m);
}

/* The model owns the tensor from here on. */
static amp_status adopt(amp_onnx_reader *reader, amp_tensor *tensor) {
    struct amp_onnx_memory *memory = reader->memory;
    amp_scope_move(tensor, NULL);
    if (memory->tensor_count == memory->tensor_room) {
        const int room = memory->tensor_room ? 2 * memory->tensor_room : 64;
        amp_tensor **tensors = amp_alloc((size_t)room * sizeof(amp_tensor *));
        if (!tensors) return amp_onnx_no_memory(reader);
        if (memory->tensor_count) memcpy(tensors, memory->tensors, (size_t)memory->tensor_count * sizeof(amp_tensor *));
        amp_free(memory->tensors);
        memory->tensors = tensors;
        memory->tensor_room = room;
    }
    memory->tensors[memory->tensor_count++] = tensor;
    return AMP_OK;
}

amp_tensor *amp_onnx_read_tensor(amp_onnx_reader *reader, amp_onnx_tensor_proto *proto, const char *what) {
    amp_tensor *tensor = amp_onnx_made(reader, proto);
    if (tensor) return tensor;
    if (reader->memory->tensor_count == AMP_ONNX_MOST_TENSORS) {
        amp_onnx_read_fail(reader, AMP_ERROR_INVALID, "the model has more than %d tensors", AMP_ONNX_MOST_TENSORS);
        return NULL;
    }
    making m = {.reader = reader, .proto = proto, .what = what};
    tensor = make_tensor(&m);
    if (!tensor) return NULL;
    if (adopt(reader, tensor) != AMP_OK) {
        amp_tensor_drop(tensor);
        return NULL;
    }
    return amp_onnx_keep_made(reader, proto, tensor) == AMP_OK ? tensor : NULL;
}
