/* Structs that callers pass with their size in front. */
#include "core/struct_size.h"

#include <string.h>

amp_status amp_struct_read(const char *what, const char *type, void *to, size_t known, size_t least,
                           const void *given) {
    size_t size = 0;
    if (!given) return amp_fail(AMP_ERROR_INVALID, "%s: the struct is NULL; expected a filled-in %s", what, type);
    memcpy(&size, given, sizeof size);
    if (size < least || size > AMP_MAX_STRUCT_BYTES) {
        return amp_fail(AMP_ERROR_INVALID, "%s: struct_size is %zu; set it to sizeof(%s)", what, size, type);
    }
    const size_t kept = size < known ? size : known;
    amp_copy_words(to, given, kept);
    if (kept < known) memset((char *)to + kept, 0, known - kept);
    for (size_t i = known; i < size; i++) {
        if (((const char *)given)[i] == 0) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: an option is set that this libamp does not know (a newer header)",
                        what);
    }
    return AMP_OK;
}
