/* The struct, and behind it its texts. */
#include "call/copy_args.h"

#include <string.h>

static const char **text_field(const amp_op_info *op, const void *args, int argument) {
    return (const char **)((uintptr_t)args + op->args[argument].offset);
}

static const char *text_of(const amp_op_info *op, const void *args, int argument) {
    return op->args[argument].kind == AMP_ARG_STRING ? *text_field(op, args, argument) : NULL;
}

size_t amp_args_bytes(const amp_op_info *op, const void *args) {
    size_t bytes = op->args_size;
    for (int i = 0; i < op->arg_count; i++) {
        const char *text = text_of(op, args, i);
        if (text) bytes += strlen(text) + 1;
    }
    return bytes;
}

void amp_args_copy(const amp_op_info *op, const void *args, void *room) {
    char *end = (char *)room + op->args_size;
    memcpy(room, args, op->args_size);
    for (int i = 0; i < op->arg_count; i++) {
        const char *text = text_of(op, args, i);
        if (!text) continue;
        *text_field(op, room, i) = end;
        end = (char *)memcpy(end, text, strlen(text) + 1) + strlen(text) + 1;
    }
}
