/* Points in the order of a stream's work. The driver's events are made on a device, and only its streams can record
 * them; any stream can wait for one. */
#include <stdlib.h>

#include "cuda/module/driver.h"

struct amp_cuda_event {
    CUevent handle;
    int device;
    bool timed;
    _Atomic bool recorded;
};

/* The thread's stream of a device; the selected one is selected again. */
static amp_cuda_result stream_on(int device, CUstream *stream) {
    const int selected = amp_cuda_selected();
    amp_cuda_relax();
    AMP_CUDA_TRY(amp_cuda_select(device));
    const amp_cuda_result entered = amp_cuda_enter(stream);
    (void)amp_cuda_select(selected);
    return entered;
}

amp_cuda_result amp_cuda_make_event(bool timed, amp_cuda_event **made) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream)); /* the device's context is current */
    amp_cuda_event *e = calloc(1, sizeof *e);
    if (!e) return amp_cuda_say(AMP_CUDA_NO_MEMORY, "the host has no memory for an event");
    e->device = amp_cuda_selected();
    e->timed = timed;
    const amp_cuda_result result = amp_cuda_check(
        cuda.event_create(&e->handle, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING), "an event cannot be made");
    if (result == AMP_CUDA_OK) *made = e;
    if (result != AMP_CUDA_OK) free(e);
    return result;
}

void amp_cuda_free_event(amp_cuda_event *event) {
    if (!amp_cuda_is_forked()) (void)cuda.event_destroy(event->handle); /* kept while a stream waits for it */
    free(event);
}

amp_cuda_result amp_cuda_record_event(amp_cuda_event *event) {
    CUstream stream;
    AMP_CUDA_TRY(stream_on(event->device, &stream));
    AMP_CUDA_TRY(amp_cuda_check(cuda.event_record(event->handle, stream), "an event cannot be recorded"));
    event->recorded = true;
    return AMP_CUDA_OK;
}

amp_cuda_result amp_cuda_wait_event(const amp_cuda_event *event) {
    CUstream stream;
    if (!event->recorded) return AMP_CUDA_OK;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    amp_cuda_count.stream_waits++;
    return amp_cuda_check(cuda.stream_wait_event(stream, event->handle, 0), "a stream cannot wait for an event");
}

amp_cuda_result amp_cuda_query_event(const amp_cuda_event *event, bool *done) {
    CUstream stream;
    AMP_CUDA_TRY(stream_on(event->device, &stream));
    const CUresult result = cuda.event_query(event->handle);
    *done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? AMP_CUDA_OK : amp_cuda_check(result, "an event cannot be asked");
}

amp_cuda_result amp_cuda_finish_event(const amp_cuda_event *event) {
    CUstream stream;
    AMP_CUDA_TRY(stream_on(event->device, &stream));
    amp_cuda_count.synchronizations++;
    return amp_cuda_check(cuda.event_synchronize(event->handle), "waiting for an event");
}

amp_cuda_result amp_cuda_elapsed(const amp_cuda_event *start, const amp_cuda_event *end, float *milliseconds) {
    CUstream stream;
    if (!start->timed || !end->timed)
        return amp_cuda_say(AMP_CUDA_INVALID, "an event was made without timing; amp_cuda_event_create(true) keeps it");
    if (!start->recorded || !end->recorded) return amp_cuda_say(AMP_CUDA_INVALID, "an event was never recorded");
    if (start->device != end->device)
        return amp_cuda_say(AMP_CUDA_INVALID, "the events are of devices %d and %d, expected one device", start->device,
                            end->device);
    AMP_CUDA_TRY(stream_on(start->device, &stream));
    const CUresult result = cuda.event_elapsed(milliseconds, start->handle, end->handle);
    if (result != CUDA_ERROR_NOT_READY) return amp_cuda_check(result, "the time between events cannot be had");
    return amp_cuda_say(AMP_CUDA_INVALID, "an event has not happened yet; amp_cuda_event_synchronize waits for it");
}
