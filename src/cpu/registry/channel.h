/* Dense f32 kernels of the norms over channels: statistics and their application. Sums run over blocks of 64 vectors in
 * f32 and over blocks in f64: their order follows from n and the ISA alone. */
#ifndef AMP_CPU_CHANNEL_H
#define AMP_CPU_CHANNEL_H

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

/* out[i] = (in[i] − mean[k])·scale[k] + shift[k], out may be in. standardize_row: k = 0; standardize_columns: k = i. */
typedef void amp_standardize_function(float *out, const float *in, const float *mean, const float *scale,
                                      const float *shift, int64_t n);

/* What local_response_norm divides by: (k + factor · Σ x²)^(quarters / 4), quarters 2, 3 or 4. */
typedef struct amp_response {
    float k, factor;
    int quarters;
} amp_response;

/* out[i] = x[i] / (…)^… of the squares of in[j][i], j < count, count ≥ 1; out is none of in, but may be x. */
typedef void amp_respond_function(float *out, const float *x, const float *const *in, int64_t count,
                                  const amp_response *r, int64_t n);

#endif /* AMP_CPU_CHANNEL_H */
