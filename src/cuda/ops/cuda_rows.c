/* Ops in which several elements make one: reductions, softmax, normalisations; and reading by index. */
#include "cuda/ops/cuda_rows.h"

#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_bags.h"
#include "cuda/ops/cuda_elementwise.h"
#include "steps/indices.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"

/* ---- Reductions -------------------------------------------------------------------------------------------------- */
static const char *kernel_of(amp_reduction kind, amp_dtype compute) {
    static const char *const sums[] = {"sum_f32", "sum_f64", "sum_i64", "sum_c128"};
    static const char *const products[] = {"product_f64", "product_f64", "product_i64", "product_c128"};
    static const char *const extremes[] = {"extreme_f32", "extreme_f64", "extreme_i64", NULL};
    const int type = compute == AMP_F32 ? 0 : compute == AMP_F64 ? 1 : compute == AMP_I64 ? 2 : 3;
    return kind <= AMP_REDUCE_COUNT ? sums[type] : kind == AMP_REDUCE_PRODUCT ? products[type] : extremes[type];
}

/* Appends a dimension; merges it with the one before where both step evenly. */
static void append(int *rank, int64_t *shape, int64_t *strides, int64_t *others, int64_t extent, int64_t stride,
                   int64_t other) {
    if (extent == 1) return;
    const int last = *rank - 1;
    if (*rank > 0 && strides[last] == stride * extent && (!others || others[last] == other * extent)) {
        shape[last] *= extent;
        strides[last] = stride;
        if (others) others[last] = other;
        return;
    }
    shape[*rank] = extent;
    strides[*rank] = stride;
    if (others) others[*rank] = other;
    (*rank)++;
}

/* `out` has the kept dimensions, with or without extents of 1 in the place of the others. */
static void split_dimensions(amp_cuda_reduce *a, const amp_tensor *in, unsigned mask, const amp_tensor *out) {
    const bool keepdim = out->rank == in->rank;
    a->results = a->elements = 1;
    for (int d = 0, o = 0; d < in->rank; d++) {
        const bool reduced = mask >> d & 1u;
        if (reduced) {
            a->elements *= in->shape[d];
            append(&a->reduced_rank, a->reduced, a->reduced_strides, NULL, in->shape[d], in->strides[d], 0);
        } else {
            a->results *= in->shape[d];
            append(&a->kept_rank, a->kept, a->kept_strides, a->out_strides, in->shape[d], in->strides[d],
                   out->strides[o]);
        }
        if (!reduced || keepdim) o++;
    }
    if (a->reduced_rank == 0) append(&a->reduced_rank, a->reduced, a->reduced_strides, NULL, 2, 1, 0);
}

/* Threads for one result: neighbours in memory are read by neighbouring threads. */
static int width_of(const amp_cuda_reduce *a) {
    const int last = a->kept_rank - 1;
    const bool by_columns = last >= 0 && a->kept_strides[last] == 1 && a->kept[last] >= AMP_CUDA_THREADS;
    return by_columns || a->elements < 16 ? 1 : a->elements < 512 ? 32 : AMP_CUDA_THREADS;
}

/* Where results keep few blocks busy, their elements are cut into pieces, of which each thread has at least 16: as many
 * as the shape says, on whatever GPU. */
static int64_t pieces_of(const amp_cuda_reduce *a, int64_t blocks) {
    enum { ENOUGH_BLOCKS = 512, LEAST = 16 };
    const int64_t wanted = ENOUGH_BLOCKS / blocks, most = a->elements / ((int64_t)a->width * LEAST);
    const int64_t pieces = wanted < most ? wanted : most;
    return pieces > 1 ? pieces : 1;
}

static amp_status launch_reduction(const char *op, amp_cuda_reduce *a, amp_dtype compute) {
    if (a->results == 0) return AMP_OK;
    const char *kernel = kernel_of((amp_reduction)a->kind, compute);
    a->width = width_of(a);
    const int64_t groups = AMP_CUDA_THREADS / a->width, blocks = (a->results + groups - 1) / groups;
    a->pieces = pieces_of(a, blocks);
    if (a->pieces == 1) return amp_cuda_launch_over(op, kernel, a, blocks < 65536 ? blocks : 65536);
    const int64_t bytes = a->results * a->pieces * AMP_CUDA_STATE;
    const amp_tensor *joined = amp_backend_tensor(AMP_DEVICE_CUDA, op, AMP_U8, 1, &bytes);
    a->joined = joined ? amp_cuda_address(op, joined) : NULL;
    if (!a->joined) return amp_pending_error();
    AMP_TRY(amp_cuda_launch_over(op, kernel, a, blocks * a->pieces));
    a->second = true;
    a->width = a->pieces < 32 ? 1 : 32;
    const int64_t at_once = AMP_CUDA_THREADS / a->width;
    return amp_cuda_launch_over(op, kernel, a, (a->results + at_once - 1) / at_once);
}

amp_status amp_cuda_reduce_tensor(const amp_reduce_work *work, amp_tensor *out) {
    const char *op = "reduction";
    amp_cuda_reduce a = {.in_dtype = work->input->dtype,
                         .out_dtype = out->dtype,
                         .kind = (int)work->kind,
                         .power = work->power,
                         .scale = work->scale,
                         .root = work->root};
    if (!kernel_of(work->kind, work->compute)) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: not implemented on cuda for complex numbers yet", op);
    }
    a.in = amp_cuda_address(op, work->input);
    a.out = a.in ? amp_cuda_address(op, out) : NULL;
    if (!a.out) return amp_pending_error();
    split_dimensions(&a, work->input, work->mask, out);
    return launch_reduction(op, &a, work->compute);
}

/* ---- Sums of what is computed first ------------------------------------------------------------------------------ */
/* Means first, then the squares of what is left. */
amp_status amp_cuda_variance_of(amp_call *call, const amp_variance *v) {
    const amp_tensor *x = v->input;
    const amp_dtype compute = amp_compute_dtype(x->dtype);
    if (compute == AMP_C128) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: not implemented on cuda for complex numbers yet",
                        amp_call_name(call));
    }
    const double n = (double)amp_reduced_elements(x, v->mask), freedom = fmax(n - v->correction, 0.0);
    int64_t shape[AMP_MAX_RANK];
    int rank = amp_reduced_shape(x, v->mask, true, shape);
    amp_tensor *mean = amp_cuda_temporary(call, compute, rank, shape);
    amp_tensor *rest = mean ? amp_cuda_temporary(call, compute, x->rank, x->shape) : NULL;
    rank = amp_reduced_shape(x, v->mask, v->keepdim, shape);
    amp_tensor *out = rest ? amp_call_output(call, 0, x->dtype, rank, shape) : NULL;
    amp_tensor *means = out && v->with_mean ? amp_call_output(call, 1, x->dtype, rank, shape) : NULL;
    if (!out || (v->with_mean && !means)) return amp_pending_error();
    amp_reduce_work work = {
        .kind = AMP_REDUCE_SUM, .input = x, .mask = v->mask, .compute = compute, .scale = 1.0 / n, .root = 1.0};
    AMP_TRY(amp_cuda_reduce_tensor(&work, mean));
    if (means) AMP_TRY(amp_cuda_reduce_tensor(&work, means));
    const amp_operand pair[2] = {amp_tensor_operand("input", v->input), amp_tensor_operand("mean", mean)};
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_add, pair, 2, compute, (amp_formula_numbers){.p = -1.0}, rest));
    work.kind = AMP_REDUCE_SUM_SQUARES;
    work.input = rest;
    work.scale = n > 0.0 ? 1.0 / freedom : NAN;
    work.root = v->power;
    return amp_cuda_reduce_tensor(&work, out);
}

amp_status amp_cuda_dots(const char *op, amp_tensor *out, const amp_tensor *x, const amp_tensor *y, bool conjugate) {
    const amp_dtype compute = amp_compute_dtype(x->dtype);
    amp_tensor a = *x, b = *y;
    amp_tensor *products = amp_backend_tensor(AMP_DEVICE_CUDA, op, compute, x->rank, x->shape);
    if (!products) return amp_pending_error();
    const amp_operand pair[2] = {amp_tensor_operand("input", &a), amp_tensor_operand("other", &b)};
    const amp_formula formula = compute == AMP_C128 && conjugate ? AMP_FORMULA_conj_mul : AMP_FORMULA_mul;
    AMP_TRY(amp_cuda_compute(NULL, formula, pair, 2, compute, (amp_formula_numbers){0}, products));
    const amp_reduce_work work = {.kind = AMP_REDUCE_SUM,
                                  .input = products,
                                  .mask = 1u << (x->rank - 1),
                                  .compute = compute,
                                  .scale = 1.0,
                                  .root = 1.0};
    return amp_cuda_reduce_tensor(&work, out);
}

/* ---- Where the extreme is ---------------------------------------------------------------------------------------- */
typedef struct extreme_outputs {
    amp_tensor *values, *index;
} extreme_outputs;

static amp_status find_extreme(amp_call *call, const amp_tensor *input, unsigned mask, bool largest,
                               extreme_outputs to) {
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    amp_cuda_reduce a = {
        .in_dtype = input->dtype, .kind = largest ? AMP_REDUCE_MAX : AMP_REDUCE_MIN, .scale = 1.0, .root = 1.0};
    a.in = amp_cuda_address(call->op->name, input);
    a.index = a.in ? amp_cuda_address(call->op->name, to.index) : NULL;
    if (a.index && to.values) {
        a.out_dtype = to.values->dtype;
        a.out = amp_cuda_address(call->op->name, to.values);
    }
    if (!a.index || (to.values && !a.out)) return amp_pending_error();
    split_dimensions(&a, input, mask, to.values ? to.values : to.index);
    return launch_reduction(call->op->name, &a, compute);
}

static amp_status position(amp_call *call, const amp_tensor *input, const amp_opt_int *dim, bool keepdim,
                           bool largest) {
    unsigned mask = (1u << input->rank) - 1;
    if (dim->set) {
        int d;
        AMP_TRY(amp_wrap_dim(call, "dim", dim->value, input->rank, &d));
        mask &= 1u << d;
    }
    AMP_TRY(amp_check_extreme(call, input, mask));
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(input, mask, keepdim, shape);
    amp_tensor *index = amp_cuda_temporary(call, AMP_I64, rank, shape); /* the kernel writes it densely */
    if (!index) return amp_pending_error();
    AMP_TRY(find_extreme(call, input, mask, largest, (extreme_outputs){NULL, index}));
    call->outputs[0] = index;
    return AMP_OK;
}

amp_status cuda_argmax(amp_call *call) {
    const amp_argmax_args *a = call->args;
    return position(call, a->input, &a->dim, a->keepdim, true);
}
amp_status cuda_argmin(amp_call *call) {
    const amp_argmin_args *a = call->args;
    return position(call, a->input, &a->dim, a->keepdim, false);
}

static amp_status extreme_along(amp_call *call, const amp_tensor *input, int64_t dim, bool keepdim, bool largest) {
    int d;
    int64_t shape[AMP_MAX_RANK];
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &d));
    const unsigned mask = input->rank ? 1u << d : 0;
    AMP_TRY(amp_check_extreme(call, input, mask));
    const int rank = amp_reduced_shape(input, mask, keepdim, shape);
    amp_tensor *values = amp_call_output(call, 0, input->dtype, rank, shape);
    amp_tensor *index = values ? amp_call_output(call, 1, AMP_I64, rank, shape) : NULL;
    return index ? find_extreme(call, input, mask, largest, (extreme_outputs){values, index}) : amp_pending_error();
}

amp_status cuda_max_dim(amp_call *call) {
    const amp_max_dim_args *a = call->args;
    return extreme_along(call, a->input, a->dim, a->keepdim, true);
}
amp_status cuda_min_dim(amp_call *call) {
    const amp_min_dim_args *a = call->args;
    return extreme_along(call, a->input, a->dim, a->keepdim, false);
}

/* ---- Softmax ----------------------------------------------------------------------------------------------------- */
static int64_t product_of(const int64_t *shape, int count) {
    int64_t product = 1;
    for (int i = 0; i < count; i++) product *= shape[i];
    return product;
}

/* ---- Rows in the registers of teams ---- */
typedef struct row_plan {
    int team, width;
    bool vectors;
} row_plan;

/* 8 elements of 16 bits for a thread, 4 where f32 is read or written; as many threads as it takes for 16 elements each.
 * Where rows lie across, and are many, a thread takes a row, and neighbours read what lies side by side. */
static row_plan plan_rows(amp_dtype in, amp_dtype out, int64_t rows, int64_t length, int64_t inner) {
    enum { EACH = 16, MANY = 8192 };
    const bool halves = amp_dtype_size(in) == 2 && amp_dtype_size(out) == 2;
    row_plan plan = {.team = 32, .width = halves ? 8 : 4};
    while (plan.team < AMP_CUDA_THREADS && plan.team * EACH < length) plan.team *= 2;
    if (inner >= 32 && rows >= MANY) plan.team = 1;
    plan.vectors =
        inner == 1 && length % plan.width == 0 && amp_compute_dtype(in) == AMP_F32 && amp_compute_dtype(out) == AMP_F32;
    return plan;
}

static int64_t row_blocks(int64_t rows, int team) {
    const int64_t at_once = AMP_CUDA_THREADS / team;
    return (rows + at_once - 1) / at_once;
}

static amp_status softmax(amp_call *call, amp_tensor *input, int64_t dim, amp_dtype given, bool logarithm) {
    amp_dtype dtype;
    int d;
    AMP_TRY(amp_read_softmax(call, input, dim, given, &d, &dtype));
    /* the kernels read what is computed in, and for f32 16-bit floats */
    const amp_dtype compute = amp_compute_dtype(dtype);
    const bool readable = amp_dtype_is_floating(input->dtype) && amp_compute_dtype(input->dtype) == compute;
    amp_tensor *known = readable ? input : amp_to(input, compute), *dense = known ? amp_cuda_dense(known) : NULL;
    amp_tensor *out = dense ? amp_call_dense_output(call, dtype, input->rank, input->shape) : NULL;
    if (!out || amp_tensor_elements(out) == 0) return out ? AMP_OK : amp_pending_error();
    amp_cuda_softmax a = {.in = amp_cuda_address(call->op->name, dense),
                          .out = amp_cuda_address(call->op->name, out),
                          .in_dtype = dense->dtype,
                          .out_dtype = dtype,
                          .length = input->rank ? input->shape[d] : 1,
                          .inner = input->rank ? product_of(input->shape + d + 1, input->rank - d - 1) : 1,
                          .logarithm = logarithm};
    if (!a.in || !a.out) return amp_pending_error();
    a.rows = amp_tensor_elements(input) / a.length;
    a.by_inner = amp_cuda_divide_by(a.inner);
    const row_plan plan = plan_rows(a.in_dtype, a.out_dtype, a.rows, a.length, a.inner);
    a.team = plan.team;
    a.width = plan.width;
    a.vectors = plan.vectors && amp_cuda_is_aligned(a.in) && amp_cuda_is_aligned(a.out);
    return amp_cuda_launch_over(call->op->name, compute == AMP_F64 ? "softmax_f64" : "softmax_f32", &a,
                                row_blocks(a.rows, a.team));
}

amp_status cuda_softmax(amp_call *call) {
    const amp_softmax_args *a = call->args;
    return softmax(call, a->input, a->dim, a->dtype, false);
}
amp_status cuda_log_softmax(amp_call *call) {
    const amp_log_softmax_args *a = call->args;
    return softmax(call, a->input, a->dim, a->dtype, true);
}
amp_status cuda_softmin(amp_call *call) {
    const amp_softmin_args *a = call->args;
    amp_tensor *input = a->dtype == AMP_DTYPE_NONE ? a->input : amp_to(a->input, a->dtype);
    input = input ? amp_neg(input) : NULL;
    return input ? softmax(call, input, a->dim, a->dtype, false) : amp_pending_error();
}

/* ---- Normalisations ---------------------------------------------------------------------------------------------- */
/* Whether a thread's numbers lie side by side: one for each element, and rows whose own begin where that is
 * possible. */
static amp_status set_parameter(const char *op, amp_tensor *t, const amp_cuda_norm *a, amp_cuda_parameter *p) {
    if (!t) return AMP_OK;
    amp_tensor *dense = amp_cuda_dense(t);
    p->data = dense ? amp_cuda_address(op, dense) : NULL;
    p->dtype = t->dtype;
    p->vectors = a->vectors && a->inner.extent == 1 && a->per_group % a->width == 0 && amp_cuda_is_aligned(p->data) &&
                 amp_compute_dtype(p->dtype) == AMP_F32;
    return p->data ? AMP_OK : amp_pending_error();
}

static amp_status run_norm(amp_call *call, amp_tensor *input, amp_tensor *weight, amp_tensor *bias, amp_cuda_norm a) {
    const char *op = call->op->name;
    amp_tensor *dense = amp_cuda_dense(input);
    amp_tensor *out = dense ? amp_call_dense_output(call, input->dtype, input->rank, input->shape) : NULL;
    if (!out || amp_tensor_elements(out) == 0) return out ? AMP_OK : amp_pending_error();
    a.in = amp_cuda_address(op, dense);
    a.out = amp_cuda_address(op, out);
    if (!a.in || !a.out) return amp_pending_error();
    a.dtype = input->dtype;
    a.rows = amp_tensor_elements(input) / a.length;
    const row_plan plan = plan_rows(a.dtype, a.dtype, a.rows, a.length, 1);
    a.team = plan.team;
    a.width = plan.width;
    a.vectors = plan.vectors && amp_cuda_is_aligned(a.in) && amp_cuda_is_aligned(a.out);
    AMP_TRY(set_parameter(op, weight, &a, &a.weight));
    AMP_TRY(set_parameter(op, bias, &a, &a.bias));
    return amp_cuda_launch_over(op, input->dtype == AMP_F64 ? "norm_f64" : "norm_f32", &a, row_blocks(a.rows, a.team));
}

static amp_cuda_norm over_last(const amp_dims *shape, double eps) {
    const int64_t length = product_of(shape->values, shape->count);
    const amp_cuda_divisor one = amp_cuda_divide_by(1);
    return (amp_cuda_norm){.length = length, .groups = one, .per_group = length, .inner = one, .eps = eps};
}

amp_status cuda_layer_norm(amp_call *call) {
    const amp_layer_norm_args *a = call->args;
    AMP_TRY(amp_check_norm(call, a->input, &a->normalized_shape, a->weight, a->bias));
    return run_norm(call, a->input, a->weight, a->bias, over_last(&a->normalized_shape, a->eps.value));
}

amp_status cuda_rms_norm(amp_call *call) {
    const amp_rms_norm_args *a = call->args;
    AMP_TRY(amp_check_norm(call, a->input, &a->normalized_shape, a->weight, NULL));
    amp_cuda_norm n = over_last(&a->normalized_shape, a->eps.set ? a->eps.value : amp_norm_epsilon(a->input->dtype));
    n.root_mean_square = true;
    return run_norm(call, a->input, a->weight, NULL, n);
}

amp_status cuda_group_norm(amp_call *call) {
    const amp_group_norm_args *a = call->args;
    const amp_tensor *x = a->input;
    AMP_TRY(amp_check_channel_input(call, x));
    AMP_TRY(amp_check_channel_numbers(call, x, "weight", a->weight));
    AMP_TRY(amp_check_channel_numbers(call, x, "bias", a->bias));
    AMP_TRY(amp_check_groups(call, x, a->num_groups));
    const int64_t channels = x->shape[1] / a->num_groups, inner = product_of(x->shape + 2, x->rank - 2);
    return run_norm(call, a->input, a->weight, a->bias,
                    (amp_cuda_norm){.length = channels * inner,
                                    .groups = amp_cuda_divide_by(a->num_groups),
                                    .per_group = channels,
                                    .inner = amp_cuda_divide_by(inner),
                                    .eps = a->eps.value});
}

/* ---- By index ---------------------------------------------------------------------------------------------------- */
static amp_status check_index(const amp_call *call, const char *name, const amp_tensor *index) {
    if (index->dtype == AMP_I64 || index->dtype == AMP_I32 || amp_tensor_elements(index) == 0) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected i64 or i32", amp_call_name(call), name,
                    amp_describe(index));
}

/* Rows that one index names, side by side in memory and in the dense result, in units of up to 16 bytes. */
static int64_t unit_of(const amp_cuda_gather *a, int64_t extent, int64_t element) {
    const int last = a->rank - 1;
    if (last < 0 || a->in_strides[last] != 1 || a->index_strides[last] != 0) return element;
    for (int64_t size = 16; size > element; size /= 2) {
        bool even = extent * element % size == 0 && a->dim_stride * element % size == 0;
        even = even && (uintptr_t)a->in % (uintptr_t)size == 0 && (uintptr_t)a->out % (uintptr_t)size == 0;
        for (int d = 0; d < last; d++) even = even && a->in_strides[d] * element % size == 0;
        if (even) return size;
    }
    return element;
}

static void set_shape(amp_cuda_gather *a, const amp_tensor *out) {
    const int64_t element = (int64_t)amp_dtype_size(out->dtype);
    a->rank = out->rank;
    const int64_t unit = unit_of(a, out->rank ? out->shape[out->rank - 1] : 1, element), each = unit / element;
    for (int d = 0; d < out->rank; d++) {
        const bool last = d == out->rank - 1;
        a->shape[d] = amp_cuda_divide_by(last ? out->shape[d] / each : out->shape[d]);
        if (!last) a->in_strides[d] /= each;
    }
    a->dim_stride /= each;
    a->count /= each;
    a->size = (int)unit;
}

/* `a` has the geometry; the output is dense. An index out of range is told of later: nobody waits here to see it. */
static amp_status run_gather(const amp_call *call, const amp_tensor *input, const amp_tensor *index,
                             const amp_tensor *out, amp_cuda_gather a) {
    const char *op = call->op->name;
    a.count = amp_tensor_elements(out);
    if (a.count == 0) return AMP_OK;
    a.in = amp_cuda_address(op, input);
    a.index = a.in ? amp_cuda_address(op, index) : NULL;
    a.out = a.index ? amp_cuda_address(op, out) : NULL;
    if (!a.out) return amp_pending_error();
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    a.index_dtype = index->dtype;
    set_shape(&a, out);
    return amp_cuda_launch_over(op, "gather", &a, amp_cuda_unit_blocks(a.count));
}

amp_status cuda_embedding(amp_call *call) {
    const amp_embedding_args *a = call->args;
    const amp_tensor *index = a->input, *table = a->weight;
    AMP_TRY(amp_check_embedding(call, a));
    int64_t shape[AMP_MAX_RANK];
    amp_cuda_gather g = {.extent = table->shape[0], .dim_stride = table->strides[0]};
    memcpy(shape, index->shape, (size_t)index->rank * sizeof *shape);
    memcpy(g.index_strides, index->strides, (size_t)index->rank * sizeof *shape);
    shape[index->rank] = table->shape[1];
    g.in_strides[index->rank] = table->strides[1];
    amp_tensor *out = amp_call_dense_output(call, table->dtype, index->rank + 1, shape);
    if (!out) return amp_pending_error();
    if (a->max_norm.set) AMP_TRY(amp_cuda_limit_rows(call, a->input, a->weight, a->norm_type.value, a->max_norm.value));
    return run_gather(call, table, index, out, g);
}

/* in[…] with dimension `dim` named by an index of rank 0 or 1: the geometry, and the result's shape. */
static amp_cuda_gather slices_of(const amp_tensor *in, const amp_tensor *index, int dim, int64_t *shape) {
    amp_cuda_gather g = {.extent = in->rank ? in->shape[dim] : 1, .dim_stride = in->rank ? in->strides[dim] : 0};
    memcpy(shape, in->shape, (size_t)in->rank * sizeof *shape);
    memcpy(g.in_strides, in->strides, (size_t)in->rank * sizeof *shape);
    if (in->rank) {
        shape[dim] = index->rank ? index->shape[0] : 1;
        g.in_strides[dim] = 0;
        g.index_strides[dim] = index->rank ? index->strides[0] : 0;
    }
    return g;
}

amp_tensor *amp_cuda_pick_slices(const amp_call *call, const amp_tensor *in, const amp_tensor *index, int dim) {
    int64_t shape[AMP_MAX_RANK];
    const amp_cuda_gather g = slices_of(in, index, dim, shape);
    amp_tensor *out = amp_cuda_temporary(call, in->dtype, in->rank, shape);
    return out && run_gather(call, in, index, out, g) == AMP_OK ? out : NULL;
}

amp_status cuda_index_select(amp_call *call) {
    const amp_index_select_args *a = call->args;
    const amp_tensor *in = a->input, *index = a->index;
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, in->rank, &d));
    AMP_TRY(check_index(call, "index", index));
    if (index->rank > 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'index' is %s; expected a vector or a number", amp_call_name(call),
                        amp_describe(index));
    }
    int64_t shape[AMP_MAX_RANK];
    const amp_cuda_gather g = slices_of(in, index, d, shape);
    amp_tensor *out = amp_call_dense_output(call, in->dtype, in->rank, shape);
    return out ? run_gather(call, in, index, out, g) : amp_pending_error();
}

/* index < 0 ? index + size : index, in memory of the call's. */
static amp_status count_from_start(const amp_call *call, int64_t size, amp_tensor *index) {
    amp_tensor *below = amp_cuda_temporary(call, AMP_BOOL, index->rank, index->shape);
    amp_tensor *counted = below ? amp_cuda_temporary(call, AMP_I64, index->rank, index->shape) : NULL;
    if (!counted) return amp_pending_error();
    const amp_operand given = amp_tensor_operand("index", index), end = amp_number_operand("size", amp_int(size));
    const amp_operand less[2] = {given, amp_number_operand("zero", amp_int(0))}, sum[2] = {given, end};
    const amp_operand either[3] = {amp_tensor_operand("below", below), amp_tensor_operand("counted", counted), given};
    const amp_formula_numbers numbers = {.p = 1.0, .whole = 1};
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_lt, less, 2, AMP_I64, numbers, below));
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_add, sum, 2, AMP_I64, numbers, counted));
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_where, either, 3, AMP_I64, numbers, counted));
    *index = *counted;
    return AMP_OK;
}

static amp_status read_slices(amp_call *call, const amp_tensor *in, const amp_tensor *index, int dim, int rank,
                              bool negative) {
    amp_tensor own = *index;
    if (negative) AMP_TRY(count_from_start(call, in->shape[dim], &own));
    amp_cuda_gather g = {.extent = in->shape[dim], .dim_stride = in->strides[dim]};
    memcpy(g.in_strides, in->strides, sizeof g.in_strides);
    memcpy(g.index_strides, own.strides, sizeof g.index_strides);
    g.in_strides[dim] = 0;
    amp_tensor *out = amp_call_dense_output(call, in->dtype, rank, index->shape);
    return out ? run_gather(call, in, &own, out, g) : amp_pending_error();
}

amp_status amp_cuda_read_along(amp_call *call, const amp_reading *r) {
    return read_slices(call, r->table, r->index, r->dim, r->rank, true);
}

amp_status cuda_gather(amp_call *call) {
    const amp_gather_args *a = call->args;
    const amp_tensor in = amp_index_at_least_vector(a->input), index = amp_index_at_least_vector(a->index);
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, a->input->rank, &d));
    AMP_TRY(check_index(call, "index", a->index));
    bool fits = in.rank == index.rank;
    for (int i = 0; fits && i < index.rank; i++) fits = i == d || index.shape[i] <= in.shape[i];
    if (!fits && amp_tensor_elements(a->index) > 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'index' is %s, input %s; expected as many dimensions, none of them larger but number %d",
                        amp_call_name(call), amp_describe(a->index), amp_describe(a->input), d);
    }
    return read_slices(call, &in, &index, d, a->index->rank, false);
}
