/* libFuzzer target: any bytes as an ONNX file, to the skimmer alone, at its full speed. Protobuf-c trusts the skeleton
 * that it gives, so that must be whole: known fields of the right wire types, messages that end where they say, raw
 * data replaced by its place, each place inside of the file and behind the one before. Skimmed again, a skeleton stays
 * as it is. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "core/memory.h"
#include "onnx/read/bounds.h"
#include "onnx/read/onnx.pb-c.h"
#include "onnx/read/skim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5 };

static void check(int condition) {
    if (!condition) abort();
}

/* What a walk over a skeleton sees: the file's bytes that its spans must lie in, and where the last one ended. */
typedef struct walk {
    const amp_onnx_skeleton *skeleton;
    size_t file, end;
    int spans;
} walk;

static uint64_t varint(const walk *w, size_t *at, size_t end) {
    uint64_t value = 0;
    for (int i = 0; i < 10; i++) {
        check(*at < end);
        const unsigned char byte = w->skeleton->data[(*at)++];
        value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) return value;
    }
    abort();
}

static void check_span(walk *w, size_t at, size_t length) {
    amp_onnx_span span;
    check(length == sizeof span);
    memcpy(&span, w->skeleton->data + at, sizeof span);
    check(span.offset >= w->end && span.offset <= w->file && span.length <= w->file - span.offset);
    w->end = (size_t)(span.offset + span.length);
    w->spans++;
}

/* Whether protobuf-c knows what to do with the field: a number's wire type, or numbers in a row. */
static void check_type(const ProtobufCFieldDescriptor *field, uint64_t wire) {
    const bool is_text = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES ||
                         field->type == PROTOBUF_C_TYPE_MESSAGE;
    const uint64_t wanted = is_text                                 ? BYTES
                            : field->type == PROTOBUF_C_TYPE_FLOAT  ? FOUR
                            : field->type == PROTOBUF_C_TYPE_DOUBLE ? EIGHT
                                                                    : VARINT;
    check(wire == wanted || (wire == BYTES && field->label == PROTOBUF_C_LABEL_REPEATED));
}

static void check_text(const unsigned char *text, size_t length) {
    check(length <= AMP_ONNX_MOST_NAME && !memchr(text, 0, length));
}

static void walk_message(walk *w, const ProtobufCMessageDescriptor *message, size_t at, size_t end, int depth) {
    unsigned char seen[64] = {0}; /* of singular messages */
    check(depth <= AMP_ONNX_MOST_MESSAGE_DEPTH && message->n_fields <= sizeof seen);
    while (at < end) {
        const uint64_t tag = varint(w, &at, end), wire = tag & 7;
        const ProtobufCFieldDescriptor *field =
            tag >> 3 <= UINT_MAX ? protobuf_c_message_descriptor_get_field(message, (unsigned)(tag >> 3)) : NULL;
        check(field != NULL);
        check_type(field, wire);
        const size_t fixed = wire == EIGHT ? 8 : wire == FOUR ? 4 : 0;
        const uint64_t number = fixed ? 0 : varint(w, &at, end), length = wire == BYTES ? number : fixed;
        check(length <= end - at);
        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            check(field->label == PROTOBUF_C_LABEL_REPEATED || !seen[field - message->fields]++);
            walk_message(w, field->descriptor, at, at + (size_t)length, depth + 1);
        } else if (message == &amp_onnx__tensor_proto__descriptor && strcmp(field->name, "raw_data") == 0) {
            check_span(w, at, (size_t)length);
        } else if (field->type == PROTOBUF_C_TYPE_STRING) {
            check_text(w->skeleton->data + at, (size_t)length);
        }
        at += (size_t)length;
    }
}

static int walk_skeleton(const amp_onnx_skeleton *skeleton, size_t file) {
    walk w = {.skeleton = skeleton, .file = file};
    check(skeleton->kept <= skeleton->bytes);
    walk_message(&w, &amp_onnx__model_proto__descriptor, 0, skeleton->bytes, 1);
    return w.spans;
}

/* The skeleton as a file: its spans are the raw data, and all else is as it was. */
static void skim_again(const amp_onnx_skeleton *first, int spans) {
    amp_onnx_skeleton again = {0};
    check(amp_onnx_skim("a skeleton", first->data, first->bytes, &again) == AMP_OK);
    check(again.bytes == first->bytes && walk_skeleton(&again, first->bytes) == spans);
    size_t other = 0;
    for (size_t i = 0; i < first->bytes; i++) other += first->data[i] != again.data[i];
    check(other <= (size_t)spans * sizeof(amp_onnx_span));
    amp_free(again.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    amp_onnx_skeleton skeleton = {0};
    const amp_status status = amp_onnx_skim("a file", data, size, &skeleton);
    if (status == AMP_OK) {
        check(skeleton.bytes <= 9 * size); /* raw data of no bytes, of which 2 become 18 */
        skim_again(&skeleton, walk_skeleton(&skeleton, size));
    } else {
        check(!skeleton.data && strncmp(amp_last_error(), "graph_load: a file: ", 20) == 0);
    }
    amp_free(skeleton.data);
    amp_clear_error();
    return 0;
}
