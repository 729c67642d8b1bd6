/* Calls that normalise, and that make one number of many; pools, and resampling. */
#include <string.h>

#include "amp/ops.h"
#include "onnx/write/from.h"

/* A weight or bias that is absent: all ones or zeros. */
static int or_filled(amp_written_call *c, const char *argument, const amp_made_shape *like, double number) {
    const int value = amp_written_operand(c, argument);
    if (value >= 0 || amp_failed()) return value;
    return amp_made_filled(c->w, like->dtype, like->rank, like->extents, number);
}

static amp_made_shape channels_of(const amp_written_call *c, int x, amp_dtype dtype) {
    return amp_made_shape_from(dtype, 1, &c->w->values[x].shape[1]);
}

/* ---- Norms ----------------------------------------------------------------------------------------------------- */

amp_status from_batch_norm(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int x = amp_written_operand(c, "input");
    if (x < 0) return amp_pending_error();
    if (amp_written_int(c, "training", 0) || !amp_written_value(c, "running_mean"))
        return amp_written_fail(c, "with the batch's own statistics");
    const int mean = amp_written_operand(c, "running_mean"), var = amp_written_operand(c, "running_var");
    if (mean < 0 || var < 0) return amp_pending_error();
    const amp_made_shape channels = channels_of(c, x, c->w->values[mean].dtype);
    const int weight = or_filled(c, "weight", &channels, 1), bias = or_filled(c, "bias", &channels, 0);
    const int y = AMP_MADE(c->w, "BatchNormalization", &shape, x, weight, bias, mean, var);
    amp_made_float(c->w, "epsilon", amp_written_float(c, "eps", 1e-5));
    return amp_written_set(c, 0, y);
}

/* layer_norm and rms_norm. */
amp_status from_layer_norm(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const amp_dims *over = amp_written_dims(c, "normalized_shape");
    const bool is_layer = strcmp(c->to, "LayerNormalization") == 0;
    const int x = amp_written_operand(c, "input");
    if (x < 0 || !over) return amp_pending_error();
    const double usual = is_layer                           ? 1e-5
                         : c->w->values[x].dtype == AMP_F64 ? 2.220446049250313e-16
                                                            : 1.1920928955078125e-7;
    const amp_made_shape normed = amp_made_shape_from(shape.dtype, over->count, over->values);
    const int weight = or_filled(c, "weight", &normed, 1),
              bias = is_layer ? amp_written_operand(c, "bias") : AMP_MADE_NONE;
    const int y = AMP_MADE(c->w, c->to, &shape, x, weight, bias);
    amp_made_int(c->w, "axis", shape.rank - over->count);
    amp_made_float(c->w, "epsilon", amp_written_float(c, "eps", usual));
    return amp_written_set(c, 0, y);
}

/* group_norm and instance_norm. */
amp_status from_group_norm(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const bool grouped = strcmp(c->to, "GroupNormalization") == 0;
    const int x = amp_written_operand(c, "input");
    if (x < 0) return amp_pending_error();
    if (!grouped && (!amp_written_int(c, "use_input_stats", 1) || amp_written_value(c, "running_mean")))
        return amp_written_fail(c, "with running statistics");
    const amp_made_shape channels = channels_of(c, x, shape.dtype);
    const int weight = or_filled(c, "weight", &channels, 1), bias = or_filled(c, "bias", &channels, 0);
    const int y = AMP_MADE(c->w, c->to, &shape, x, weight, bias);
    amp_made_float(c->w, "epsilon", amp_written_float(c, "eps", 1e-5));
    if (grouped) amp_made_int(c->w, "num_groups", amp_written_int(c, "num_groups", 1));
    return amp_written_set(c, 0, y);
}

/* Where an even number of channels is summed, libamp's window reaches further down, ONNX's further up. */
amp_status from_local_response_norm(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int64_t size = amp_written_int(c, "size", 1);
    if (size % 2 == 0) return amp_written_fail(c, "over an even number of channels");
    const int y = AMP_MADE(c->w, "LRN", &shape, amp_written_operand(c, "input"));
    amp_made_float(c->w, "alpha", amp_written_float(c, "alpha", 1e-4));
    amp_made_float(c->w, "beta", amp_written_float(c, "beta", 0.75));
    amp_made_float(c->w, "bias", amp_written_float(c, "k", 1));
    amp_made_int(c->w, "size", size);
    return amp_written_set(c, 0, y);
}

amp_status from_softmax(amp_written_call *c) {
    const amp_dtype wanted = (amp_dtype)amp_written_int(c, "dtype", AMP_DTYPE_NONE);
    if (wanted != AMP_DTYPE_NONE) c->dtype = wanted;
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int x = amp_written_operand(c, "input");
    if (shape.rank == 0) return amp_written_fail(c, "of a tensor without dimensions");
    const int y = AMP_MADE(c->w, c->to, &shape, x);
    amp_made_int(c->w, "axis", amp_written_axis(c, "dim", -1, shape.rank));
    return amp_written_set(c, 0, y);
}

/* ---- Reductions ------------------------------------------------------------------------------------------------ */

/* Without a list all dimensions. The attribute becomes an input where the opset wants that (finish.c). */
static void write_axes(amp_written_call *c, int rank) {
    const amp_dims *dims = amp_written_dims(c, "dim");
    int64_t axes[AMP_MAX_RANK];
    int count = 0;
    for (int d = 0; d < rank; d++) {
        bool there = !dims || dims->count == 0;
        for (int i = 0; dims && i < dims->count; i++) there = there || (dims->values[i] + rank) % rank == d;
        if (there) axes[count++] = d;
    }
    amp_made_ints(c->w, "axes", axes, count);
    amp_made_int(c->w, "keepdims", amp_written_int(c, "keepdim", 0));
}

amp_status from_reduce(amp_written_call *c) {
    const amp_dtype wanted = (amp_dtype)amp_written_int(c, "dtype", AMP_DTYPE_NONE);
    if (wanted != AMP_DTYPE_NONE && amp_dtype_is_floating(wanted)) c->dtype = wanted;
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int x = amp_made_cast(c->w, amp_written_operand(c, "input"), shape.dtype);
    if (x < 0) return amp_pending_error();
    if (c->w->values[x].rank == 0) return amp_written_fail(c, "of a tensor without dimensions");
    const int y = AMP_MADE(c->w, c->to, &shape, x);
    write_axes(c, c->w->values[x].rank);
    return amp_written_set(c, 0, y);
}

amp_status from_vector_norm(amp_written_call *c) {
    const amp_scalar ord = amp_written_scalar(c, "ord");
    const double order = ord.kind == AMP_SCALAR_FLOAT ? ord.re : ord.kind == AMP_SCALAR_NONE ? 2 : (double)ord.i;
    if (order != 1 && order != 2) return amp_written_fail(c, "of order %g; 1 and 2 can be saved", order);
    c->to = order == 1 ? "ReduceL1" : "ReduceL2";
    return from_reduce(c);
}

amp_status from_arg(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const amp_net_value *input = amp_written_value(c, "input");
    int x = amp_written_operand(c, "input");
    if (!input || input->rank == 0) return amp_written_fail(c, "of a tensor without dimensions");
    const int64_t none = INT64_MIN, dim = amp_written_int(c, "dim", none);
    int64_t count = 1;
    for (int d = 0; d < input->rank; d++) count *= input->shape[d];
    if (dim == none) x = amp_made_reshape(c->w, x, 1, &count); /* of all elements in a row */
    const amp_made_shape flat = amp_made_shape_from(shape.dtype, 0, NULL);
    const int y = AMP_MADE(c->w, c->to, dim == none ? &flat : &shape, x);
    amp_made_int(c->w, "axis", dim == none ? 0 : dim < 0 ? dim + input->rank : dim);
    amp_made_int(c->w, "keepdims", dim == none ? 0 : amp_written_int(c, "keepdim", 0));
    return amp_written_set(c, 0, amp_made_reshape(c->w, y, shape.rank, shape.extents));
}

amp_status from_cumsum(amp_written_call *c) {
    const amp_dtype wanted = (amp_dtype)amp_written_int(c, "dtype", AMP_DTYPE_NONE);
    if (wanted != AMP_DTYPE_NONE && amp_dtype_is_floating(wanted)) c->dtype = wanted;
    const amp_made_shape shape = amp_written_shape(c, 0);
    if (shape.rank == 0) return amp_written_fail(c, "of a tensor without dimensions");
    const int x = amp_made_cast(c->w, amp_written_operand(c, "input"), shape.dtype);
    const int axis = amp_made_number(c->w, AMP_I64, amp_int(amp_written_axis(c, "dim", 0, shape.rank)));
    return amp_written_set(c, 0, AMP_MADE(c->w, "CumSum", &shape, x, axis));
}

/* ---- Windows --------------------------------------------------------------------------------------------------- */

enum { MOST_SPATIAL = 3 };

/* Equal ends of ONNX's formula: where extents round up, both leave out a window that begins behind the input. */
amp_status from_pool(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const bool max = strcmp(c->to, "MaxPool") == 0;
    const int dims = c->node.op->name[strlen(c->node.op->name) - 2] - '0', x = amp_written_operand(c, "input");
    int64_t kernel[MOST_SPATIAL], stride[MOST_SPATIAL], dilation[MOST_SPATIAL], pads[2 * MOST_SPATIAL];
    if (x < 0) return amp_pending_error();
    if (shape.rank != dims + 2) return amp_written_fail(c, "of an input that has no batch");
    if (amp_written_int(c, "divisor_override", 0) != 0) return amp_written_fail(c, "with divisor_override");
    amp_written_spread(c, "kernel_size", dims, 1, kernel);
    for (int d = 0; d < dims; d++) stride[d] = kernel[d];
    const amp_dims *given = amp_written_dims(c, "stride");
    if (given && given->count > 0) amp_written_spread(c, "stride", dims, 1, stride);
    amp_written_spread(c, "dilation", dims, 1, dilation);
    amp_written_spread(c, "padding", dims, 0, pads);
    memcpy(pads + dims, pads, (size_t)dims * sizeof *pads);
    const int y = AMP_MADE(c->w, c->to, &shape, x);
    amp_made_int(c->w, "ceil_mode", amp_written_int(c, "ceil_mode", 0));
    if (max) amp_made_ints(c->w, "dilations", dilation, dims);
    if (!max) amp_made_int(c->w, "count_include_pad", amp_written_int(c, "count_include_pad", 1));
    amp_made_ints(c->w, "kernel_shape", kernel, dims);
    amp_made_ints(c->w, "pads", pads, dims * 2);
    amp_made_ints(c->w, "strides", stride, dims);
    return amp_written_set(c, 0, y);
}

/* By sizes; a scale that says another one than they do is refused. */
amp_status from_interpolate(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const char *mode = amp_written_text(c, "mode", "nearest");
    const bool nearest = strcmp(mode, "nearest") == 0, linear = strcmp(mode, "bilinear") == 0,
               cubic = strcmp(mode, "bicubic") == 0, corners = amp_written_int(c, "align_corners", 0) != 0;
    const int x = amp_written_operand(c, "input");
    if (x < 0) return amp_pending_error();
    if (!nearest && !linear && !cubic) return amp_written_fail(c, "in mode '%s'", mode);
    if (amp_written_int(c, "antialias", 0)) return amp_written_fail(c, "with antialias");
    for (int d = 2; !amp_written_dims(c, "size") && d < shape.rank; d++) {
        if (shape.extents[d] % c->w->values[x].shape[d] != 0)
            return amp_written_fail(c, "by a factor that is no whole number");
    }
    const int sizes = amp_made_integers(c->w, shape.extents, shape.rank);
    const int y = AMP_MADE(c->w, "Resize", &shape, x, AMP_MADE_NONE, AMP_MADE_NONE, sizes);
    amp_made_text(c->w, "coordinate_transformation_mode",
                  nearest   ? "asymmetric"
                  : corners ? "align_corners"
                            : "half_pixel");
    amp_made_text(c->w, "mode", nearest ? "nearest" : linear ? "linear" : "cubic");
    if (nearest) amp_made_text(c->w, "nearest_mode", "floor");
    return amp_written_set(c, 0, y);
}
