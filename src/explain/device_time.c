/* Calls whose end the device has not been seen to pass wait in a line, the oldest first. */
#include "explain/device_time.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/lock.h"
#include "core/memory.h"

typedef struct waiting {
    struct waiting *next;
    const amp_backend *backend;
    void *timing;
    amp_record *record;
    uint64_t host;
} waiting;

static waiting *oldest, **newest = &oldest;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* The device's driver ends before destructors run, but after this, for it was started earlier. */
static void read_at_exit(void) {
    amp_lock(AMP_LOCK_EXPLAIN);
    amp_device_times_read(true);
    amp_unlock(AMP_LOCK_EXPLAIN);
}

static void ask_at_exit(void) {
    (void)atexit(read_at_exit);
}

void *amp_device_time_begin(const amp_call *call) {
    const amp_backend *backend = NULL;
    if (call->device == AMP_DEVICE_CPU || amp_backend_for(call->device, call->op->name, &backend) != AMP_OK)
        return NULL;
    void *timing = backend->begin_timing ? backend->begin_timing(call) : NULL;
    if (timing) pthread_once(&exit_once, ask_at_exit);
    return timing;
}

void amp_device_time_end(amp_device device, void *timing, amp_record *record, uint64_t host) {
    const amp_backend *backend = NULL;
    if (amp_backend_for(device, "explain", &backend) != AMP_OK) return;
    backend->end_timing(timing);
    waiting *w = record ? amp_alloc(sizeof *w) : NULL;
    if (w) {
        *w = (waiting){.backend = backend, .timing = timing, .record = record, .host = host};
        *newest = w;
        newest = &w->next;
        return;
    }
    uint64_t nanoseconds = 0;
    const amp_timing read = backend->read_timing(timing, true, &nanoseconds);
    if (record) amp_record_add_time(record, read == AMP_TIMING_READ ? nanoseconds : host);
}

void amp_device_times_read(bool wait) {
    while (oldest) {
        waiting *w = oldest;
        uint64_t nanoseconds = 0;
        const amp_timing read = w->backend->read_timing(w->timing, wait, &nanoseconds);
        if (read == AMP_TIMING_AHEAD) return;
        amp_record_add_time(w->record, read == AMP_TIMING_READ ? nanoseconds : w->host);
        oldest = w->next;
        if (!oldest) newest = &oldest;
        amp_free(w);
    }
}
