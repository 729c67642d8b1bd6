/* Steps of optimizers: one pass over a parameter, its gradient and its states, each read and written once. */
#include <math.h>
#include <omp.h>

#include "core/parallel.h"
#include "core/tensor_impl.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"

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

amp_status amp_cpu_update(amp_call *call, const amp_update *u) {
    (void)call;
    const int64_t count = amp_tensor_elements(u->parameter);
    const int threads = amp_parallel_threads(8 * count, AMP_GRAIN_ELEMENTS);
    amp_block_prepare();
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range part = amp_parallel_part(count, 64, omp_get_thread_num(), omp_get_num_threads());
        (u->parameter->dtype == AMP_F64 ? run_f64 : run_f32)(u, part.begin, part.end);
    }
    return AMP_OK;
}
