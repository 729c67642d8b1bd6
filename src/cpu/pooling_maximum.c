/* max_pool1d … 3d and the adaptive forms. */
#include <math.h>

#include "amp/ops.h"
#include "cpu/element.h"
#include "cpu/pooling.h"

#define TYPE float
#define LEAST (-INFINITY)
#define NAME(x) x##_f32
#include "cpu/pooling_maximum_body.h"
#define TYPE double
#define LEAST (-INFINITY)
#define NAME(x) x##_f64
#include "cpu/pooling_maximum_body.h"
#define TYPE int64_t
#define LEAST INT64_MIN
#define NAME(x) x##_i64
#include "cpu/pooling_maximum_body.h"

amp_pool_line_function *amp_pool_maximum(amp_dtype compute) {
    return compute == AMP_F32 ? line_f32 : compute == AMP_F64 ? line_f64 : line_i64;
}

typedef struct maximum {
    const amp_pool *pool;
    amp_pool_line_function *function;
    const char *in;
    char *out;
    int64_t *indices;
    int64_t size;
} maximum;

static void maximum_rows(void *context, int64_t begin, int64_t end, void *scratch) {
    const maximum *m = context;
    const amp_spatial *s = &m->pool->s;
    const int64_t line = s->out[2] * s->inner, plane = s->in[0] * s->in[1] * s->in[2] * s->inner;
    (void)scratch;
    for (int64_t index = begin; index < end; index++) {
        const amp_spatial_row row = amp_spatial_row_at(s, index);
        m->function(&(amp_pool_line){.pool = m->pool,
                                     .d = &m->pool->windows[0][row.d],
                                     .h = &m->pool->windows[1][row.h],
                                     .in = m->in + row.outer * plane * m->size,
                                     .out = m->out + index * line * m->size,
                                     .indices = m->indices ? m->indices + index * line : NULL});
    }
}

static amp_status run(amp_call *call, const amp_pool *p, amp_tensor *input, bool return_indices) {
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    amp_spatial_result result, places = {0};
    const void *in;
    AMP_TRY(amp_spatial_write(call, &p->s, 0, input->dtype, compute, &result));
    if (return_indices) AMP_TRY(amp_spatial_write(call, &p->s, 1, AMP_I64, AMP_I64, &places));
    AMP_TRY(amp_spatial_read(call, &p->s, input, compute, &in));
    maximum m = {.pool = p, .function = amp_pool_maximum(compute), .in = in, .out = result.data};
    m.indices = places.data;
    m.size = (int64_t)amp_dtype_size(compute);
    int64_t cost = p->s.out[2] * p->s.inner;
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) cost *= p->s.out[k] ? p->windows[k][p->s.out[k] / 2].count : 0;
    AMP_TRY(amp_spatial_run(call, amp_spatial_row_count(&p->s), cost, 0, maximum_rows, &m));
    return amp_spatial_finish(&result);
}

static amp_status check_dtype(const amp_call *call, const amp_tensor *input, bool adaptive) {
    const bool whole = !amp_dtype_is_complex(input->dtype) && input->dtype != AMP_BOOL && !adaptive;
    if (amp_dtype_is_floating(input->dtype) || whole) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating%s dtype", amp_call_name(call),
                    amp_describe(input), adaptive ? "" : " or integer");
}

static amp_status maximum_windows(amp_call *call, amp_tensor *input, int dims, const amp_pool_options *options,
                                  bool return_indices) {
    amp_pool p;
    AMP_TRY(check_dtype(call, input, false));
    AMP_TRY(amp_pool_start(call, &p, input, dims, options));
    return run(call, &p, input, return_indices);
}

#define DEFINE(op, dims)                                                                                               \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_pool_options options = {&a->kernel_size, &a->stride, &a->padding, &a->dilation, a->ceil_mode};       \
        return maximum_windows(call, a->input, dims, &options, a->return_indices);                                     \
    }
DEFINE(max_pool1d, 1)
DEFINE(max_pool2d, 2)
DEFINE(max_pool3d, 3)

#define DEFINE_ADAPTIVE(op, dims)                                                                                      \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        amp_pool p;                                                                                                    \
        AMP_TRY(check_dtype(call, a->input, true));                                                                    \
        AMP_TRY(amp_pool_start_adaptive(call, &p, a->input, dims, &a->output_size));                                   \
        return run(call, &p, a->input, a->return_indices);                                                             \
    }
DEFINE_ADAPTIVE(adaptive_max_pool2d, 2)
DEFINE_ADAPTIVE(adaptive_max_pool3d, 3)
