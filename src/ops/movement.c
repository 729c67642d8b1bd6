/* Data movement: repeat, tile, flip, rot90, roll, tril, triu, diag, diag_embed. Elements are moved as they are; nothing
 * here computes. */
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/parallel.h"
#include "steps/shape_rules.h"

/* ---- repeat, tile --------------------------------------------------------------------------------------------- */

/* The part of `out` that begins at its first element and has this shape. */
static amp_tensor corner(const amp_tensor *out, const int64_t *shape) {
    amp_tensor part = *out;
    memcpy(part.shape, shape, (size_t)out->rank * sizeof *shape);
    return part;
}

/* Fills dimension d from its first shape[d] elements, doubling what there is; shape[d] becomes the whole extent. */
static amp_status fill_along(const amp_tensor *out, int d, int64_t *shape) {
    while (shape[d] < out->shape[d]) { /* NOLINT(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        const amp_tensor done = corner(out, shape);
        amp_tensor from = done, to = done;
        const int64_t left = out->shape[d] - shape[d];
        from.shape[d] = to.shape[d] = left < shape[d] ? left : shape[d];
        to.offset += shape[d] * out->strides[d];
        AMP_TRY(amp_copy_tensor(&to, &from));
        shape[d] += to.shape[d];
    }
    return AMP_OK;
}

/* `counts` has one number for each dimension of the result. */
static amp_status repeat(amp_call *call, const amp_tensor *input, const char *argument, int rank,
                         const int64_t *counts) {
    int64_t shape[AMP_MAX_RANK], done[AMP_MAX_RANK], elements;
    for (int d = 0; d < rank; d++) {
        const int from = d - (rank - input->rank);
        done[d] = from < 0 ? 1 : input->shape[from];
        if (counts[d] < 0 || __builtin_mul_overflow(done[d], counts[d], &shape[d])) {
            return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s and input %s; expected counts from 0 up that fit memory",
                            amp_call_name(call), argument, amp_describe_shape(rank, counts), amp_describe(input));
        }
    }
    AMP_TRY(amp_shape_elements(amp_call_name(call), rank, shape, &elements));
    amp_tensor *out = amp_call_output(call, 0, input->dtype, rank, shape);
    if (!out) return amp_pending_error();
    if (elements == 0) return AMP_OK;
    amp_tensor first = corner(out, done);
    AMP_TRY(amp_copy_tensor(&first, input));
    for (int d = rank - 1; d >= 0; d--) AMP_TRY(fill_along(out, d, done));
    return AMP_OK;
}

amp_status amp_op_repeat(amp_call *call) {
    const amp_repeat_args *a = call->args;
    AMP_TRY(amp_check_dims(call, "repeats", &a->repeats));
    if (a->repeats.count < a->input->rank) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'repeats' has %d counts, input is %s; expected one for each dimension",
                        amp_call_name(call), a->repeats.count, amp_describe(a->input));
    }
    return repeat(call, a->input, "repeats", a->repeats.count, a->repeats.values);
}

amp_status amp_op_tile(amp_call *call) {
    const amp_tile_args *a = call->args;
    AMP_TRY(amp_check_dims(call, "dims", &a->dims));
    const int rank = a->dims.count > a->input->rank ? a->dims.count : a->input->rank;
    int64_t counts[AMP_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        const int from = d - (rank - a->dims.count);
        counts[d] = from < 0 ? 1 : a->dims.values[from];
    }
    return repeat(call, a->input, "dims", rank, counts);
}

/* ---- flip, roll ----------------------------------------------------------------------------------------------- */

amp_status amp_op_flip(amp_call *call) {
    const amp_flip_args *a = call->args;
    unsigned mask;
    AMP_TRY(amp_wrap_dims(call, "dims", &a->dims, false, a->input->rank, &mask));
    amp_tensor *out = amp_call_output(call, 0, a->input->dtype, a->input->rank, a->input->shape);
    if (!out) return amp_pending_error();
    if (amp_tensor_elements(out) == 0) return AMP_OK;
    amp_tensor reversed = *a->input;
    for (int d = 0; d < reversed.rank; d++) {
        if (!(mask & 1u << d)) continue;
        reversed.offset += (reversed.shape[d] - 1) * reversed.strides[d];
        reversed.strides[d] = -reversed.strides[d];
    }
    return amp_copy_tensor(out, &reversed);
}

/* By one right angle the second dimension comes first, from its end; by three the first one comes second, from its end;
 * by two both go backwards. */
amp_status amp_op_rot90(amp_call *call) {
    const amp_rot90_args *a = call->args;
    const amp_dims dims = a->dims.set ? a->dims : AMP_DIMS(0, 1);
    const int turns = (int)((a->k.value % 4 + 4) % 4);
    unsigned mask;
    int d, e;
    AMP_TRY(amp_check_dims(call, "dims", &dims));
    if (dims.count != 2 || a->input->rank < 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'dims' names %d dimensions, input is %s; expected two of at least two",
                        amp_call_name(call), dims.count, amp_describe(a->input));
    }
    AMP_TRY(amp_wrap_dims(call, "dims", &dims, false, a->input->rank, &mask));
    AMP_TRY(amp_wrap_dim(call, "dims", dims.values[0], a->input->rank, &d));
    AMP_TRY(amp_wrap_dim(call, "dims", dims.values[1], a->input->rank, &e));
    amp_tensor turned = *a->input;
    const bool backwards[2] = {turns == 2 || turns == 3, turns == 1 || turns == 2};
    for (int i = 0; i < 2; i++) {
        const int k = i ? e : d;
        if (!backwards[i] || turned.shape[k] == 0) continue;
        turned.offset += (turned.shape[k] - 1) * turned.strides[k];
        turned.strides[k] = -turned.strides[k];
    }
    if (turns % 2) {
        const int64_t extent = turned.shape[d], stride = turned.strides[d];
        turned.shape[d] = turned.shape[e];
        turned.strides[d] = turned.strides[e];
        turned.shape[e] = extent;
        turned.strides[e] = stride;
    }
    amp_tensor *out = amp_call_output(call, 0, turned.dtype, turned.rank, turned.shape);
    if (!out) return amp_pending_error();
    return amp_tensor_elements(out) ? amp_copy_tensor(out, &turned) : AMP_OK;
}

/* Dimension d and all after it, where `by[d]` elements move round: each gives two parts. */
static amp_status roll_from(int d, amp_tensor out, amp_tensor in, const int64_t *by) {
    while (d < in.rank && by[d] == 0) d++;
    if (d == in.rank) return amp_copy_tensor(&out, &in);
    const int64_t extent = in.shape[d], head = extent - by[d];
    amp_tensor to = out, from = in;
    to.shape[d] = from.shape[d] = head;
    to.offset += by[d] * to.strides[d];
    AMP_TRY(roll_from(d + 1, to, from, by));
    to = out, from = in;
    to.shape[d] = from.shape[d] = by[d];
    from.offset += head * from.strides[d];
    return roll_from(d + 1, to, from, by);
}

static int64_t wrapped_shift(int64_t shift, int64_t extent) {
    const int64_t rest = extent ? shift % extent : 0;
    return rest < 0 ? rest + extent : rest;
}

/* In flattened order: input as a vector, a copy where its strides do not allow a view. */
static amp_status roll_flat(amp_call *call, const amp_tensor *input, int64_t shift, amp_tensor *out) {
    amp_tensor flat_in = *input, flat_out = *out;
    amp_tensor *copies[2] = {NULL, NULL};
    const amp_tensor *const given[2] = {input, out};
    for (int i = 0; i < 2; i++) {
        if (amp_tensor_is_dense(given[i])) continue;
        copies[i] = amp_backend_tensor(call->device, call->op->name, input->dtype, input->rank, input->shape);
        if (!copies[i]) return amp_pending_error();
    }
    if (copies[0]) {
        AMP_TRY(amp_copy_tensor(copies[0], input));
        flat_in = *copies[0];
    }
    if (copies[1]) flat_out = *copies[1];
    flat_in.rank = flat_out.rank = 1;
    flat_in.shape[0] = flat_out.shape[0] = amp_tensor_elements(input);
    flat_in.strides[0] = flat_out.strides[0] = 1;
    const int64_t by = wrapped_shift(shift, flat_in.shape[0]);
    AMP_TRY(roll_from(0, flat_out, flat_in, &by));
    return copies[1] ? amp_copy_tensor(out, copies[1]) : AMP_OK;
}

amp_status amp_op_roll(amp_call *call) {
    const amp_roll_args *a = call->args;
    AMP_TRY(amp_check_dims(call, "shifts", &a->shifts));
    const bool flat = !a->dims.set || a->dims.count == 0;
    if (flat ? a->shifts.count != 1 : a->shifts.count != a->dims.count) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'shifts' has %d numbers, 'dims' %d; expected as many, or one and none",
                        amp_call_name(call), a->shifts.count, flat ? 0 : a->dims.count);
    }
    int64_t by[AMP_MAX_RANK] = {0};
    for (int i = 0; !flat && i < a->dims.count; i++) {
        int d;
        AMP_TRY(amp_wrap_dim(call, "dims", a->dims.values[i], a->input->rank, &d));
        if (a->input->rank)
            by[d] = wrapped_shift(by[d] + wrapped_shift(a->shifts.values[i], a->input->shape[d]), a->input->shape[d]);
    }
    amp_tensor *out = amp_call_output(call, 0, a->input->dtype, a->input->rank, a->input->shape);
    if (!out) return amp_pending_error();
    if (amp_tensor_elements(out) == 0) return AMP_OK;
    return flat ? roll_flat(call, a->input, a->shifts.values[0], out) : roll_from(0, *out, *a->input, by);
}

/* ---- tril, triu ----------------------------------------------------------------------------------------------- */

typedef struct triangle {
    amp_tensor out; /* of which the rows are taken */
    int64_t diagonal;
    bool lower;
} triangle;

static int64_t clip(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Zeros where row `index`, counted over all matrices, is not in the triangle. */
static void clear_row(const triangle *t, int64_t index) {
    const amp_tensor *out = &t->out;
    const int64_t size = (int64_t)amp_dtype_size(out->dtype), columns = out->shape[out->rank - 1];
    const int64_t step = out->strides[out->rank - 1] * size, row = index % out->shape[out->rank - 2];
    int64_t offset = 0;
    for (int d = out->rank - 2; d >= 0; d--) {
        offset += index % out->shape[d] * out->strides[d];
        index /= out->shape[d];
    }
    /* the first column above the diagonal: row + diagonal + 1 or row + diagonal, without overflow */
    const int64_t diagonal = clip(t->diagonal, -row - 1, columns);
    const int64_t first = t->lower ? clip(row + diagonal + 1, 0, columns) : 0;
    const int64_t end = t->lower ? columns : clip(row + diagonal, 0, columns);
    char *at = (char *)amp_tensor_pointer(out) + offset * size + first * step;
    if (step == size) {
        if (end > first) memset(at, 0, (size_t)((end - first) * size));
        return;
    }
    for (int64_t i = first; i < end; i++, at += step) memset(at, 0, (size_t)size);
}

static amp_status cut_triangle(amp_call *call, amp_tensor *input, int64_t diagonal, bool lower) {
    if (input->rank < 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected a matrix, or a batch of them",
                        amp_call_name(call), amp_describe(input));
    }
    amp_tensor *out = call->outputs[0] = call->form == AMP_FORM_INPLACE ? call->target : NULL;
    if (!out) {
        out = amp_call_output(call, 0, input->dtype, input->rank, input->shape);
        if (!out) return amp_pending_error();
        AMP_TRY(amp_copy_tensor(out, input));
    }
    const int64_t elements = amp_tensor_elements(out);
    if (elements == 0) return AMP_OK;
    const triangle t = {.out = *out, .diagonal = diagonal, .lower = lower};
    const int64_t rows = elements / out->shape[out->rank - 1];
    const int threads = amp_parallel_threads(elements, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < rows; i++) clear_row(&t, i);
    return AMP_OK;
}

amp_status amp_op_tril(amp_call *call) {
    const amp_tril_args *a = call->args;
    return cut_triangle(call, a->input, a->diagonal, true);
}
amp_status amp_op_triu(amp_call *call) {
    const amp_triu_args *a = call->args;
    return cut_triangle(call, a->input, a->diagonal, false);
}

/* ---- diag, diag_embed ----------------------------------------------------------------------------------------- */

/* Zeros with the last dimension of input on the diagonal of the dimensions d and e of the result. */
static amp_status embed(amp_call *call, amp_tensor *input, int64_t offset, int d, int e) {
    int64_t shape[AMP_MAX_RANK], elements;
    const int rank = input->rank + 1, last = input->rank - 1;
    const int64_t off = offset == INT64_MIN ? INT64_MAX : offset < 0 ? -offset : offset;
    int64_t extent;
    if (__builtin_add_overflow(input->shape[last], off, &extent)) extent = INT64_MAX;
    for (int i = 0, from = 0; i < rank; i++) shape[i] = i == d || i == e ? extent : input->shape[from++];
    AMP_TRY(amp_shape_elements(amp_call_name(call), rank, shape, &elements));
    amp_tensor *out = amp_call_output(call, 0, input->dtype, rank, shape);
    if (!out) return amp_pending_error();
    const amp_scalar zero = amp_int(0);
    AMP_TRY(amp_fill_tensor_with(out, &zero));
    amp_tensor line = *out;
    line.offset += offset < 0 ? off * out->strides[d] : off * out->strides[e];
    line.rank = 0;
    for (int i = 0; i < rank; i++) {
        if (i == d || i == e) continue;
        line.shape[line.rank] = out->shape[i];
        line.strides[line.rank++] = out->strides[i];
    }
    line.shape[line.rank] = input->shape[last];
    line.strides[line.rank++] = out->strides[d] + out->strides[e];
    return amp_tensor_elements(input) ? amp_copy_tensor(&line, input) : AMP_OK;
}

amp_status amp_op_diag_embed(amp_call *call) {
    const amp_diag_embed_args *a = call->args;
    int d, e;
    if (a->input->rank == 0 || a->input->rank == AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected from 1 to %d dimensions", amp_call_name(call),
                        amp_describe(a->input), AMP_MAX_RANK - 1);
    }
    AMP_TRY(amp_wrap_dim(call, "dim1", a->dim1.value, a->input->rank + 1, &d));
    AMP_TRY(amp_wrap_dim(call, "dim2", a->dim2.value, a->input->rank + 1, &e));
    if (d == e) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'dim1' and 'dim2' both name dimension %d; expected two",
                        amp_call_name(call), d);
    }
    return embed(call, a->input, a->offset, d, e);
}

amp_status amp_op_diag(amp_call *call) {
    const amp_diag_args *a = call->args;
    if (a->input->rank == 1) return embed(call, a->input, a->diagonal, 0, 1);
    if (a->input->rank != 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected a vector or a matrix", amp_call_name(call),
                        amp_describe(a->input));
    }
    amp_tensor *line = amp_diagonal(a->input, a->diagonal);
    amp_tensor *out = line ? amp_call_output(call, 0, line->dtype, line->rank, line->shape) : NULL;
    return out ? amp_copy_tensor(out, line) : amp_pending_error();
}
