/* scatter, scatter_add, scatter_reduce, index_add, index_copy, index_fill, index_reduce: elements written where indices
 * say. */
#include "ops/scatter.h"

#include <complex.h>
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "call/outputs.h"
#include "cpu/convert/element.h"
#include "ops/math/compose.h"
#include "steps/constants.h"
#include "steps/indices.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

/* ---- The result ----------------------------------------------------------------------------------------------- */

static bool is_read_too(const amp_call *call) {
    for (int i = 1; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) {
            const amp_tensor *t = *amp_call_tensor(call, arg);
            if (t && amp_tensor_overlaps(t, call->target)) return true;
        }
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) {
            if (list->items[k] && amp_tensor_overlaps(list->items[k], call->target)) return true;
        }
    }
    return false;
}

/* The result's tensor: in place input itself. NULL with an error. */
static amp_tensor *result_for(amp_call *call, const amp_tensor *input) {
    if (call->form == AMP_FORM_INPLACE && !is_read_too(call)) return call->outputs[0] = call->target;
    return amp_call_output(call, 0, input->dtype, input->rank, input->shape);
}

/* The same, with input's elements, to be changed. */
static amp_tensor *result_with(amp_call *call, const amp_tensor *input) {
    amp_tensor *out = result_for(call, input);
    return out && (out == input || amp_copy_tensor(out, input) == AMP_OK) ? out : NULL;
}

/* `values` in another dtype, in the same geometry. */
static amp_status convert(const amp_call *call, amp_tensor *values, amp_dtype dtype) {
    if (values->dtype == dtype) return AMP_OK;
    amp_tensor *copy = amp_backend_tensor(call->device, call->op->name, dtype, values->rank, values->shape);
    if (!copy) return amp_pending_error();
    AMP_TRY(amp_copy_tensor(copy, values));
    *values = *copy;
    return AMP_OK;
}

static amp_status write_table(const amp_call *call, const amp_tensor *table, amp_scatter_work *w) {
    amp_tensor t = amp_index_at_least_vector(table);
    if (w->view) AMP_TRY(w->view(call, w, &t));
    const amp_tensor index = amp_index_at_least_vector(&w->index), values = amp_index_at_least_vector(&w->values);
    const amp_dtype compute = table->dtype == AMP_BOOL ? AMP_BOOL : amp_compute_dtype(table->dtype);
    const amp_constant constant = amp_constant_of(&w->number, compute);
    char number[16] = {0}; /* a kernel gets all of it */
    amp_block_store(compute, &constant, table->dtype, number, 0, 1);
    return amp_steps_of(call)->write_by_index(call, &(const amp_writing){.table = &t,
                                                                         .index = &index,
                                                                         .values = w->by_number ? NULL : &values,
                                                                         .number = number,
                                                                         .kind = w->kind,
                                                                         .dim = w->dim,
                                                                         .least = w->least,
                                                                         .alpha = w->alpha});
}

amp_status amp_scatter_run(amp_call *call, const amp_tensor *input, amp_scatter_work *w) {
    if (!w->view && amp_tensor_elements(&w->index) == 0) return result_with(call, input) ? AMP_OK : amp_pending_error();
    if (w->kind == AMP_SCATTER_WRITE) {
        amp_tensor *out = result_with(call, input);
        return out ? write_table(call, out, w) : amp_pending_error();
    }
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    const bool in_out = compute == input->dtype;
    amp_tensor *out = in_out ? result_with(call, input) : result_for(call, input), *table = out;
    if (!out) return amp_pending_error();
    if (!in_out) {
        table = amp_backend_tensor(call->device, call->op->name, compute, out->rank, out->shape);
        if (!table) return amp_pending_error();
        AMP_TRY(amp_copy_tensor(table, input));
    }
    const bool widens = !w->by_number && w->values.dtype == AMP_BF16 && compute == AMP_F32; /* on the way */
    if (!w->by_number && !widens) AMP_TRY(convert(call, &w->values, compute));
    AMP_TRY(write_table(call, table, w));
    return in_out ? AMP_OK : amp_copy_tensor(out, table);
}

/* ---- scatter -------------------------------------------------------------------------------------------------- */

static amp_status check_scatter_shapes(const amp_call *call, const amp_tensor *input, const amp_tensor *index,
                                       const amp_tensor *src, int dim) {
    const amp_tensor a = amp_index_at_least_vector(input), b = amp_index_at_least_vector(index);
    bool fits = a.rank == b.rank;
    for (int d = 0; fits && d < a.rank; d++) fits = d == dim || b.shape[d] <= a.shape[d];
    if (!fits) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'index' is %s, input %s; expected as many dimensions, none of them larger but number %d",
                        amp_call_name(call), amp_describe(index), amp_describe(input), dim);
    }
    if (!src) return AMP_OK;
    const amp_tensor s = amp_index_at_least_vector(src);
    fits = s.rank == b.rank;
    for (int d = 0; fits && d < b.rank; d++) fits = b.shape[d] <= s.shape[d];
    if (fits) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'index' is %s, 'src' %s; expected no dimension of the index to be larger",
                    amp_call_name(call), amp_describe(index), amp_describe(src));
}

static amp_status read_kind(const amp_call *call, const char *reduce, amp_scatter_kind *kind) {
    *kind = AMP_SCATTER_WRITE;
    if (!reduce) return AMP_OK;
    if (strcmp(reduce, "add") != 0 && strcmp(reduce, "multiply") != 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'reduce' is \"%s\"; expected \"add\" or \"multiply\"",
                        amp_call_name(call), reduce);
    }
    *kind = reduce[0] == 'a' ? AMP_SCATTER_ADD : AMP_SCATTER_MULTIPLY;
    return AMP_OK;
}

/* Checked, with the geometry of index and values, which broadcast to nothing. */
static amp_status read_scatter(amp_call *call, amp_tensor *input, int64_t dim, amp_tensor *given, amp_tensor *src,
                               amp_scatter_work *w) {
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &w->dim));
    if (src) AMP_TRY(amp_call_check_same_dtype(call, "input", input, "src", src));
    amp_tensor *index = amp_index_tensor(call, "index", given);
    if (!index) return amp_pending_error();
    if (amp_tensor_elements(index) > 0) {
        AMP_TRY(check_scatter_shapes(call, input, index, src, w->dim));
        AMP_TRY(amp_index_check(call, "index", index, input->rank ? input->shape[w->dim] : 1, input, w->dim, false));
    }
    w->index = *index;
    if (src) w->values = *src;
    w->alpha = amp_int(1);
    return AMP_OK;
}

static amp_status scatter(amp_call *call, amp_tensor *input, int64_t dim, amp_tensor *given, amp_tensor *src,
                          amp_scatter_work *w) {
    AMP_TRY(read_scatter(call, input, dim, given, src, w));
    return amp_scatter_run(call, input, w);
}

amp_status amp_op_scatter(amp_call *call) {
    const amp_scatter_args *a = call->args;
    amp_scatter_work w = {0};
    AMP_TRY(read_kind(call, a->reduce, &w.kind));
    return scatter(call, a->input, a->dim, a->index, a->src, &w);
}

amp_status amp_op_scatter_value(amp_call *call) {
    const amp_scatter_value_args *a = call->args;
    amp_scatter_work w = {.by_number = true, .number = a->value};
    AMP_TRY(read_kind(call, a->reduce, &w.kind));
    AMP_TRY(amp_check_element(call, "value", &a->value, a->input->dtype));
    return scatter(call, a->input, a->dim, a->index, NULL, &w);
}

amp_status amp_op_scatter_add(amp_call *call) {
    const amp_scatter_add_args *a = call->args;
    amp_scatter_work w = {.kind = AMP_SCATTER_ADD};
    return scatter(call, a->input, a->dim, a->index, a->src, &w);
}

/* ---- scatter_reduce -------------------------------------------------------------------------------------------- */

typedef struct reduction {
    const char *name;
    amp_scatter_kind kind;
    bool is_mean;
} reduction;

/* scatter_reduce has all of them, index_reduce all but the first. */
static const reduction reductions[] = {{"sum", AMP_SCATTER_ADD, false},
                                       {"prod", AMP_SCATTER_MULTIPLY, false},
                                       {"mean", AMP_SCATTER_ADD, true},
                                       {"amax", AMP_SCATTER_LARGEST, false},
                                       {"amin", AMP_SCATTER_SMALLEST, false}};

static const reduction *find_reduction(const amp_call *call, const char *name, bool with_sum, const amp_tensor *input) {
    const bool is_complex = amp_dtype_is_complex(input->dtype);
    const reduction *found = NULL;
    for (size_t i = !with_sum; i < sizeof reductions / sizeof *reductions; i++) {
        if (!strcmp(name, reductions[i].name)) found = &reductions[i];
    }
    if (!found) {
        amp_fail(AMP_ERROR_INVALID, "%s: 'reduce' is \"%s\"; expected %sprod, mean, amax or amin", amp_call_name(call),
                 name, with_sum ? "sum, " : "");
    } else if (is_complex && (found->kind == AMP_SCATTER_LARGEST || found->kind == AMP_SCATTER_SMALLEST)) {
        amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                 amp_describe(input));
        found = NULL;
    }
    return found;
}

/* What changes nothing that it is joined with. */
static amp_scalar neutral_of(const reduction *r, amp_dtype dtype) {
    static const int64_t largest[AMP_DTYPE_COUNT] = {
        [AMP_BOOL] = 1,        [AMP_U8] = UINT8_MAX,  [AMP_I8] = INT8_MAX,
        [AMP_I16] = INT16_MAX, [AMP_I32] = INT32_MAX, [AMP_I64] = INT64_MAX};
    const bool is_whole = !amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype);
    const int64_t most = largest[dtype], least = dtype == AMP_BOOL || dtype == AMP_U8 ? 0 : -most - 1;
    switch (r->kind) {
    case AMP_SCATTER_MULTIPLY: return amp_int(1);
    case AMP_SCATTER_LARGEST: return is_whole ? amp_int(least) : amp_float(-HUGE_VAL);
    case AMP_SCATTER_SMALLEST: return is_whole ? amp_int(most) : amp_float(HUGE_VAL);
    default: return amp_int(0);
    }
}

/* Means of 16-bit floats are made in f32 and rounded once. */
static amp_dtype mean_dtype(amp_dtype dtype) {
    return dtype == AMP_BF16 || dtype == AMP_F16 ? AMP_F32 : dtype;
}

/* `w` has the geometry of index and values, in input's dtype. Without input's own elements: these become neutral first
 * where there are values for them. */
static amp_status reduce_into(amp_call *call, const reduction *r, amp_tensor *input, bool include_self,
                              amp_scatter_work *w) {
    amp_tensor *start = input;
    if (amp_tensor_elements(&w->index) == 0) return result_with(call, input) ? AMP_OK : amp_pending_error();
    if (!include_self) {
        amp_call step = amp_call_step(call);
        amp_scatter_work clear = {.kind = AMP_SCATTER_WRITE,
                                  .dim = w->dim,
                                  .index = w->index,
                                  .by_number = true,
                                  .number = neutral_of(r, input->dtype),
                                  .alpha = amp_int(1)};
        AMP_TRY(amp_scatter_run(&step, input, &clear));
        start = step.outputs[0];
    }
    w->kind = r->kind;
    return amp_scatter_run(call, start, w);
}

/* How many values went into each element; at least 1. */
static amp_tensor *counts_of(const amp_call *call, const amp_tensor *input, bool include_self,
                             const amp_scatter_work *w) {
    const amp_dtype dtype = amp_compute_dtype(input->dtype);
    amp_tensor *counts =
        amp_full(amp_shape_of(input), amp_int(include_self), .dtype = dtype, .device = (int64_t)call->device);
    if (!counts) return NULL;
    amp_call step = amp_call_step(call);
    amp_scatter_work add = {.kind = AMP_SCATTER_ADD,
                            .dim = w->dim,
                            .index = w->index,
                            .by_number = true,
                            .number = amp_int(1),
                            .alpha = amp_int(1)};
    if (amp_scatter_run(&step, counts, &add) != AMP_OK) return NULL;
    counts = step.outputs[0];
    if (include_self) return counts;
    amp_tensor *none = amp_eq_scalar(counts, amp_int(0));
    return none ? amp_masked_fill(counts, none, amp_int(1)) : NULL;
}

static amp_status mean_into(amp_call *call, const reduction *r, amp_tensor *input, bool include_self,
                            amp_scatter_work *w) {
    const amp_dtype dtype = mean_dtype(input->dtype);
    const bool is_whole = !amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype);
    amp_tensor *wide = dtype == input->dtype ? input : amp_to(input, dtype);
    amp_call step = amp_call_step(call);
    if (!wide) return amp_pending_error();
    AMP_TRY(convert(call, &w->values, dtype));
    AMP_TRY(reduce_into(&step, r, wide, include_self, w));
    amp_tensor *counts = counts_of(call, wide, include_self, w);
    if (!counts) return amp_pending_error();
    amp_tensor *mean = amp_div(step.outputs[0], counts, .rounding_mode = is_whole ? "floor" : NULL);
    return amp_return(call, mean && mean->dtype != input->dtype ? amp_to(mean, input->dtype) : mean);
}

static amp_status reduce_by_index(amp_call *call, const reduction *r, amp_tensor *input, bool include_self,
                                  amp_scatter_work *w) {
    return r->is_mean ? mean_into(call, r, input, include_self, w) : reduce_into(call, r, input, include_self, w);
}

amp_status amp_op_scatter_reduce(amp_call *call) {
    const amp_scatter_reduce_args *a = call->args;
    amp_scatter_work w = {0};
    const reduction *r = find_reduction(call, a->reduce, true, a->input);
    if (!r) return amp_pending_error();
    AMP_TRY(read_scatter(call, a->input, a->dim, a->index, a->src, &w));
    return reduce_by_index(call, r, a->input, a->include_self.value, &w);
}

/* ---- index_add, index_copy ------------------------------------------------------------------------------------ */

/* The source's slices belong at the indices of `dim`. */
static amp_status read_slices(const amp_call *call, amp_tensor *input, int64_t dim, amp_tensor *given,
                              amp_tensor *source, amp_scatter_work *w) {
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &w->dim));
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, "source", source));
    amp_tensor *index = amp_index_tensor(call, "index", given);
    if (!index) return amp_pending_error();
    const int64_t length = amp_tensor_elements(index);
    amp_tensor table = amp_index_at_least_vector(input), values = amp_index_at_least_vector(source);
    bool fits = index->rank <= 1 && values.rank == table.rank;
    for (int d = 0; fits && d < table.rank; d++) fits = values.shape[d] == (d == w->dim ? length : table.shape[d]);
    if (!fits) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'index' is %s, 'source' %s, input %s; expected a vector, and of source a slice for each "
                        "index of dimension %d",
                        amp_call_name(call), amp_describe(given), amp_describe(source), amp_describe(input), w->dim);
    }
    AMP_TRY(amp_index_check(call, "index", index, table.shape[w->dim], input, w->dim, false));
    w->index = amp_index_along(index, w->dim, table.rank, table.shape);
    w->values = values;
    return AMP_OK;
}

static amp_status write_slices(amp_call *call, amp_tensor *input, int64_t dim, amp_tensor *given, amp_tensor *source,
                               amp_scatter_work *w) {
    AMP_TRY(read_slices(call, input, dim, given, source, w));
    return amp_scatter_run(call, input, w);
}

amp_status amp_op_index_add(amp_call *call) {
    const amp_index_add_args *a = call->args;
    amp_scatter_work w = {.kind = AMP_SCATTER_ADD, .alpha = a->alpha};
    const amp_dtype compute = amp_compute_dtype(a->input->dtype);
    if ((a->alpha.kind == AMP_SCALAR_COMPLEX && compute != AMP_C128) ||
        (a->alpha.kind == AMP_SCALAR_FLOAT && compute == AMP_I64)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'alpha' is a %s, input is %s", amp_call_name(call),
                        a->alpha.kind == AMP_SCALAR_FLOAT ? "float" : "complex number", amp_describe(a->input));
    }
    return write_slices(call, a->input, a->dim, a->index, a->source, &w);
}

amp_status amp_op_index_copy(amp_call *call) {
    const amp_index_copy_args *a = call->args;
    amp_scatter_work w = {.kind = AMP_SCATTER_WRITE, .alpha = amp_int(1)};
    return write_slices(call, a->input, a->dim, a->index, a->source, &w);
}

amp_status amp_op_index_reduce(amp_call *call) {
    const amp_index_reduce_args *a = call->args;
    amp_scatter_work w = {.alpha = amp_int(1)};
    const reduction *r = find_reduction(call, a->reduce, false, a->input);
    if (!r) return amp_pending_error();
    AMP_TRY(read_slices(call, a->input, a->dim, a->index, a->source, &w));
    return reduce_by_index(call, r, a->input, a->include_self.value, &w);
}

/* ---- index_fill ------------------------------------------------------------------------------------------------- */

/* Indices that count from the end as those that count from the beginning. */
static amp_tensor *wrapped_index(const amp_call *call, amp_tensor *index, int64_t size, const amp_tensor *input,
                                 int dim) {
    amp_tensor line = *index;
    line.rank = 1;
    line.shape[0] = size;
    line.strides[0] = 1;
    if (amp_index_check(call, "index", index, size, input, dim, true) != AMP_OK) return NULL;
    amp_tensor *places = amp_backend_tensor(call->device, call->op->name, AMP_I64, index->rank, index->shape);
    if (!places || amp_tensor_elements(index) == 0) return places;
    return amp_steps_of(call)->make_offsets(call, &line, &index, 1, places) == AMP_OK ? places : NULL;
}

/* Where the number, or the values, of `w` go. */
static amp_status fill_slices(amp_call *call, amp_tensor *input, int64_t dim, amp_tensor *given, amp_scatter_work *w) {
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &w->dim));
    const amp_tensor table = amp_index_at_least_vector(input);
    amp_tensor *index = amp_index_tensor(call, "index", given);
    if (!index) return amp_pending_error();
    if (index->rank > 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'index' is %s; expected a vector", amp_call_name(call),
                        amp_describe(given));
    }
    amp_tensor *places = wrapped_index(call, index, table.shape[w->dim], input, w->dim);
    if (!places) return amp_pending_error();
    w->index = amp_index_along(places, w->dim, table.rank, table.shape);
    return amp_scatter_run(call, input, w);
}

amp_status amp_op_index_fill(amp_call *call) {
    const amp_index_fill_args *a = call->args;
    amp_scatter_work w = {.by_number = true, .number = a->value, .alpha = amp_int(1)};
    AMP_TRY(amp_check_element(call, "value", &a->value, a->input->dtype));
    return fill_slices(call, a->input, a->dim, a->index, &w);
}

/* One element stands for all. */
amp_status amp_op_index_fill_tensor(amp_call *call) {
    const amp_index_fill_tensor_args *a = call->args;
    amp_scatter_work w = {.alpha = amp_int(1)};
    if (a->value->rank > 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'value' is %s; expected a 0-dim tensor", amp_call_name(call),
                        amp_describe(a->value));
    }
    const amp_tensor *value = a->value->dtype == a->input->dtype ? a->value : amp_to(a->value, a->input->dtype);
    if (!value) return amp_pending_error();
    w.values = *value;
    w.values.rank = a->input->rank ? a->input->rank : 1;
    memcpy(w.values.shape, a->input->shape, (size_t)a->input->rank * sizeof *w.values.shape);
    memset(w.values.strides, 0, (size_t)w.values.rank * sizeof *w.values.strides);
    return fill_slices(call, a->input, a->dim, a->index, &w);
}
