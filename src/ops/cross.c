/* cross: the vector product in three dimensions. */
#include <complex.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "core/layout.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

/* One of the three slices along d. */
static amp_tensor slice(const amp_tensor *t, int d, int index) {
    amp_tensor part = *t;
    part.offset += index * t->strides[d];
    part.shape[d] = 1;
    return part;
}

static amp_status find_dim(const amp_call *call, const amp_cross_args *a, int *d) {
    if (a->dim.set) return amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, d);
    for (*d = 0; *d < a->input->rank; ++*d) {
        if (a->input->shape[*d] == 3) return AMP_OK;
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, which has no dimension of extent 3", amp_call_name(call),
                    amp_describe(a->input));
}

static amp_status check(const amp_call *call, const amp_cross_args *a, int *d) {
    AMP_TRY(amp_call_check_same_dtype(call, "input", a->input, "other", a->other));
    if (a->input->dtype == AMP_BOOL) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; expected numbers", amp_call_name(call),
                        amp_describe(a->input));
    }
    if (a->input->rank != a->other->rank || a->input->rank == 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'input' is %s, 'other' is %s; expected as many dimensions, at least one",
                        amp_call_name(call), amp_describe(a->input), amp_describe(a->other));
    }
    AMP_TRY(find_dim(call, a, d));
    if (a->input->shape[*d] == 3 && a->other->shape[*d] == 3) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, 'other' is %s; both must have extent 3 along dimension %d",
                    amp_call_name(call), amp_describe(a->input), amp_describe(a->other), *d);
}

amp_status cpu_cross(amp_call *call) {
    const amp_cross_args *a = call->args;
    const amp_tensor *x = a->input, *y = a->other;
    int64_t shape[AMP_MAX_RANK];
    int d, rank;
    AMP_TRY(check(call, a, &d));
    if (!amp_broadcast_shapes(x->rank, x->shape, y->rank, y->shape, &rank, shape)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, 'other' is %s; their shapes do not broadcast",
                        amp_call_name(call), amp_describe(x), amp_describe(y));
    }
    amp_tensor *out = amp_call_output(call, 0, x->dtype, rank, shape);
    if (!out) return amp_pending_error();
    const amp_dtype compute = amp_compute_dtype(x->dtype);
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        const amp_tensor xj = slice(x, d, j), yk = slice(y, d, k), xk = slice(x, d, k), yj = slice(y, d, j);
        amp_tensor part = slice(out, d, i);
        const amp_tensor *const v[4] = {&xj, &yk, &xk, &yj};
        AMP_TRY(amp_steps_of(call)->difference_of_products(call, v, compute, &part));
    }
    return AMP_OK;
}
