/* grid_sampler_2d, grid_sampler_3d: input read at the places that a grid names, −1 … 1 from edge to edge. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "steps/steps.h"

/* ---- Ops ------------------------------------------------------------------------------------------------------ */

static amp_status check(const amp_call *call, const amp_sampling *r, int dims) {
    const amp_tensor *input = r->input, *grid = r->grid;
    const char *name = amp_call_name(call);
    if (!amp_dtype_is_floating(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype", name, amp_describe(input));
    }
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, "grid", grid));
    if (input->rank != dims + 2 || grid->rank != dims + 2 || grid->shape[0] != input->shape[0] ||
        grid->shape[dims + 1] != dims) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, 'grid' is %s; expected %s", name, amp_describe(input),
                        amp_describe(grid),
                        dims == 2 ? "(N, C, H, W) and (N, H', W', 2)" : "(N, C, D, H, W) and (N, D', H', W', 3)");
    }
    if (r->mode < AMP_SAMPLE_LINEAR || r->mode > (dims == 2 ? AMP_SAMPLE_CUBIC : AMP_SAMPLE_NEAREST)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'interpolation_mode' is %lld; expected %s", name, (long long)r->mode,
                        dims == 2 ? "0 (bilinear), 1 (nearest) or 2 (bicubic)" : "0 (trilinear) or 1 (nearest)");
    }
    if (r->border < AMP_BORDER_ZEROS || r->border > AMP_BORDER_MIRROR) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'padding_mode' is %lld; expected 0 (zeros), 1 (border) or 2 (reflection)", name,
                        (long long)r->border);
    }
    return AMP_OK;
}

static amp_status place(const amp_call *call, const amp_sampling *r, int dims, amp_spatial *s) {
    AMP_TRY(amp_spatial_start(call, s, r->input, dims));
    if (s->in[0] * s->in[1] * s->in[2] >= AMP_SAMPLE_FARTHEST) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; planes may have 2³¹ − 10 elements", amp_call_name(call),
                        amp_describe(r->input));
    }
    for (int d = 0; d < dims; d++) *amp_spatial_out(s, d) = r->grid->shape[1 + d];
    return AMP_OK;
}

static amp_status run(amp_call *call, const amp_sampling *r, int dims) {
    amp_spatial s;
    AMP_TRY(check(call, r, dims));
    AMP_TRY(place(call, r, dims, &s));
    return amp_steps_of(call)->sample_grid(call, &s, r);
}

#define DEFINE(op, dims)                                                                                               \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_sampling r = {a->input, a->grid, a->interpolation_mode, a->padding_mode, a->align_corners};          \
        return run(call, &r, dims);                                                                                    \
    }

DEFINE(grid_sampler_2d, 2)

DEFINE(grid_sampler_3d, 3)

DEFINE(grid_sampler, a->input->rank == 5 ? 3 : 2)
