/* The end of a thread: what it holds goes back, in the order in which one part may still need the next. */
#include <pthread.h>

#include "core/thread.h"

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end_thread(void *thread) {
    (void)thread;
    amp_scopes_end_thread();
    amp_headers_end_thread();
    amp_memory_end_thread();
    amp_counters_end_thread();
    amp_text_end_thread();
    amp_this_thread.watches_end = false; /* a later destructor of the thread may make and release tensors */
}

static void make_key(void) {
    (void)pthread_key_create(&key, end_thread);
}

void amp_thread_watch(void) {
    pthread_once(&once, make_key);
    (void)pthread_setspecific(key, &amp_this_thread);
    amp_this_thread.watches_end = true;
}
