/* Gradients of pools: of the largest elements by where they stood, of means by their windows. */
#include "generated/op_ids.h"
#include "gradients/pieces.h"

/* The last `dims` extents. */
static amp_dims spatial_shape(const amp_tensor *t, int dims) {
    amp_dims shape = {.count = dims, .set = AMP_PRESENT};
    memcpy(shape.values, t->shape + t->rank - dims, (size_t)dims * sizeof *shape.values);
    return shape;
}

/* ---- By indices into each plane --------------------------------------------------------------------------------------- */
/* (N, C, …) as (N · C, elements of the plane) */
static amp_tensor *planes(amp_tensor *t, int dims) {
    int64_t elements = 1;
    for (int d = 0; t && d < dims; d++) elements *= t->shape[t->rank - 1 - d];
    return t ? amp_reshape(t, AMP_DIMS(elements > 0 ? amp_tensor_elements(t) / elements : 0, elements)) : NULL;
}

/* Values added up where they were taken from, in zeros of the shape of `like`. */
static amp_tensor *put(const amp_gradient *g, amp_tensor *values, amp_tensor *indices, const amp_tensor *like,
                       int dims) {
    values = amp_wide(values);
    amp_tensor *zeros = values ? planes(amp_zeros_for(g, like, values->dtype), dims) : NULL;
    return amp_reshape(amp_scatter_add(zeros, 1, planes(indices, dims), planes(values, dims)), amp_shape_of(like));
}

/* The elements at the indices, in the shape of the indices. */
static amp_tensor *take(amp_tensor *from, amp_tensor *indices, int dims) {
    amp_tensor *flat = amp_gather(planes(from, dims), 1, planes(indices, dims));
    return flat ? amp_reshape(flat, amp_shape_of(indices)) : NULL;
}

/* Where a call did not ask for the indices they are found once more. */
#define DEFINE_MAX(op, dims)                                                                                           \
    void amp_gradient_##op(amp_gradient *g) {                                                                          \
        const amp_##op##_args *a = g->args;                                                                            \
        amp_tensor *indices = g->results[1];                                                                           \
        if (!indices &&                                                                                                \
            !amp_##op##_call(&(amp_##op##_args){                                                                       \
                .struct_size = sizeof *a, .input = a->input, MORE(a), .return_indices = true, .indices = &indices}))   \
            return;                                                                                                    \
        amp_gradient_give(g, &a->input, put(g, g->of[0], indices, a->input, dims));                                    \
    }
#define MORE(a)                                                                                                        \
    .kernel_size = (a)->kernel_size, .stride = (a)->stride, .padding = (a)->padding, .dilation = (a)->dilation,        \
    .ceil_mode = (a)->ceil_mode
DEFINE_MAX(max_pool1d, 1)
DEFINE_MAX(max_pool2d, 2)
DEFINE_MAX(max_pool3d, 3)
#undef MORE
#define MORE(a) .output_size = (a)->output_size
DEFINE_MAX(adaptive_max_pool2d, 2)
DEFINE_MAX(adaptive_max_pool3d, 3)
#undef MORE

/* Windows that the call drew itself are known by the indices only. */
#define DEFINE_FRACTIONAL(op, dims)                                                                                    \
    void amp_gradient_##op(amp_gradient *g) {                                                                          \
        const amp_##op##_args *a = g->args;                                                                            \
        amp_tensor *indices = g->results[1];                                                                           \
        if (!indices && !a->random_samples) {                                                                          \
            (void)amp_fail(AMP_ERROR_INVALID,                                                                          \
                           #op ": its gradient needs 'random_samples' or 'return_indices', and the call had neither"); \
            return;                                                                                                    \
        }                                                                                                              \
        if (!indices && !amp_##op(a->input, a->kernel_size, a->output_size, true, .random_samples = a->random_samples, \
                                  .indices = &indices))                                                                \
            return;                                                                                                    \
        amp_gradient_give(g, &a->input, put(g, g->of[0], indices, a->input, dims));                                    \
    }
DEFINE_FRACTIONAL(fractional_max_pool2d, 2)
DEFINE_FRACTIONAL(fractional_max_pool3d, 3)

#define DEFINE_UNPOOL(op, dims)                                                                                        \
    void amp_gradient_##op(amp_gradient *g) {                                                                          \
        const amp_##op##_args *a = g->args;                                                                            \
        amp_gradient_give(g, &a->input, take(g->of[0], a->indices, dims));                                             \
    }
DEFINE_UNPOOL(max_unpool2d, 2)
DEFINE_UNPOOL(max_unpool3d, 3)

/* ---- Means ------------------------------------------------------------------------------------------------------------ */
/* The pools of one dimension have no divisor of the caller's. */
void amp_gradient_avg_pool(amp_gradient *g) {
    const amp_avg_pool1d_args *one = g->args;
    const amp_avg_pool2d_args *a = g->args;
    const amp_opt_int divisor = g->op->id == AMP_OP_ID_avg_pool1d ? (amp_opt_int){.set = 0} : a->divisor_override;
    amp_gradient_give(g, &one->input,
                      amp_avg_pool_backward(g->of[0], spatial_shape(one->input, one->kernel_size.count),
                                            one->kernel_size, one->stride, one->padding, one->ceil_mode,
                                            one->count_include_pad, divisor));
}

void amp_gradient_avg_pool_backward(amp_gradient *g) {
    const amp_avg_pool_backward_args *a = g->args;
    const int dims = a->kernel_size.count;
    amp_dims padding = {.count = dims, .set = AMP_PRESENT};
    if (a->padding.set) padding = a->padding;
    amp_tensor *t =
        dims == 1   ? amp_avg_pool1d(g->of[0], a->kernel_size, a->stride, padding, a->ceil_mode, a->count_include_pad)
        : dims == 2 ? amp_avg_pool2d(g->of[0], a->kernel_size, a->stride, padding, a->ceil_mode, a->count_include_pad,
                                     a->divisor_override)
                    : amp_avg_pool3d(g->of[0], a->kernel_size, a->stride, padding, a->ceil_mode, a->count_include_pad,
                                     a->divisor_override);
    amp_gradient_give(g, &a->grad_output, t);
}

/* Over a window that is everything, of complex numbers too. */
static amp_tensor *spread_evenly(amp_tensor *of, const amp_tensor *input, int dims) {
    double elements = 1;
    for (int d = 0; d < dims; d++) elements *= (double)input->shape[input->rank - 1 - d];
    return amp_expand(amp_div_scalar(of, amp_float(elements)), amp_shape_of(input));
}

void amp_gradient_adaptive_avg_pool(amp_gradient *g) {
    const amp_adaptive_avg_pool2d_args *a = g->args;
    const int dims = a->output_size.count;
    amp_tensor *t = amp_dtype_is_complex(a->input->dtype)
                        ? spread_evenly(g->of[0], a->input, dims)
                        : amp_adaptive_avg_pool_backward(g->of[0], spatial_shape(a->input, dims));
    amp_gradient_give(g, &a->input, t);
}

void amp_gradient_adaptive_avg_pool_backward(amp_gradient *g) {
    const amp_adaptive_avg_pool_backward_args *a = g->args;
    const int dims = a->input_size.count;
    const amp_dims size = spatial_shape(a->grad_output, dims);
    amp_gradient_give(g, &a->grad_output,
                      dims == 1   ? amp_adaptive_avg_pool1d(g->of[0], size)
                      : dims == 2 ? amp_adaptive_avg_pool2d(g->of[0], size)
                                  : amp_adaptive_avg_pool3d(g->of[0], size));
}
