/* Convolutions and transposed convolutions, of one to three spatial dimensions, below the ops: geometry and
 * operands. */
#ifndef AMP_CPU_CONV_H
#define AMP_CPU_CONV_H

#include "call/call.h"
#include "cpu/registry/depthwise.h"
#include "policy/cast_cache.h"
#include "steps/conv.h"

static inline bool amp_conv_in_bf16(const amp_conv *c) {
    return c->x.tensor->dtype == AMP_BF16; /* the result may be f32 */
}

/* The greatest one of both; not of two zeros. */
static inline int64_t amp_conv_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The input index that output `o` of a convolution meets at tap `k`; -1: none. */
static inline int64_t amp_conv_source(const amp_conv_axis *a, int64_t o, int64_t k) {
    const int64_t i = o * a->stride - a->pad + k * a->dilation;
    return i >= 0 && i < a->in ? i : -1;
}

/* The memory of an image, bias or result as the kernels take it, and what to free after it. */
typedef struct amp_conv_plane {
    char *data;
    amp_dtype dtype;
    int64_t batch, axis[AMP_CONV_AXES]; /* strides in elements; channels lie together */
    void *scratch;
} amp_conv_plane;

/* What a convolution reads, but for its weights. */
typedef struct amp_conv_operands {
    amp_conv_plane x;
    amp_conv_plane bias, scale; /* no data: none; the scale is f32 */
    amp_conv_plane residual;    /* no data: none; its pixels and lines lie as the result's may, in that plane's dtype */
} amp_conv_operands;

/* One channel in and one out in each of several groups: what has a kernel of its own. */
static inline bool amp_conv_is_depthwise(const amp_conv *c) {
    return c->groups > 1 && c->in_channels == 1 && c->out_channels == 1 &&
           c->axis[0].kernel * c->axis[1].kernel <= AMP_DEPTHWISE_LINES;
}

/* Where the product's rows go: the result itself if its pixels lie channels last, evenly in their lines, and the lines
 * of all images evenly (y->axis[1] apart), `dense` without gaps between pixels; else a plane of its own, which `finish`
 * copies to the result. Free y->scratch. */
amp_status amp_conv_prepare_output(const amp_call *call, const amp_conv *c, bool dense, amp_conv_plane *y);

amp_status amp_conv_finish_output(const amp_conv *c, const amp_conv_plane *y);

/* The window that an output pixel sees of a prepared input. Its lines are the output's, or all pixels are one line
 * where no image has gaps between lines. */
amp_gemm_window amp_conv_window(const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y);

/* The weights in the layout `layout` of the cast cache, as `build` makes them in that many bytes (0: who knows); the
 * geometry of its key is the weights' own, groups apart: (groups, outputs, taps…, channels). */
amp_status amp_conv_obtain_weights(amp_call *call, const amp_conv *c, amp_dtype dtype, amp_layout layout, size_t bytes,
                                   amp_cast_builder build, amp_cast **cast);

/* A depthwise convolution that is not transposed. x and y have the same dtype, f32 or bf16; the bias is f32; y's pixels
 * are y->axis[2] apart. */
amp_status amp_conv_depthwise(amp_call *call, const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y);

/* Whether oneDNN can compute a convolution, and does so faster: a rule by its extents (conv_choice.c). */
bool amp_conv_prefers_dnnl(const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y);

/* A convolution that is not transposed, by either of these; one of no taps or no channels is its bias. The operands are
 * amp_conv_gemm's. */
amp_status amp_conv_convolve(amp_call *call, const amp_conv *c, const amp_conv_operands *o);

/* A transposed one. */
amp_status amp_conv_transposed(amp_call *call, const amp_conv *c, const amp_conv_operands *o);

/* f32, bf16 and f16 as matrix products over windows of a channels-last image (cpu/registry/gemm.h), f16 in f32; the
 * packed weights may be cached. Sets the call's note. */
amp_status amp_conv_gemm(amp_call *call, const amp_conv *c);

/* Whether plain loops serve a convolution: of dtypes that have no product, and transposed ones whose outputs outnumber
 * by far what the inputs reach (kernels dilated beyond the image), for loops go from the inputs to what they reach. */
bool amp_conv_suits_loops(const amp_conv *c, amp_dtype dtype);

/* Plain loops for every dtype but bool, sums in the compute type of the dtype (cpu/convert/element.h): columns of the
 * input against the weights; of transposed ones, each input times the weights, to the outputs that it reaches. All
 * operands have memory. */
amp_status amp_conv_loops(const amp_call *call, const amp_conv *c);

#endif /* AMP_CPU_CONV_H */
