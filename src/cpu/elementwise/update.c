/* Steps of optimizers: one pass over all parameters, their gradients and their states, each read and written once. */
#include <math.h>

#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/lists.h"

static char *element_at(const amp_tensor *t, int64_t at) {
    return (char *)amp_tensor_pointer(t) + at * (int64_t)amp_element_sizes[t->dtype];
}

/* Where n elements are to be worked on: where they lie, or converted in the buffer. */
static void *load(const amp_tensor *t, amp_dtype compute, int64_t at, int64_t n, void *buffer) {
    char *data = element_at(t, at);
    if (t->dtype == compute) return data;
    amp_block_load(compute, buffer, t->dtype, data, (int64_t)amp_element_sizes[t->dtype], n);
    return buffer;
}

static void store(const amp_tensor *t, amp_dtype compute, int64_t at, int64_t n, const void *values) {
    char *data = element_at(t, at);
    if (data != values) amp_block_store(compute, values, t->dtype, data, (int64_t)amp_element_sizes[t->dtype], n);
}

#define REAL float
#define COMPUTE AMP_F32
#define ROOT sqrtf
#define ABSOLUTE fabsf
#define NAME(name) name##_f32
#include "cpu/elementwise/update_body.h"
#undef REAL
#undef COMPUTE
#undef ROOT
#undef ABSOLUTE
#undef NAME

#define REAL double
#define COMPUTE AMP_F64
#define ROOT sqrt
#define ABSOLUTE fabs
#define NAME(name) name##_f64
#include "cpu/elementwise/update_body.h"

static void update_piece(void *context, int64_t index, int64_t begin, int64_t end) {
    const amp_update *u = context;
    (u->parameters[index]->dtype == AMP_F64 ? run_f64 : run_f32)(u, index, begin, end);
}

/* Whether threads would write the same memory: parameters that are views of one. */
static bool shares_memory(const amp_update *u) {
    amp_tensor_list lists[2 + AMP_UPDATE_STATES] = {{.items = u->parameters, .count = u->count}};
    int count = 1;
    if (u->copies) lists[count++] = (amp_tensor_list){.items = u->copies, .count = u->count};
    for (int k = 0; k < AMP_UPDATE_STATES; k++) {
        if (u->states[k]) lists[count++] = (amp_tensor_list){.items = u->states[k], .count = u->count};
    }
    return amp_lists_share_memory(lists, count);
}

amp_status amp_cpu_update(amp_call *call, const amp_update *u) {
    (void)call;
    const amp_list_walk walk = {.tensors = {.items = u->parameters, .count = u->count},
                                .unit = 64,
                                .cost = 8,
                                .in_order = shares_memory(u),
                                .piece = update_piece,
                                .context = (void *)(uintptr_t)u};
    amp_block_prepare();
    amp_list_walk_run(&walk);
    return AMP_OK;
}
