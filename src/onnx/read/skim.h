/* The first pass over an ONNX file: a skeleton for protobuf-c, which trusts its input and copies all of it.
 *
 * The skeleton is the same message with each TensorProto.raw_data replaced by 16 bytes that say where it is, and
 * without the fields that onnx.proto does not have. What protobuf-c must not see is refused here: messages too deep in
 * each other (bounds.h), a singular message given twice (it would merge them, in quadratic time), lengths that reach
 * out of their message. */
#ifndef AMP_ONNX_SKIM_H
#define AMP_ONNX_SKIM_H

#include <stdint.h>

#include "core/fail.h"

/* Where raw data is in the file: the content of raw_data in a skeleton. */
typedef struct amp_onnx_span {
    uint64_t offset, length;
} amp_onnx_span;

typedef struct amp_onnx_skeleton {
    unsigned char *data; /* amp_free */
    size_t bytes;
    size_t kept; /* bytes of the file that it is made of: fewer, where it writes lengths longer */
} amp_onnx_skeleton;

/* `path` is for the sentence. The skeleton is the caller's. */
amp_status amp_onnx_skim(const char *path, const unsigned char *data, size_t bytes, amp_onnx_skeleton *skeleton);

#endif /* AMP_ONNX_SKIM_H */
