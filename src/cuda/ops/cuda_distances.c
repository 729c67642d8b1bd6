/* cdist and pdist: the geometry of one kernel. */
#include <math.h>
#include <string.h>

#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"

static amp_status run(amp_call *call, const amp_tensor *one, const amp_tensor *many, amp_tensor *out,
                      amp_cuda_distances *a) {
    const char *op = call->op->name;
    const bool wide = out->dtype == AMP_F64 || !(a->p == 0.0 || a->p == 1.0 || a->p == 2.0 || isinf(a->p));
    a->count = amp_tensor_elements(out);
    if (a->count == 0) return AMP_OK;
    a->x1_dtype = one->dtype;
    a->x2_dtype = many->dtype;
    a->out_dtype = out->dtype;
    a->depth = one->shape[one->rank - 1];
    a->x1_step = one->strides[one->rank - 1];
    a->x2_step = many->strides[many->rank - 1];
    a->x1 = amp_cuda_address(op, one);
    a->x2 = a->x1 ? amp_cuda_address(op, many) : NULL;
    a->out = a->x2 ? amp_cuda_address(op, out) : NULL;
    if (!a->out) return amp_pending_error();
    return amp_cuda_launch_over(op, wide ? "distances_f64" : "distances_f32", a, amp_cuda_blocks(a->count * 4));
}

amp_status amp_cuda_distances_between(amp_call *call, const amp_tensor *one, const amp_tensor *many, double p,
                                      amp_dtype dtype) {
    const int rank = one->rank;
    amp_cuda_distances a = {.rank = rank, .p = p};
    memcpy(a.shape, one->shape, sizeof a.shape);
    memcpy(a.x1_strides, one->strides, sizeof a.x1_strides);
    memcpy(a.x2_strides, many->strides, sizeof a.x2_strides);
    a.shape[rank - 1] = many->shape[rank - 2];
    a.x1_strides[rank - 1] = a.x2_strides[rank - 2] = 0;
    a.x2_strides[rank - 1] = many->strides[rank - 2];
    amp_tensor *out = amp_call_dense_output(call, dtype, rank, a.shape);
    return out ? run(call, one, many, out, &a) : amp_pending_error();
}

amp_status amp_cuda_distances_within(amp_call *call, const amp_tensor *points, double p) {
    const int64_t n = points->shape[0], count = n > 1 ? n * (n - 1) / 2 : 0;
    amp_cuda_distances a = {.points = n, .point_step = points->strides[0], .p = p};
    amp_tensor *out = amp_call_dense_output(call, points->dtype, 1, &count);
    return out ? run(call, points, points, out, &a) : amp_pending_error();
}
