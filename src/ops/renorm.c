/* renorm and local_response_norm. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/compute_dtype.h"
#include "steps/constants.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

amp_status cpu_renorm(amp_call *call) {
    const amp_renorm_args *a = call->args;
    const amp_tensor *input = a->input;
    const double p = amp_constant_of(&a->p, AMP_F64).f64;
    const double limit = amp_constant_of(&a->maxnorm, AMP_F64).f64;
    int d;
    const bool is_complex = amp_dtype_is_complex(input->dtype);
    if (!amp_dtype_is_floating(input->dtype) && !is_complex) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating or complex dtype", amp_call_name(call),
                        amp_describe(input));
    }
    if (input->rank < 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected at least 2 dimensions", amp_call_name(call),
                        amp_describe(input));
    }
    if (!(p > 0.0) || !(limit >= 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'p' is %g, 'maxnorm' is %g; expected more than 0, and 0 or more",
                        amp_call_name(call), p, limit);
    }
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, input->rank, &d));
    const amp_tensor *moduli = is_complex ? amp_abs(a->input) : input;
    if (!moduli) return amp_pending_error();
    const amp_reduce_work work = {.kind = amp_norm_reduction(p),
                                  .input = moduli,
                                  .mask = ((1u << input->rank) - 1) & ~(1u << d),
                                  .compute = amp_compute_dtype(moduli->dtype),
                                  .power = p,
                                  .scale = 1.0,
                                  .root = isinf(p) ? 1.0 : 1.0 / p};
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(input, work.mask, true, shape);
    amp_tensor *norms = amp_backend_tensor(call->device, call->op->name, AMP_F64, rank, shape);
    if (!norms) return amp_pending_error();
    AMP_TRY(amp_reduce(&work, norms));
    return amp_steps_of(call)->scale_slices(call, a->input, norms, limit);
}

amp_status cpu_local_response_norm(amp_call *call) {
    const amp_local_response_norm_args *a = call->args;
    const amp_tensor *input = a->input;
    const bool whole = input->dtype == AMP_I64;
    if (!amp_dtype_is_floating(input->dtype) && !whole) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype or i64", amp_call_name(call),
                        amp_describe(input));
    }
    if (input->rank < 3 || a->size < 1) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: input is %s, 'size' is %lld; expected [N, C, …] of at least 3 dimensions, and 1 or more",
                        amp_call_name(call), amp_describe(input), (long long)a->size);
    }
    int64_t inner = 1;
    for (int d = 2; d < input->rank; d++) inner *= input->shape[d];
    return amp_steps_of(call)->respond(call, a, inner);
}
