/* Events and properties of devices: the part of amp/cuda.h that has nothing to do with tensors. */
#include <math.h>
#include <string.h>

#include "amp/cuda.h"
#include "core/struct_size.h"
#include "cuda/cuda_backend.h"

/* The module, and no argument that is NULL. */
static amp_status need(const char *what, const void *first, const void *second, const amp_cuda_module **module) {
    const amp_backend *backend;
    AMP_TRY(amp_cuda_backend(what, &backend));
    *module = amp_cuda_loaded();
    if (first && second) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: an argument is NULL", what);
}

/* ---- Events ------------------------------------------------------------------------------------------------------ */
amp_cuda_event *amp_cuda_event_create(bool enable_timing) {
    const amp_cuda_module *module;
    amp_cuda_event *event = NULL;
    if (need("cuda_event_create", "", "", &module) != AMP_OK) return NULL;
    (void)amp_cuda_status("cuda_event_create", module->event_make(enable_timing, &event));
    return event;
}

void amp_cuda_event_free(amp_cuda_event *event) {
    if (event) amp_cuda_loaded()->event_free(event);
}

amp_status amp_cuda_event_record(amp_cuda_event *event) {
    const amp_cuda_module *module;
    AMP_TRY(need("cuda_event_record", event, event, &module));
    return amp_cuda_status("cuda_event_record", module->event_record(event));
}

amp_status amp_cuda_event_wait(amp_cuda_event *event) {
    const amp_cuda_module *module;
    AMP_TRY(need("cuda_event_wait", event, event, &module));
    return amp_cuda_status("cuda_event_wait", module->event_wait(event));
}

bool amp_cuda_event_query(amp_cuda_event *event) {
    const amp_cuda_module *module;
    bool done = false;
    if (need("cuda_event_query", event, event, &module) != AMP_OK) return false;
    return amp_cuda_status("cuda_event_query", module->event_query(event, &done)) == AMP_OK && done;
}

amp_status amp_cuda_event_synchronize(amp_cuda_event *event) {
    const amp_cuda_module *module;
    AMP_TRY(need("cuda_event_synchronize", event, event, &module));
    return amp_cuda_status("cuda_event_synchronize", module->event_finish(event));
}

double amp_cuda_event_elapsed_time(amp_cuda_event *start, amp_cuda_event *end) {
    static const char what[] = "cuda_event_elapsed_time";
    const amp_cuda_module *module;
    float milliseconds = 0;
    if (need(what, start, end, &module) != AMP_OK) return NAN;
    if (amp_cuda_status(what, module->elapsed(start, end, &milliseconds)) != AMP_OK) return NAN;
    return (double)milliseconds;
}

/* ---- Devices ----------------------------------------------------------------------------------------------------- */
amp_status amp_cuda_read_device_properties(int index, amp_cuda_device_properties *properties, size_t bytes) {
    static const char what[] = "cuda_get_device_properties";
    const amp_cuda_module *module;
    amp_cuda_device_properties known = {.major = 0};
    AMP_TRY(amp_struct_write(what, properties, bytes, &known, sizeof known));
    AMP_TRY(need(what, properties, properties, &module));
    amp_cuda_facts facts = {.major = 0};
    AMP_TRY(amp_cuda_status(what, module->describe_device(index, &facts)));
    known = (amp_cuda_device_properties){.major = facts.major,
                                         .minor = facts.minor,
                                         .multiprocessors = facts.multiprocessors,
                                         .total_memory = facts.memory};
    memcpy(known.name, facts.name, sizeof facts.name);
    return amp_struct_write(what, properties, bytes, &known, sizeof known);
}

amp_status amp_cuda_mem_get_info(size_t *free_bytes, size_t *total_bytes) {
    static const char what[] = "cuda_mem_get_info";
    const amp_cuda_module *module;
    if (free_bytes) *free_bytes = 0;
    if (total_bytes) *total_bytes = 0;
    AMP_TRY(need(what, free_bytes, total_bytes, &module));
    return amp_cuda_status(what, module->memory_info(free_bytes, total_bytes));
}
