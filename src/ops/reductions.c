/* sum, mean, prod, amax, amin, normalize. */
#include <math.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/reduce/reduce.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"

static amp_status reduce_to(amp_call *call, amp_reduce_work *work, bool keepdim, amp_dtype dtype) {
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(work->input, work->mask, keepdim, shape);
    amp_tensor *out = amp_call_output(call, 0, dtype, rank, shape);
    return out ? amp_cpu_reduce(work, out) : amp_pending_error();
}

amp_status cpu_sum(amp_call *call) {
    const amp_sum_args *a = call->args;
    amp_reduce_work work = {.kind = AMP_REDUCE_SUM, .input = a->input, .scale = 1.0, .root = 1.0};
    AMP_TRY(amp_wrap_dims(call, "dim", &a->dim, true, a->input->rank, &work.mask));
    const amp_dtype dtype = amp_total_dtype(call, a->input, a->dtype);
    work.compute = amp_compute_dtype(dtype);
    return reduce_to(call, &work, a->keepdim, dtype);
}

amp_status cpu_mean(amp_call *call) {
    const amp_mean_args *a = call->args;
    amp_reduce_work work = {.kind = AMP_REDUCE_SUM, .input = a->input, .root = 1.0};
    const amp_dtype dtype = a->dtype == AMP_DTYPE_NONE ? a->input->dtype : a->dtype;
    AMP_TRY(amp_wrap_dims(call, "dim", &a->dim, true, a->input->rank, &work.mask));
    work.compute = amp_compute_dtype(dtype);
    if (work.compute == AMP_I64) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; the mean of integers is no integer: give a floating 'dtype'",
                        amp_call_name(call), amp_describe(a->input));
    }
    work.scale = 1.0 / (double)amp_reduced_elements(a->input, work.mask);
    return reduce_to(call, &work, a->keepdim, dtype);
}

amp_status cpu_prod(amp_call *call) {
    const amp_prod_args *a = call->args;
    amp_reduce_work work = {.kind = AMP_REDUCE_PRODUCT, .input = a->input, .scale = 1.0, .root = 1.0};
    work.mask = (1u << a->input->rank) - 1;
    if (a->dim.set) {
        int d;
        AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, &d));
        work.mask &= 1u << d;
    }
    const amp_dtype dtype = amp_total_dtype(call, a->input, a->dtype);
    work.compute = amp_compute_dtype(dtype);
    return reduce_to(call, &work, a->keepdim, dtype);
}

static amp_status extreme(amp_call *call, amp_reduction kind, const amp_tensor *input, const amp_dims *dim,
                          bool keepdim) {
    amp_reduce_work work = {.kind = kind, .input = input, .scale = 1.0, .root = 1.0};
    AMP_TRY(amp_wrap_dims(call, "dim", dim, true, input->rank, &work.mask));
    work.compute = amp_compute_dtype(input->dtype);
    if (work.compute == AMP_C128) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                        amp_describe(input));
    }
    if (amp_reduced_elements(input, work.mask) == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, and of no element there is no %s", amp_call_name(call),
                        amp_describe(input), kind == AMP_REDUCE_MAX ? "largest" : "smallest");
    }
    return reduce_to(call, &work, keepdim, input->dtype);
}

amp_status cpu_amax(amp_call *call) {
    const amp_amax_args *a = call->args;
    return extreme(call, AMP_REDUCE_MAX, a->input, &a->dim, a->keepdim);
}
amp_status cpu_amin(amp_call *call) {
    const amp_amin_args *a = call->args;
    return extreme(call, AMP_REDUCE_MIN, a->input, &a->dim, a->keepdim);
}
amp_status cpu_max(amp_call *call) {
    const amp_max_args *a = call->args;
    return extreme(call, AMP_REDUCE_MAX, a->input, &(const amp_dims){.set = 0}, false);
}
amp_status cpu_min(amp_call *call) {
    const amp_min_args *a = call->args;
    return extreme(call, AMP_REDUCE_MIN, a->input, &(const amp_dims){.set = 0}, false);
}

/* ---- normalize ------------------------------------------------------------------------------------------------ */

#define DIVIDE_LOOP(suffix, type)                                                                                      \
    static void divide_##suffix(void *context, void *out, const void *const *in, int64_t n) {                          \
        const type eps = (type) * (const double *)context;                                                             \
        const type *x = in[0], *norm = in[1];                                                                          \
        for (int64_t i = 0; i < n; i++) ((type *)out)[i] = x[i] / (norm[i] < eps ? eps : norm[i]);                     \
    }
DIVIDE_LOOP(f32, float)
DIVIDE_LOOP(f64, double)

static void divide_c128(void *context, void *out, const void *const *in, int64_t n) {
    const double eps = *(const double *)context;
    const double _Complex *x = in[0], *norm = in[1];
    for (int64_t i = 0; i < n; i++) {
        const double length = __real__ norm[i];
        ((double _Complex *)out)[i] = x[i] / (length < eps ? eps : length);
    }
}

amp_status cpu_normalize(amp_call *call) {
    const amp_normalize_args *a = call->args;
    const double p = a->p.value;
    const amp_dtype compute = amp_compute_dtype(a->input->dtype);
    double eps = a->eps.value;
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, &d));
    const bool is_complex = compute == AMP_C128;
    if (!is_complex && !amp_dtype_is_floating(a->input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(a->input));
    }
    const amp_tensor *lengths = is_complex ? amp_abs(a->input) : a->input;
    if (!lengths) return amp_pending_error();
    const amp_reduce_work work = {.kind = amp_norm_reduction(p),
                                  .input = lengths,
                                  .mask = a->input->rank ? 1u << d : 0,
                                  .compute = is_complex ? AMP_F64 : compute,
                                  .power = p,
                                  .scale = 1.0,
                                  .root = p == 0.0 || isinf(p) ? 1.0 : 1.0 / p};
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(a->input, work.mask, true, shape);
    amp_tensor *norm = amp_tensor_new(call->op->name, work.compute, rank, shape);
    if (!norm) return amp_pending_error();
    AMP_TRY(amp_cpu_reduce(&work, norm));
    const amp_operand v[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("norm", norm)};
    amp_tensor *out = amp_operands_output(call, v, 2, a->input->dtype);
    if (!out) return amp_pending_error();
    amp_dense_function *divide = is_complex ? divide_c128 : compute == AMP_F32 ? divide_f32 : divide_f64;
    amp_operands_run(v, 2, compute, compute, divide, &eps, 2, out);
    return AMP_OK;
}
