/* Dense kernels: elementwise functions, reductions and rows, of f32 and, but for dot and accumulate, of bf16, computed
 * in f32 and rounded once. Other dtypes come here converted.
 *
 * The names in these lists make the functions amp_<name>_f32_<isa> (ref, avx2, avx512) and amp_<name>_bf16_<isa> (these
 * and avx512bf16), compiled from vector_body.h once per ISA and dtype; void * are elements of that dtype. Elementwise
 * results are the same bits on every ISA (NaN payloads excepted). Reductions add vector lanes over blocks of 64 vectors
 * in f32, and the blocks in f64: their order follows from n and the ISA alone. */
#ifndef AMP_CPU_VECTOR_H
#define AMP_CPU_VECTOR_H

#include <stdint.h>

/* out[i] = f(in[i]); out may be in. Errors in ulp over all inputs: test_vmath.cc. */
typedef void amp_unary_function(void *out, const void *in, int64_t n);
#define AMP_VECTOR_UNARY(X)                                                                                            \
    X(NEG, neg)                                                                                                        \
    X(ABS, abs)                                                                                                        \
    X(EXP, exp)                                                                                                        \
    X(LOG, log)                                                                                                        \
    X(SQRT, sqrt)                                                                                                      \
    X(RSQRT, rsqrt)                                                                                                    \
    X(RECIPROCAL, reciprocal)                                                                                          \
    X(SQUARE, square)                                                                                                  \
    X(TANH, tanh)                                                                                                      \
    X(SIGMOID, sigmoid)                                                                                                \
    X(ERF, erf)                                                                                                        \
    X(GELU, gelu)                                                                                                      \
    X(GELU_TANH, gelu_tanh)                                                                                            \
    X(RELU, relu)                                                                                                      \
    X(SILU, silu)                                                                                                      \
    X(SIGN, sign)                                                                                                      \
    X(CEIL, ceil)                                                                                                      \
    X(FLOOR, floor)                                                                                                    \
    X(TRUNC, trunc)                                                                                                    \
    X(ROUND, round)                                                                                                    \
    X(RELU6, relu6)                                                                                                    \
    X(HARDSIGMOID, hardsigmoid)                                                                                        \
    X(HARDSWISH, hardswish)                                                                                            \
    X(SOFTSIGN, softsign)                                                                                              \
    X(LOG2, log2)                                                                                                      \
    X(LOG10, log10)                                                                                                    \
    X(LOG1P, log1p)                                                                                                    \
    X(EXPM1, expm1)                                                                                                    \
    X(SINH, sinh)                                                                                                      \
    X(COSH, cosh)                                                                                                      \
    X(LOGSIGMOID, logsigmoid)                                                                                          \
    X(MISH, mish)                                                                                                      \
    X(SELU, selu)                                                                                                      \
    X(SIN, sin)                                                                                                        \
    X(COS, cos)                                                                                                        \
    X(TAN, tan)                                                                                                        \
    X(ASIN, asin)                                                                                                      \
    X(ACOS, acos)                                                                                                      \
    X(ATAN, atan)

/* out[i] = f(in[i]; p, q): leaky_relu (slope p), elu (p·(e^(q·x) − 1) below 0), hardtanh (between p and q), threshold
 * (q up to p), softplus (factor p, x itself above q/p), nan_to_num (p for NaN, q and -q for infinities). */
typedef void amp_unary_with_function(void *out, const void *in, int64_t n, float p, float q);
#define AMP_VECTOR_UNARY_WITH(X)                                                                                       \
    X(LEAKY_RELU, leaky_relu)                                                                                          \
    X(ELU, elu)                                                                                                        \
    X(HARDTANH, hardtanh)                                                                                              \
    X(THRESHOLD, threshold)                                                                                            \
    X(SOFTPLUS, softplus)                                                                                              \
    X(NAN_TO_NUM, nan_to_num)

/* out[i] = f(a[i], b[i]); out may be a or b. add_scaled: a + scale·b, one rounding. The others take `scale` as the
 * operand that is NULL, and do not use it else. */
typedef void amp_binary_function(void *out, const void *a, const void *b, int64_t n, float scale);
#define AMP_VECTOR_BINARY(X)                                                                                           \
    X(ADD, add)                                                                                                        \
    X(SUB, sub)                                                                                                        \
    X(ADD_SCALED, add_scaled)                                                                                          \
    X(MUL, mul)                                                                                                        \
    X(DIV, div)                                                                                                        \
    X(MAXIMUM, maximum)                                                                                                \
    X(MINIMUM, minimum)

/* out[i] = f(a[i], b[i], c[i]); out may be any of them. lerp: a + c·(b − a), c may be NULL: `scale`; addcmul: a +
 * scale·b·c; addcdiv: a + scale·b/c. */
typedef void amp_ternary_function(void *out, const void *a, const void *b, const void *c, int64_t n, float scale);
#define AMP_VECTOR_TERNARY(X)                                                                                          \
    X(LERP, lerp)                                                                                                      \
    X(ADDCMUL, addcmul)                                                                                                \
    X(ADDCDIV, addcdiv)

/* out[i] = a[i] ? b[i], 1 or 0, with `number` for a b that is NULL; nothing but ne holds for a NaN. */
typedef void amp_compare_function(uint8_t *out, const void *a, const void *b, int64_t n, float number);
#define AMP_VECTOR_COMPARE(X)                                                                                          \
    X(EQ, eq)                                                                                                          \
    X(NE, ne)                                                                                                          \
    X(LT, lt)                                                                                                          \
    X(LE, le)                                                                                                          \
    X(GT, gt)                                                                                                          \
    X(GE, ge)

/* Reductions of n ≥ 0 elements. maximum of nothing is −inf, of magnitudes 0; a NaN gives NaN, and is one of the
 * elements other than zero that count counts. */
typedef double amp_reduce_function(const void *in, int64_t n);
#define AMP_VECTOR_REDUCE(X)                                                                                           \
    X(SUM, sum)                                                                                                        \
    X(SUM_SQUARES, sum_squares)                                                                                        \
    X(ROW_MAX, row_max)                                                                                                \
    X(ROW_MIN, row_min)                                                                                                \
    X(SUM_ABS, sum_abs)                                                                                                \
    X(COUNT_NONZERO, count_nonzero)                                                                                    \
    X(ROW_MAX_ABS, row_max_abs)                                                                                        \
    X(ROW_MIN_ABS, row_min_abs)

/* Sums of n ≥ 0 elements about a centre. deviations: Σ(x − centre) and Σ(x − centre)²; exponentials: Σ e^(x − centre),
 * none of them above e^89. */
typedef void amp_centred_function(double *sums, const void *in, int64_t n, float centre);
#define AMP_VECTOR_CENTRED(X)                                                                                          \
    X(SUM_DEVIATIONS, sum_deviations)                                                                                  \
    X(SUM_EXPONENTIALS, sum_exponentials)

/* Σ a[i]·b[i]; blocks of 64 vectors in f32, each product fused into its sum. */
typedef double amp_dot_function(const float *a, const float *b, int64_t n);

/* acc[i] += in[i], in f64: the step of a reduction over an outer dimension. */
typedef void amp_accumulate_function(double *acc, const float *in, int64_t n);

/* One row of n ≥ 1 elements; out may be in. A row of −inf gives NaN. */
typedef void amp_row_function(void *out, const void *in, int64_t n);
#define AMP_VECTOR_ROW(X)                                                                                              \
    X(SOFTMAX, softmax)                                                                                                \
    X(LOG_SOFTMAX, log_softmax)

/* One row: (x − mean)/√(variance + eps)·weight + bias, weight and bias of n elements or NULL; out may be in. The mean's
 * own rounding error is taken out again, so rows far from zero keep their precision. rms: x/√(mean square +
 * eps)·weight; bias is not read. */
typedef void amp_norm_function(void *out, const void *in, const float *weight, const float *bias, int64_t n,
                               double eps);
#define AMP_VECTOR_NORM(X)                                                                                             \
    X(LAYER_NORM, layer_norm)                                                                                          \
    X(RMS_NORM, rms_norm)

#endif /* AMP_CPU_VECTOR_H */
