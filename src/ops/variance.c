/* var, std, var_mean, std_mean. */
#include <complex.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

typedef struct variance_args {
    amp_tensor *input;
    const amp_dims *dim;
    const amp_opt_bool *unbiased;
    bool keepdim;
    const amp_scalar *correction;
} variance_args;

static amp_status read_correction(const amp_call *call, const variance_args *a, double *correction) {
    *correction = a->unbiased->set && !a->unbiased->value ? 0.0 : 1.0;
    if (a->correction->kind == AMP_SCALAR_NONE) return AMP_OK;
    if (a->unbiased->set) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'unbiased' and 'correction' are both given; expected one of them",
                        amp_call_name(call));
    }
    if (a->correction->kind == AMP_SCALAR_COMPLEX) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'correction' is a complex number", amp_call_name(call));
    }
    *correction = a->correction->kind == AMP_SCALAR_FLOAT ? a->correction->re : (double)a->correction->i;
    return AMP_OK;
}

static amp_status variance(amp_call *call, const variance_args *a, double power, bool with_mean) {
    const amp_dtype dtype = a->input->dtype;
    double correction;
    unsigned mask;
    AMP_TRY(amp_wrap_dims(call, "dim", a->dim, true, a->input->rank, &mask));
    AMP_TRY(read_correction(call, a, &correction));
    if (amp_compute_dtype(dtype) == AMP_I64) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating or complex dtype", amp_call_name(call),
                        amp_describe(a->input));
    }
    const amp_variance v = {a->input, mask, a->keepdim, correction, power, with_mean};
    return amp_steps_of(call)->variance(call, &v);
}

#define DEFINE_VARIANCE(op, power, with_mean)                                                                          \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const variance_args v = {a->input, &a->dim, &a->unbiased, a->keepdim, &a->correction};                         \
        return variance(call, &v, power, with_mean);                                                                   \
    }

DEFINE_VARIANCE(var, 1.0, false)

DEFINE_VARIANCE(std, 0.5, false)

DEFINE_VARIANCE(var_mean, 1.0, true)

DEFINE_VARIANCE(std_mean, 0.5, true)
