/* Sums, means, extremes and norms of dimensions, where an extreme stands, and running sums. */
#include "amp/ops.h"
#include "onnx/write/from.h"

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
