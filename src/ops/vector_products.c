/* dot, vdot, linalg_vecdot, outer, addr: products of vectors. */
#include <complex.h>

#include "amp/ops.h"
#include "core/layout.h"
#include "core/parallel.h"
#include "cpu/convert/element.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/product/matmul.h"
#include "cpu/registry/kernels.h"
#include "steps/constants.h"
#include "steps/product_rules.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

typedef double _Complex complex128;

/* ---- dot, vdot, linalg_vecdot ---------------------------------------------------------------------------------- */

static amp_status dot(amp_call *call, amp_tensor *x, const char *name, amp_tensor *y, bool conjugate) {
    AMP_TRY(amp_check_vector(call, "input", x));
    AMP_TRY(amp_check_vector(call, name, y));
    AMP_TRY(amp_call_check_same_dtype(call, "input", x, name, y));
    AMP_TRY(amp_call_check_target_dtype(call, x->dtype));
    AMP_TRY(amp_cpu_check_product_dtype(call, "input", x));
    if (x->shape[0] != y->shape[0]) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, '%s' is %s; both must have the same length",
                        amp_call_name(call), amp_describe(x), name, amp_describe(y));
    }
    amp_tensor *out = amp_call_output(call, 0, x->dtype, 0, NULL);
    return out ? amp_steps_of(call)->dots(amp_call_name(call), out, x, y, conjugate) : amp_pending_error();
}

amp_status amp_op_dot(amp_call *call) {
    const amp_dot_args *a = call->args;
    return dot(call, a->input, "tensor", a->tensor, false);
}

amp_status amp_op_vdot(amp_call *call) {
    const amp_vdot_args *a = call->args;
    return dot(call, a->input, "other", a->other, true);
}

/* A view in the broadcast shape, `d` moved to the end. */
static amp_tensor *rows_along(const amp_call *call, amp_tensor *t, int rank, const int64_t *shape, int d) {
    int64_t extents[AMP_MAX_RANK], strides[AMP_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        const int from = i < d ? i : i + 1 < rank ? i + 1 : d, own = from - (rank - t->rank);
        extents[i] = shape[from];
        strides[i] = own >= 0 && t->shape[own] != 1 ? t->strides[own] : 0;
    }
    return amp_tensor_view(call->op->name, t, rank, extents, strides, t->offset);
}

amp_status amp_op_linalg_vecdot(amp_call *call) {
    const amp_linalg_vecdot_args *a = call->args;
    amp_tensor *x = a->x, *y = a->y;
    int64_t shape[AMP_MAX_RANK];
    int rank, d;
    AMP_TRY(amp_call_check_same_dtype(call, "x", x, "y", y));
    AMP_TRY(amp_call_check_target_dtype(call, x->dtype));
    if (!amp_dtype_is_floating(x->dtype) && !amp_dtype_is_complex(x->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'x' is %s; expected a floating or complex dtype", amp_call_name(call),
                        amp_describe(x));
    }
    if (!amp_broadcast_shapes(x->rank, x->shape, y->rank, y->shape, &rank, shape) || rank == 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'x' is %s, 'y' is %s; expected vectors, or shapes that broadcast to one",
                        amp_call_name(call), amp_describe(x), amp_describe(y));
    }
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, rank, &d));
    x = rows_along(call, x, rank, shape, d);
    y = x ? rows_along(call, y, rank, shape, d) : NULL;
    amp_tensor *out = y ? amp_call_output(call, 0, x->dtype, rank - 1, x->shape) : NULL;
    return out ? amp_steps_of(call)->dots(amp_call_name(call), out, x, y, true) : amp_pending_error();
}

/* ---- outer, addr ------------------------------------------------------------------------------------------------ */

typedef struct addr_context {
    bool add; /* beta is not 0: without it `input` is not looked at */
    double alpha, beta;
    int64_t alpha_whole, beta_whole;
    complex128 alpha_complex, beta_complex;
} addr_context;

#define DEFINE_ADDR(suffix, type, alpha, beta)                                                                         \
    static void addr_##suffix(void *context, void *out, const void *const *in, int64_t n) {                            \
        const addr_context *c = context;                                                                               \
        const type *x = in[0], *y = in[1], *z = in[2];                                                                 \
        type *o = out;                                                                                                 \
        const type a = (type)(alpha), b = (type)(beta);                                                                \
        if (c->add) {                                                                                                  \
            for (int64_t i = 0; i < n; i++) o[i] = b * x[i] + a * (y[i] * z[i]);                                       \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) o[i] = a * (y[i] * z[i]);                                                  \
        }                                                                                                              \
    }
DEFINE_ADDR(f32, float, c->alpha, c->beta)
DEFINE_ADDR(f64, double, c->alpha, c->beta)
DEFINE_ADDR(i64, uint64_t, (uint64_t)c->alpha_whole, (uint64_t)c->beta_whole)
DEFINE_ADDR(c128, complex128, c->alpha_complex, c->beta_complex)

static addr_context context_of(const amp_scalar *alpha, const amp_scalar *beta) {
    const amp_constant a = amp_constant_of(alpha, AMP_C128), b = amp_constant_of(beta, AMP_C128);
    return (addr_context){.add = b.c128[0] != 0 || b.c128[1] != 0,
                          .alpha = a.c128[0],
                          .beta = b.c128[0],
                          .alpha_whole = amp_constant_of(alpha, AMP_I64).i64,
                          .beta_whole = amp_constant_of(beta, AMP_I64).i64,
                          .alpha_complex = __builtin_complex(a.c128[0], a.c128[1]),
                          .beta_complex = __builtin_complex(b.c128[0], b.c128[1])};
}

/* The common case, a row at a time: f32, rows of `input` and `out` dense, input as it is or not at all. */
static bool suits_rows(const addr_context *c, const amp_tensor *input, const amp_tensor *vec1, const amp_tensor *vec2,
                       const amp_tensor *out) {
    const bool f32 = vec1->dtype == AMP_F32 && vec2->dtype == AMP_F32 && out->dtype == AMP_F32;
    const bool no_input = !input || !c->add;
    const bool fits = no_input || (input->dtype == AMP_F32 && c->beta == 1 && input->rank == 2 &&
                                   input->shape[1] == out->shape[1] && input->strides[1] == 1);
    return f32 && fits && vec2->strides[0] == 1 && out->strides[1] == 1 && out->shape[1] > 1;
}

static amp_status run_rows(amp_call *call, const addr_context *c, const amp_tensor *input, const amp_tensor *vec1,
                           const amp_tensor *vec2, amp_tensor *out) {
    enum { BLOCK = AMP_BLOCK_BYTES / sizeof(float) };
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_ADD_SCALED, AMP_F32, AMP_F32);
    if (!kernel) return amp_pending_error();
    call->note.kernel = kernel->name;
    amp_binary_function *const add_scaled = (amp_binary_function *)kernel->function;
    const int64_t rows = out->shape[0], columns = out->shape[1];
    const int64_t input_step = c->add && input && input->shape[0] > 1 ? input->strides[0] : 0;
    const float *first = amp_tensor_pointer(vec1), *second = amp_tensor_pointer(vec2);
    const float *from = c->add && input ? amp_tensor_pointer(input) : NULL;
    float *to = amp_tensor_pointer(out), nothing[BLOCK];
    for (int i = 0; i < BLOCK; i++) nothing[i] = -0.0f; /* the number that changes no other when it is added */
    const int threads = amp_parallel_threads(rows * columns, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const float scale = (float)c->alpha * first[i * vec1->strides[0]];
        for (int64_t j = 0; j < columns; j += BLOCK) {
            const int64_t n = columns - j < BLOCK ? columns - j : BLOCK;
            add_scaled(to + i * out->strides[0] + j, from ? from + i * input_step + j : nothing, second + j, n, scale);
        }
    }
    return AMP_OK;
}

/* input is NULL for outer. */
static amp_status run_addr(amp_call *call, const addr_context *c, amp_tensor *input, amp_tensor *vec1,
                           amp_tensor *vec2) {
    amp_tensor *column = amp_unsqueeze(vec1, 1);
    if (!column) return amp_pending_error();
    const amp_operand v[3] = {input ? amp_tensor_operand("input", input) : amp_number_operand("input", amp_int(0)),
                              amp_tensor_operand("vec1", column), amp_tensor_operand("vec2", vec2)};
    const amp_dtype dtype = amp_operands_expanded_dtype(input ? v : v + 1, input ? 3 : 2);
    const amp_dtype compute = amp_compute_dtype(dtype);
    amp_tensor *out = amp_operands_output(call, v, 3, dtype);
    if (!out) return amp_pending_error();
    if (suits_rows(c, input, vec1, vec2, out)) return run_rows(call, c, input, vec1, vec2, out);
    amp_dense_function *loop = compute == AMP_F32    ? addr_f32
                               : compute == AMP_F64  ? addr_f64
                               : compute == AMP_C128 ? addr_c128
                                                     : addr_i64;
    amp_operands_run(v, 3, compute, compute, loop, (void *)(uintptr_t)c, 2, out);
    return AMP_OK;
}

amp_status amp_op_outer(amp_call *call) {
    const amp_outer_args *a = call->args;
    const addr_context c = {.alpha = 1, .alpha_whole = 1, .alpha_complex = 1};
    AMP_TRY(amp_check_vector(call, "input", a->input));
    AMP_TRY(amp_check_vector(call, "vec2", a->vec2));
    return run_addr(call, &c, NULL, a->input, a->vec2);
}

amp_status amp_op_addr(amp_call *call) {
    const amp_addr_args *a = call->args;
    AMP_TRY(amp_check_addr(call, a));
    const addr_context c = context_of(&a->alpha, &a->beta);
    return run_addr(call, &c, a->input, a->vec1, a->vec2);
}
