/* Dense kernels of the norms over channels: statistics, which are of f32, and their application, of f32 and bf16. Sums
 * run over blocks of 64 vectors in f32 and over blocks in f64: their order follows from n and the ISA alone. */
#ifndef AMP_CPU_CHANNEL_H
#define AMP_CPU_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

/* Count, mean, and Σ(x − mean)² of the elements so far. */
typedef struct amp_moments {
    double count, mean, squares;
} amp_moments;

/* Those of both. */
static inline amp_moments amp_moments_join(amp_moments a, amp_moments b) {
    if (a.count == 0.0) return b;
    if (b.count == 0.0) return a;
    const double count = a.count + b.count, step = b.mean - a.mean;
    const amp_moments both = {count, a.mean + step * (b.count / count),
                              a.squares + b.squares + step * step * (a.count * b.count / count)};
    return both;
}

/* Adds n elements. Each block is centred on its own mean, so neither a large mean nor a drifting one costs digits. */
typedef void amp_moments_function(amp_moments *moments, const float *in, int64_t n);

/* sum[i] += in[i], squares[i] += in[i]², without rounding but that of the f64 sums. */
typedef void amp_column_sums_function(double *sum, double *squares, const float *in, int64_t n);

/* out[i] = max(least, (in[i] − mean[k])·scale[k] + shift[k]), out may be in; NaN stays NaN. standardize_row: k = 0;
 * standardize_columns: k = i. Elements are of the row's dtype. */
typedef struct amp_standardize_numbers {
    const float *mean, *scale, *shift;
    float least; /* 0: relu; −INFINITY: all of them */
} amp_standardize_numbers;
typedef void amp_standardize_function(void *out, const void *in, const amp_standardize_numbers *numbers, int64_t n);

/* ---- Gradients of norms and softmax: x is what was normalised, d the gradient of the result; these and what is written are of the row's
 * dtype, numbers and parameters f32 ---------------------------------------------------------------------------------- */

/* Moments of the x so far, Σ d, and Σ d·(x − moments.mean). */
typedef struct amp_slope_sums {
    amp_moments moments;
    double d, dot;
} amp_slope_sums;

/* Those of both. */
static inline amp_slope_sums amp_slope_sums_join(amp_slope_sums a, amp_slope_sums b) {
    const amp_moments both = amp_moments_join(a.moments, b.moments);
    const double dot = a.dot + (a.moments.mean - both.mean) * a.d + b.dot + (b.moments.mean - both.mean) * b.d;
    const amp_slope_sums sums = {both, a.d + b.d, dot};
    return sums;
}

/* Adds n elements; in blocks, as amp_moments_function. */
typedef void amp_slope_sums_function(amp_slope_sums *sums, const void *x, const void *d, int64_t n);

/* Σ (x − centre), Σ (x − centre)², Σ d and Σ d·(x − centre) of a column. */
enum { AMP_SLOPE_COLUMN_SUMS = 4 };

/* Adds to sums[s·step + i] those of the n columns of dense rows, at most AMP_SLOPE_ROWS of them, which are summed in
 * f32. */
enum { AMP_SLOPE_ROWS = 64 };
typedef void amp_slope_columns_function(double *sums, int64_t step, const void *x, const void *d, const float *centre,
                                        int64_t rows, int64_t n);

/* out[i] = a[k]·d[i] + b[k]·(x[i] − mean[k]) + c[k], out may be d or x. norm_slope_row: k = 0; norm_slope_columns: k =
 * i. */
typedef struct amp_norm_slope_numbers {
    const float *mean, *a, *b, *c;
} amp_norm_slope_numbers;
typedef void amp_norm_slope_function(void *out, const void *x, const void *d, const amp_norm_slope_numbers *numbers,
                                     int64_t n);

/* A row of layer_norm, or of rms_norm, whose mean counts as 0: out = rstd·(g − mean(g) − x̂·mean(g·x̂)) with g =
 * d·weight, and dweight += d·x̂, dbias += d. weight, dweight and dbias may be NULL; out may be d or x. */
typedef struct amp_norm_row {
    const float *weight;
    float *dweight, *dbias;
    double eps;
    bool is_centred;
} amp_norm_row;
typedef void amp_norm_row_slope_function(void *out, const void *x, const void *d, const amp_norm_row *row, int64_t n);

/* A row of the result y: softmax_slope out = y·(d − Σ d·y), log_softmax_slope out = d − e^y·Σ d; out may be d or y. */
typedef void amp_softmax_slope_function(void *out, const void *d, const void *y, int64_t n);

/* What local_response_norm divides by: (k + factor · Σ x²)^(quarters / 4), quarters 2, 3 or 4. */
typedef struct amp_response {
    float k, factor;
    int quarters;
} amp_response;

/* out[i] = x[i] / (…)^… of the squares of in[j][i], j < count, count ≥ 1; out is none of in, but may be x. */
typedef void amp_respond_function(float *out, const float *x, const float *const *in, int64_t count,
                                  const amp_response *r, int64_t n);

#endif /* AMP_CPU_CHANNEL_H */
