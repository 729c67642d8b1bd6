/* Room for a thread's sentences, made at their first use and freed with the thread. */
#include <pthread.h>
#include <stdlib.h>

#include "core/thread.h"

static __thread amp_thread_text *text;
static pthread_key_t text_key;
static pthread_once_t text_once = PTHREAD_ONCE_INIT;
static amp_thread_text shared; /* for threads that get no memory: a garbled sentence is better than none */

static void free_text(void *mine) {
    text = NULL;
    free(mine);
}

static void make_key(void) {
    (void)pthread_key_create(&text_key, free_text);
}

/* malloc, not amp_alloc: the sentence "no memory" must not depend on the allocator that just failed. */
amp_thread_text *amp_this_thread_text(void) {
    if (text) return text;
    pthread_once(&text_once, make_key);
    text = calloc(1, sizeof *text);
    if (!text) return text = &shared;
    (void)pthread_setspecific(text_key, text);
    return text;
}
