#include "steps/product_rules.h"

#include <string.h>

#include "core/layout.h"

amp_status amp_check_vector(const amp_call *call, const char *name, const amp_tensor *t) {
    if (t->rank == 1) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected 1 dimension", amp_call_name(call), name,
                    amp_describe(t));
}

static bool holds_integers(const amp_tensor *t) {
    return !amp_dtype_is_floating(t->dtype) && !amp_dtype_is_complex(t->dtype);
}

static amp_status check_whole(const amp_call *call, const char *name, const amp_scalar *factor) {
    if (factor->kind == AMP_SCALAR_INT || factor->kind == AMP_SCALAR_BOOL) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %g, but the tensors hold integers; expected an integer",
                    amp_call_name(call), name, factor->re);
}

amp_status amp_check_addr(const amp_call *call, const amp_addr_args *args) {
    AMP_TRY(amp_check_vector(call, "vec1", args->vec1));
    AMP_TRY(amp_check_vector(call, "vec2", args->vec2));
    const int64_t shape[2] = {args->vec1->shape[0], args->vec2->shape[0]};
    int64_t both[AMP_MAX_RANK];
    int rank;
    if (!amp_broadcast_shapes(2, shape, args->input->rank, args->input->shape, &rank, both) || rank != 2 ||
        memcmp(both, shape, sizeof shape) != 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, which does not broadcast to the result %s",
                        amp_call_name(call), amp_describe(args->input), amp_describe_shape(2, shape));
    }
    if (!holds_integers(args->input) || !holds_integers(args->vec1) || !holds_integers(args->vec2)) return AMP_OK;
    AMP_TRY(check_whole(call, "alpha", &args->alpha));
    return check_whole(call, "beta", &args->beta);
}
