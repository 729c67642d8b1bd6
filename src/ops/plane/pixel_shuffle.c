/* pixel_shuffle and pixel_unshuffle: one strided copy, of (…, C, r, r, H, W) to (…, C, H, r, W, r) or back;
 * channel_shuffle. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "cpu/convert/strided_copy.h"

/* A tensor (…, C, H·r, W·r) or (…, C·r², H, W) read as (…, C, H, r, W, r); `leading` dimensions come before C. */
typedef struct blocks {
    int rank;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
} blocks;

enum { OWN_DIMENSIONS = 5, LEADING_AT_ONCE = AMP_MAX_RANK - OWN_DIMENSIONS };

static blocks read_blocks(const amp_tensor *t, int first, int64_t r, bool fine) {
    const int d = t->rank - 3, leading = d - first;
    const int64_t c = t->strides[d], h = t->strides[d + 1], w = t->strides[d + 2];
    const int64_t divide_channels = fine ? 1 : r * r, divide = fine ? r : 1;
    const int64_t shape[OWN_DIMENSIONS] = {t->shape[d] / divide_channels, t->shape[d + 1] / divide, r,
                                           t->shape[d + 2] / divide, r};
    const int64_t finely[OWN_DIMENSIONS] = {c, h * r, h, w * r, w};
    const int64_t coarsely[OWN_DIMENSIONS] = {c * r * r, h, c * r, w, c};
    blocks b = {.rank = leading + OWN_DIMENSIONS};
    memcpy(b.shape, t->shape + first, (size_t)leading * sizeof *b.shape);
    memcpy(b.strides, t->strides + first, (size_t)leading * sizeof *b.strides);
    memcpy(b.shape + leading, shape, sizeof shape);
    memcpy(b.strides + leading, fine ? finely : coarsely, sizeof finely);
    return b;
}

/* Small blocks are copied one of their elements after the other: rows of W elements rather than of r. */
enum { SMALL_BLOCK = 4 };

static amp_status copy_matrix(const blocks *to, char *dst, const blocks *from, const char *src, int64_t r,
                              amp_dtype dtype) {
    const int64_t size = (int64_t)amp_dtype_size(dtype);
    const int leading = to->rank - OWN_DIMENSIONS;
    if (r > SMALL_BLOCK)
        return amp_strided_copy(dst, dtype, to->strides, src, dtype, from->strides, to->rank, to->shape);
    blocks t = *to, f = *from;
    t.shape[leading + 2] = to->shape[leading + 3]; /* C, H, W */
    t.strides[leading + 2] = to->strides[leading + 3];
    f.strides[leading + 2] = from->strides[leading + 3];
    for (int64_t i = 0; i < r * r; i++) {
        const int64_t row = i / r, column = i % r;
        const int64_t to_offset = row * to->strides[leading + 2] + column * to->strides[leading + 4];
        const int64_t from_offset = row * from->strides[leading + 2] + column * from->strides[leading + 4];
        AMP_TRY(amp_strided_copy(dst + to_offset * size, dtype, t.strides, src + from_offset * size, dtype, f.strides,
                                 leading + 3, t.shape));
    }
    return AMP_OK;
}

/* `t` from an element on, in the blocks' geometry. */
static amp_tensor as_blocks(const amp_tensor *t, const blocks *b, int64_t offset) {
    amp_tensor view = *t;
    view.rank = b->rank;
    view.offset += offset;
    memcpy(view.shape, b->shape, sizeof view.shape);
    memcpy(view.strides, b->strides, sizeof view.strides);
    return view;
}

/* Dimensions in front of what one copy takes are walked here. */
static amp_status copy_blocks(amp_tensor *out, amp_tensor *in, int64_t r, bool fine) {
    const int leading = in->rank - 3, first = leading > LEADING_AT_ONCE ? leading - LEADING_AT_ONCE : 0;
    const blocks to = read_blocks(out, first, r, fine), from = read_blocks(in, first, r, !fine);
    const int64_t size = (int64_t)amp_dtype_size(in->dtype);
    int64_t count = 1;
    for (int d = 0; d < first; d++) count *= in->shape[d];
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, to_offset = 0, from_offset = 0;
        for (int d = first - 1; d >= 0; d--) {
            to_offset += rest % in->shape[d] * out->strides[d];
            from_offset += rest % in->shape[d] * in->strides[d];
            rest /= in->shape[d];
        }
        if (in->storage->device != AMP_DEVICE_CPU) {
            amp_tensor t = as_blocks(out, &to, to_offset);
            const amp_tensor f = as_blocks(in, &from, from_offset);
            AMP_TRY(amp_copy_tensor(&t, &f));
            continue;
        }
        char *dst = amp_tensor_pointer(out);
        const char *src = amp_tensor_pointer(in);
        AMP_TRY(copy_matrix(&to, dst + to_offset * size, &from, src + from_offset * size, r, in->dtype));
    }
    return AMP_OK;
}

static amp_status shuffle(amp_call *call, amp_tensor *input, const char *argument, int64_t r, bool fine) {
    if (input->rank < 3) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected at least 3 dimensions", amp_call_name(call),
                        amp_describe(input));
    }
    if (r < 1 || r > INT32_MAX) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %lld; it must be positive, and less than 2³¹",
                        amp_call_name(call), argument, (long long)r);
    }
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, input->shape, sizeof shape);
    int64_t *own = shape + input->rank - 3;
    const bool divides = fine ? own[0] % (r * r) == 0 : own[1] % r == 0 && own[2] % r == 0;
    bool overflow = false;
    if (fine) {
        own[0] /= r * r;
        overflow = __builtin_mul_overflow(own[1], r, &own[1]) || __builtin_mul_overflow(own[2], r, &own[2]);
    } else {
        overflow = __builtin_mul_overflow(own[0], r * r, &own[0]);
        own[1] /= r;
        own[2] /= r;
    }
    if (!divides || overflow) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; '%s' is %lld, expected %s", amp_call_name(call),
                        amp_describe(input), argument, (long long)r,
                        fine ? "a number of channels that its square divides" : "a height and width that it divides");
    }
    amp_tensor *out = amp_call_output_like(call, 0, input->dtype, input->rank, shape, input);
    if (!out) return amp_pending_error();
    return amp_tensor_elements(out) ? copy_blocks(out, input, r, fine) : AMP_OK;
}

amp_status amp_op_pixel_shuffle(amp_call *call) {
    const amp_pixel_shuffle_args *a = call->args;
    return shuffle(call, a->input, "upscale_factor", a->upscale_factor, true);
}

amp_status amp_op_pixel_unshuffle(amp_call *call) {
    const amp_pixel_unshuffle_args *a = call->args;
    return shuffle(call, a->input, "downscale_factor", a->downscale_factor, false);
}

/* (N, C, …) with the channels as a matrix of groups, which is turned. */
amp_status amp_op_channel_shuffle(amp_call *call) {
    const amp_channel_shuffle_args *a = call->args;
    amp_tensor *input = a->input;
    const int64_t channels = input->rank > 1 ? input->shape[1] : 0;
    if (input->rank < 3 || input->rank == AMP_MAX_RANK || a->groups < 1 || channels % a->groups != 0) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: input is %s and 'groups' %lld; expected from 3 to %d dimensions, and groups that divide the "
            "channels, dimension 1",
            amp_call_name(call), amp_describe(input), (long long)a->groups, AMP_MAX_RANK - 1);
    }
    amp_tensor from = *input;
    from.rank++;
    from.shape[1] = channels / a->groups;
    from.strides[1] = input->strides[1];
    from.shape[2] = a->groups;
    from.strides[2] = input->strides[1] * from.shape[1];
    for (int d = 2; d < input->rank; d++) {
        from.shape[d + 1] = input->shape[d];
        from.strides[d + 1] = input->strides[d];
    }
    amp_tensor *out = amp_call_output_like(call, 0, input->dtype, input->rank, input->shape, input);
    if (!out) return amp_pending_error();
    if (amp_tensor_elements(out) == 0) return AMP_OK; /* any number divides no channels, and strides would overflow */
    amp_tensor to = *out;
    to.rank = from.rank;
    memcpy(to.shape, from.shape, sizeof to.shape);
    to.strides[1] = out->strides[1] * a->groups;
    to.strides[2] = out->strides[1];
    for (int d = 2; d < input->rank; d++) to.strides[d + 1] = out->strides[d];
    return amp_copy_tensor(&to, &from);
}
