/* Names to numbers, in a time that no choice of names can stretch. */
#ifndef AMP_ONNX_NAMES_H
#define AMP_ONNX_NAMES_H

#include "core/fail.h"

typedef struct amp_onnx_names {
    struct amp_onnx_slot *slots;
    size_t room, count; /* room: a power of two, or 0 */
} amp_onnx_names;

/* The number of a name; -1: it is not there. */
int amp_onnx_names_find(const amp_onnx_names *names, const char *name);
/* Adds a name that is not there; the caller keeps the text. AMP_ERROR_MEMORY, without an error: no memory. */
amp_status amp_onnx_names_add(amp_onnx_names *names, const char *name, int number);
void amp_onnx_names_end(amp_onnx_names *names);

#endif /* AMP_ONNX_NAMES_H */
