/* Convolutions in cuDNN's terms: what it can do, operands that lie densely, and who does the epilogue. */
#include "cuda/ops/cuda_conv_library.h"

#include <string.h>

#include "amp/cuda.h"
#include "amp/ops.h"
#include "cuda/cuda_backend.h"
#include "cuda/ops/cuda_epilogue.h"
#include "policy/cast_cache.h"

enum { MOST_DIMS = 6 };

/* Where an operand's elements are, and where they must be. */
typedef struct placed {
    amp_tensor view;
    int64_t dense[MOST_DIMS];
} placed;

static bool lies_densely(const placed *o) {
    for (int d = 0; d < o->view.rank; d++) {
        if (o->view.shape[d] != 1 && o->view.strides[d] != o->dense[d]) return false;
    }
    return true;
}

/* cuDNN is not told of addresses: the kernels that it chooses read 16 bytes at once. */
static bool is_aligned(const amp_tensor *t) {
    return (uintptr_t)amp_tensor_pointer(t) % 16 == 0;
}

/* Dense strides of [rows, channels, axes…], the first `leading` dimensions being rows. */
static void set_dense(placed *o, int leading, bool last) {
    const int rank = o->view.rank;
    int64_t step = 1;
    if (last) o->dense[leading] = step, step *= o->view.shape[leading];
    for (int d = rank - 1; d > leading; d--) o->dense[d] = step, step *= o->view.shape[d];
    if (!last) o->dense[leading] = step, step *= o->view.shape[leading];
    for (int d = leading - 1; d >= 0; d--) o->dense[d] = step, step *= o->view.shape[d];
}

static placed image_of(const amp_conv *c, const amp_conv_image *image, bool of_input, bool last) {
    const int64_t channels = c->groups * (of_input ? c->in_channels : c->out_channels);
    placed o = {.view = *image->tensor};
    amp_tensor *v = &o.view;
    v->rank = 2 + AMP_CONV_AXES;
    v->offset += image->offset;
    v->shape[0] = c->batch, v->strides[0] = image->batch;
    v->shape[1] = channels, v->strides[1] = image->channel;
    for (int d = 0; d < AMP_CONV_AXES; d++) {
        v->shape[2 + d] = of_input ? c->axis[d].in : c->axis[d].out;
        v->strides[2 + d] = image->axis[d];
    }
    set_dense(&o, 1, last);
    return o;
}

/* (groups, rows, columns, taps…): rows are what a group has first in the weight. */
static placed weight_of(const amp_conv *c, bool last) {
    const amp_conv_weight *w = &c->w;
    placed o = {.view = *w->tensor};
    amp_tensor *v = &o.view;
    v->rank = 3 + AMP_CONV_AXES;
    v->offset += w->offset;
    v->shape[0] = c->groups, v->strides[0] = w->group;
    v->shape[1] = c->transposed ? c->in_channels : c->out_channels, v->strides[1] = c->transposed ? w->in : w->out;
    v->shape[2] = c->transposed ? c->out_channels : c->in_channels, v->strides[2] = c->transposed ? w->out : w->in;
    for (int d = 0; d < AMP_CONV_AXES; d++) v->shape[3 + d] = c->axis[d].kernel, v->strides[3 + d] = w->axis[d];
    set_dense(&o, 2, last);
    return o;
}

/* A copy of the operand's elements, laid out densely. NULL with an error. */
static amp_tensor *copy_of(const char *op, const placed *o) {
    const int64_t count = amp_tensor_elements(&o->view);
    amp_tensor *copy = amp_backend_tensor(AMP_DEVICE_CUDA, op, o->view.dtype, 1, &count);
    if (!copy) return NULL;
    amp_tensor view = *copy;
    view.rank = o->view.rank;
    memcpy(view.shape, o->view.shape, sizeof view.shape);
    memcpy(view.strides, o->dense, sizeof o->dense);
    if (amp_cuda_copy_tensor(&view, &o->view) == AMP_OK) return copy;
    amp_tensor_drop(copy);
    return NULL;
}

static bool lies_so(const placed *o) {
    return lies_densely(o) && is_aligned(&o->view);
}

/* Dense memory with the operand's elements: its own, or a copy. NULL with an error. */
static const void *laid_out(amp_call *call, const placed *o) {
    const amp_tensor *t = lies_so(o) ? &o->view : copy_of(call->op->name, o);
    return t ? amp_cuda_address(call->op->name, t) : NULL;
}

static amp_tensor *build_copy(const amp_cast_key *key, void *context) {
    (void)key; /* what it says is the operand */
    return copy_of("conv", context);
}

/* The same of weights, whose copy the cast cache keeps. */
static const void *laid_out_weight(amp_call *call, placed *w, bool last) {
    amp_cast_key key;
    bool cached = false;
    if (lies_so(w)) return amp_cuda_address(call->op->name, &w->view);
    amp_cast_key_start(&key, &w->view);
    key.dtype = w->view.dtype;
    key.layout = (amp_layout){AMP_LAYOUT_CONV_CUDNN, last};
    key.bytes = 0; /* of the device: no file takes it */
    key.rank = w->view.rank;
    memcpy(key.shape, w->view.shape, (size_t)key.rank * sizeof *key.shape);
    memcpy(key.strides, w->view.strides, (size_t)key.rank * sizeof *key.strides);
    const amp_cast_life life = call->may_cache ? amp_cast_life_of(&w->view, true) : AMP_CAST_ONCE;
    amp_cast *cast = amp_cast_obtain(&key, life, build_copy, w, &cached);
    if (!cast) return NULL;
    const amp_tensor copy = {.storage = cast->memory, .dtype = key.dtype};
    const void *data = amp_cuda_address(call->op->name, &copy);
    call->note.casts_cached += cached;
    amp_cast_release(cast); /* in stream order, should it go now */
    return data;
}

/* ---- What it can do ---------------------------------------------------------------------------------------------- */
static const char *const refusals[] = {
    "unfold + cublaslt: cuDNN is not installed",     "unfold + cublaslt: cuDNN has no algorithm for it",
    "unfold + cublaslt: padded on one side only",    "unfold + cublaslt: there are no channels",
    "unfold + cublaslt: cuDNN has no such epilogue",
};
enum refusal { MISSING, REFUSED, ONE_SIDED, EMPTY, EPILOGUE };

/* cuDNN pads both sides alike, and not less than nothing; the output's extent follows. */
static bool pads_alike(const amp_conv *c) {
    for (int d = 0; d < AMP_CONV_AXES; d++) {
        const amp_conv_axis *a = &c->axis[d];
        const int64_t from = c->transposed ? a->out : a->in, to = c->transposed ? a->in : a->out;
        const int64_t room = from + 2 * a->pad - a->dilation * (a->kernel - 1) - 1;
        if (a->pad < 0 || room < 0 || room / a->stride + 1 != to) return false;
    }
    return true;
}

/* ReLU is left to be done to what is rounded: it rounds nothing, and cuDNN's makes 0 of NaN. */
static bool is_relu(const amp_conv *c) {
    return c->epilogue.activation == AMP_GEMM_RELU;
}

/* Bias and residual go along where they are rounded with the sum; wide sums need no such care. The fused call always
 * adds a bias: zeros, where there is none. */
static bool takes_along(const amp_conv *c) {
    const amp_dtype dtype = c->y.tensor->dtype;
    if (amp_dtype_size(dtype) > 2 || c->transposed || c->scale) return false;
    if (c->epilogue.activation != AMP_GEMM_NONE && !is_relu(c)) return false;
    return c->bias ? c->bias->dtype == dtype : c->residual.tensor != NULL;
}

/* The sums may be stored before the epilogue: they are wide, or it is a bias, which PyTorch adds so too, or ReLU. */
static bool stores_sums(const amp_conv *c) {
    const bool relu_alone = is_relu(c) && !c->bias && !c->scale && !c->residual.tensor;
    return amp_dtype_size(c->y.tensor->dtype) > 2 || !amp_conv_is_fused(c) || relu_alone;
}

static amp_cuda_convolution shape_of(const amp_conv *c, bool last, bool whole) {
    static const amp_cuda_type types[AMP_DTYPE_COUNT] = {
        [AMP_F16] = AMP_CUDA_F16, [AMP_BF16] = AMP_CUDA_BF16, [AMP_F32] = AMP_CUDA_F32, [AMP_F64] = AMP_CUDA_F64};
    const bool flat = c->axis[0].in == 1 && c->axis[0].out == 1 && c->axis[0].kernel == 1 && c->axis[0].pad == 0;
    amp_cuda_convolution q = {.type = types[c->x.tensor->dtype],
                              .transposed = c->transposed,
                              .channels_last = last,
                              .tf32 = c->x.tensor->dtype == AMP_F32 && amp_cuda_matmul_allow_tf32(),
                              .axes = flat ? 2 : 3,
                              .batch = c->batch,
                              .groups = c->groups,
                              .in_channels = c->in_channels,
                              .out_channels = c->out_channels};
    for (int d = flat; d < AMP_CONV_AXES; d++) {
        const amp_conv_axis *a = &c->axis[d];
        q.axis[d - flat] = (amp_cuda_axis){a->in, a->out, a->kernel, a->stride, a->pad, a->dilation, 0};
    }
    q.with_bias = whole;
    q.with_residual = whole && c->residual.tensor;
    return q;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */
static amp_tensor *dense_bias(amp_tensor *bias) {
    return amp_tensor_is_dense(bias) && is_aligned(bias) ? bias : amp_clone(bias);
}

/* One for each channel of the result. */
static amp_tensor *zeros(amp_call *call, const amp_conv *c) {
    const int64_t channels = c->groups * c->out_channels;
    const amp_scalar zero = amp_float(0.0);
    amp_tensor *made = amp_cuda_temporary(call, c->y.tensor->dtype, 1, &channels);
    return made && amp_cuda_fill(made, &zero) == AMP_OK ? made : NULL;
}

static amp_status set_operands(amp_call *call, const amp_conv *c, amp_cuda_convolution *q) {
    const placed x = image_of(c, &c->x, true, q->channels_last);
    placed w = weight_of(c, q->channels_last);
    q->x = laid_out(call, &x);
    q->w = q->x ? laid_out_weight(call, &w, q->channels_last) : NULL;
    if (!q->w) return amp_pending_error();
    if (q->with_bias) {
        amp_tensor *bias = c->bias ? dense_bias(c->bias) : zeros(call, c);
        q->bias = bias ? amp_cuda_address(call->op->name, bias) : NULL;
        if (!q->bias) return amp_pending_error();
    }
    if (q->with_bias && c->residual.tensor) {
        const placed r = image_of(c, &c->residual, false, q->channels_last);
        q->residual = laid_out(call, &r);
        if (!q->residual) return amp_pending_error();
    }
    return AMP_OK;
}

/* Sums, or all of it, into the result, or (its memory being laid out otherwise) into a temporary, and the rest from
 * there. */
static amp_status run(amp_call *call, const amp_conv *c, amp_cuda_convolution *q, const placed *y,
                      amp_cuda_result *result) {
    amp_conv_image image = c->y;
    amp_tensor view;
    const bool direct = lies_so(y);
    AMP_TRY(set_operands(call, c, q));
    if (!direct) {
        image = (amp_conv_image){.tensor = amp_cuda_temporary(call, y->view.dtype, y->view.rank, y->view.shape),
                                 .batch = y->dense[0],
                                 .channel = y->dense[1]};
        memcpy(image.axis, &y->dense[2], sizeof image.axis);
        if (!image.tensor) return amp_pending_error();
    }
    const char *memory = amp_cuda_address(call->op->name, image.tensor);
    if (!memory) return amp_pending_error();
    q->y = (char *)memory + image.offset * (int64_t)amp_dtype_size(y->view.dtype);
    *result = amp_cuda_loaded()->convolve(q);
    if (*result == AMP_CUDA_REFUSED) return AMP_OK;
    AMP_TRY(amp_cuda_status(call->op->name, *result));
    (void)amp_cuda_conv_view(c, &image, &view);
    if (!q->with_bias) return direct && !amp_cuda_conv_has_epilogue(c) ? AMP_OK : amp_cuda_conv_finish(call, c, &view);
    amp_tensor to;
    (void)amp_cuda_conv_view(c, &c->y, &to);
    if (is_relu(c)) return amp_cuda_relu(call, &view, &to);
    return direct ? AMP_OK : amp_cuda_copy_tensor(&to, &view);
}

/* One way to divide the work: the whole of it there, or the sums. */
static amp_status try_way(amp_call *call, const amp_conv *c, bool whole, bool *done, enum refusal *why) {
    const placed first = image_of(c, &c->y, false, false), last = image_of(c, &c->y, false, true);
    const bool is_last = !lies_densely(&first) && lies_densely(&last);
    amp_cuda_convolution q = shape_of(c, is_last, whole);
    amp_cuda_result result = amp_cuda_loaded()->convolve(&q);
    if (result == AMP_CUDA_OK) AMP_TRY(run(call, c, &q, is_last ? &last : &first, &result));
    *why = result == AMP_CUDA_MISSING ? MISSING : REFUSED;
    *done = result == AMP_CUDA_OK;
    const bool other_way = result == AMP_CUDA_MISSING || result == AMP_CUDA_REFUSED;
    return other_way ? AMP_OK : amp_cuda_status(call->op->name, result);
}

amp_status amp_cuda_conv_by_library(amp_call *call, const amp_conv *c, bool *done, const char **kernel) {
    enum refusal why = EPILOGUE;
    *done = false;
    if (c->in_channels == 0 || c->out_channels == 0) {
        why = EMPTY;
    } else if (!pads_alike(c)) {
        why = ONE_SIDED;
    } else {
        if (takes_along(c)) AMP_TRY(try_way(call, c, true, done, &why));
        if (!*done && stores_sums(c)) AMP_TRY(try_way(call, c, false, done, &why));
    }
    *kernel = *done ? "cudnn" : refusals[why];
    return AMP_OK;
}
