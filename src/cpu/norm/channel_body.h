/* The kernels of channel.h, compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     channel.h.
 * Accumulator: f32 lanes over blocks of 64 vectors, each about its own mean; f64 over blocks.
 * Error bound: Σ(x − mean)² to 70 · 2⁻²⁴ of itself: at most 34 values in a lane, log₂ VL + 1 sums of lanes, two
 *              roundings of each difference, with room for the mean's own, whose rest is taken out. respond:
 *              (count + 5) · 2⁻²⁴ of the result; the same bits on each ISA.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before.
 * Source:      Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances
 *              (1979). */
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

#define PASTE_(name, isa) amp_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, SIMD_ISA)

enum { LANES = 4, STEP = LANES * VL, BLOCK = 64 * VL };

/* Elements [i, i + VL) of n; those beyond the end are `rest`. */
static inline vf load_or(const float *in, int64_t i, int64_t n, vf rest) {
    return i + VL <= n ? v_load(in + i) : v_keep_first(v_load_first(in + i, n - i), n - i, rest);
}

static inline float block_sum(const float *in, int64_t n) {
    vf sum[LANES] = {v_set1(0.0f), v_set1(0.0f), v_set1(0.0f), v_set1(0.0f)};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        AMP_UNROLL
        for (int k = 0; k < LANES; k++) sum[k] = sum[k] + v_load(in + i + k * VL);
    }
    for (; i < n; i += VL) sum[0] = sum[0] + load_or(in, i, n, v_set1(0.0f));
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static inline amp_moments block_moments(const float *in, int64_t n) {
    const float mean = (float)((double)block_sum(in, n) / (double)n);
    const vf centre = v_set1(mean);
    vf sum[2] = {v_set1(0.0f), v_set1(0.0f)}, squares[2] = {v_set1(0.0f), v_set1(0.0f)};
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        AMP_UNROLL
        for (int k = 0; k < 2; k++) {
            const vf x = v_load(in + i + k * VL) - centre;
            sum[k] = sum[k] + x;
            squares[k] = v_fma(x, x, squares[k]);
        }
    }
    for (; i < n; i += VL) {
        const vf x = load_or(in, i, n, centre) - centre;
        sum[0] = sum[0] + x;
        squares[0] = v_fma(x, x, squares[0]);
    }
    const double rest = (double)v_sum(sum[0] + sum[1]) / (double)n; /* what rounding took from the mean */
    const double spread = (double)v_sum(squares[0] + squares[1]) - rest * rest * (double)n;
    const amp_moments block = {(double)n, (double)mean + rest, spread < 0.0 ? 0.0 : spread};
    return block;
}

void KERNEL(moments)(amp_moments *moments, const float *in, int64_t n) {
    for (int64_t i = 0; i < n; i += BLOCK) {
        *moments = amp_moments_join(*moments, block_moments(in + i, n - i < BLOCK ? n - i : BLOCK));
    }
}

void KERNEL(column_sums)(double *sum, double *squares, const float *in, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        const vf x = v_load(in + i), high = x * x, low = v_fma(x, x, v_set1(0.0f) - high); /* x² = high + low */
        v_add_to_doubles(sum + i, x);
        v_add_to_doubles(squares + i, high);
        v_add_to_doubles(squares + i, low);
    }
    for (; i < n; i++) {
        sum[i] += (double)in[i];
        squares[i] += (double)in[i] * (double)in[i];
    }
}

/* ---- Responses -------------------------------------------------------------------------------------------------- */

/* s^¾ = √s · √√s: two roots take less than a logarithm and an exponential, and round as little. */
static inline vf damping(vf squares, const amp_response *r) {
    const vf s = v_fma(squares, v_set1(r->factor), v_set1(r->k));
    if (r->quarters == 4) return s;
    const vf root = v_sqrt(s);
    if (r->quarters == 2) return root;
    return root * v_sqrt(root);
}

void KERNEL(respond)(float *out, const float *x, const float *const *in, int64_t count, const amp_response *r,
                     int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf first = v_load(in[0] + i), squares = first * first;
        for (int64_t j = 1; j < count; j++) {
            const vf y = v_load(in[j] + i);
            squares = v_fma(y, y, squares);
        }
        v_store(out + i, v_load(x + i) / damping(squares, r));
    }
    if (i == n) return;
    vf squares = v_set1(0.0f);
    for (int64_t j = 0; j < count; j++) {
        const vf y = v_load_first(in[j] + i, n - i);
        squares = v_fma(y, y, squares);
    }
    v_store_first(out + i, v_load_first(x + i, n - i) / damping(squares, r), n - i);
}
