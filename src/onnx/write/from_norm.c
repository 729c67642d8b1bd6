/* Norms, of batches, layers, groups and channels. */
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
