/* Structs that callers pass with their size in front, so that programs built against older and newer headers work. */
#ifndef AMP_CORE_STRUCT_SIZE_H
#define AMP_CORE_STRUCT_SIZE_H

#include <stdint.h>
#include <string.h>

#include "core/fail.h"

enum { AMP_MAX_STRUCT_BYTES = 1024 };

/* A few words in most cases: fewer instructions than a call of memcpy, and than the loop over bytes that gcc makes of
 * it. */
static inline void amp_copy_words(void *to, const void *from, size_t bytes) {
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t))
        memcpy((char *)to + i, (const char *)from + i, sizeof(uint64_t));
    for (; i < bytes; i++) ((char *)to)[i] = ((const char *)from)[i];
}

/* Copies `given` to `to`, which has `known` bytes; what a shorter struct lacks is 0 there. An error for NULL, for a
 * size below `least` or beyond AMP_MAX_STRUCT_BYTES, and for a longer struct in which something is set that this libamp
 * does not know. The sentence begins with `what` ("init") and names the struct's type. */
amp_status amp_struct_read(const char *what, const char *type, void *to, size_t known, size_t least, const void *given);

/* What a newer header may use is 0. */
amp_status amp_struct_reserved(const char *what, const void *bytes, size_t count);

/* The same of a struct whose size, `bytes`, is an argument of its own: what the caller fills … */
amp_status amp_struct_take(const char *what, const char *type, void *to, size_t known, const void *given, size_t bytes);
/* … and what libamp does: the first `bytes` of the `known` at `from`, and zeros behind those. */
amp_status amp_struct_write(const char *what, void *to, size_t bytes, const void *from, size_t known);

amp_status amp_struct_fail_mark(const char *what, const char *name);
/* An option that is given has the mark AMP_PRESENT, one that is not is 0; anything else is a bare value, which C
 * accepted in the mark's place. */
static inline amp_status amp_struct_mark(const char *what, const char *name, int set, bool is_zero) {
    return set == AMP_PRESENT || (set == 0 && is_zero) ? AMP_OK : amp_struct_fail_mark(what, name);
}

#endif /* AMP_CORE_STRUCT_SIZE_H */
