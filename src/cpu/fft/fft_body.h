/* The stages of a Fourier transform on eight lanes of f64; compiled once per ISA, whose file defines SIMD_ISA, the
 * vector type vd of VD doubles and v_fma.
 *
 * Formula:     Stockham's autosort, decimation in frequency: radices 2, 3, 4, 5, 8, and any other up to
 *              AMP_FFT_LARGEST_RADIX by its definition.
 * Accumulator: f64.
 * Error bound: about ε·log₂(n)/2 of the result's root mean square, ε = 2⁻⁵³, with twiddles right to the last bit.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that which SIMD_ISA names.
 * Source:      C. Van Loan, Computational Frameworks for the Fast Fourier Transform, section 1.7. */
#include <string.h>

#define LANES AMP_FFT_LANES
#include "cpu/fft/fft_steps.h"
#include "cpu/registry/kernels.h"

#define FFT_PASTE_(isa) amp_fft_c128_##isa
#define FFT_PASTE(isa) FFT_PASTE_(isa)

enum { NUMBER = 2 * LANES };

typedef struct cv {
    vd re, im;
} cv;

/* Where vector q of a row of numbers starts. */
AMP_ALWAYS_INLINE int64_t place(int64_t q) {
    return q / (LANES / VD) * NUMBER + q % (LANES / VD) * VD;
}
AMP_ALWAYS_INLINE cv load(const double *p) {
    return (cv){*(const vd *)p, *(const vd *)(p + LANES)};
}
AMP_ALWAYS_INLINE void store(double *p, cv x) {
    *(vd *)p = x.re;
    *(vd *)(p + LANES) = x.im;
}
AMP_ALWAYS_INLINE vd same(double x) {
    return x - (vd){0};
}
AMP_ALWAYS_INLINE cv add(cv a, cv b) {
    return (cv){a.re + b.re, a.im + b.im};
}
AMP_ALWAYS_INLINE cv sub(cv a, cv b) {
    return (cv){a.re - b.re, a.im - b.im};
}
/* −i·a */
AMP_ALWAYS_INLINE cv turn(cv a) {
    return (cv){a.im, -a.re};
}
AMP_ALWAYS_INLINE cv scale(cv a, double c) {
    return (cv){a.re * same(c), a.im * same(c)};
}
/* a + c·b, c real */
AMP_ALWAYS_INLINE cv add_scaled(cv a, cv b, double c) {
    return (cv){v_fma(same(c), b.re, a.re), v_fma(same(c), b.im, a.im)};
}
/* a times the twiddle at t */
AMP_ALWAYS_INLINE cv twiddle(cv a, const double *t) {
    const vd c = same(t[0]), d = same(t[1]);
    return (cv){v_fma(a.re, c, -(a.im * d)), v_fma(a.re, d, a.im * c)};
}

/* The butterflies: in place, results in order. */
AMP_ALWAYS_INLINE void butterfly2(cv *x) {
    const cv a = x[0];
    x[0] = add(a, x[1]);
    x[1] = sub(a, x[1]);
}

AMP_ALWAYS_INLINE void butterfly3(cv *x) {
    const double s = 0.86602540378443864676;
    const cv t = add(x[1], x[2]), u = turn(scale(sub(x[1], x[2]), s)), m = add_scaled(x[0], t, -0.5);
    x[0] = add(x[0], t);
    x[1] = add(m, u);
    x[2] = sub(m, u);
}

AMP_ALWAYS_INLINE void butterfly4(cv *x) {
    const cv a = add(x[0], x[2]), b = sub(x[0], x[2]), c = add(x[1], x[3]), d = turn(sub(x[1], x[3]));
    x[0] = add(a, c);
    x[1] = add(b, d);
    x[2] = sub(a, c);
    x[3] = sub(b, d);
}

AMP_ALWAYS_INLINE void butterfly5(cv *x) {
    const double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410;
    const double s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
    const cv a = add(x[1], x[4]), b = add(x[2], x[3]), c = sub(x[1], x[4]), d = sub(x[2], x[3]);
    const cv m1 = add_scaled(add_scaled(x[0], a, c1), b, c2), m2 = add_scaled(add_scaled(x[0], a, c2), b, c1);
    const cv u1 = turn(add_scaled(scale(c, s1), d, s2)), u2 = turn(add_scaled(scale(c, s2), d, -s1));
    x[0] = add(x[0], add(a, b));
    x[1] = add(m1, u1);
    x[2] = add(m2, u2);
    x[3] = sub(m2, u2);
    x[4] = sub(m1, u1);
}

AMP_ALWAYS_INLINE void butterfly8(cv *x) {
    const double r = 0.70710678118654752440;
    cv even[4], odd[4];
    AMP_UNROLL
    for (int j = 0; j < 4; j++) {
        even[j] = add(x[j], x[j + 4]);
        odd[j] = sub(x[j], x[j + 4]);
    }
    odd[1] = scale(add(odd[1], turn(odd[1])), r);
    odd[2] = turn(odd[2]);
    odd[3] = scale(sub(turn(odd[3]), odd[3]), r);
    butterfly4(even);
    butterfly4(odd);
    AMP_UNROLL
    for (int j = 0; j < 4; j++) {
        x[2 * j] = even[j];
        x[2 * j + 1] = odd[j];
    }
}

/* One pass: element q + stride·(p + count·j) of the input, j = 0 … radix − 1, to q + stride·(radix·p + j), turned. */
#define DEFINE_PASS(radix)                                                                                             \
    static void pass##radix(const amp_fft_stage *s, const double *restrict from, double *restrict to) {                \
        const int64_t step = s->stride * s->count * NUMBER;                                                            \
        for (int64_t p = 0; p < s->count; p++) {                                                                       \
            const double *t = s->table + p * 2 * (radix - 1);                                                          \
            for (int64_t q = 0; q < s->stride * (LANES / VD); q++) {                                                   \
                const double *in = from + s->stride * p * NUMBER + place(q);                                           \
                double *out = to + s->stride * radix * p * NUMBER + place(q);                                          \
                cv x[radix];                                                                                           \
                AMP_UNROLL                                                                                             \
                for (int j = 0; j < radix; j++) x[j] = load(in + j * step);                                            \
                butterfly##radix(x);                                                                                   \
                store(out, x[0]);                                                                                      \
                AMP_UNROLL                                                                                             \
                for (int j = 1; j < radix; j++) store(out + j * s->stride * NUMBER, twiddle(x[j], t + 2 * (j - 1)));   \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_PASS(2)
DEFINE_PASS(3)
DEFINE_PASS(4)
DEFINE_PASS(5)
DEFINE_PASS(8)

/* An odd radix r: with a[j] = x[j] + x[r − j] and b[j] = x[j] − x[r − j], results k and r − k are
 * x[0] + Σ cos(2πjk/r)·a[j] ∓ i·Σ sin(2πjk/r)·b[j]. */
static void butterfly_odd(const amp_fft_stage *s, const double *in, int64_t in_step, double *out, int64_t out_step,
                          const double *t) {
    const int r = s->radix, half = r / 2;
    cv a[AMP_FFT_LARGEST_RADIX / 2 + 1], b[AMP_FFT_LARGEST_RADIX / 2 + 1];
    const cv first = load(in);
    cv total = first;
    for (int j = 1; j <= half; j++) {
        const cv x = load(in + j * in_step), y = load(in + (r - j) * in_step);
        a[j] = add(x, y);
        b[j] = turn(sub(x, y));
        total = add(total, a[j]);
    }
    store(out, total);
    for (int k = 1; k <= half; k++) {
        cv m = first, u = {{0}, {0}};
        for (int j = 1, turns = k; j <= half; j++, turns = (turns + k) % r) {
            m = add_scaled(m, a[j], s->roots[2 * turns]);
            u = add_scaled(u, b[j], -s->roots[2 * turns + 1]);
        }
        store(out + k * out_step, twiddle(add(m, u), t + 2 * (k - 1)));
        store(out + (r - k) * out_step, twiddle(sub(m, u), t + 2 * (r - k - 1)));
    }
}

static void pass_odd(const amp_fft_stage *s, const double *from, double *to) {
    const int64_t in_step = s->stride * s->count * NUMBER, out_step = s->stride * NUMBER;
    for (int64_t p = 0; p < s->count; p++) {
        for (int64_t q = 0; q < s->stride * (LANES / VD); q++) {
            butterfly_odd(s, from + s->stride * p * NUMBER + place(q), in_step,
                          to + s->stride * s->radix * p * NUMBER + place(q), out_step,
                          s->table + p * 2 * (s->radix - 1));
        }
    }
}

static void radix_step(const amp_fft_stage *s, const double *from, double *to) {
    switch (s->radix) {
    case 2: pass2(s, from, to); break;
    case 3: pass3(s, from, to); break;
    case 4: pass4(s, from, to); break;
    case 5: pass5(s, from, to); break;
    case 8: pass8(s, from, to); break;
    default: pass_odd(s, from, to); break;
    }
}

double *FFT_PASTE(SIMD_ISA)(const amp_fft_stage *stages, int count, double *data, double *spare) {
    for (const amp_fft_stage *s = stages; s < stages + count; s++) {
        switch (s->step) {
        case AMP_FFT_STEP_RADIX: {
            radix_step(s, data, spare);
            double *other = data;
            data = spare;
            spare = other;
            break;
        }
        case AMP_FFT_STEP_MULTIPLY:
            multiply_step(s, data, 0, s->count);
            fill_step(s, data);
            break;
        case AMP_FFT_STEP_UNPACK:
            unpack_ends(s, data);
            unpack_step(s, data, 1, pairs_of(s));
            break;
        case AMP_FFT_STEP_PACK:
            pack_ends(s, data);
            pack_step(s, data, 1, pairs_of(s));
            break;
        default: break;
        }
    }
    return data;
}
