/* Running sums, products and extremes. f32 is summed in f64, as on the CPU, and rounded once. */
#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cuda/cuda_backend.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"

typedef struct scan_kernels {
    const char *f64, *i64, *c128;
} scan_kernels;

static amp_status run(amp_call *call, amp_tensor *input, int d, amp_dtype dtype, const scan_kernels *kernels,
                      bool with_places) {
    const char *op = call->op->name;
    const amp_dtype compute = amp_compute_dtype(dtype);
    amp_tensor *dense = amp_cuda_dense(input);
    amp_tensor *out = dense ? amp_call_dense_output(call, dtype, input->rank, input->shape) : NULL;
    amp_tensor *places = out && with_places ? amp_call_output(call, 1, AMP_I64, input->rank, input->shape) : NULL;
    if (!out || (with_places && !places)) return amp_pending_error();
    amp_cuda_scan a = {.in_dtype = input->dtype, .out_dtype = dtype, .length = 1, .inner = 1};
    if (amp_tensor_elements(out) == 0) return AMP_OK;
    if (input->rank > 0) a.length = input->shape[d];
    for (int i = d + 1; i < input->rank; i++) a.inner *= input->shape[i];
    a.rows = amp_tensor_elements(input) / a.length;
    a.in = amp_cuda_address(op, dense);
    a.out = a.in ? amp_cuda_address(op, out) : NULL;
    if (a.out && places) a.index = amp_cuda_address(op, places);
    if (!a.out || (places && !a.index)) return amp_pending_error();
    const char *kernel = compute == AMP_I64 ? kernels->i64 : compute == AMP_C128 ? kernels->c128 : kernels->f64;
    return amp_cuda_launch_over(op, kernel, &a, a.rows < 65536 ? a.rows : 65536);
}

static amp_status accumulate(amp_call *call, amp_tensor *input, int64_t dim, amp_dtype given,
                             const scan_kernels *kernels) {
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &d));
    return run(call, input, d, amp_total_dtype(call, input, given), kernels, false);
}

amp_status cuda_cumsum(amp_call *call) {
    const amp_cumsum_args *a = call->args;
    return accumulate(call, a->input, a->dim, a->dtype, &(scan_kernels){"cumsum_f64", "cumsum_i64", "cumsum_c128"});
}
amp_status cuda_cumprod(amp_call *call) {
    const amp_cumprod_args *a = call->args;
    return accumulate(call, a->input, a->dim, a->dtype, &(scan_kernels){"cumprod_f64", "cumprod_i64", "cumprod_c128"});
}

amp_status cuda_logcumsumexp(amp_call *call) {
    const amp_logcumsumexp_args *a = call->args;
    int d;
    AMP_TRY(amp_check_logarithms(call, a->input));
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, a->input->rank, &d));
    if (amp_dtype_is_complex(a->input->dtype)) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: not implemented on cuda for complex numbers yet",
                        amp_call_name(call));
    }
    return run(call, a->input, d, a->input->dtype, &(scan_kernels){"logcumsumexp_f64", NULL, NULL}, false);
}

static amp_status extremes(amp_call *call, amp_tensor *input, int64_t dim, const scan_kernels *kernels) {
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &d));
    if (amp_dtype_is_complex(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                        amp_describe(input));
    }
    return run(call, input, d, input->dtype, kernels, true);
}

amp_status cuda_cummax(amp_call *call) {
    const amp_cummax_args *a = call->args;
    return extremes(call, a->input, a->dim, &(scan_kernels){"cummax_f64", "cummax_i64", NULL});
}
amp_status cuda_cummin(amp_call *call) {
    const amp_cummin_args *a = call->args;
    return extremes(call, a->input, a->dim, &(scan_kernels){"cummin_f64", "cummin_i64", NULL});
}
