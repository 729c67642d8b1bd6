/* What goes before and after cuSOLVER's work on batches of matrices (cuda_solver.c): an element for a thread, or a
 * matrix for a block where its threads have to agree. Arguments are those of the kernels in matrix.cu. */
#include "cuda/kernels/block_matrix.h"

#define STACK_KERNEL(name, type, suffix)                                                                               \
    AMP_KERNEL(name##_##suffix, amp_cuda_matrices) {                                                                   \
        const amp_cuda_stack &s = a.stacks[0];                                                                         \
        const int64_t size = (int64_t)s.rows * s.columns;                                                              \
        for (int64_t i = first_element(); i < a.count * size; i += element_step()) {                                   \
            name<type>(a, i / size, i % size % s.rows, i % size / s.rows);                                             \
        }                                                                                                              \
    }
#define STACK_KERNELS(name)                                                                                            \
    STACK_KERNEL(name, float, f32)                                                                                     \
    STACK_KERNEL(name, double, f64)                                                                                    \
    STACK_KERNEL(name, complex_of<float>, c64)                                                                         \
    STACK_KERNEL(name, complex_of<double>, c128)
/* What is done at (row, column) of the first stack. */
#define STACK_TASK(name)                                                                                               \
    template <class T>                                                                                                 \
    AMP_DEVICE void name(const amp_cuda_matrices &a, int64_t index, int64_t row, int64_t column)

/* {a}; the triangle strictly below ('L') or above ('U') the diagonal becomes 0 */
STACK_TASK(stack_clear) {
    if (a.options[0] == 'L' ? row > column : row < column) matrix_at<T>(a, 0, index)(row, column) = 0;
}
STACK_KERNELS(stack_clear)

STACK_TASK(stack_identity) {
    matrix_at<T>(a, 0, index)(row, column) = row == column ? (T)1 : (T)0;
}
STACK_KERNELS(stack_identity)

/* {to, from}: from has no fewer rows and columns */
STACK_TASK(stack_copy) {
    matrix_at<T>(a, 0, index)(row, column) = matrix_at<T>(a, 1, index)(row, column);
}
STACK_KERNELS(stack_copy)

/* {to, from}: the conjugate transpose */
STACK_TASK(stack_adjoint) {
    matrix_at<T>(a, 0, index)(row, column) = conjugate(matrix_at<T>(a, 1, index)(column, row));
}
STACK_KERNELS(stack_adjoint)

/* {out, s, u, vh}: out = the conjugate of U S⁺ Vh; number: of the greatest value, how much is 0 */
STACK_TASK(stack_pinverse) {
    matrix<real_type<T>> s = matrix_at<real_type<T>>(a, 1, index);
    matrix<T> u = matrix_at<T>(a, 2, index), vh = matrix_at<T>(a, 3, index);
    const double tolerance = a.number * (double)s(0, 0);
    wide_type<T> sum = 0.0;
    for (int k = 0; k < s.rows; k++) {
        const double inverse = (double)s(k, 0) > tolerance ? 1.0 / (double)s(k, 0) : 0.0;
        sum += inverse * ((wide_type<T>)u(row, k) * (wide_type<T>)vh(k, column));
    }
    matrix_at<T>(a, 0, index)(row, column) = conjugate((T)sum);
}
STACK_KERNELS(stack_pinverse)

/* {part, u, b, s}: part = S⁺ Uᴴ B; number: of the greatest value, how much is 0 (negative: the dtype's roundoff). The
 * ranks, too. */
STACK_TASK(stack_least_part) {
    matrix<real_type<T>> s = matrix_at<real_type<T>>(a, 3, index);
    matrix<T> u = matrix_at<T>(a, 1, index), b = matrix_at<T>(a, 2, index);
    const double tolerance = (a.number < 0 ? roundoff<T>() : a.number) * (double)s(0, 0);
    const double inverse = (double)s(row, 0) > tolerance ? 1.0 / (double)s(row, 0) : 0.0;
    wide_type<T> sum = 0.0;
    for (int64_t k = 0; k < u.rows; k++) sum += conjugate((wide_type<T>)u(k, row)) * (wide_type<T>)b(k, column);
    matrix_at<T>(a, 0, index)(row, column) = (T)(inverse * sum);
    if (row != 0 || column != 0 || !a.ranks) return;
    int64_t rank = 0;
    for (int i = 0; i < s.rows; i++) rank += (double)s(i, 0) > tolerance;
    a.ranks[index] = rank;
}
STACK_KERNELS(stack_least_part)

/* {x, vh, part}: X = V part */
STACK_TASK(stack_least) {
    matrix<T> vh = matrix_at<T>(a, 1, index), part = matrix_at<T>(a, 2, index);
    wide_type<T> sum = 0.0;
    for (int64_t k = 0; k < part.rows; k++) sum += conjugate((wide_type<T>)vh(k, row)) * (wide_type<T>)part(k, column);
    matrix_at<T>(a, 0, index)(row, column) = (T)sum;
}
STACK_KERNELS(stack_least)

/* {vectors, packed, values}: LAPACK's vectors of a real matrix, where two columns are the real and the imaginary part
 * of the vector whose value has a positive imaginary part, and of the next one, its conjugate; T is real, the others
 * are complex. */
STACK_TASK(stack_pairs) {
    matrix<T> packed = matrix_at<T>(a, 1, index);
    const T part = (T)imaginary_of(matrix_at<complex_of<T>>(a, 2, index)(column, 0));
    const int64_t real = part < 0 && column > 0 ? column - 1 : column, other = real + 1;
    const bool paired = part != 0 && other < packed.columns;
    const T x = packed(row, real), y = paired ? packed(row, other) : (T)0;
    matrix_at<complex_of<T>>(a, 0, index)(row, column) = complex_of<T>(x, part < 0 ? -y : y);
}
STACK_KERNEL(stack_pairs, float, f32)
STACK_KERNEL(stack_pairs, double, f64)

/* ---- A block for each matrix ------------------------------------------------------------------------------------- */
enum content { FINITE = 0, HOLDS_INFINITY = 1, HOLDS_NAN = 2 };

/* {a}: what each holds, into infos; one that is not finite, or with 'N' one that holds NaN, becomes 0, so that an
 * algorithm comes to an end. */
MATRIX_TASK(stack_screen) {
    (void)scratch;
    matrix<T> x = matrix_at<T>(a, 0, index);
    if (is_finite(x)) return FINITE;
    const bool nan = holds_nan(x);
    if (a.options[0] == 'N' && !nan) return FINITE;
    for (int64_t i = AMP_THREAD; i < (int64_t)x.rows * x.columns; i += AMP_THREADS) x(i % x.rows, i / x.rows) = 0;
    return nan ? HOLDS_NAN : HOLDS_INFINITY;
}
MATRIX_KERNELS(stack_screen)

/* {values or none, others…}, and in ranks, as int32_t, what stack_screen found: NaN instead of results that there are
 * not. 'N': NaN in a matrix is an error; 'A': all that is not finite is one. */
MATRIX_TASK(stack_verdict) {
    (void)scratch;
    const int found = a.ranks ? ((const int32_t *)(const void *)a.ranks)[index] : FINITE;
    const int info = a.infos ? a.infos[index] : 0;
    AMP_BARRIER(); /* all have read it */
    if (found == FINITE) return info;
    fill_nan(matrix_at<real_type<T>>(a, 0, index));
    for (int i = 1; i < 3; i++) fill_nan(matrix_at<T>(a, i, index));
    return a.options[0] == 'A' || (found == HOLDS_NAN && a.options[0] == 'N') ? -1 : 0;
}
MATRIX_KERNELS(stack_verdict)

/* {factor}: info, or the first element of the diagonal before it that is NaN: a comparison with 0 does not find it. */
MATRIX_TASK(stack_definite) {
    (void)scratch;
    matrix<T> x = matrix_at<T>(a, 0, index);
    const int info = a.infos[index], count = info > 0 ? info - 1 : x.rows;
    AMP_BARRIER(); /* all have read it */
    for (int i = 0; i < count; i++) {
        if (x(i, i) != x(i, i)) return i + 1;
    }
    return info;
}
MATRIX_KERNELS(stack_definite)

/* {factor}: info is the first element of the diagonal that is 0, counted from 1, or 0 */
MATRIX_TASK(stack_diagonal) {
    (void)scratch;
    matrix<T> x = matrix_at<T>(a, 0, index);
    for (int i = 0; i < x.rows; i++) {
        if (x(i, i) == 0) return i + 1;
    }
    return 0;
}
MATRIX_KERNELS(stack_diagonal)

/* {lu}: pivots in scratch, as int64_t, that name no row name their own: those of NaN, which a factorisation may come
 * upon. */
AMP_KERNEL(stack_inside, amp_cuda_matrices) {
    const int64_t rows = a.stacks[0].rows, count = rows < a.stacks[0].columns ? rows : a.stacks[0].columns;
    int64_t *pivots = (int64_t *)a.scratch;
    for (int64_t i = first_element(); i < a.count * count; i += element_step()) {
        if (pivots[i] < 1 || pivots[i] > rows) pivots[i] = i % count + 1;
    }
}

/* {lu, pivots}: those of a row that there is not are told of, and name their own; into scratch, as int64_t, densely. */
AMP_KERNEL(stack_pivots, amp_cuda_matrices) {
    const amp_cuda_stack &p = a.stacks[1];
    for (int64_t i = first_element(); i < a.count * p.rows; i += element_step()) {
        const int64_t index = i / p.rows, row = i % p.rows;
        const int64_t pivot = ((const int32_t *)p.data)[place(index, a.rank, a.shape, p.strides) + row];
        const bool inside = pivot >= 1 && pivot <= a.stacks[0].rows;
        if (!inside) a.report.faults->index = a.report.op;
        ((int64_t *)a.scratch)[i] = inside ? pivot : row + 1;
    }
}
