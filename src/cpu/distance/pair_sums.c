/* dist, cosine_similarity, and the sums that other ops on pairs share. */
#include <complex.h>
#include <math.h>

#include "amp/ops.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/registry/kernels.h"

typedef double _Complex complex128;

/* ---- Differences ------------------------------------------------------------------------------------------------- */

typedef struct modulus {
    amp_loss_function *f32;
    double eps;
} modulus;

static void modulus_f32(void *context, void *out, const void *const *in, int64_t n) {
    const modulus *m = context;
    m->f32(out, in[0], in[1], NULL, n, (float)m->eps);
}

#define MODULUS_LOOP(suffix, type, modulus_of)                                                                         \
    static void modulus_##suffix(void *context, void *out, const void *const *in, int64_t n) {                         \
        const type *a = in[0], *b = in[1];                                                                             \
        const modulus *m = context;                                                                                    \
        for (int64_t i = 0; i < n; i++) ((double *)out)[i] = modulus_of(a[i] - b[i] + m->eps);                         \
    }

MODULUS_LOOP(f64, double, fabs)

MODULUS_LOOP(c128, complex128, cabs)

amp_status amp_cpu_moduli(const amp_call *call, const amp_operand pair[2], amp_dtype compute, double eps,
                          amp_tensor *moduli) {
    modulus m = {(amp_loss_function *)amp_kernel_get(AMP_KERNEL_LOSS_L1, AMP_F32, AMP_F32), eps};
    if (!m.f32) return amp_pending_error();
    (void)call;
    amp_operands_run(pair, 2, compute, moduli->dtype,
                     compute == AMP_F32   ? modulus_f32
                     : compute == AMP_F64 ? modulus_f64
                                          : modulus_c128,
                     &m, 2, moduli);
    return AMP_OK;
}

/* ---- Cosines ----------------------------------------------------------------------------------------------------- */

static void multiply_f32(void *context, void *out, const void *const *in, int64_t n) {
    (*(amp_binary_function **)context)(out, in[0], in[1], n, 0.0F);
}

static void multiply_f64(void *context, void *out, const void *const *in, int64_t n) {
    const double *a = in[0], *b = in[1];
    (void)context;
    for (int64_t i = 0; i < n; i++) ((double *)out)[i] = a[i] * b[i];
}

amp_status amp_cpu_products(const amp_call *call, const amp_operand pair[2], amp_dtype compute, amp_tensor *products) {
    amp_binary_function *mul = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    if (!mul) return amp_pending_error();
    (void)call;
    amp_operands_run(pair, 2, compute, compute, compute == AMP_F32 ? multiply_f32 : multiply_f64, &mul, 2, products);
    return AMP_OK;
}

static void cosine(void *context, void *out, const void *const *in, int64_t n) {
    const double eps = *(const double *)context, *product = in[0], *first = in[1], *second = in[2];
    for (int64_t i = 0; i < n; i++) {
        const double a = sqrt(first[i]), b = sqrt(second[i]);
        ((double *)out)[i] = product[i] / ((a < eps ? eps : a) * (b < eps ? eps : b));
    }
}

amp_status amp_cpu_cosines(const amp_call *call, const amp_operand sums[3], double eps, amp_tensor *out) {
    (void)call;
    amp_operands_run(sums, 3, AMP_F64, AMP_F64, cosine, &eps, 8, out);
    return AMP_OK;
}
