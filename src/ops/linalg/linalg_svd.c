/* Singular values and what is made of them: linalg_svd, svd, linalg_svdvals, pinverse, linalg_matrix_rank, matrix_rank,
 * linalg_cond. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "ops/linalg/linalg.h"

typedef struct svd_job {
    const amp_lapack *lapack;
    amp_stack a, s, u, vh;
    amp_stack out; /* pinverse */
    double rcond;
    char job;
} svd_job;

/* An info that LAPACK has not: the matrix holds NaN. */
enum { HOLDS_NAN = -1000 };

/* ---- Running it ------------------------------------------------------------------------------------------------ */

static int leading(const amp_stack *stack) {
    return stack->ld > 1 ? stack->ld : 1;
}

static void fill(const amp_stack *stack, int64_t index, void (*function)(int m, int n, void *a, int lda)) {
    if (stack->view.rank) function(stack->rows, stack->columns, amp_stack_at(stack, index), stack->ld);
}

static int decompose_one(void *context, int64_t index, amp_lapack_work *work) {
    const svd_job *job = context;
    const amp_lapack *l = job->lapack;
    const int m = job->a.rows, n = job->a.columns;
    void *a = amp_stack_at(&job->a, index);
    if (work->count >= 0) {
        const amp_lapack_content content = l->content(m, n, a, job->a.ld);
        if (content == AMP_LAPACK_NAN) return HOLDS_NAN;
        if (content == AMP_LAPACK_INFINITE) {
            amp_lapack_of(l->real_dtype)->fill_nan(job->s.rows, 1, amp_stack_at(&job->s, index), leading(&job->s));
            fill(&job->u, index, l->fill_nan);
            fill(&job->vh, index, l->fill_nan);
            return 0;
        }
    }
    return l->gesdd(job->job, m, n, a, job->a.ld, amp_stack_at(&job->s, index), amp_stack_at(&job->u, index),
                    leading(&job->u), amp_stack_at(&job->vh, index), leading(&job->vh), work);
}

static int identity_one(void *context, int64_t index, amp_lapack_work *work) {
    const svd_job *job = context;
    (void)work;
    fill(&job->u, index, job->lapack->identity);
    fill(&job->vh, index, job->lapack->identity);
    return 0;
}

int64_t amp_linalg_svd_room(int64_t m, int64_t n) {
    const int64_t tall = amp_larger(m, n), short_side = amp_smaller(m, n);
    return tall * short_side + short_side * short_side + 2 * tall + short_side + tall * tall;
}

static amp_linalg_kernel kernel_of(const svd_job *job, int64_t k) {
    if (k == 0) return (amp_linalg_kernel){.kind = AMP_LINALG_identities, .stacks = {&job->u, &job->vh}};
    amp_linalg_kernel kernel = {.kind = AMP_LINALG_svd,
                                .stacks = {&job->a, &job->s, &job->u, &job->vh, &job->out},
                                .number = job->rcond,
                                .room = amp_linalg_svd_room(job->a.rows, job->a.columns),
                                .check = true};
    if (job->out.view.storage) kernel.kind = AMP_LINALG_pinverse;
    return kernel;
}

static amp_status run_job(amp_call *call, const char *name, svd_job *job, const amp_batch *batch,
                          int (*run)(void *, int64_t, amp_lapack_work *)) {
    const int64_t m = job->a.rows, n = job->a.columns, k = amp_smaller(m, n);
    amp_linalg_loop loop = {.run = k > 0 ? run : identity_one,
                            .context = job,
                            .lapack = job->lapack,
                            .batch = batch,
                            .macs = (job->job == 'N' ? 4 : 12) * m * n * (k + 1),
                            .asks = k > 0,
                            .reals = amp_gesdd_reals(job->job, m, n),
                            .integers = 8 * k,
                            .kernel = kernel_of(job, k)};
    AMP_TRY(amp_linalg_infos(call, batch, -1, NULL, &loop.infos));
    if (m > 0 || n > 0) AMP_TRY(amp_linalg_run(call, &loop));
    const int64_t bad = amp_linalg_first_failure(call, batch, loop.infos);
    if (bad < 0) return AMP_OK;
    if (loop.infos[bad] == HOLDS_NAN) {
        return amp_fail(AMP_ERROR_INVALID, "%s: %s'%s' holds NaN: there are no singular values", amp_call_name(call),
                        amp_linalg_matrix_name(batch, bad), name);
    }
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: %sthe algorithm did not converge: '%s' is ill-conditioned or has too many equal singular "
                    "values (LAPACK's info is %d)",
                    amp_call_name(call), amp_linalg_matrix_name(batch, bad), name, (int)loop.infos[bad]);
}

/* The transposes are decomposed: A^T = Vh^T S U^T, whose column-major factors are the row-major U and Vh. */
static amp_status decompose(amp_call *call, const char *name, const amp_tensor *a, char mode) {
    AMP_TRY(amp_linalg_check(call, name, a, false));
    const amp_batch batch = amp_batch_of(a, 2);
    const amp_tensor transposed = amp_matrix_transposed(a);
    const int64_t m = amp_matrix_rows(a), n = amp_matrix_columns(a), k = amp_smaller(m, n);
    const amp_dtype compute = amp_linalg_compute_dtype(a->dtype, m, n), real = amp_lapack_of(a->dtype)->real_dtype;
    svd_job job = {.lapack = amp_lapack_of(compute), .job = mode};
    AMP_TRY(amp_stack_copy(call, &transposed, compute, &batch, &job.a));
    AMP_TRY(amp_stack_output(call, mode == 'N' ? 0 : 1, real, job.lapack->real_dtype, &batch, k, AMP_VECTOR, &job.s));
    if (mode != 'N') {
        AMP_TRY(amp_stack_output_transposed(call, 0, a->dtype, compute, &batch, m, mode == 'A' ? m : k, &job.vh));
        AMP_TRY(amp_stack_output_transposed(call, 2, a->dtype, compute, &batch, mode == 'A' ? n : k, n, &job.u));
    }
    AMP_TRY(run_job(call, name, &job, &batch, decompose_one));
    AMP_TRY(amp_stack_finish(&job.s));
    AMP_TRY(amp_stack_finish(&job.u));
    return amp_stack_finish(&job.vh);
}

amp_status amp_linalg_singular_values(amp_call *call, const char *name, const amp_tensor *a, amp_tensor **values) {
    amp_call step = amp_call_step(call);
    AMP_TRY(decompose(&step, name, a, 'N'));
    amp_linalg_step_done(call, &step);
    *values = step.outputs[0];
    return AMP_OK;
}

static amp_status refuse_driver(const amp_call *call, const char *driver) {
    if (!driver) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'driver' is \"%s\"; on the CPU there is nothing to choose: leave it out",
                    amp_call_name(call), driver);
}

amp_status amp_op_linalg_svd(amp_call *call) {
    const amp_linalg_svd_args *a = call->args;
    AMP_TRY(refuse_driver(call, a->driver));
    return decompose(call, "A", a->A, a->full_matrices.value ? 'A' : 'S');
}

amp_status amp_op_linalg_svdvals(amp_call *call) {
    const amp_linalg_svdvals_args *a = call->args;
    AMP_TRY(refuse_driver(call, a->driver));
    return decompose(call, "A", a->A, 'N');
}

/* ---- svd: V instead of Vh, and zeros where no vectors are wanted ------------------------------------------------ */

static amp_tensor *square_zeros(const amp_tensor *like, int64_t n) {
    amp_dims shape = {.count = like->rank, .set = AMP_PRESENT};
    for (int d = 0; d < like->rank; d++) shape.values[d] = d < like->rank - 2 ? like->shape[d] : n;
    return amp_zeros(shape, .dtype = like->dtype, .device = amp_tensor_device(like));
}

amp_status amp_op_svd(amp_call *call) {
    const amp_svd_args *a = call->args;
    amp_call step = amp_call_step(call);
    amp_tensor **made = step.outputs, **u = &call->outputs[0], **s = &call->outputs[1], **v = &call->outputs[2];
    AMP_TRY(decompose(&step, "input", a->input, !a->compute_uv.value ? 'N' : a->some.value ? 'S' : 'A'));
    amp_linalg_step_done(call, &step);
    *u = a->compute_uv.value ? made[0] : square_zeros(a->input, amp_matrix_rows(a->input));
    *s = a->compute_uv.value ? made[1] : made[0];
    *v = a->compute_uv.value ? amp_linalg_adjoint(made[2]) : square_zeros(a->input, amp_matrix_columns(a->input));
    return *u && *v ? AMP_OK : amp_pending_error();
}

/* ---- pinverse --------------------------------------------------------------------------------------------------- */

/* A⁺ = V S⁺ U^H; its transpose, column-major, is the row-major result: conj(U S⁺ Vh). */
static int pseudo_invert_one(void *context, int64_t index, amp_lapack_work *work) {
    const svd_job *job = context;
    const amp_lapack *l = job->lapack;
    const int info = decompose_one(context, index, work);
    if (work->count < 0 || info) return info;
    const int m = job->a.rows, n = job->a.columns, k = job->s.rows;
    const void *s = amp_stack_at(&job->s, index);
    void *vh = amp_stack_at(&job->vh, index), *out = amp_stack_at(&job->out, index);
    const double tolerance = job->rcond * amp_lapack_of(l->real_dtype)->largest(k, s);
    l->scale_rows_by_inverse(k, n, vh, job->vh.ld, s, tolerance);
    l->gemm(m, n, k, amp_stack_at(&job->u, index), job->u.ld, vh, job->vh.ld, out, job->out.ld);
    l->conjugate(m, n, out, job->out.ld);
    return 0;
}

amp_status amp_op_pinverse(amp_call *call) {
    const amp_pinverse_args *args = call->args;
    const amp_tensor *a = args->input;
    AMP_TRY(amp_linalg_check(call, "input", a, false));
    const amp_batch batch = amp_batch_of(a, 2);
    const int64_t m = amp_matrix_rows(a), n = amp_matrix_columns(a), k = amp_smaller(m, n);
    svd_job job = {.lapack = amp_lapack_of(a->dtype), .job = 'S', .rcond = args->rcond.value};
    AMP_TRY(amp_stack_output_transposed(call, 0, a->dtype, a->dtype, &batch, n, m, &job.out));
    if (amp_tensor_elements(a) == 0) return AMP_OK;
    AMP_TRY(amp_stack_copy(call, a, a->dtype, &batch, &job.a));
    AMP_TRY(amp_stack_new(call, job.lapack->real_dtype, &batch, k, 1, &job.s));
    AMP_TRY(amp_stack_new(call, a->dtype, &batch, m, k, &job.u));
    AMP_TRY(amp_stack_new(call, a->dtype, &batch, k, n, &job.vh));
    AMP_TRY(run_job(call, "input", &job, &batch, pseudo_invert_one));
    return amp_stack_finish(&job.out);
}

/* ---- Rank ------------------------------------------------------------------------------------------------------- */

static amp_status return_tensor(amp_call *call, amp_tensor *t) {
    call->outputs[0] = t;
    return t ? AMP_OK : amp_pending_error();
}

/* Zeros in the shape of the batch. */
static amp_tensor *batch_zeros(const amp_tensor *a, amp_dtype dtype) {
    amp_dims shape = {.count = a->rank - 2, .set = AMP_PRESENT};
    memcpy(shape.values, a->shape, (size_t)shape.count * sizeof *shape.values);
    return amp_zeros(shape, .dtype = dtype, .device = amp_tensor_device(a));
}

/* atol and rtol: tensors of the values' dtype that broadcast to the batch. */
static amp_status count_above(amp_call *call, amp_tensor *a, bool hermitian, amp_tensor *atol, amp_tensor *rtol) {
    if (!atol || !rtol) return amp_pending_error();
    if (amp_tensor_elements(a) == 0) return return_tensor(call, batch_zeros(a, AMP_I64));
    amp_tensor *values = hermitian ? amp_abs(amp_linalg_eigvalsh(a)) : NULL;
    if (!hermitian) AMP_TRY(amp_linalg_singular_values(call, "input", a, &values));
    if (!values) return amp_pending_error();
    amp_tensor *relative = amp_mul(amp_unsqueeze(rtol, -1), amp_amax(values, AMP_DIMS(-1), true));
    amp_tensor *tolerance = amp_maximum(amp_unsqueeze(atol, -1), relative);
    return return_tensor(call, amp_sum(amp_gt(values, tolerance), AMP_DIMS(-1)));
}

static double default_rtol(const amp_tensor *a) {
    const int64_t m = amp_matrix_rows(a), n = amp_matrix_columns(a);
    return amp_lapack_of(a->dtype)->epsilon * (double)(m > n ? m : n);
}

static amp_tensor *number(const amp_call *call, double value, amp_dtype dtype) {
    return amp_full((amp_dims){.set = AMP_PRESENT}, amp_float(value), .dtype = dtype, .device = call->device);
}

static amp_status rank_with_numbers(amp_call *call, amp_tensor *a, amp_opt_float atol, amp_opt_float rtol,
                                    bool hermitian) {
    AMP_TRY(amp_linalg_check(call, "input", a, hermitian));
    const amp_dtype real = amp_lapack_of(a->dtype)->real_dtype;
    const double absolute = atol.set ? atol.value : 0.0;
    const double relative = rtol.set ? rtol.value : absolute > 0.0 ? 0.0 : default_rtol(a);
    return count_above(call, a, hermitian, number(call, absolute, real), number(call, relative, real));
}

amp_status amp_op_linalg_matrix_rank(amp_call *call) {
    const amp_linalg_matrix_rank_args *a = call->args;
    return rank_with_numbers(call, a->input, a->atol, a->rtol, a->hermitian);
}

amp_status amp_op_matrix_rank(amp_call *call) {
    const amp_matrix_rank_args *a = call->args;
    return rank_with_numbers(call, a->input, a->tol, (amp_opt_float){.set = 0}, a->symmetric);
}

/* A tolerance for each matrix: real, and it broadcasts to `batch`, which becomes what both broadcast to. */
static amp_status join_tolerance(const amp_call *call, const char *name, const amp_tensor *t, amp_batch *batch) {
    if (!t) return AMP_OK;
    if (amp_dtype_is_complex(t->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected a real tolerance", amp_call_name(call), name,
                        amp_describe(t));
    }
    if (t->rank >= AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected less than %d dimensions", amp_call_name(call),
                        name, amp_describe(t), AMP_MAX_RANK);
    }
    const amp_batch own = amp_batch_of(t, 0), before = *batch;
    return amp_batch_broadcast(call, name, &own, "input", &before, batch);
}

amp_status amp_op_linalg_matrix_rank_tensor(amp_call *call) {
    const amp_linalg_matrix_rank_tensor_args *a = call->args;
    AMP_TRY(amp_linalg_check(call, "input", a->input, a->hermitian));
    amp_batch batch = amp_batch_of(a->input, 2);
    AMP_TRY(join_tolerance(call, "atol", a->atol, &batch));
    AMP_TRY(join_tolerance(call, "rtol", a->rtol, &batch));
    const amp_dtype real = amp_lapack_of(a->input->dtype)->real_dtype;
    const double relative = default_rtol(a->input);
    amp_tensor *atol = a->atol ? amp_to(a->atol, real) : number(call, 0.0, real);
    amp_tensor *rtol = a->rtol ? amp_to(a->rtol, real) : NULL;
    if (!a->rtol && atol)
        rtol = amp_where(amp_gt_scalar(atol, amp_float(0.0)), number(call, 0.0, real), number(call, relative, real));
    return count_above(call, a->input, a->hermitian, atol, rtol);
}

/* ---- Condition -------------------------------------------------------------------------------------------------- */

static amp_tensor *end_value(amp_tensor *values, bool last) {
    return amp_select(values, -1, last ? -1 : 0);
}

static amp_status condition_of_values(amp_call *call, amp_tensor *a, bool inverted) {
    amp_tensor *values = amp_linalg_svdvals(a);
    if (!values) return amp_pending_error();
    return return_tensor(call, amp_div(end_value(values, inverted), end_value(values, !inverted)));
}

/* A norm times the inverse's; infinite where there is no inverse. */
static amp_status condition_of_norms(amp_call *call, amp_tensor *norm, amp_tensor *inverse_norm, amp_tensor *info) {
    amp_tensor *product = norm && inverse_norm ? amp_mul(norm, inverse_norm) : NULL;
    if (!product) return amp_pending_error();
    amp_tensor *none = amp_logical_or(amp_isnan(product), amp_ne_scalar(info, amp_int(0)));
    return return_tensor(call, amp_masked_fill(product, none, amp_float(INFINITY)));
}

/* True and the result set where there is nothing to compute. */
static bool is_empty_condition(amp_call *call, const amp_tensor *a, amp_status *status) {
    if (amp_tensor_elements(a) > 0) return false;
    *status = return_tensor(call, batch_zeros(a, amp_lapack_of(a->dtype)->real_dtype));
    return true;
}

amp_status amp_op_linalg_cond(amp_call *call) {
    const amp_linalg_cond_args *args = call->args;
    amp_tensor *a = args->input, *info = NULL;
    const double p = args->p.kind == AMP_SCALAR_NONE    ? 2.0
                     : args->p.kind == AMP_SCALAR_FLOAT ? args->p.re
                                                        : (double)args->p.i;
    const bool by_values = fabs(p) == 2.0;
    amp_status status;
    AMP_TRY(amp_linalg_check(call, "input", a, !by_values));
    if (!by_values && fabs(p) != 1.0 && !isinf(p)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'p' is %g; expected 1, -1, 2, -2, inf or -inf", amp_call_name(call), p);
    }
    if (is_empty_condition(call, a, &status)) return status;
    if (by_values) return condition_of_values(call, a, p < 0);
    amp_tensor *inverse = amp_linalg_inv_ex(a, .info = &info);
    if (!inverse) return amp_pending_error();
    return condition_of_norms(call, amp_linalg_matrix_norm(a, amp_float(p)),
                              amp_linalg_matrix_norm(inverse, amp_float(p)), info);
}

static amp_status nuclear_condition(amp_call *call, amp_tensor *a) {
    amp_tensor *values = amp_linalg_svdvals(a);
    if (!values) return amp_pending_error();
    return return_tensor(call, amp_mul(amp_sum(values, AMP_DIMS(-1)), amp_sum(amp_reciprocal(values), AMP_DIMS(-1))));
}

amp_status amp_op_linalg_cond_str(amp_call *call) {
    const amp_linalg_cond_str_args *args = call->args;
    amp_tensor *a = args->input, *info = NULL;
    const bool nuclear = !strcmp(args->p, "nuc");
    amp_status status;
    AMP_TRY(amp_linalg_check(call, "input", a, true));
    if (!nuclear && strcmp(args->p, "fro")) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'p' is \"%s\"; expected \"fro\" or \"nuc\"", amp_call_name(call),
                        args->p);
    }
    if (is_empty_condition(call, a, &status)) return status;
    if (nuclear) return nuclear_condition(call, a);
    amp_tensor *inverse = amp_linalg_inv_ex(a, .info = &info);
    if (!inverse) return amp_pending_error();
    const amp_dims both = AMP_DIMS(-2, -1);
    return condition_of_norms(call, amp_frobenius_norm(a, both), amp_frobenius_norm(inverse, both), info);
}
