/* Dense f32 kernels of the losses by element, and of prelu, whose formula is of the same kind. */
#ifndef AMP_CPU_LOSS_H
#define AMP_CPU_LOSS_H

#include <stdint.h>

/* out[i] = f(x[i], t[i], y[i]; p), out may be any of them. y may be NULL, which stands for ones. What p and y are:
 * smooth_l1's beta, huber's delta, a margin, poisson_plain's eps, a shift that l1 adds to the difference;
 * margin_ranking's target, and the factor of logits' positive targets. stirling is log(t!) of x for x > 1. Errors in
 * ulp: as those of exp and log, test_vmath.cc; log(1 + z) keeps the digits of a small z. */
typedef void amp_loss_function(float *out, const float *x, const float *t, const float *y, int64_t n, float p);
#define AMP_VECTOR_LOSS(X)                                                                                             \
    X(LOSS_MSE, loss_mse)                                                                                              \
    X(LOSS_L1, loss_l1)                                                                                                \
    X(LOSS_SMOOTH_L1, loss_smooth_l1)                                                                                  \
    X(LOSS_HUBER, loss_huber)                                                                                          \
    X(LOSS_HINGE_EMBEDDING, loss_hinge_embedding)                                                                      \
    X(LOSS_MARGIN_RANKING, loss_margin_ranking)                                                                        \
    X(LOSS_SOFT_MARGIN, loss_soft_margin)                                                                              \
    X(LOSS_LOGITS, loss_logits)                                                                                        \
    X(LOSS_ENTROPY, loss_entropy)                                                                                      \
    X(LOSS_KL_DIV, loss_kl_div)                                                                                        \
    X(LOSS_KL_DIV_LOG, loss_kl_div_log)                                                                                \
    X(LOSS_POISSON, loss_poisson)                                                                                      \
    X(LOSS_POISSON_PLAIN, loss_poisson_plain)                                                                          \
    X(LOSS_STIRLING, loss_stirling)                                                                                    \
    X(PRELU, prelu)

#endif /* AMP_CPU_LOSS_H */
