/* Room for a thread's sentences, made at their first use and freed with the thread. */
#include <stdlib.h>

#include "core/thread.h"

static __thread amp_thread_text *text;
static amp_thread_text shared; /* for threads that get no memory: a garbled sentence is better than none */

void amp_text_end_thread(void) {
    if (text != &shared) free(text);
    text = NULL;
}

/* malloc, not amp_alloc: the sentence "no memory" must not depend on the allocator that just failed. */
amp_thread_text *amp_this_thread_text(void) {
    if (text) return text;
    amp_thread_watch_end();
    text = calloc(1, sizeof *text);
    return text ? text : (text = &shared);
}
