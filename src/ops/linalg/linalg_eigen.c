/* Eigenvalues and eigenvectors: linalg_eig, linalg_eigvals, eig; of Hermitian matrices linalg_eigh, linalg_eigvalsh,
 * symeig. */
#include <string.h>

#include "amp/ops.h"
#include "ops/linalg/linalg.h"

typedef struct eigen_job {
    const amp_lapack *lapack;
    amp_stack a, values, vectors;
    char job, uplo;
} eigen_job;

/* An info that LAPACK has not: the matrix holds NaN or infinity. */
enum { NOT_FINITE = -1000 };

static amp_status explain(const amp_call *call, const amp_batch *batch, const int32_t *infos) {
    const int64_t bad = amp_linalg_first_failure(call, batch, infos);
    if (bad < 0) return AMP_OK;
    if (infos[bad] == NOT_FINITE) {
        return amp_fail(AMP_ERROR_INVALID, "%s: %s'input' holds NaN or infinity: there are no eigenvalues",
                        amp_call_name(call), amp_linalg_matrix_name(batch, bad));
    }
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: %sthe algorithm did not converge: 'input' is ill-conditioned or has too many equal "
                    "eigenvalues (LAPACK's info is %d)",
                    amp_call_name(call), amp_linalg_matrix_name(batch, bad), (int)infos[bad]);
}

/* ---- Any square matrix ------------------------------------------------------------------------------------------ */

static int decompose_one(void *context, int64_t index, amp_lapack_work *work) {
    const eigen_job *job = context;
    const amp_lapack *l = job->lapack;
    const int n = job->a.rows;
    void *a = amp_stack_at(&job->a, index), *vectors = amp_stack_at(&job->vectors, index);
    if (work->count >= 0 && l->content(n, n, a, job->a.ld) != AMP_LAPACK_FINITE) return NOT_FINITE;
    return l->geev(job->job, n, a, job->a.ld, amp_stack_at(&job->values, index), vectors,
                   job->job == 'V' ? job->vectors.ld : n, work);
}

static amp_status decompose(amp_call *call, const amp_tensor *a, char mode) {
    AMP_TRY(amp_linalg_check(call, "input", a, true));
    const amp_batch batch = amp_batch_of(a, 2);
    const int64_t n = a->shape[a->rank - 1];
    const amp_dtype compute = amp_linalg_compute_dtype(a->dtype, n, n);
    eigen_job job = {.lapack = amp_lapack_of(compute), .job = mode};
    const amp_dtype result = amp_lapack_of(a->dtype)->complex_dtype, complex_dtype = job.lapack->complex_dtype;
    amp_linalg_loop loop = {.run = decompose_one,
                            .context = &job,
                            .lapack = job.lapack,
                            .batch = &batch,
                            .macs = 13 * n * n * n,
                            .asks = true,
                            .reals = amp_geev_reals(mode, n),
                            .kernel = {.kind = AMP_LINALG_eig,
                                       .stacks = {&job.a, &job.values, &job.vectors},
                                       .room = 7 * n * n + 5 * n,
                                       .check = true}};
    AMP_TRY(amp_stack_copy(call, a, compute, &batch, &job.a));
    AMP_TRY(amp_stack_output(call, 0, result, complex_dtype, &batch, n, AMP_VECTOR, &job.values));
    if (mode == 'V') AMP_TRY(amp_stack_output(call, 1, result, complex_dtype, &batch, n, n, &job.vectors));
    AMP_TRY(amp_linalg_infos(call, &batch, -1, NULL, &loop.infos));
    if (n > 0) AMP_TRY(amp_linalg_run(call, &loop));
    AMP_TRY(explain(call, &batch, loop.infos));
    AMP_TRY(amp_stack_finish(&job.values));
    return amp_stack_finish(&job.vectors);
}

amp_status amp_op_linalg_eig(amp_call *call) {
    return decompose(call, ((const amp_linalg_eig_args *)call->args)->input, 'V');
}
amp_status amp_op_linalg_eigvals(amp_call *call) {
    return decompose(call, ((const amp_linalg_eigvals_args *)call->args)->input, 'N');
}

/* ---- Hermitian matrices ----------------------------------------------------------------------------------------- */

/* A matrix that is not finite has NaN for values and vectors. */
static int decompose_hermitian_one(void *context, int64_t index, amp_lapack_work *work) {
    const eigen_job *job = context;
    const amp_lapack *l = job->lapack;
    const int n = job->a.rows;
    void *a = amp_stack_at(&job->a, index), *values = amp_stack_at(&job->values, index);
    if (work->count >= 0) l->clear_triangle(job->uplo == 'L' ? 'U' : 'L', n, n, a, job->a.ld);
    if (work->count >= 0 && l->content(n, n, a, job->a.ld) != AMP_LAPACK_FINITE) {
        amp_lapack_of(l->real_dtype)->fill_nan(n, 1, values, n);
        l->fill_nan(n, n, a, job->a.ld);
        return 0;
    }
    return l->syevd(job->job, job->uplo, n, a, job->a.ld, values, work);
}

static amp_status find_triangle(const amp_call *call, const char *uplo, char *letter) {
    *letter = (char)(uplo[0] & ~0x20);
    if ((*letter == 'L' || *letter == 'U') && uplo[1] == 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'UPLO' is \"%s\"; expected \"L\" or \"U\"", amp_call_name(call), uplo);
}

/* The vectors take the matrix's place; the triangle that does not count may have held anything, NaN too. */
static amp_status decompose_hermitian(amp_call *call, const amp_tensor *a, const char *uplo, char mode) {
    AMP_TRY(amp_linalg_check(call, "input", a, true));
    const amp_batch batch = amp_batch_of(a, 2);
    const int64_t n = a->shape[a->rank - 1];
    const amp_dtype compute = amp_linalg_compute_dtype(a->dtype, n, n), real = amp_lapack_of(a->dtype)->real_dtype;
    eigen_job job = {.lapack = amp_lapack_of(compute), .job = mode};
    AMP_TRY(find_triangle(call, uplo, &job.uplo));
    amp_linalg_loop loop = {.run = decompose_hermitian_one,
                            .context = &job,
                            .lapack = job.lapack,
                            .batch = &batch,
                            .macs = 4 * n * n * n,
                            .asks = true,
                            .kernel = {.kind = AMP_LINALG_eigh,
                                       .stacks = {&job.a, &job.values},
                                       .options = {mode, job.uplo},
                                       .room = 2 * (n * n + n),
                                       .check = true}};
    AMP_TRY(amp_stack_output(call, 0, real, job.lapack->real_dtype, &batch, n, AMP_VECTOR, &job.values));
    if (mode == 'V')
        AMP_TRY(amp_stack_output(call, 1, a->dtype, compute, &batch, n, n, &job.a));
    else
        AMP_TRY(amp_stack_new(call, compute, &batch, n, n, &job.a));
    AMP_TRY(amp_stack_fill(&job.a, a));
    AMP_TRY(amp_linalg_infos(call, &batch, -1, NULL, &loop.infos));
    if (n > 0) AMP_TRY(amp_linalg_run(call, &loop));
    AMP_TRY(explain(call, &batch, loop.infos));
    AMP_TRY(amp_stack_finish(&job.values));
    return amp_stack_finish(&job.a);
}

amp_status amp_op_linalg_eigh(amp_call *call) {
    const amp_linalg_eigh_args *a = call->args;
    return decompose_hermitian(call, a->input, a->UPLO, 'V');
}
amp_status amp_op_linalg_eigvalsh(amp_call *call) {
    const amp_linalg_eigvalsh_args *a = call->args;
    return decompose_hermitian(call, a->input, a->UPLO, 'N');
}

/* ---- The seed's forms ------------------------------------------------------------------------------------------- */

amp_status amp_op_symeig(amp_call *call) {
    const amp_symeig_args *a = call->args;
    const char *uplo = a->upper.value ? "U" : "L";
    AMP_TRY(decompose_hermitian(call, a->input, uplo, a->eigenvectors ? 'V' : 'N'));
    return a->eigenvectors ? AMP_OK : amp_linalg_return_empty(call, 1, a->input->dtype);
}

/* A complex tensor's memory as pairs of numbers. */
static amp_status return_pairs(amp_call *call, const amp_tensor *values, amp_dtype real) {
    int64_t shape[AMP_MAX_RANK + 1];
    memcpy(shape, values->shape, (size_t)values->rank * sizeof *shape);
    shape[values->rank] = 2;
    amp_tensor *out = amp_call_output(call, 0, real, values->rank + 1, shape);
    if (!out) return amp_pending_error();
    const size_t bytes = (size_t)amp_tensor_elements(values) * amp_dtype_size(values->dtype);
    if (bytes) memcpy(amp_tensor_pointer(out), amp_tensor_pointer(values), bytes);
    return AMP_OK;
}

/* Vectors of a real matrix are packed: a pair of conjugate ones as real and imaginary part. */
static amp_status return_packed(amp_call *call, const amp_lapack *l, const amp_tensor *values,
                                const amp_tensor *vectors) {
    amp_tensor *out = amp_call_output(call, 1, l->dtype, vectors->rank, vectors->shape);
    if (!out) return amp_pending_error();
    const amp_batch batch = amp_batch_of(vectors, 2);
    const int64_t n = values->shape[values->rank - 1];
    const size_t real = amp_dtype_size(l->real_dtype);
    const char *value = amp_tensor_pointer(values), *vector = amp_tensor_pointer(vectors);
    char *packed = amp_tensor_pointer(out);
    for (int64_t i = 0; n > 0 && i < batch.count; i++) {
        l->pack_vectors((int)n, value + (size_t)(i * n) * 2 * real, vector + (size_t)(i * n * n) * 2 * real,
                        packed + (size_t)(i * n * n) * real);
    }
    return AMP_OK;
}

amp_status amp_op_eig(amp_call *call) {
    const amp_eig_args *a = call->args;
    amp_call step = amp_call_step(call);
    AMP_TRY(decompose(&step, a->input, a->eigenvectors ? 'V' : 'N'));
    amp_linalg_step_done(call, &step);
    const amp_lapack *l = amp_lapack_of(a->input->dtype);
    amp_tensor *values = step.outputs[0], *vectors = step.outputs[1];
    AMP_TRY(return_pairs(call, values, l->real_dtype));
    if (!a->eigenvectors) return amp_linalg_return_empty(call, 1, l->dtype);
    if (l->dtype != l->complex_dtype) return return_packed(call, l, values, vectors);
    call->outputs[1] = vectors;
    return AMP_OK;
}
