/* The names that a thread gives to what it calls. */
#include <string.h>

#include "amp/explain.h"
#include "core/thread.h"

/* The path without what would be the start of a character whose end found no room. */
static size_t whole_characters(const char *path, size_t length) {
    while (length > 0 && ((unsigned char)path[length] & 0xC0) == 0x80) length--;
    return length;
}

/* "/name" behind the path, as far as there is room. */
static void append(amp_label_stack *labels, const char *name) {
    size_t at = strlen(labels->path);
    if (at > 0 && at + 1 < sizeof labels->path) labels->path[at++] = '/';
    const size_t room = sizeof labels->path - 1 - at, length = strlen(name);
    const size_t kept = length <= room ? length : whole_characters(name, room);
    memcpy(labels->path + at, name, kept);
    labels->path[at + kept] = '\0';
}

amp_status amp_label_enter(const char *name) {
    amp_label_stack *labels = &amp_this_thread_text()->labels;
    const int depth = labels->depth++;
    if (depth < AMP_LABEL_DEPTH) labels->ends[depth] = (unsigned char)strlen(labels->path);
    if (!name) return amp_fail(AMP_ERROR_INVALID, "label: the name is NULL, expected a text");
    if (depth < AMP_LABEL_DEPTH) append(labels, name);
    return amp_pending_error();
}

amp_status amp_label_exit(void) {
    amp_label_stack *labels = &amp_this_thread_text()->labels;
    if (labels->depth == 0) return amp_fail(AMP_ERROR_INVALID, "label: exit without an open label on this thread");
    if (--labels->depth < AMP_LABEL_DEPTH) labels->path[labels->ends[labels->depth]] = '\0';
    return amp_pending_error();
}

const char *amp_label_path(void) {
    return amp_this_thread_text()->labels.path;
}

amp_region amp_label_open(const char *name) {
    (void)amp_label_enter(name);
    return (amp_region){.device = AMP_DEVICE_CPU};
}

void amp_label_close(amp_region *region) {
    (void)region;
    (void)amp_label_exit();
}
