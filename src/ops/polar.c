/* polar: complex numbers of moduli and angles. */
#include <complex.h>
#include <math.h>
#include <stdatomic.h>

#include "amp/ops.h"
#include "steps/steps.h"

amp_status cpu_polar(amp_call *call) {
    const amp_polar_args *a = call->args;
    const amp_operand v[2] = {amp_tensor_operand("abs", a->abs), amp_tensor_operand("angle", a->angle)};
    AMP_TRY(amp_call_check_same_dtype(call, "abs", a->abs, "angle", a->angle));
    if (a->abs->dtype != AMP_F32 && a->abs->dtype != AMP_F64) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'abs' is %s; expected f32 or f64", amp_call_name(call),
                        amp_describe(a->abs));
    }
    amp_tensor *out = amp_operands_output(call, v, 2, a->abs->dtype == AMP_F32 ? AMP_C64 : AMP_C128);
    if (!out) return amp_pending_error();
    return amp_steps_of(call)->polar(call, a, out);
}
