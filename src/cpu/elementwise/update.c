/* Steps of optimizers: one pass over all parameters, their gradients and their states, each read and written once. */
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/lists.h"
#include "cpu/registry/kernels.h"

static amp_dtype compute_dtype(const amp_tensor *parameter) {
    return parameter->dtype == AMP_F64 ? AMP_F64 : AMP_F32;
}

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

typedef struct update_job {
    const amp_update *u;
    amp_update_function *f32, *f64; /* NULL: no parameter is computed so */
} update_job;

/* Elements [begin, end) of a parameter, in blocks; what is of the type of computing is worked on where it lies. */
static void update_piece(void *context, int64_t index, int64_t begin, int64_t end) {
    const update_job *job = context;
    const amp_update *u = job->u;
    const amp_tensor *parameter = u->parameters[index];
    const amp_dtype compute = compute_dtype(parameter);
    const int64_t block = AMP_BLOCK_BYTES / (int64_t)amp_element_sizes[compute];
    _Alignas(64) char buffers[2 + AMP_UPDATE_STATES][AMP_BLOCK_BYTES];
    for (int64_t at = begin; at < end; at += block) {
        const int64_t n = end - at < block ? end - at : block;
        amp_update_block b = {.kind = u->kind, .numbers = u->numbers, .count = n};
        b.parameter = load(parameter, compute, at, n, buffers[0]);
        b.gradient = load(u->gradients[index], compute, at, n, buffers[1]);
        for (int k = 0; k < AMP_UPDATE_STATES; k++) {
            if (u->states[k]) b.states[k] = load(u->states[k][index], compute, at, n, buffers[2 + k]);
        }
        (compute == AMP_F64 ? job->f64 : job->f32)(&b);
        store(parameter, compute, at, n, b.parameter);
        if (u->copies) store(u->copies[index], compute, at, n, b.parameter);
        for (int k = 0; k < AMP_UPDATE_STATES; k++) {
            if (u->states[k]) store(u->states[k][index], compute, at, n, b.states[k]);
        }
    }
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

/* Asked for before threads are. */
static amp_status choose_kernels(amp_call *call, update_job *job) {
    for (int64_t i = 0; i < job->u->count; i++) {
        const amp_dtype compute = compute_dtype(job->u->parameters[i]);
        amp_update_function **place = compute == AMP_F64 ? &job->f64 : &job->f32;
        if (*place) continue;
        const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_UPDATE, compute, compute);
        if (!kernel) return amp_last_status();
        *place = (amp_update_function *)kernel->function;
        call->note.kernel = kernel->name;
    }
    return AMP_OK;
}

amp_status amp_cpu_update(amp_call *call, const amp_update *u) {
    update_job job = {.u = u};
    AMP_TRY(choose_kernels(call, &job));
    const amp_list_walk walk = {.tensors = {.items = u->parameters, .count = u->count},
                                .unit = 64,
                                .cost = 8,
                                .in_order = shares_memory(u),
                                .piece = update_piece,
                                .context = &job};
    amp_block_prepare();
    amp_list_walk_run(&walk);
    return AMP_OK;
}
