/* conv1d, conv2d, conv3d, their transposed forms and conv_tbc: arguments checked, geometry made, one convolution
 * run. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "core/hot.h"
#include "core/layout.h"
#include "cpu/conv/conv.h"
#include "cpu/product/matmul.h"
#include "generated/op_ids.h"
#include "steps/steps.h"

/* What the ops of one to three dimensions have in common. */
typedef struct request {
    int axes;
    bool transposed;
    amp_tensor *input, *weight, *bias;
    const amp_dims *stride, *padding, *dilation, *output_padding; /* padding: NULL where `mode` is given */
    const char *mode;                                             /* "same", "valid" or NULL */
    int64_t groups;
    amp_tensor *scale, *other; /* of fused convolutions; NULL: none */
    amp_additions more;        /* of them too */
    amp_epilogue epilogue;
} request;

/* ---- Checks --------------------------------------------------------------------------------------------------- */

static amp_status check_rank(const amp_call *call, const request *r) {
    const amp_tensor *x = r->input, *w = r->weight;
    if (x->rank != r->axes + 1 && x->rank != r->axes + 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected %d dimensions, or %d without a batch",
                        amp_call_name(call), amp_describe(x), r->axes + 2, r->axes + 1);
    }
    if (w->rank == r->axes + 2) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'weight' is %s; expected %d dimensions", amp_call_name(call),
                    amp_describe(w), r->axes + 2);
}

/* One value for each axis, `least` … INT32_MAX. */
static amp_status check_option(const amp_call *call, const request *r, const char *name, const amp_dims *dims,
                               int64_t least) {
    if (dims->count != r->axes) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has %d values; expected %d", amp_call_name(call), name,
                        dims->count, r->axes);
    }
    for (int i = 0; i < r->axes; i++) {
        if (dims->values[i] >= least && dims->values[i] <= INT32_MAX) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; each value must be from %lld to %d", amp_call_name(call),
                        name, amp_describe_shape(dims->count, dims->values), (long long)least, INT32_MAX);
    }
    return AMP_OK;
}

static amp_status check_output_padding(const amp_call *call, const request *r) {
    AMP_TRY(check_option(call, r, "output_padding", r->output_padding, 0));
    for (int i = 0; i < r->axes; i++) {
        if (r->output_padding->values[i] < r->stride->values[i] ||
            r->output_padding->values[i] < r->dilation->values[i])
            continue;
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'output_padding' is %s, 'stride' is %s, 'dilation' is %s; the output padding must be "
                        "smaller than either the stride or the dilation",
                        amp_call_name(call), amp_describe_shape(r->axes, r->output_padding->values),
                        amp_describe_shape(r->axes, r->stride->values),
                        amp_describe_shape(r->axes, r->dilation->values));
    }
    return AMP_OK;
}

static amp_status check_mode(const amp_call *call, const request *r) {
    if (!strcmp(r->mode, "valid")) return AMP_OK;
    if (strcmp(r->mode, "same") != 0)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'padding' is \"%s\"; expected \"same\" or \"valid\"",
                        amp_call_name(call), r->mode);
    for (int i = 0; i < r->axes; i++) {
        if (r->stride->values[i] == 1) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: 'padding' is \"same\", 'stride' is %s; \"same\" needs a stride of 1",
                        amp_call_name(call), amp_describe_shape(r->axes, r->stride->values));
    }
    return AMP_OK;
}

AMP_HOT static amp_status check_options(const amp_call *call, const request *r) {
    AMP_TRY(check_option(call, r, "stride", r->stride, 1));
    if (r->padding) AMP_TRY(check_option(call, r, "padding", r->padding, 0));
    AMP_TRY(check_option(call, r, "dilation", r->dilation, 1));
    if (r->output_padding) AMP_TRY(check_output_padding(call, r));
    return r->mode ? check_mode(call, r) : AMP_OK;
}

static amp_status check_groups(const amp_call *call, const request *r) {
    const amp_tensor *w = r->weight;
    if (r->groups < 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'groups' is %lld; it must be at least 1", amp_call_name(call),
                        (long long)r->groups);
    }
    if (w->shape[0] >= r->groups && (r->groups == 1 || w->shape[0] % r->groups == 0)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'weight' is %s, 'groups' is %lld; the first extent of the weight must be a multiple of it",
                    amp_call_name(call), amp_describe(w), (long long)r->groups);
}

static amp_status check_channels(const amp_call *call, const request *r) {
    const amp_tensor *x = r->input, *w = r->weight;
    const int64_t channels = x->shape[x->rank - r->axes - 1];
    const int64_t expected = r->transposed ? w->shape[0] : w->shape[1] * r->groups;
    if (channels == expected) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'input' is %s, 'weight' is %s, 'groups' is %lld; expected an input of %lld "
                    "channels, not %lld",
                    amp_call_name(call), amp_describe(x), amp_describe(w), (long long)r->groups, (long long)expected,
                    (long long)channels);
}

static amp_status check_bias(const amp_call *call, const request *r, int64_t outputs) {
    if (!r->bias || (r->bias->rank == 1 && r->bias->shape[0] == outputs)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'bias' is %s, 'weight' is %s; expected a bias of shape [%lld]",
                    amp_call_name(call), amp_describe(r->bias), amp_describe(r->weight), (long long)outputs);
}

static amp_status check_dtypes(const amp_call *call, const amp_tensor *x, const amp_tensor *w, const amp_tensor *bias) {
    AMP_TRY(amp_call_check_same_dtype(call, "input", x, "weight", w));
    if (bias) AMP_TRY(amp_call_check_same_dtype(call, "input", x, "bias", bias));
    if (x->dtype != AMP_BOOL) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; there is no convolution of bool", amp_call_name(call),
                    amp_describe(x));
}

static amp_status check_scale(const amp_call *call, const request *r, int64_t outputs) {
    const amp_tensor *t = r->scale;
    if (!t || (t->rank == 1 && t->shape[0] == outputs && amp_dtype_is_floating(t->dtype))) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'scale' is %s, 'weight' is %s; expected floating numbers of shape [%lld], one for each output "
                    "channel",
                    amp_call_name(call), amp_describe(t), amp_describe(r->weight), (long long)outputs);
}

/* ---- Geometry ------------------------------------------------------------------------------------------------- */

/* Extent of the output; it is what the others lead to, so that is what the message is about. */
static amp_status set_extent(const amp_call *call, const request *r, int i, amp_conv_axis *a) {
    const int64_t reach = a->dilation * (a->kernel - 1) + 1;
    if (r->transposed) {
        const int64_t more = r->output_padding ? r->output_padding->values[i] : 0;
        a->out = (a->in - 1) * a->stride - 2 * a->pad + reach + more;
    } else if (r->mode && !strcmp(r->mode, "same")) {
        a->pad = (reach - 1) / 2;
        a->out = a->in;
    } else {
        const int64_t room = a->in + 2 * a->pad - reach;
        a->out = room < 0 ? 0 : room / a->stride + 1;
    }
    if (a->out >= 1) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'input' is %s, 'weight' is %s; along dimension %d the input of %lld, padded by %lld, is too "
                    "small for a kernel that reaches over %lld",
                    amp_call_name(call), amp_describe(r->input), amp_describe(r->weight), r->input->rank - r->axes + i,
                    (long long)a->in, (long long)a->pad, (long long)reach);
}

static amp_status set_axis(const amp_call *call, const request *r, int i, amp_conv_axis *a) {
    const amp_tensor *x = r->input, *w = r->weight;
    *a = (amp_conv_axis){
        .in = x->shape[x->rank - r->axes + i],
        .kernel = w->shape[2 + i],
        .stride = r->stride->values[i],
        .pad = r->padding ? r->padding->values[i] : 0,
        .dilation = r->dilation->values[i],
    };
    if (a->kernel < 1 || a->kernel > INT32_MAX)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'weight' is %s; each extent of the kernel must be from 1 to %d",
                        amp_call_name(call), amp_describe(w), INT32_MAX);
    if (a->in < 1 || a->in > INT32_MAX)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; each extent after the channels must be from 1 to %d",
                        amp_call_name(call), amp_describe(x), INT32_MAX);
    return set_extent(call, r, i, a);
}

static amp_conv_image image_of(amp_tensor *t, int axes) {
    amp_conv_image image = {.tensor = t, .channel = t->strides[t->rank - axes - 1]};
    if (t->rank == axes + 2) image.batch = t->strides[0];
    for (int i = 0; i < axes; i++) image.axis[AMP_CONV_AXES - axes + i] = t->strides[t->rank - axes + i];
    return image;
}

static amp_conv_weight weight_of(const request *r, int64_t rows_of_group) {
    amp_tensor *t = r->weight;
    amp_conv_weight w = {.tensor = t, .group = t->strides[0] * rows_of_group};
    w.out = t->strides[r->transposed];
    w.in = t->strides[!r->transposed];
    for (int i = 0; i < r->axes; i++) w.axis[AMP_CONV_AXES - r->axes + i] = t->strides[2 + i];
    return w;
}

/* Everything but where the elements lie. */
static amp_status make_problem(const amp_call *call, const request *r, amp_conv *c) {
    const amp_tensor *x = r->input, *w = r->weight;
    const int64_t rows = w->shape[0] / r->groups;
    *c = (amp_conv){
        .transposed = r->transposed,
        .batch = x->rank == r->axes + 2 ? x->shape[0] : 1,
        .groups = r->groups,
        .in_channels = r->transposed ? rows : w->shape[1],
        .out_channels = r->transposed ? w->shape[1] : rows,
        .axis = {{1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 1}},
        .bias = r->bias,
        .scale = r->scale,
        .epilogue = r->epilogue,
    };
    AMP_TRY(check_bias(call, r, c->out_channels * c->groups));
    AMP_TRY(check_scale(call, r, c->out_channels * c->groups));
    for (int i = 0; i < r->axes; i++) AMP_TRY(set_axis(call, r, i, &c->axis[AMP_CONV_AXES - r->axes + i]));
    return AMP_OK;
}

/* ---- The result ----------------------------------------------------------------------------------------------- */

static amp_dtype result_dtype(const request *r) {
    return r->more.dtype == AMP_DTYPE_NONE ? r->input->dtype : r->more.dtype;
}

static amp_tensor *make_result(amp_call *call, const request *r, const amp_conv *c) {
    const bool batched = r->input->rank == r->axes + 2;
    const bool last = batched && (amp_is_channels_last(r->input) || amp_is_channels_last(r->weight));
    int64_t shape[AMP_MAX_RANK];
    int rank = 0;
    if (batched) shape[rank++] = c->batch;
    shape[rank++] = c->out_channels * c->groups;
    for (int i = 0; i < r->axes; i++) shape[rank++] = c->axis[AMP_CONV_AXES - r->axes + i].out;
    amp_tensor *y = amp_call_output(call, 0, result_dtype(r), rank, shape), *made = call->outputs[0];
    if (made && made != call->target && last) amp_channels_last_strides(rank, made->shape, made->strides);
    return y;
}

/* `y`: the result, which `c` has. */
static amp_status run(amp_call *call, const amp_conv *c, const amp_tensor *y, bool loops) {
    if (amp_tensor_elements(y) == 0) return AMP_OK;
    return amp_steps_of(call)->convolve(call, c, loops);
}

/* Gives pending casts that the kernels cannot read as they are their memory, and with it their strides. */
static amp_status settle_operands(amp_call *call, amp_tensor *input, amp_tensor *weight, amp_tensor *bias, bool loops) {
    if (loops) {
        AMP_TRY(amp_call_materialize(call, input));
        AMP_TRY(amp_call_materialize(call, weight));
    } else {
        AMP_TRY(amp_cpu_matmul_operand(call, input, false));
        AMP_TRY(amp_cpu_matmul_operand(call, weight, true));
    }
    return bias ? amp_call_materialize(call, bias) : AMP_OK;
}

/* What is added to the result, in its shape. */
static amp_status set_residual(amp_call *call, const request *r, const amp_tensor *y, amp_tensor *view, amp_conv *c) {
    if (r->other) AMP_TRY(amp_call_check_same_dtype(call, "input", r->input, "other", r->other));
    if (r->other) AMP_TRY(amp_call_materialize(call, r->other));
    const amp_tensor *t = r->other ? r->other : r->more.residual;
    if (!t) return AMP_OK;
    *view = *t;
    view->rank = y->rank;
    memcpy(view->shape, y->shape, sizeof view->shape);
    AMP_TRY(amp_broadcast_strides(call, r->other ? "other" : "residual", t, y->rank, y->shape, view->strides));
    c->residual = image_of(view, r->axes);
    return AMP_OK;
}

/* ---- Images of one pixel ---------------------------------------------------------------------------------------- */

/* Pooled images under a kernel of one tap, in a dtype that has products: rows of channels, as linear has them. What is
 * built for windows takes longer than such a product. */
AMP_HOT static bool is_rows(const amp_call *call, const request *r) {
    const amp_tensor *x = r->input, *w = r->weight;
    if (r->transposed || r->groups != 1 || r->scale || r->other || r->more.residual || call->device != AMP_DEVICE_CPU)
        return false;
    if ((x->dtype != AMP_BF16 && x->dtype != AMP_F32) || w->shape[0] == 0 || w->shape[1] == 0) return false;
    for (int i = 0; i < r->axes; i++)
        if (x->shape[x->rank - r->axes + i] != 1 || w->shape[2 + i] != 1 || (r->padding && r->padding->values[i] != 0))
            return false;
    return true;
}

AMP_HOT static amp_status multiply_rows(amp_call *call, const request *r) {
    amp_tensor *x = r->input, *w = r->weight, *bias = r->bias;
    const bool batched = x->rank == r->axes + 2;
    amp_matmul p;
    AMP_TRY(check_bias(call, r, w->shape[0]));
    AMP_TRY(amp_cpu_matmul_operand(call, x, false));
    AMP_TRY(amp_cpu_matmul_operand(call, w, true));
    AMP_TRY(amp_join_shift(call, &r->more, AMP_DTYPE_NONE, &bias));
    AMP_TRY(amp_cpu_dense_bias(call, &bias));
    int64_t shape[AMP_MAX_RANK] = {x->shape[0], 1, 1, 1, 1};
    shape[batched] = w->shape[0];
    amp_tensor *y = amp_call_dense_output(call, result_dtype(r), x->rank, shape);
    if (!y) return amp_pending_error();
    if (batched && y != call->target && (amp_is_channels_last(x) || amp_is_channels_last(w)))
        amp_channels_last_strides(y->rank, y->shape, y->strides); /* the elements lie the same */
    amp_matmul_clear(&p);
    p.m = batched ? x->shape[0] : 1;
    p.n = w->shape[0];
    p.k = w->shape[1];
    p.a.tensor = x;
    p.a.row = x->strides[0];
    p.a.column = x->strides[batched];
    p.b.tensor = w;
    p.b.row = w->strides[1];
    p.b.column = w->strides[0];
    p.c.tensor = y;
    p.c.row = p.n;
    p.c.column = 1;
    p.bias = bias;
    p.alpha = 1;
    p.epilogue = r->epilogue;
    p.b_is_weight = true;
    return p.m == 0 ? AMP_OK : amp_steps_of(call)->matmul(call, &p);
}

/* ---- All ------------------------------------------------------------------------------------------------------- */

AMP_APART static amp_status convolve_windows(amp_call *call, const request *r) {
    amp_tensor other;
    amp_conv c;
    AMP_TRY(make_problem(call, r, &c));
    AMP_TRY(amp_join_shift(call, &r->more, AMP_DTYPE_NONE, &c.bias));
    const bool loops = amp_conv_suits_loops(&c, r->input->dtype);
    AMP_TRY(settle_operands(call, r->input, r->weight, c.bias, loops));
    amp_tensor *y = make_result(call, r, &c);
    if (!y) return amp_pending_error();
    c.x = image_of(r->input, r->axes);
    c.w = weight_of(r, r->weight->shape[0] / r->groups);
    c.y = image_of(y, r->axes);
    AMP_TRY(set_residual(call, r, y, &other, &c));
    return run(call, &c, y, loops);
}

AMP_HOT static amp_status convolve(amp_call *call, const request *r) {
    AMP_TRY(check_rank(call, r));
    AMP_TRY(check_dtypes(call, r->input, r->weight, r->bias));
    AMP_TRY(check_options(call, r));
    AMP_TRY(check_groups(call, r));
    AMP_TRY(check_channels(call, r));
    return is_rows(call, r) ? multiply_rows(call, r) : convolve_windows(call, r);
}

/* ---- The ops: where each has its arguments -------------------------------------------------------------------- */

typedef struct form {
    int axes;
    bool transposed;
    size_t input, weight, bias, stride, dilation, groups;
    size_t padding, mode, output_padding; /* 0, where struct_size is: the op has none */
} form;

#define AT(op, name) offsetof(amp_##op##_args, name)
#define COMMON(op)                                                                                                     \
    .input = AT(op, input), .weight = AT(op, weight), .bias = AT(op, bias), .stride = AT(op, stride),                  \
    .dilation = AT(op, dilation), .groups = AT(op, groups)
#define CONV(op, n) [AMP_OP_ID_##op - AMP_OP_ID_conv1d] = {n, false, COMMON(op), .padding = AT(op, padding)}
#define CONV_MODE(op, n) [AMP_OP_ID_##op - AMP_OP_ID_conv1d] = {n, false, COMMON(op), .mode = AT(op, padding)}
#define CONV_TRANSPOSE(op, n)                                                                                          \
    [AMP_OP_ID_##op - AMP_OP_ID_conv1d] = {n, true, COMMON(op), .padding = AT(op, padding),                            \
                                           .output_padding = AT(op, output_padding)}

static const form forms[] = {
    CONV(conv1d, 1),
    CONV(conv2d, 2),
    CONV(conv3d, 3),
    CONV_MODE(conv1d_padding, 1),
    CONV_MODE(conv2d_padding, 2),
    CONV_MODE(conv3d_padding, 3),
    CONV_TRANSPOSE(conv_transpose1d, 1),
    CONV_TRANSPOSE(conv_transpose2d, 2),
    CONV_TRANSPOSE(conv_transpose3d, 3),
};
static_assert(sizeof forms / sizeof *forms == 9, "the ids of the convolutions follow each other");

static const amp_dims *dims_at(const char *args, size_t offset) {
    return (const amp_dims *)(const void *)(args + offset);
}
static amp_tensor *tensor_at(const char *args, size_t offset) {
    return *(amp_tensor *const *)(const void *)(args + offset);
}

AMP_HOT amp_status amp_op_conv(amp_call *call) {
    const form *f = &forms[call->op->id - AMP_OP_ID_conv1d];
    const char *args = call->args;
    return convolve(call, &(request){
                              .axes = f->axes,
                              .transposed = f->transposed,
                              .input = tensor_at(args, f->input),
                              .weight = tensor_at(args, f->weight),
                              .bias = tensor_at(args, f->bias),
                              .stride = dims_at(args, f->stride),
                              .padding = f->padding ? dims_at(args, f->padding) : NULL,
                              .mode = f->mode ? *(const char *const *)(const void *)(args + f->mode) : NULL,
                              .dilation = dims_at(args, f->dilation),
                              .output_padding = f->output_padding ? dims_at(args, f->output_padding) : NULL,
                              .groups = ((const amp_opt_int *)(const void *)(args + f->groups))->value,
                          });
}

/* ---- convolution_pointwise: with an epilogue, of any number of axes -------------------------------------------- */

/* The numbers of an option for each axis: as given, or one for all, or `otherwise`. */
static const amp_dims *spread(const amp_dims *given, int axes, int64_t otherwise, amp_dims *all) {
    if (given->count > 1) return given; /* checked as the others' are */
    all->count = axes;
    for (int i = 0; i < axes; i++) all->values[i] = given->count ? given->values[0] : otherwise;
    return all;
}

/* The arguments that its overloads have in common. */
typedef struct fused {
    amp_tensor *input, *other, *weight, *bias, *scale;
    amp_additions more;
    const amp_dims *padding, *output_padding, *stride, *dilation;
    int64_t groups;
    amp_epilogue_words words;
} fused;

static amp_status check_fused(const amp_call *call, const fused *f) {
    const int axes = f->weight->rank - 2;
    if (axes < 1 || axes > AMP_CONV_AXES)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'weight' is %s; expected 3 to 5 dimensions", amp_call_name(call),
                        amp_describe(f->weight));
    if (amp_dtype_is_floating(f->input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; expected a floating dtype", amp_call_name(call),
                    amp_describe(f->input));
}

static amp_status convolve_fused(amp_call *call, const fused *f) {
    amp_dims stride, padding, dilation, more;
    AMP_TRY(check_fused(call, f));
    const int axes = f->weight->rank - 2;
    request r = {
        .axes = axes,
        .transposed = f->output_padding != NULL,
        .input = f->input,
        .weight = f->weight,
        .bias = f->bias,
        .stride = spread(f->stride, axes, 1, &stride),
        .padding = spread(f->padding, axes, 0, &padding),
        .dilation = spread(f->dilation, axes, 1, &dilation),
        .output_padding = f->output_padding ? spread(f->output_padding, axes, 0, &more) : NULL,
        .groups = f->groups,
        .scale = f->scale,
        .other = f->other,
        .more = f->more,
    };
    AMP_TRY(amp_read_epilogue(call, &f->words, f->input->dtype, &r.epilogue));
    if (f->scale) AMP_TRY(amp_call_materialize(call, f->scale));
    return convolve(call, &r);
}

#define FUSED(a)                                                                                                       \
    .input = (a)->input, .weight = (a)->weight, .bias = (a)->bias, .scale = (a)->scale, .padding = &(a)->padding,      \
    .stride = &(a)->stride, .dilation = &(a)->dilation, .groups = (a)->groups.value,                                   \
    .words = {"attr", (a)->attr, (a)->scalars, (a)->algorithm}

/* One channel of each group has kernels that store what they read. */
static bool is_depthwise(const amp_convolution_pointwise_args *a) {
    return a->groups.value > 1 && a->weight->rank > 1 && a->weight->shape[1] == 1 &&
           a->weight->shape[0] == a->groups.value;
}

static bool is_taken_along(const amp_call *call, const amp_convolution_pointwise_args *a, const amp_additions *more) {
    const amp_dtype own = a->input->dtype;
    const bool same =
        (more->dtype == AMP_DTYPE_NONE || more->dtype == own) && (!more->residual || more->residual->dtype == own);
    return !amp_has_additions(more) || (amp_kernels_add(call, more, a->input) && (same || !is_depthwise(a)));
}

/* The same of operands in the dtype that computes, shift and bias one, and rounded at the end. */
static amp_status convolve_in_parts(amp_call *call, const amp_convolution_pointwise_args *a,
                                    const amp_additions *more) {
    const amp_dtype own = a->input->dtype, wide = amp_dtype_size(own) == 2 ? AMP_F32 : own;
    amp_tensor *bias = a->bias, *y;
    AMP_TRY(amp_call_materialize(call, a->input));
    AMP_TRY(amp_call_materialize(call, a->weight));
    AMP_TRY(amp_join_shift(call, more, wide, &bias));
    amp_tensor *input = amp_to(a->input, wide), *weight = amp_to(a->weight, wide);
    if (more->residual) {
        y = amp_convolution_pointwise_binary(input, amp_to(more->residual, wide), weight, bias, a->padding, a->stride,
                                             a->dilation, a->groups, a->attr, a->scalars, a->algorithm, a->scale);
    } else {
        y = amp_convolution_pointwise(input, weight, bias, a->padding, a->stride, a->dilation, a->groups, a->attr,
                                      a->scalars, a->algorithm, a->scale);
    }
    call->outputs[0] = y ? amp_to(y, more->dtype == AMP_DTYPE_NONE ? own : more->dtype) : NULL;
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

amp_status amp_op_convolution_pointwise(amp_call *call) {
    const amp_convolution_pointwise_args *a = call->args;
    const amp_additions more = {a->shift, a->residual, a->dtype};
    AMP_TRY(amp_check_additions(call, &more, a->input, a->weight->shape[0]));
    if (!is_taken_along(call, a, &more)) return convolve_in_parts(call, a, &more);
    return convolve_fused(call, &(fused){FUSED(a), .more = more});
}

amp_status amp_op_convolution_pointwise_binary(amp_call *call) {
    const amp_convolution_pointwise_binary_args *a = call->args;
    return convolve_fused(call, &(fused){FUSED(a), .other = a->other});
}

amp_status amp_op_convolution_transpose_pointwise(amp_call *call) {
    const amp_convolution_transpose_pointwise_args *a = call->args;
    return convolve_fused(call, &(fused){FUSED(a), .output_padding = &a->output_padding});
}

/* ---- conv_tbc: (T, B, C) with (K, C, O) ------------------------------------------------------------------------ */

static amp_status check_tbc(const amp_call *call, const amp_conv_tbc_args *a) {
    const amp_tensor *x = a->input, *w = a->weight;
    if (x->rank != 3 || w->rank != 3 || x->shape[2] != w->shape[1]) {
        return amp_fail(AMP_ERROR_INVALID,
                        "conv_tbc: 'input' is %s, 'weight' is %s; expected (time, batch, channels) and (kernel, "
                        "channels, outputs)",
                        amp_describe(x), amp_describe(w));
    }
    AMP_TRY(check_dtypes(call, x, w, a->bias));
    AMP_TRY(check_bias(call, &(request){.weight = a->weight, .bias = a->bias}, w->shape[2]));
    if (a->pad >= -INT32_MAX && a->pad <= INT32_MAX) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "conv_tbc: 'pad' is %lld; it must be from %d to %d", (long long)a->pad,
                    -INT32_MAX, INT32_MAX);
}

amp_status amp_op_conv_tbc(amp_call *call) {
    const amp_conv_tbc_args *a = call->args;
    AMP_TRY(check_tbc(call, a));
    const amp_tensor *x = a->input, *w = a->weight;
    const int64_t out = x->shape[0] + 2 * a->pad - w->shape[0] + 1;
    if (out < 0 || w->shape[0] < 1) {
        return amp_fail(AMP_ERROR_INVALID,
                        "conv_tbc: 'input' is %s, 'weight' is %s, 'pad' is %lld; the kernel does not fit the input",
                        amp_describe(x), amp_describe(w), (long long)a->pad);
    }
    const bool loops = amp_compute_dtype(x->dtype) != AMP_F32;
    AMP_TRY(settle_operands(call, a->input, a->weight, a->bias, loops));
    amp_tensor *y = amp_call_output(call, 0, x->dtype, 3, (const int64_t[]){out, x->shape[1], w->shape[2]});
    if (!y) return amp_pending_error();
    amp_conv c = {
        .batch = x->shape[1],
        .groups = 1,
        .in_channels = x->shape[2],
        .out_channels = w->shape[2],
        .axis = {{1, 1, 1, 1, 0, 1}, {1, 1, 1, 1, 0, 1}, {x->shape[0], out, w->shape[0], 1, a->pad, 1}},
        .bias = a->bias,
        .x = {a->input, x->strides[1], x->strides[2], {0, 0, x->strides[0]}, 0},
        .y = {y, y->strides[1], y->strides[2], {0, 0, y->strides[0]}, 0},
        .w = {a->weight, 0, w->strides[2], w->strides[1], {0, 0, w->strides[0]}, 0},
    };
    return run(call, &c, y, loops);
}
