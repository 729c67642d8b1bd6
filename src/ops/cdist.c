/* cdist and pdist: p-norm distances of points. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/layout.h"
#include "policy/promotion.h"
#include "steps/steps.h"

/* ---- cdist ------------------------------------------------------------------------------------------------------- */

static amp_status check_points(const amp_tensor *x1, const amp_tensor *x2) {
    const amp_tensor *const points[] = {x1, x2};
    for (int i = 0; i < 2; i++) {
        if (points[i]->rank < 2) {
            return amp_fail(AMP_ERROR_INVALID, "cdist: '%s' is %s; expected [points, coordinates] or more dimensions",
                            i ? "x2" : "x1", amp_describe(points[i]));
        }
        if (amp_dtype_is_floating(points[i]->dtype)) continue;
        return amp_fail(AMP_ERROR_DTYPE, "cdist: '%s' is %s; expected a floating dtype", i ? "x2" : "x1",
                        amp_describe(points[i]));
    }
    if (x1->shape[x1->rank - 1] == x2->shape[x2->rank - 1]) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "cdist: 'x1' is %s, 'x2' is %s; expected as many coordinates in both",
                    amp_describe(x1), amp_describe(x2));
}

/* The points in the common batch shape. */
static amp_tensor expanded(const amp_tensor *points, int rank, const int64_t *shape) {
    amp_tensor view = *points;
    view.rank = rank;
    for (int d = 0; d < rank; d++) {
        const int from = d - (rank - points->rank);
        view.shape[d] = d < rank - 2 ? shape[d] : points->shape[from];
        view.strides[d] = from < 0 || (d < rank - 2 && points->shape[from] == 1) ? 0 : points->strides[from];
    }
    return view;
}

static amp_status check_mode(const amp_call *call, const char *mode) {
    static const char *const modes[] = {"use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
                                        "donot_use_mm_for_euclid_dist"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(mode, modes[i])) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'compute_mode' is \"%s\"; expected \"%s\", \"%s\" or \"%s\"",
                    amp_call_name(call), mode, modes[0], modes[1], modes[2]);
}

static amp_status check_power(const amp_call *call, double p) {
    if (p >= 0.0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'p' is %g; expected 0 or more", amp_call_name(call), p);
}

amp_status cpu_cdist(amp_call *call) {
    const amp_cdist_args *a = call->args;
    const amp_tensor *x1 = a->x1, *x2 = a->x2;
    const amp_dtype dtype = amp_promote(x1->dtype, x2->dtype);
    int64_t shape[AMP_MAX_RANK];
    int rank;
    AMP_TRY(check_points(x1, x2));
    AMP_TRY(check_mode(call, a->compute_mode));
    AMP_TRY(check_power(call, a->p.value));
    if (!amp_broadcast_shapes(x1->rank - 2, x1->shape, x2->rank - 2, x2->shape, &rank, shape)) {
        return amp_fail(AMP_ERROR_INVALID, "cdist: 'x1' is %s, 'x2' is %s; their batches do not broadcast",
                        amp_describe(x1), amp_describe(x2));
    }
    const amp_tensor one = expanded(x1, rank + 2, shape), many = expanded(x2, rank + 2, shape);
    return amp_steps_of(call)->distances_between(call, &one, &many, a->p.value, dtype);
}

/* ---- pdist ------------------------------------------------------------------------------------------------------- */

amp_status cpu_pdist(amp_call *call) {
    const amp_pdist_args *a = call->args;
    const amp_tensor *x = a->input;
    if (x->rank != 2 || !amp_dtype_is_floating(x->dtype)) {
        return amp_fail(x->rank != 2 ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE,
                        "pdist: input is %s; expected [points, coordinates] of a floating dtype", amp_describe(x));
    }
    AMP_TRY(check_power(call, a->p.value));
    return amp_steps_of(call)->distances_within(call, x, a->p.value);
}
