/* softmax and log_softmax. */
#include "onnx/write/from.h"

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
