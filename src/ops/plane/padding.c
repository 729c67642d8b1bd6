/* constant_pad_nd, reflection and replication padding: moves of whole elements of any dtype. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "steps/constants.h"
#include "steps/steps.h"

/* ---- By a constant -------------------------------------------------------------------------------------------- */

/* One dimension: `before` elements in front, or that many cropped. */
static amp_status pad_extent(const amp_call *call, const amp_tensor *input, int d, int64_t before, int64_t after,
                             int64_t *extent) {
    int64_t sum;
    const bool overflow =
        __builtin_add_overflow(before, after, &sum) || __builtin_add_overflow(input->shape[d], sum, extent);
    if (!overflow && *extent >= 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'pad' (%lld, %lld) leaves nothing possible of dimension %d of input %s",
                    amp_call_name(call), (long long)before, (long long)after, d, amp_describe(input));
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The elements of input that stay, at the places where they go. */
static amp_status copy_inside(amp_tensor *out, amp_tensor *input, const int64_t *before) {
    amp_tensor to = *out, from = *input;
    for (int d = 0; d < input->rank; d++) {
        const int64_t first = larger(0, -before[d]), last = smaller(input->shape[d], out->shape[d] - before[d]);
        if (last <= first) return AMP_OK;
        to.shape[d] = from.shape[d] = last - first;
        to.offset += (first + before[d]) * out->strides[d];
        from.offset += first * input->strides[d];
    }
    return amp_copy_tensor(&to, &from);
}

/* The elements around them: for each dimension what lies before and after, within what the dimensions in front have
 * left. */
static amp_status fill_outside(amp_tensor *out, const amp_tensor *input, const int64_t *before,
                               const amp_scalar *value) {
    int64_t shape[AMP_MAX_RANK], offset = out->offset;
    memcpy(shape, out->shape, sizeof shape);
    for (int d = 0; d < out->rank; d++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): `before` has out->rank numbers */
        const int64_t extent = out->shape[d], first = smaller(larger(before[d], 0), extent);
        const int64_t last = larger(smaller(before[d] + input->shape[d], extent), first);
        const int64_t begins[] = {0, last}, lengths[] = {first, extent - last};
        for (int side = 0; side < 2; side++) {
            shape[d] = lengths[side];
            if (shape[d] == 0) continue;
            amp_tensor *slab = amp_tensor_view("constant_pad_nd", out, out->rank, shape, out->strides,
                                               offset + begins[side] * out->strides[d]);
            if (!slab) return amp_pending_error();
            AMP_TRY(amp_fill_tensor_with(slab, value));
        }
        shape[d] = last - first;
        offset += first * out->strides[d];
    }
    return AMP_OK;
}

amp_status amp_op_constant_pad_nd(amp_call *call) {
    const amp_constant_pad_nd_args *a = call->args;
    amp_tensor *input = a->input;
    const int pairs = a->pad.count / 2;
    if (a->pad.count % 2 || pairs > input->rank) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'pad' has %d values; expected at most %d pairs for input %s",
                        amp_call_name(call), a->pad.count, input->rank, amp_describe(input));
    }
    AMP_TRY(amp_check_element(call, "value", &a->value, input->dtype));
    int64_t shape[AMP_MAX_RANK], before[AMP_MAX_RANK];
    for (int d = 0; d < input->rank; d++) {
        const int pair = input->rank - 1 - d;
        before[d] = pair < pairs ? a->pad.values[2 * pair] : 0;
        AMP_TRY(pad_extent(call, input, d, before[d], pair < pairs ? a->pad.values[2 * pair + 1] : 0, &shape[d]));
    }
    amp_tensor *out = amp_call_output_like(call, 0, input->dtype, input->rank, shape, input);
    if (!out) return amp_pending_error();
    if (amp_tensor_elements(out) == 0) return AMP_OK;
    /* More cropped than is there, or padded than the crop behind leaves, is as if it were just that. */
    for (int d = 0; d < input->rank; d++) before[d] = smaller(larger(before[d], -input->shape[d]), shape[d]);
    AMP_TRY(fill_outside(out, input, before, &a->value));
    return copy_inside(out, input, before);
}

/* ---- By what is there ----------------------------------------------------------------------------------------- */

static int64_t reflected(int64_t i, int64_t n) {
    if (i < 0) i = -i;
    return i < n ? i : 2 * (n - 1) - i;
}
static int64_t replicated(int64_t i, int64_t n) {
    return i < 0 ? 0 : i < n ? i : n - 1;
}

typedef struct pad_rule {
    int64_t (*source)(int64_t index, int64_t extent);
    bool below_extent; /* each side must be less than the input's extent */
} pad_rule;

static amp_status check_padding(const amp_call *call, const amp_tensor *input, const pad_rule *rule,
                                const amp_dims *padding, int dims, amp_spatial *s) {
    if (padding->count != 2 * dims) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'padding' has %d values; expected %d", amp_call_name(call),
                        padding->count, 2 * dims);
    }
    for (int d = 0; d < dims; d++) {
        const int64_t *pair = padding->values + 2 * (dims - 1 - d), extent = amp_spatial_in(s, d);
        const int tensor_dim = input->rank - dims + d;
        AMP_TRY(pad_extent(call, input, tensor_dim, pair[0], pair[1], amp_spatial_out(s, d)));
        const bool empty = *amp_spatial_out(s, d) == 0;
        const bool too_far = rule->below_extent && (pair[0] >= extent || pair[1] >= extent);
        if (!empty && !too_far) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: 'padding' (%lld, %lld) of dimension %d of input %s %s",
                        amp_call_name(call), (long long)pair[0], (long long)pair[1], tensor_dim, amp_describe(input),
                        empty ? "leaves nothing of it" : "must be less than its extent");
    }
    return AMP_OK;
}

static amp_status pad(amp_call *call, amp_tensor *input, const amp_dims *padding, int dims, const pad_rule *rule) {
    amp_spatial s;
    const int64_t *tables[AMP_SPATIAL_DIMS];
    AMP_TRY(amp_spatial_start(call, &s, input, dims));
    AMP_TRY(check_padding(call, input, rule, padding, dims, &s));
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        const int pair = AMP_SPATIAL_DIMS - 1 - k;
        const int64_t before = pair < dims ? padding->values[2 * pair] : 0;
        int64_t *table = amp_spatial_table(call, s.out[k], sizeof *table);
        if (!table) return amp_pending_error();
        for (int64_t i = 0; i < s.out[k]; i++) {
            table[i] = rule->source((int64_t)((uint64_t)i - (uint64_t)before), s.in[k]);
        }
        tables[k] = table;
    }
    return amp_steps_of(call)->spatial_gather(call, &s, input, tables);
}

#define DEFINE(op, dims, source, below_extent)                                                                         \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        static const pad_rule rule = {source, below_extent};                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        return pad(call, a->input, &a->padding, dims, &rule);                                                          \
    }
DEFINE(reflection_pad1d, 1, reflected, true)
DEFINE(reflection_pad2d, 2, reflected, true)
DEFINE(replication_pad1d, 1, replicated, false)
DEFINE(replication_pad2d, 2, replicated, false)
DEFINE(replication_pad3d, 3, replicated, false)
