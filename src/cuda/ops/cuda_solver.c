/* Large matrices through cuSOLVER, and cuBLAS for triangles: a block for each matrix, which is how the kernels of
 * matrix.cu work, leaves most of the device idle where there are few of them. They take one matrix after the other;
 * what goes before and after it are kernels over the whole batch (device/stacks.cu). Infos stay on the device. */
#include "cuda/ops/cuda_solver.h"

#include <string.h>

#include "cpu/linalg/lapack.h"
#include "cuda/cuda_backend.h"
#include "cuda/ops/cuda_linalg.h"

#define NAMES(name) static const char *const name[] = {#name "_f32", #name "_f64", #name "_c64", #name "_c128"}
NAMES(stack_clear);
NAMES(stack_identity);
NAMES(stack_copy);
NAMES(stack_adjoint);
NAMES(stack_pinverse);
NAMES(stack_screen);
NAMES(stack_verdict);
NAMES(stack_definite);
NAMES(stack_diagonal);
NAMES(stack_least_part);
NAMES(stack_least);
static const char *const stack_pairs[] = {"stack_pairs_f32", "stack_pairs_f64"}; /* of real matrices */

/* A batch that is worked on. */
typedef struct job {
    const amp_call *call;
    const char *op;
    const amp_linalg_loop *loop;
    amp_cuda_matrices a; /* as its own kernel would get it */
    amp_dtype dtype;
    int number;     /* of the dtype, in NAMES */
    int32_t *infos; /* one for each matrix, whether asked for or not */
} job;

/* ---- Memory ------------------------------------------------------------------------------------------------------ */
static void *temporary(const job *j, amp_dtype dtype, int64_t elements) {
    amp_tensor *t = amp_cuda_temporary(j->call, dtype, 1, &elements);
    return t ? amp_cuda_address(j->op, t) : NULL;
}

/* One dense matrix for each of the batch. */
static amp_status new_stack(const job *j, amp_dtype dtype, int rows, int columns, amp_cuda_stack *s) {
    int64_t step = (int64_t)rows * columns;
    *s = (amp_cuda_stack){.rows = rows, .columns = columns, .ld = rows};
    for (int d = j->a.rank - 1; d >= 0; d--) {
        s->strides[d] = step;
        step *= j->a.shape[d];
    }
    s->data = temporary(j, dtype, step);
    return s->data ? AMP_OK : amp_pending_error();
}

static void *at(const job *j, const amp_cuda_stack *s, int64_t index, amp_dtype dtype) {
    int64_t offset = 0;
    for (int d = j->a.rank - 1; d >= 0; d--) {
        offset += index % j->a.shape[d] * s->strides[d];
        index /= j->a.shape[d];
    }
    return s->data ? (char *)s->data + offset * (int64_t)amp_dtype_size(dtype) : NULL;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */
/* The kernel's arguments for these stacks of the batch, and nothing else. */
static amp_cuda_matrices over(const job *j, const amp_cuda_stack *const *stacks, int count) {
    amp_cuda_matrices a = {.rank = j->a.rank, .count = j->a.count, .report = j->a.report};
    memcpy(a.shape, j->a.shape, sizeof a.shape);
    for (int i = 0; i < count; i++) {
        if (stacks[i]) a.stacks[i] = *stacks[i];
    }
    return a;
}

/* A kernel of one thread for each element of the first stack. */
static amp_status each_element(const job *j, const char *const *names, char option, const amp_cuda_stack *first,
                               const amp_cuda_stack *second) {
    amp_cuda_matrices a = over(j, (const amp_cuda_stack *const[]){first, second}, 2);
    a.options[0] = option;
    return amp_cuda_launch_over(j->op, names[j->number], &a, amp_cuda_blocks(a.count * first->rows * first->columns));
}

/* What each matrix holds; those that are not finite, or with 'N' those that hold NaN, become 0. */
static amp_status screen(const job *j, const amp_cuda_stack *s, char option, int32_t **found) {
    amp_cuda_matrices a = over(j, &s, 1);
    a.options[0] = option;
    *found = a.infos = temporary(j, AMP_I32, a.count);
    return a.infos ? amp_cuda_launch_over(j->op, stack_screen[j->number], &a, a.count) : amp_pending_error();
}

/* NaN in the results of matrices that were not finite; and a fault of what the infos say, if the op checks them. wrong:
 * 'N', NaN is a fault; 'A', all that is not finite is one; 0, nothing is. */
static amp_status give_verdict(const job *j, int32_t *found, char wrong, const amp_cuda_stack *values,
                               const amp_cuda_stack *u, const amp_cuda_stack *vh) {
    amp_cuda_matrices a = over(j, (const amp_cuda_stack *const[]){values, u, vh}, 3);
    a.infos = j->infos;
    a.ranks = (int64_t *)(void *)found;
    a.options[0] = wrong;
    a.check = j->a.check;
    return amp_cuda_launch_over(j->op, stack_verdict[j->number], &a, a.count);
}

/* The routine for matrix `index`: a and b are from these stacks. */
static amp_cuda_factor factor_of(const job *j, amp_cuda_routine routine, int64_t index, const amp_cuda_stack *a,
                                 const amp_cuda_stack *b) {
    static const amp_cuda_type types[] = {AMP_CUDA_F32, AMP_CUDA_F64, AMP_CUDA_C64, AMP_CUDA_C128};
    return (amp_cuda_factor){.routine = routine,
                             .type = types[j->number],
                             .m = a->rows,
                             .n = a->columns,
                             .k = b ? b->columns : 0,
                             .a = at(j, a, index, j->dtype),
                             .lda = a->ld,
                             .b = b ? at(j, b, index, j->dtype) : NULL,
                             .ldb = b ? b->ld : 0,
                             .info = j->infos + index};
}
static amp_status run(const job *j, const amp_cuda_factor *f) {
    return amp_cuda_status(j->op, amp_cuda_loaded()->factorise(f));
}

/* ---- Triangles --------------------------------------------------------------------------------------------------- */
typedef struct triangle {
    bool upper, transposed, conjugated, unit;
} triangle;

/* The first rows of b, as many as `a` has columns, become the solution. */
static amp_status run_trsm(const job *j, const amp_cuda_stack *a, const amp_cuda_stack *b, triangle t) {
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_TRSM, i, a, b);
        f.upper = t.upper;
        f.transposed = t.transposed;
        f.conjugated = t.conjugated;
        f.unit = t.unit;
        AMP_TRY(run(j, &f));
    }
    return AMP_OK;
}

static amp_status solve_triangles(job *j) {
    const char *options = j->a.options;
    const triangle t = {.upper = options[0] == 'U', .transposed = options[1] != 'N', .unit = options[2] == 'U'};
    return run_trsm(j, &j->a.stacks[0], &j->a.stacks[1], t);
}

/* Infos and faults of zeros on the diagonals. */
static amp_status check_diagonals(const job *j, const amp_cuda_stack *factor) {
    amp_cuda_matrices a = over(j, &factor, 1);
    a.infos = j->infos;
    a.check = j->a.check;
    return amp_cuda_launch_over(j->op, stack_diagonal[j->number], &a, a.count);
}

/* ---- Cholesky ---------------------------------------------------------------------------------------------------- */
static amp_status factor_cholesky(job *j) {
    const amp_cuda_stack *x = &j->a.stacks[0];
    const bool upper = j->a.options[0] == 'U';
    AMP_TRY(each_element(j, stack_clear, upper ? 'L' : 'U', x, NULL));
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_POTRF, i, x, NULL);
        f.upper = upper;
        AMP_TRY(run(j, &f));
    }
    amp_cuda_matrices factor = over(j, &x, 1);
    factor.infos = j->infos;
    factor.check = j->a.check;
    return amp_cuda_launch_over(j->op, stack_definite[j->number], &factor, factor.count);
}

static amp_status solve_cholesky(job *j) {
    const amp_cuda_stack *x = &j->a.stacks[0], *b = &j->a.stacks[1];
    if (j->a.options[1]) AMP_TRY(each_element(j, stack_identity, 0, b, NULL));
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_POTRS, i, x, b);
        f.upper = j->a.options[0] == 'U';
        AMP_TRY(run(j, &f));
    }
    return check_diagonals(j, x);
}

/* ---- LU ---------------------------------------------------------------------------------------------------------- */
/* A NaN is no pivot, and what is found in the place of one is cuSOLVER's own: matrices of NaN are not given to it, and
 * NaN that comes of infinities leads to no row that there is not. */
static amp_status run_getrf(const job *j, int64_t *pivots, int64_t per_matrix, int32_t **found) {
    const amp_cuda_stack *lu = &j->a.stacks[0];
    amp_cuda_matrices inside = over(j, &lu, 1);
    AMP_TRY(screen(j, lu, 'N', found));
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_GETRF, i, &j->a.stacks[0], NULL);
        f.pivots = pivots + i * per_matrix;
        AMP_TRY(run(j, &f));
    }
    inside.scratch = pivots;
    return amp_cuda_launch_over(j->op, "stack_inside", &inside, amp_cuda_blocks(inside.count * per_matrix));
}
/* Its infos only tell of arguments. */
static amp_status run_getrs(job *j, const amp_cuda_stack *b, int64_t *pivots, char trans) {
    const amp_cuda_stack *lu = &j->a.stacks[0];
    int32_t *unused = temporary(j, AMP_I32, 1);
    if (!unused) return amp_pending_error();
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_GETRS, i, lu, b);
        f.pivots = pivots + i * lu->rows;
        f.transposed = trans != 'N';
        f.conjugated = trans == 'C';
        f.info = unused;
        AMP_TRY(run(j, &f));
    }
    return AMP_OK;
}

/* cuSOLVER's pivots are 64 bits wide. */
static amp_status factor_lu(job *j) {
    amp_tensor narrow = j->loop->kernel.stacks[1]->view;
    amp_tensor *wide = amp_cuda_temporary(j->call, AMP_I64, narrow.rank, narrow.shape);
    int64_t *pivots = wide ? amp_cuda_address(j->op, wide) : NULL;
    if (!pivots) return amp_pending_error();
    int32_t *found;
    AMP_TRY(run_getrf(j, pivots, j->a.stacks[1].rows, &found));
    AMP_TRY(amp_cuda_copy_tensor(&narrow, wide));
    return give_verdict(j, found, 0, NULL, &j->a.stacks[0], NULL);
}

static amp_status solve_lu(job *j) {
    amp_cuda_matrices widen = j->a;
    const int64_t elements = j->a.count * j->a.stacks[1].rows;
    widen.scratch = temporary(j, AMP_I64, elements);
    if (!widen.scratch) return amp_pending_error();
    AMP_TRY(amp_cuda_launch_over(j->op, "stack_pivots", &widen, amp_cuda_blocks(elements)));
    return run_getrs(j, &j->a.stacks[2], widen.scratch, j->a.options[0]);
}

static amp_status factor_and_solve(job *j) {
    const int64_t n = j->a.stacks[0].rows;
    int64_t *pivots = temporary(j, AMP_I64, j->a.count * n);
    if (!pivots) return amp_pending_error();
    int32_t *found;
    AMP_TRY(run_getrf(j, pivots, n, &found));
    if (j->a.options[1]) AMP_TRY(each_element(j, stack_identity, 0, &j->a.stacks[1], NULL));
    AMP_TRY(run_getrs(j, &j->a.stacks[1], pivots, j->a.options[0]));
    return give_verdict(j, found, 0, NULL, &j->a.stacks[1], NULL);
}

/* ---- Reflectors -------------------------------------------------------------------------------------------------- */
static amp_status run_geqrf(const job *j, const amp_cuda_stack *a, const amp_cuda_stack *tau) {
    for (int64_t i = 0; i < j->a.count; i++) {
        const amp_cuda_factor f = factor_of(j, AMP_CUDA_GEQRF, i, a, tau);
        AMP_TRY(run(j, &f));
    }
    return AMP_OK;
}
static amp_status run_orgqr(const job *j, const amp_cuda_stack *q, const amp_cuda_stack *tau) {
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_ORGQR, i, q, tau);
        f.k = tau->rows;
        AMP_TRY(run(j, &f));
    }
    return AMP_OK;
}
/* C = Q C or, the other way, QᴴC; with `right` C Q or C Qᴴ. */
static amp_status run_ormqr(const job *j, const amp_cuda_stack *a, const amp_cuda_stack *tau, const amp_cuda_stack *c,
                            bool right, bool inverse) {
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_ORMQR, i, a, c);
        f.m = c->rows;
        f.n = c->columns;
        f.k = tau->rows;
        f.u = at(j, tau, i, j->dtype);
        f.right = right;
        f.transposed = inverse;
        f.conjugated = inverse && amp_dtype_is_complex(j->dtype);
        AMP_TRY(run(j, &f));
    }
    return AMP_OK;
}

static amp_status factor_reflectors(job *j) {
    return run_geqrf(j, &j->a.stacks[0], &j->a.stacks[1]);
}
static amp_status multiply_by_reflectors(job *j) {
    const amp_cuda_stack *s = j->a.stacks;
    return run_ormqr(j, &s[0], &s[1], &s[2], j->a.options[0] != 'L', j->a.options[1] != 'N');
}
static amp_status multiply_reflectors(job *j) {
    return run_orgqr(j, &j->a.stacks[0], &j->a.stacks[1]);
}
static amp_status factor_qr(job *j) {
    const amp_cuda_stack *x = &j->a.stacks[0], *q = &j->a.stacks[1];
    amp_cuda_stack tau, reflectors = *q;
    reflectors.columns = x->rows < x->columns ? x->rows : x->columns;
    AMP_TRY(new_stack(j, j->dtype, reflectors.columns, 1, &tau));
    AMP_TRY(run_geqrf(j, x, &tau));
    if (q->data) {
        AMP_TRY(each_element(j, stack_copy, 0, &reflectors, x));
        AMP_TRY(run_orgqr(j, q, &tau));
    }
    return each_element(j, stack_clear, 'L', x, NULL);
}

/* ---- Singular values and eigenvalues ----------------------------------------------------------------------------- */
/* cuSOLVER gives V, not its adjoint. */
static amp_status run_gesvdj(const job *j, const amp_cuda_stack *v) {
    const amp_cuda_stack *x = &j->a.stacks[0], *s = &j->a.stacks[1], *u = &j->a.stacks[2];
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_GESVDJ, i, x, NULL);
        f.b = at(j, s, i, j->loop->lapack->real_dtype);
        f.vectors = u->data != NULL;
        f.economic = u->columns <= s->rows && v->columns <= s->rows;
        f.u = at(j, u, i, j->dtype);
        f.v = at(j, v, i, j->dtype);
        f.ldu = u->data ? u->ld : x->rows;
        f.ldv = v->data ? v->ld : x->columns;
        AMP_TRY(run(j, &f));
    }
    return AMP_OK;
}

static amp_status factor_singular(job *j) {
    const amp_cuda_stack *s = &j->a.stacks[1], *u = &j->a.stacks[2], *vh = &j->a.stacks[3];
    amp_cuda_stack v = {0};
    int32_t *found;
    AMP_TRY(screen(j, &j->a.stacks[0], 0, &found));
    if (vh->data) AMP_TRY(new_stack(j, j->dtype, vh->columns, vh->rows, &v));
    AMP_TRY(run_gesvdj(j, &v));
    if (vh->data) AMP_TRY(each_element(j, stack_adjoint, 0, vh, &v));
    return give_verdict(j, found, 'N', s, u, vh);
}

static amp_status invert_by_values(job *j) {
    const amp_cuda_stack *stacks[] = {&j->a.stacks[4], &j->a.stacks[1], &j->a.stacks[2], &j->a.stacks[3]};
    amp_cuda_matrices a = over(j, stacks, 4);
    a.number = j->a.number;
    AMP_TRY(factor_singular(j));
    const int64_t elements = a.count * a.stacks[0].rows * a.stacks[0].columns;
    return amp_cuda_launch_over(j->op, stack_pinverse[j->number], &a, amp_cuda_blocks(elements));
}

static amp_status factor_hermitian(job *j) {
    const amp_cuda_stack *x = &j->a.stacks[0], *values = &j->a.stacks[1];
    const bool upper = j->a.options[1] == 'U';
    int32_t *found;
    AMP_TRY(each_element(j, stack_clear, upper ? 'L' : 'U', x, NULL)); /* it may have held anything */
    AMP_TRY(screen(j, x, 0, &found));
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_SYEVD, i, x, NULL);
        f.b = at(j, values, i, j->loop->lapack->real_dtype);
        f.upper = upper;
        f.vectors = j->a.options[0] == 'V';
        AMP_TRY(run(j, &f));
    }
    return give_verdict(j, found, 0, values, x, NULL);
}

/* Eigenvectors of a real matrix come packed. */
static amp_status run_geev(const job *j, const amp_cuda_stack *v) {
    const amp_cuda_stack *x = &j->a.stacks[0], *values = &j->a.stacks[1];
    for (int64_t i = 0; i < j->a.count; i++) {
        amp_cuda_factor f = factor_of(j, AMP_CUDA_GEEV, i, x, NULL);
        f.b = at(j, values, i, j->loop->lapack->complex_dtype);
        f.vectors = v->data != NULL;
        f.v = at(j, v, i, j->dtype);
        f.ldv = v->data ? v->ld : x->rows;
        AMP_TRY(run(j, &f));
    }
    return AMP_OK;
}

static amp_status factor_any(job *j) {
    const amp_cuda_stack *x = &j->a.stacks[0], *vectors = &j->a.stacks[2];
    const bool packed = vectors->data && !amp_dtype_is_complex(j->dtype);
    amp_cuda_stack v = *vectors;
    int32_t *found;
    if (packed) AMP_TRY(new_stack(j, j->dtype, x->rows, x->rows, &v));
    AMP_TRY(screen(j, x, 0, &found));
    AMP_TRY(run_geev(j, &v));
    if (packed) {
        const amp_cuda_stack *stacks[] = {vectors, &v, &j->a.stacks[1]};
        amp_cuda_matrices a = over(j, stacks, 3);
        const int64_t elements = a.count * x->rows * x->rows;
        AMP_TRY(amp_cuda_launch_over(j->op, stack_pairs[j->number], &a, amp_cuda_blocks(elements)));
    }
    return give_verdict(j, found, 'A', NULL, NULL, NULL);
}

/* ---- Least squares ----------------------------------------------------------------------------------------------- */
/* A stack's first rows. */
static amp_cuda_stack first_rows(const amp_cuda_stack *s, int rows) {
    amp_cuda_stack first = *s;
    first.rows = rows;
    return first;
}

/* A has no fewer rows than columns: QᴴB, then R's equations. What is left over stays below the solution. */
static amp_status solve_tall(const job *j, const amp_cuda_stack *x, const amp_cuda_stack *b) {
    const amp_cuda_stack r = first_rows(x, x->columns);
    amp_cuda_stack tau;
    AMP_TRY(new_stack(j, j->dtype, x->columns, 1, &tau));
    AMP_TRY(run_geqrf(j, x, &tau));
    AMP_TRY(run_ormqr(j, x, &tau, b, false, true));
    AMP_TRY(check_diagonals(j, &r));
    return run_trsm(j, &r, b, (triangle){.upper = true});
}
/* A has more columns, and is (Q R)ᴴ of its adjoint's factors: Rᴴ's equations, zeros below, then Q times it. */
static amp_status solve_wide(const job *j, const amp_cuda_stack *x, const amp_cuda_stack *b) {
    amp_cuda_stack tau, turned;
    AMP_TRY(new_stack(j, j->dtype, x->rows, 1, &tau));
    AMP_TRY(new_stack(j, j->dtype, x->columns, x->rows, &turned));
    const amp_cuda_stack r = first_rows(&turned, x->rows);
    AMP_TRY(each_element(j, stack_adjoint, 0, &turned, x));
    AMP_TRY(run_geqrf(j, &turned, &tau));
    AMP_TRY(each_element(j, stack_adjoint, 0, x, &turned)); /* an op's result, with LAPACK's factors */
    AMP_TRY(check_diagonals(j, &r));
    AMP_TRY(run_trsm(j, &r, b, (triangle){.upper = true, .transposed = true, .conjugated = true}));
    return run_ormqr(j, &turned, &tau, b, false, false); /* b came with zeros below */
}

static amp_status factor_values(const job *j, amp_cuda_stack *s, amp_cuda_stack *u, amp_cuda_stack *vh) {
    const amp_cuda_stack *x = &j->a.stacks[0];
    const int k = x->rows < x->columns ? x->rows : x->columns;
    job step = *j;
    if (!s->data) AMP_TRY(new_stack(j, j->loop->lapack->real_dtype, k, 1, s));
    AMP_TRY(new_stack(j, j->dtype, x->rows, k, u));
    AMP_TRY(new_stack(j, j->dtype, k, x->columns, vh));
    step.a.stacks[1] = *s;
    step.a.stacks[2] = *u;
    step.a.stacks[3] = *vh;
    return factor_singular(&step);
}
static amp_status solve_by_values(const job *j) {
    const amp_cuda_stack *x = &j->a.stacks[0], *b = &j->a.stacks[1];
    amp_cuda_stack s = j->a.stacks[2], u, vh, part, solution = first_rows(b, x->columns);
    AMP_TRY(factor_values(j, &s, &u, &vh));
    AMP_TRY(new_stack(j, j->dtype, s.rows, b->columns, &part));
    amp_cuda_matrices a = over(j, (const amp_cuda_stack *const[]){&part, &u, b, &s}, 4);
    a.number = j->a.number;
    a.ranks = j->a.ranks;
    int64_t elements = a.count * part.rows * part.columns;
    AMP_TRY(amp_cuda_launch_over(j->op, stack_least_part[j->number], &a, amp_cuda_blocks(elements)));
    a = over(j, (const amp_cuda_stack *const[]){&solution, &vh, &part}, 3);
    elements = a.count * solution.rows * solution.columns;
    return amp_cuda_launch_over(j->op, stack_least[j->number], &a, amp_cuda_blocks(elements));
}

static amp_status solve_least_squares(job *j) {
    const amp_cuda_stack *x = &j->a.stacks[0], *b = &j->a.stacks[1], right = first_rows(b, x->rows);
    int32_t *found[2];
    AMP_TRY(screen(j, x, 0, &found[0]));
    AMP_TRY(screen(j, &right, 0, &found[1]));
    if (j->a.options[0] != 'R')
        AMP_TRY(solve_by_values(j));
    else if (x->rows >= x->columns)
        AMP_TRY(solve_tall(j, x, b));
    else
        AMP_TRY(solve_wide(j, x, b));
    for (int i = 0; i < 2; i++) AMP_TRY(give_verdict(j, found[i], 'A', NULL, NULL, NULL));
    return AMP_OK;
}

/* ---- What goes there --------------------------------------------------------------------------------------------- */
/* Matrices whose shorter side is `least` or more, where there is at most one for every `side` of it: more of them keep
 * the blocks of our own kernel busy. Jacobi's rotations (ours, too) lose sooner. */
typedef struct rule {
    int least, side;
    amp_status (*run)(job *j);
    const char *library;       /* for explain */
    amp_cuda_routine needs[2]; /* of those that not every library has */
} rule;

#define CUSOLVER                                                                                                       \
    "cusolver", {                                                                                                      \
        AMP_CUDA_POTRF, AMP_CUDA_POTRF                                                                                 \
    }
static const rule rules[AMP_LINALG_KINDS] = {
    [AMP_LINALG_cholesky] = {64, 16, factor_cholesky, CUSOLVER},
    [AMP_LINALG_cholesky_solve] = {64, 16, solve_cholesky, CUSOLVER},
    [AMP_LINALG_lu] = {64, 16, factor_lu, CUSOLVER},
    [AMP_LINALG_lu_solve] = {64, 16, solve_lu, CUSOLVER},
    [AMP_LINALG_solve] = {64, 16, factor_and_solve, CUSOLVER},
    [AMP_LINALG_geqrf] = {64, 16, factor_reflectors, CUSOLVER},
    [AMP_LINALG_qr] = {64, 16, factor_qr, CUSOLVER},
    [AMP_LINALG_householder] = {64, 16, multiply_reflectors, CUSOLVER},
    [AMP_LINALG_ormqr] = {64, 16, multiply_by_reflectors, CUSOLVER},
    [AMP_LINALG_svd] = {64, 8, factor_singular, CUSOLVER},
    [AMP_LINALG_pinverse] = {64, 8, invert_by_values, CUSOLVER},
    [AMP_LINALG_eigh] = {64, 8, factor_hermitian, CUSOLVER},
    [AMP_LINALG_eig] = {64, 8, factor_any, "cusolver", {AMP_CUDA_GEEV, AMP_CUDA_GEEV}},
    [AMP_LINALG_triangular] = {64, 16, solve_triangles, "cublas", {AMP_CUDA_TRSM, AMP_CUDA_TRSM}},
    [AMP_LINALG_lstsq] = {64, 16, solve_least_squares, "cusolver+cublas", {AMP_CUDA_GEQRF, AMP_CUDA_TRSM}},
};

static const rule *rule_for(const amp_linalg_kernel *k, const amp_cuda_matrices *a) {
    const rule *rule = &rules[k->kind];
    const amp_cuda_stack *s = &a->stacks[0];
    const int side = s->rows < s->columns ? s->rows : s->columns;
    if (!rule->run || side < rule->least || a->count > side / rule->side) return NULL;
    if (k->kind == AMP_LINALG_lu && !a->options[0]) return NULL;               /* nothing is exchanged */
    if (k->kind == AMP_LINALG_lstsq && a->stacks[1].columns == 0) return NULL; /* only ranks and values are asked for */
    return rule;
}

static const char *missing_of(const rule *rule) {
    const char *why = amp_cuda_loaded()->routine_missing(rule->needs[0]);
    return why ? why : amp_cuda_loaded()->routine_missing(rule->needs[1]);
}

amp_status amp_cuda_solver_run(amp_call *call, const amp_linalg_loop *loop, const amp_cuda_matrices *a, bool *done) {
    const rule *rule = rule_for(&loop->kernel, a);
    const char *why = rule ? missing_of(rule) : NULL;
    if (why) call->note.kernel = why;
    if (!rule || why) return AMP_OK;
    const amp_dtype dtype = loop->lapack->dtype;
    job j = {.call = call, .op = call->op->name, .loop = loop, .a = *a, .dtype = dtype};
    j.number = amp_cuda_lapack_number(dtype);
    j.infos = a->infos ? a->infos : temporary(&j, AMP_I32, a->count);
    if (!j.infos) return amp_pending_error();
    call->note.kernel = rule->library;
    *done = true;
    return rule->run(&j);
}
