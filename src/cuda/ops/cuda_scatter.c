/* Writing by index: short or many lines by a thread each, the others after their indices have been put in order. */
#include <string.h>

#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_order.h"
#include "cuda/ops/cuda_rows.h"
#include "steps/constants.h"

/* A line of up to SHORT places, or one of MANY, is a thread's. */
enum { SHORT = 64, MANY = 1 << 16 };

/* ---- Lines in order ---------------------------------------------------------------------------------------------- */
/* The index as dense lines along `dim`, once for all the lines that share it. */
static amp_tensor *index_lines(const amp_call *call, const amp_tensor *index, int dim, amp_cuda_scatter *a) {
    amp_tensor lines = *index;
    int free = 0;
    lines.rank = 0;
    for (int d = 0; d < index->rank; d++) {
        if (d == dim) continue;
        a->order_strides[free] = 0;
        if (index->strides[d] != 0) {
            lines.shape[lines.rank] = index->shape[d];
            lines.strides[lines.rank++] = index->strides[d];
            a->order_strides[free] = 1;
        }
        free++;
    }
    lines.shape[lines.rank] = index->shape[dim];
    lines.strides[lines.rank++] = index->strides[dim];
    int64_t step = index->shape[dim];
    for (int d = free - 1; d >= 0; d--) {
        if (!a->order_strides[d]) continue;
        a->order_strides[d] = step;
        step *= a->shape[d];
    }
    amp_tensor *dense = amp_cuda_temporary(call, AMP_I64, lines.rank, lines.shape);
    return dense && amp_copy_tensor(dense, &lines) == AMP_OK ? dense : NULL;
}

static amp_status put_lines_in_order(const amp_call *call, const amp_tensor *index, int dim, amp_cuda_scatter *a) {
    const amp_tensor *dense = index_lines(call, index, dim, a);
    if (!dense) return amp_pending_error();
    const amp_cuda_lines lines = {amp_cuda_address(call->op->name, dense), AMP_I64,
                                  amp_tensor_elements(dense) / a->length, a->length};
    amp_cuda_ordered ordered;
    if (!lines.data) return amp_pending_error();
    AMP_TRY(amp_cuda_put_in_order(call, &lines, false, false, &ordered));
    a->keys = ordered.keys;
    a->order = ordered.places;
    return AMP_OK;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */
static void set_geometry(const amp_writing *w, amp_cuda_scatter *a) {
    a->lines = 1;
    for (int d = 0; d < w->index->rank; d++) {
        if (d == w->dim) continue;
        a->lines *= w->index->shape[d];
        a->shape[a->rank] = w->index->shape[d];
        a->table_strides[a->rank] = w->table->strides[d];
        a->values_strides[a->rank] = w->values ? w->values->strides[d] : 0;
        a->index_strides[a->rank++] = w->index->strides[d];
    }
    a->length = w->index->shape[w->dim];
    a->scale = w->table->strides[w->dim];
    a->values_step = w->values ? w->values->strides[w->dim] : 0;
    a->index_step = w->index->strides[w->dim];
}

static const char *kernel_for(amp_scatter_kind kind, amp_dtype dtype) {
    if (kind == AMP_SCATTER_WRITE) return "scatter_moved";
    switch (dtype) {
    case AMP_F32: return "scatter_f32";
    case AMP_F64: return "scatter_f64";
    case AMP_C128: return "scatter_c128";
    default: return "scatter_i64";
    }
}

amp_status amp_cuda_write_by_index(const amp_call *call, const amp_writing *w) {
    const char *op = call->op->name;
    const amp_constant alpha = amp_constant_of(&w->alpha, AMP_C128);
    amp_cuda_scatter a = {.joining = w->kind,
                          .size = (int)amp_dtype_size(w->table->dtype),
                          .dtype = w->table->dtype,
                          .alpha = alpha.c128[0],
                          .alpha_imaginary = alpha.c128[1],
                          .alpha_whole = amp_constant_of(&w->alpha, AMP_I64).i64,
                          .least = w->least,
                          .extent = w->table->shape[w->dim]};
    set_geometry(w, &a);
    if (a.lines * a.length == 0) return AMP_OK;
    a.table = amp_cuda_address(op, w->table);
    a.index = a.table ? amp_cuda_address(op, w->index) : NULL;
    if (a.index && w->values) {
        a.values = amp_cuda_address(op, w->values);
        a.values_dtype = w->values->dtype;
    }
    if (!a.index || (w->values && !a.values)) return amp_pending_error();
    if (w->number) memcpy(a.number, w->number, sizeof a.number);
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    const bool by_lines = a.length <= SHORT || a.lines >= MANY;
    if (!by_lines) AMP_TRY(put_lines_in_order(call, w->index, w->dim, &a));
    return amp_cuda_launch_over(op, kernel_for(w->kind, a.dtype), &a,
                                amp_cuda_blocks(by_lines ? a.lines : a.lines * a.length));
}

amp_status amp_cuda_make_offsets(const amp_call *call, const amp_tensor *table, amp_tensor *const *indices, int dims,
                                 amp_tensor *out) {
    const char *op = call->op->name;
    amp_cuda_offsets a = {.count = amp_tensor_elements(out), .rank = out->rank, .dims = dims};
    if (a.count == 0) return AMP_OK;
    memcpy(a.shape, out->shape, (size_t)out->rank * sizeof *a.shape);
    a.out = amp_cuda_address(op, out);
    if (!a.out) return amp_pending_error();
    for (int d = 0; d < dims; d++) {
        const amp_tensor *t = indices[d];
        if (!t) continue;
        a.index[d] = amp_cuda_address(op, t);
        if (!a.index[d]) return amp_pending_error();
        a.extents[d] = table->shape[d];
        a.table_strides[d] = table->strides[d];
        for (int k = 0; k < t->rank; k++) a.strides[d][out->rank - t->rank + k] = t->shape[k] == 1 ? 0 : t->strides[k];
    }
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    return amp_cuda_launch_over(op, "index_offsets", &a, amp_cuda_blocks(a.count));
}

/* ---- Masks ------------------------------------------------------------------------------------------------------- */
/* For each place of the mask the number of its value among `count`: how many are set before it. Only the device knows
 * how many there are, and tells of it later where they are not `count`. NULL with an error. */
static amp_tensor *value_numbers(const amp_call *call, amp_tensor *mask, int64_t count) {
    const int64_t places = amp_tensor_elements(mask);
    amp_tensor *flat = amp_reshape(mask, AMP_DIMS(places)), *set = flat ? amp_cumsum(flat, 0) : NULL;
    if (!set) return NULL;
    if (places > 0) {
        amp_tensor *all = amp_narrow(set, 0, places - 1, 1),
                   *missing = all ? amp_sub_scalar(all, amp_int(count)) : NULL;
        if (!missing || !amp_cuda_pick_slices(call, all, missing, 0)) return NULL; /* out of range unless it is 0 */
    }
    amp_tensor *before = amp_sub_scalar(set, amp_int(1));
    return before ? amp_where_scalar_other(flat, before, amp_int(0)) : NULL;
}

/* Values (…, count, …), `behind` dimensions behind the count, as (…, the mask's shape, …); or (…, 1, …) with ones
 * there. With a count of 0 no place is set, and any number will do. */
static amp_tensor *spread_values(const amp_call *call, amp_tensor *values, amp_tensor *mask, int behind) {
    const int dim = values->rank - 1 - behind;
    if (dim < 0) return values;
    const int64_t count = values->shape[dim];
    amp_dims shape = {.set = AMP_PRESENT};
    if (values->rank - 1 + mask->rank > AMP_MAX_RANK) return values;
    for (int d = 0; d < dim; d++) shape.values[shape.count++] = values->shape[d];
    for (int d = 0; d < mask->rank; d++) shape.values[shape.count++] = count > 1 ? mask->shape[d] : 1;
    for (int d = dim + 1; d < values->rank; d++) shape.values[shape.count++] = values->shape[d];
    amp_tensor *numbers = count != 1 ? value_numbers(call, mask, count) : NULL;
    if (count != 1 && !numbers) return NULL;
    if (count == 0) return amp_full(shape, amp_int(0), .dtype = values->dtype, .device = AMP_DEVICE_CUDA);
    if (count > 1) values = amp_cuda_pick_slices(call, values, numbers, dim);
    return values ? amp_reshape(values, shape) : NULL;
}

amp_status amp_cuda_index_put_mask(amp_call *call, const amp_index_put_args *a, amp_tensor *mask, int first) {
    const int behind = a->input->rank - first - mask->rank;
    amp_dims shape = {.set = AMP_PRESENT, .count = mask->rank + behind};
    for (int d = 0; d < shape.count; d++) shape.values[d] = d < mask->rank ? mask->shape[d] : 1;
    amp_tensor *is_set = mask->dtype == AMP_BOOL ? mask : amp_to(mask, AMP_BOOL);
    amp_tensor *values = is_set ? spread_values(call, a->values, is_set, behind) : NULL;
    if (values && a->accumulate) values = amp_add(a->input, values);
    is_set = values ? amp_reshape(is_set, shape) : NULL;
    call->outputs[0] = is_set ? amp_where(is_set, values, a->input) : NULL;
    if (!call->outputs[0]) return amp_pending_error();
    if (amp_same_shape(call->outputs[0], a->input)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'values' is %s, which does not broadcast to the places of input %s",
                    amp_call_name(call), amp_describe(a->values), amp_describe(a->input));
}
