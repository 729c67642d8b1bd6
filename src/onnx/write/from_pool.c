/* Pools. */
#include <string.h>

#include "onnx/write/from.h"

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
