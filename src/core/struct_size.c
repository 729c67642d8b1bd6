/* Structs that callers pass with their size in front. */
#include "core/struct_size.h"

#include <string.h>

amp_status amp_struct_reserved(const char *what, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (((const char *)bytes)[i] == 0) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: an option is set that this libamp does not know (a newer header)",
                        what);
    }
    return AMP_OK;
}

/* `size` bytes, which the sizes of structs allow, to `known`. */
static amp_status copy(const char *what, void *to, size_t known, const void *given, size_t size) {
    const size_t kept = size < known ? size : known;
    amp_copy_words(to, given, kept);
    if (kept < known) memset((char *)to + kept, 0, known - kept);
    return size > known ? amp_struct_reserved(what, (const char *)given + known, size - known) : AMP_OK;
}

amp_status amp_struct_read(const char *what, const char *type, void *to, size_t known, size_t least,
                           const void *given) {
    size_t size = 0;
    if (!given) return amp_fail(AMP_ERROR_INVALID, "%s: the struct is NULL; expected a filled-in %s", what, type);
    memcpy(&size, given, sizeof size);
    if (size < least || size > AMP_MAX_STRUCT_BYTES) {
        return amp_fail(AMP_ERROR_INVALID, "%s: struct_size is %zu; set it to sizeof(%s)", what, size, type);
    }
    return copy(what, to, known, given, size);
}

amp_status amp_struct_take(const char *what, const char *type, void *to, size_t known, const void *given,
                           size_t bytes) {
    if (!given) return amp_fail(AMP_ERROR_INVALID, "%s: the struct is NULL; expected a filled-in %s", what, type);
    if (bytes == 0 || bytes > AMP_MAX_STRUCT_BYTES)
        return amp_fail(AMP_ERROR_INVALID, "%s: bytes is %zu; expected sizeof(%s)", what, bytes, type);
    return copy(what, to, known, given, bytes);
}

amp_status amp_struct_write(const char *what, void *to, size_t bytes, const void *from, size_t known) {
    if (!to) return amp_fail(AMP_ERROR_INVALID, "%s: the struct is NULL", what);
    if (bytes == 0 || bytes > AMP_MAX_STRUCT_BYTES)
        return amp_fail(AMP_ERROR_INVALID, "%s: bytes is %zu; expected the size of the struct", what, bytes);
    memcpy(to, from, bytes < known ? bytes : known);
    if (bytes > known) memset((char *)to + known, 0, bytes - known);
    return AMP_OK;
}

amp_status amp_struct_fail_mark(const char *what, const char *name) {
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is a bare value; write AMP_SET(value)", what, name);
}
