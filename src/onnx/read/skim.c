/* Protobuf's wire format, one pass, guided by protobuf-c's own descriptions of the messages.
 *
 * Source of the format: protobuf.dev/programming-guides/encoding. A field is a tag (number · 8 + wire type) and a
 * value: 0 a varint, 1 eight bytes, 2 a length and as many bytes, 5 four bytes. */
#include "onnx/read/skim.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "onnx/read/bounds.h"
#include "onnx/read/onnx.pb-c.h"

enum { LENGTH_BYTES = 5 }; /* of a message's length, which is not known when it begins: not the shortest, but legal */
enum { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5, WIRE_NONE = 8 };

typedef struct skimmer {
    const char *path;
    const unsigned char *data;
    unsigned char *out;
    size_t used, room;
    size_t longer; /* bytes of `used` that the file does not have */
    int fields, items;
} skimmer;

/* A field as it lies in the file. */
typedef struct field {
    size_t begin, value, end; /* `value` is behind the tag and, of WIRE_BYTES, the length */
    uint64_t number;          /* of a tag */
    int wire;
} field;

#define FAIL(at, ...) fail_at(s, (at), __VA_ARGS__)
__attribute__((format(printf, 3, 4))) static amp_status fail_at(const skimmer *s, size_t at, const char *format, ...) {
    char about[300];
    snprintf(about, sizeof about, "graph_load: %s: at byte %zu", s->path, at);
    va_list arguments;
    va_start(arguments, format);
    const amp_status status = amp_fail_about(AMP_ERROR_IO, about, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- Writing ---- */

/* Of a small model all may be kept; memory that nobody writes costs nothing. */
enum { FIRST_ROOM = 1 << 20 };

static amp_status move_to(skimmer *s, size_t room) {
    unsigned char *out = amp_alloc(room);
    if (!out) return amp_fail(AMP_ERROR_MEMORY, "graph_load: %s: no memory for the model's skeleton", s->path);
    if (s->used) memcpy(out, s->out, s->used);
    amp_free(s->out);
    s->out = out;
    s->room = room;
    return AMP_OK;
}

static amp_status append(skimmer *s, const void *bytes, size_t count) {
    if (count > s->room - s->used) AMP_TRY(move_to(s, 2 * s->room + count));
    memcpy(s->out + s->used, bytes, count);
    s->used += count;
    return AMP_OK;
}

/* A length in LENGTH_BYTES bytes. */
static void put_length(unsigned char *to, size_t length) {
    for (int i = 0; i < LENGTH_BYTES; i++)
        to[i] = (unsigned char)((length >> 7 * i & 0x7f) | (i < LENGTH_BYTES - 1) << 7);
}

/* ---- Reading ---- */

static amp_status read_varint(skimmer *s, size_t *at, size_t end, uint64_t *value) {
    *value = 0;
    for (int i = 0; i < 10; i++) {
        if (*at == end) return FAIL(*at, "a number is cut short");
        const unsigned char byte = s->data[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) return AMP_OK;
    }
    return FAIL(*at - 10, "a number has more than 10 bytes");
}

/* Finds out how far the value of a field reaches. */
static amp_status read_value(skimmer *s, const char *message, size_t end, field *f) {
    uint64_t length = 0;
    size_t at = f->value;
    switch (f->wire) {
    case WIRE_VARINT:
        AMP_TRY(read_varint(s, &at, end, &length));
        f->end = at;
        return AMP_OK;
    case WIRE_8: length = 8; break;
    case WIRE_4: length = 4; break;
    case WIRE_BYTES:
        AMP_TRY(read_varint(s, &at, end, &length));
        f->value = at;
        break;
    default:
        return FAIL(f->begin, "field %llu of %s has wire type %d, expected 0, 1, 2 or 5", (unsigned long long)f->number,
                    message, f->wire);
    }
    if (length > end - at) {
        return FAIL(f->begin, "field %llu of %s wants %llu bytes, but %zu are left", (unsigned long long)f->number,
                    message, (unsigned long long)length, end - at);
    }
    f->end = at + (size_t)length;
    return AMP_OK;
}

static amp_status read_field(skimmer *s, const char *message, size_t at, size_t end, field *f) {
    uint64_t tag = 0;
    f->begin = at;
    AMP_TRY(read_varint(s, &at, end, &tag));
    f->number = tag >> 3;
    f->wire = (int)(tag & 7);
    f->value = at;
    if (f->number == 0 || f->number > 0x1fffffff)
        return FAIL(f->begin, "%s has no field %llu", message, (unsigned long long)f->number);
    return read_value(s, message, end, f);
}

/* ---- What is let through ---- */

static int wire_of(const ProtobufCFieldDescriptor *field) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_4;
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT;
    }
}

/* Lists of numbers come one by one or packed, whatever onnx.proto says. */
static amp_status check_wire(skimmer *s, const ProtobufCMessageDescriptor *message,
                             const ProtobufCFieldDescriptor *known, const field *f) {
    const int wire = wire_of(known);
    if (f->wire == wire || (f->wire == WIRE_BYTES && known->label == PROTOBUF_C_LABEL_REPEATED)) return AMP_OK;
    return FAIL(f->begin, "%s.%s has wire type %d, expected %d", message->short_name, known->name, f->wire, wire);
}

/* A zero byte would make two names of C equal that are not. */
static amp_status check_text(skimmer *s, const ProtobufCMessageDescriptor *message,
                             const ProtobufCFieldDescriptor *known, const field *f) {
    if (f->end - f->value > AMP_ONNX_MOST_NAME) {
        return FAIL(f->begin, "%s.%s has %zu bytes, expected at most %d", message->short_name, known->name,
                    f->end - f->value, AMP_ONNX_MOST_NAME);
    }
    if (!memchr(s->data + f->value, 0, f->end - f->value)) return AMP_OK;
    return FAIL(f->begin, "%s.%s has a zero byte in it", message->short_name, known->name);
}

/* Nodes, what they make, declared inputs and outputs, tensors, attributes. */
static bool is_item(const ProtobufCMessageDescriptor *message, const ProtobufCFieldDescriptor *known) {
    const ProtobufCMessageDescriptor *inner = known->descriptor;
    if (message == &amp_onnx__node_proto__descriptor && known->id == 2) return true; /* output */
    if (known->type != PROTOBUF_C_TYPE_MESSAGE) return false;
    return inner == &amp_onnx__node_proto__descriptor || inner == &amp_onnx__value_info_proto__descriptor ||
           inner == &amp_onnx__tensor_proto__descriptor || inner == &amp_onnx__attribute_proto__descriptor;
}

static amp_status count_field(skimmer *s, const ProtobufCMessageDescriptor *message,
                              const ProtobufCFieldDescriptor *known, const field *f) {
    s->items += is_item(message, known);
    if (s->items > AMP_ONNX_MOST_ITEMS) {
        return FAIL(f->begin, "the model has more than %d nodes, values and attributes", AMP_ONNX_MOST_ITEMS);
    }
    if (++s->fields > AMP_ONNX_MOST_FIELDS)
        return FAIL(f->begin, "the model has more than %d fields", AMP_ONNX_MOST_FIELDS);
    return AMP_OK;
}

static bool is_raw_data(const ProtobufCMessageDescriptor *message, const ProtobufCFieldDescriptor *known) {
    return message == &amp_onnx__tensor_proto__descriptor && known->id == 9;
}

static amp_status write_span(skimmer *s, const field *f) {
    const amp_onnx_span span = {.offset = f->value, .length = f->end - f->value};
    const unsigned char tag_and_length[] = {9 << 3 | WIRE_BYTES, sizeof span};
    AMP_TRY(append(s, tag_and_length, sizeof tag_and_length));
    return append(s, &span, sizeof span);
}

static amp_status skim_message(skimmer *s, const ProtobufCMessageDescriptor *message, size_t at, size_t end, int depth);

static amp_status skim_inner(skimmer *s, const ProtobufCFieldDescriptor *known, const field *f, int depth) {
    const unsigned char tag[] = {(unsigned char)((known->id & 0xf) << 3 | WIRE_BYTES | (known->id > 15) << 7),
                                 (unsigned char)(known->id >> 4)}; /* numbers below 2048 */
    const unsigned char length[LENGTH_BYTES] = {0};
    if (depth == AMP_ONNX_MOST_MESSAGE_DEPTH)
        return FAIL(f->begin, "messages lie more than %d deep in each other", AMP_ONNX_MOST_MESSAGE_DEPTH);
    AMP_TRY(append(s, tag, known->id > 15 ? 2 : 1));
    AMP_TRY(append(s, length, sizeof length));
    s->longer += LENGTH_BYTES - 1;
    const size_t begin = s->used;
    AMP_TRY(skim_message(s, known->descriptor, f->value, f->end, depth + 1));
    put_length(s->out + begin - LENGTH_BYTES, s->used - begin);
    return AMP_OK;
}

static amp_status skim_field(skimmer *s, const ProtobufCMessageDescriptor *message, const field *f, uint64_t *seen,
                             int depth) {
    const ProtobufCFieldDescriptor *known = protobuf_c_message_descriptor_get_field(message, (unsigned)f->number);
    if (!known) return AMP_OK;
    AMP_TRY(check_wire(s, message, known, f));
    AMP_TRY(count_field(s, message, known, f));
    if (is_raw_data(message, known)) return write_span(s, f);
    if (known->type == PROTOBUF_C_TYPE_STRING) AMP_TRY(check_text(s, message, known, f));
    if (known->type != PROTOBUF_C_TYPE_MESSAGE) return append(s, s->data + f->begin, f->end - f->begin);
    const uint64_t bit = UINT64_C(1) << (known - message->fields);
    if (known->label != PROTOBUF_C_LABEL_REPEATED && (*seen & bit)) {
        return FAIL(f->begin, "%s.%s is there twice", message->short_name, known->name);
    }
    *seen |= bit;
    return skim_inner(s, known, f, depth);
}

static amp_status skim_message(skimmer *s, const ProtobufCMessageDescriptor *message, size_t at, size_t end,
                               int depth) {
    uint64_t seen = 0; /* a bit for each of the message's fields */
    while (at < end) {
        field f = {0};
        AMP_TRY(read_field(s, message->short_name, at, end, &f));
        AMP_TRY(skim_field(s, message, &f, &seen, depth));
        at = f.end;
    }
    return AMP_OK;
}

amp_status amp_onnx_skim(const char *path, const unsigned char *data, size_t bytes, amp_onnx_skeleton *skeleton) {
    skimmer s = {.path = path, .data = data};
    amp_status status = move_to(&s, bytes < FIRST_ROOM ? bytes : FIRST_ROOM);
    if (status == AMP_OK) status = skim_message(&s, &amp_onnx__model_proto__descriptor, 0, bytes, 1);
    if (status == AMP_OK && s.used > INT_MAX) {
        status = amp_fail(AMP_ERROR_IO,
                          "graph_load: %s: the model has %zu bytes outside of raw_data, expected at most 2 GiB", path,
                          s.used);
    }
    if (status != AMP_OK)
        amp_free(s.out);
    else
        *skeleton = (amp_onnx_skeleton){.data = s.out, .bytes = s.used, .kept = s.used - s.longer};
    return status;
}
