/* Resampling by transposed taps. */
#include "ops/plane/resample_back.h"

#include <string.h>

#include "amp/ops.h"
#include "steps/pooling.h"
#include "steps/steps.h"

amp_status amp_input_of(const amp_call *call, const amp_tensor *grad, const amp_dims *sizes, amp_tensor *input) {
    const int dims = sizes->count;
    if (dims < 1 || dims > AMP_SPATIAL_DIMS || (grad->rank != dims + 1 && grad->rank != dims + 2))
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: 'grad_output' is %s, 'input_size' has %d values; expected 1 to 3, and one or two dimensions "
            "in front of them",
            amp_call_name(call), amp_describe(grad), dims);
    AMP_TRY(amp_pool_check_dims(call, "input_size", sizes, dims, 1, INT64_C(1) << 30));
    if (!amp_dtype_is_floating(grad->dtype))
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'grad_output' is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(grad));
    *input = *grad;
    memcpy(input->shape + grad->rank - dims, sizes->values, (size_t)dims * sizeof *sizes->values);
    return AMP_OK;
}

amp_status amp_check_extents(const amp_call *call, const amp_tensor *grad, const amp_spatial *s) {
    for (int d = 0; d < s->dims; d++) {
        const int64_t made = s->out[AMP_SPATIAL_DIMS - s->dims + d];
        if (grad->shape[grad->rank - s->dims + d] == made) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: 'grad_output' is %s; dimension %d of the result was %lld",
                        amp_call_name(call), amp_describe(grad), grad->rank - s->dims + d, (long long)made);
    }
    return AMP_OK;
}

/* How many taps fall on each of `in` elements, one that stands twice beside itself counting once; and the most. */
static int64_t count_back(const amp_taps *taps, int64_t out, int64_t *counts, int64_t in) {
    int64_t most = 1;
    memset(counts, 0, (size_t)in * sizeof *counts);
    for (int64_t i = 0; i < out; i++) {
        for (int64_t k = 0; k < taps->counts[i]; k++) {
            const int64_t *at = &taps->index[i * taps->most + k];
            if (k == 0 || at[-1] != at[0]) counts[*at]++;
            most = counts[*at] > most ? counts[*at] : most;
        }
    }
    return most;
}

/* Element i of the result is one more tap of an element, or adds to its last one. */
static void put_back(amp_taps *back, int64_t element, int64_t i, double weight) {
    int64_t *count = &back->counts[element];
    const int64_t at = element * back->most + *count;
    if (*count > 0 && back->index[at - 1] == i) {
        back->weights[at - 1] += weight;
        return;
    }
    back->index[at] = i;
    back->weights[at] = weight;
    ++*count;
}

static amp_status transpose(const amp_call *call, const amp_taps *taps, int64_t out, int64_t in, amp_taps *back) {
    int64_t *counts = amp_spatial_table(call, in, sizeof *counts);
    if (!counts) return amp_pending_error();
    AMP_TRY(amp_taps_make(call, in, count_back(taps, out, counts, in), back));
    memset(back->counts, 0, (size_t)in * sizeof *back->counts);
    for (int64_t i = 0; i < out; i++) {
        for (int64_t k = 0; k < taps->counts[i]; k++)
            put_back(back, taps->index[i * taps->most + k], i, taps->weights[i * taps->most + k]);
    }
    return AMP_OK;
}

/* Elements that nothing was made of: a tap of weight 0 keeps their place, … */
static void fill_gaps(amp_taps *back, int64_t in, bool *gaps) {
    for (int64_t i = 0; i < in; i++) {
        gaps[i] = back->counts[i] == 0;
        if (!gaps[i]) continue;
        back->counts[i] = 1;
        back->index[i * back->most] = 0;
        back->weights[i * back->most] = 0.0;
    }
}

/* … and zeros are put there, as 0 · ∞ is none. */
static amp_status clear_gaps(amp_tensor *result, int dim, const bool *gaps) {
    for (int64_t i = 0; i < result->shape[dim]; i++) {
        if (!gaps[i]) continue;
        amp_tensor *slice = amp_narrow(result, dim, i, 1);
        if (!slice || !amp_fill_(slice, amp_float(0))) return amp_pending_error();
    }
    return AMP_OK;
}

amp_status amp_resample_back(amp_call *call, const amp_spatial *forward, amp_tensor *grad,
                             const amp_taps taps[AMP_SPATIAL_DIMS]) {
    amp_spatial s;
    amp_taps back[AMP_SPATIAL_DIMS];
    bool *gaps[AMP_SPATIAL_DIMS];
    AMP_TRY(amp_spatial_start(call, &s, grad, forward->dims));
    memcpy(s.out, forward->in, sizeof s.out);
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        AMP_TRY(transpose(call, &taps[k], s.in[k], s.out[k], &back[k]));
        gaps[k] = amp_spatial_table(call, s.out[k], sizeof *gaps[k]);
        if (!gaps[k]) return amp_pending_error();
        fill_gaps(&back[k], s.out[k], gaps[k]);
    }
    AMP_TRY(amp_steps_of(call)->resample(call, &s, grad, back));
    for (int d = 0; d < s.dims; d++) {
        AMP_TRY(clear_gaps(call->outputs[0], s.rank - s.dims + d, gaps[AMP_SPATIAL_DIMS - s.dims + d]));
    }
    return AMP_OK;
}
