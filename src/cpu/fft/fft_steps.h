/* The steps of a Fourier transform that take each number, or each pair of mirrored ones, by itself. Included with LANES
 * defined; parts of number i lie at [2·LANES·i + lane] and [2·LANES·i + LANES + lane]. */
#include "cpu/fft/fft.h"
#include "cpu/simd/unroll.h"

/* Lanes know nothing of one another, which the compiler cannot see where two numbers may be one. */
#define AMP_EACH_LANE _Pragma("omp simd")

/* data[begin … end) times the table. */
static inline void multiply_step(const amp_fft_stage *s, double *data, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        double *re = data + i * 2 * LANES, *im = re + LANES;
        const double c = s->table[2 * i], d = s->table[2 * i + 1];
        const double d_in = d * s->sign_before, c_out = c * s->sign_before * s->sign_after, d_out = d * s->sign_after;
        AMP_EACH_LANE
        for (int l = 0; l < LANES; l++) {
            const double x = re[l], y = im[l];
            re[l] = x * c - y * d_in;
            im[l] = x * d_out + y * c_out;
        }
    }
}

static inline void fill_step(const amp_fft_stage *s, double *data) {
    if (s->fill > s->count) memset(data + s->count * 2 * LANES, 0, (size_t)(s->fill - s->count) * 2 * LANES * 8);
}

/* With Z the transform of z[j] = x[2j] + i·x[2j + 1], h long, E = (Z[k] + Z̄[h − k])/2 and O = (Z[k] − Z̄[h − k])/2i
 * are the transforms of the even and the odd elements: X[k] = E + W^k·O, X[h − k] is the conjugate of E − W^k·O. */
static inline void unpack_ends(const amp_fft_stage *s, double *data) {
    double *last = data + s->count * 2 * LANES;
    AMP_EACH_LANE
    for (int l = 0; l < LANES; l++) {
        const double x = data[l], y = data[LANES + l];
        data[l] = x + y;
        last[l] = x - y;
        data[LANES + l] = last[LANES + l] = 0.0;
    }
}

static inline void unpack_step(const amp_fft_stage *s, double *data, int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++) {
        double *a = data + k * 2 * LANES, *b = data + (s->count - k) * 2 * LANES;
        const double c = s->table[2 * k], d = s->table[2 * k + 1];
        AMP_EACH_LANE
        for (int l = 0; l < LANES; l++) {
            const double e_re = 0.5 * (a[l] + b[l]), e_im = 0.5 * (a[LANES + l] - b[LANES + l]);
            const double o_re = 0.5 * (a[LANES + l] + b[LANES + l]), o_im = 0.5 * (b[l] - a[l]);
            const double w_re = o_re * c - o_im * d, w_im = o_re * d + o_im * c;
            a[l] = e_re + w_re;
            a[LANES + l] = e_im + w_im;
            b[l] = e_re - w_re;
            b[LANES + l] = w_im - e_im;
        }
    }
}

/* Backwards, twice the size: Z[k] = E + i·O with E = X[k] + X̄[h − k], O = W^−k·(X[k] − X̄[h − k]), Z[h − k] = Ē + i·Ō.
 * The imaginary parts come first here, and those of X[0] and X[h] count for nothing. */
static inline void pack_ends(const amp_fft_stage *s, double *data) {
    const double *last = data + s->count * 2 * LANES;
    AMP_EACH_LANE
    for (int l = 0; l < LANES; l++) {
        const double x = data[LANES + l], y = last[LANES + l];
        data[LANES + l] = x + y;
        data[l] = x - y;
    }
}

static inline void pack_step(const amp_fft_stage *s, double *data, int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++) {
        double *a = data + k * 2 * LANES, *b = data + (s->count - k) * 2 * LANES;
        const double c = s->table[2 * k], d = -s->table[2 * k + 1];
        AMP_EACH_LANE
        for (int l = 0; l < LANES; l++) {
            const double e_re = a[LANES + l] + b[LANES + l], e_im = a[l] - b[l];
            const double f_re = a[LANES + l] - b[LANES + l], f_im = a[l] + b[l];
            const double o_re = f_re * c - f_im * d, o_im = f_re * d + f_im * c;
            a[LANES + l] = e_re - o_im;
            a[l] = e_im + o_re;
            b[LANES + l] = e_re + o_im;
            b[l] = o_re - e_im;
        }
    }
}

/* Pairs (k, h − k) for k = 1 … h/2. */
static inline int64_t pairs_of(const amp_fft_stage *s) {
    return s->count / 2 + 1;
}
