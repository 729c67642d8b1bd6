/* The optimizers as a table. Formulas and defaults: PyTorch's documentation of torch.optim. */
#include "train/algorithms.h"

#include <math.h>
#include <stddef.h>

#include "core/fail.h"

#define OPTION_ROW(field, ...)                                                                                         \
    { .name = #field, .offset = offsetof(amp_optimizer_args, field), __VA_ARGS__ }
const amp_option_row amp_option_rows[AMP_OPTIONS] = {
    [AMP_OPTION_LR] = OPTION_ROW(lr, ),
    [AMP_OPTION_WEIGHT_DECAY] = OPTION_ROW(weight_decay, ),
    [AMP_OPTION_MOMENTUM] = OPTION_ROW(momentum, ),
    [AMP_OPTION_DAMPENING] = OPTION_ROW(dampening, .any = true),
    [AMP_OPTION_BETA1] = OPTION_ROW(beta1, .below_one = true),
    [AMP_OPTION_BETA2] = OPTION_ROW(beta2, .below_one = true),
    [AMP_OPTION_EPS] = OPTION_ROW(eps, ),
    [AMP_OPTION_ALPHA] = OPTION_ROW(alpha, ),
    [AMP_OPTION_RHO] = OPTION_ROW(rho, ),
    [AMP_OPTION_LR_DECAY] = OPTION_ROW(lr_decay, ),
    [AMP_OPTION_INITIAL_ACCUMULATOR_VALUE] = OPTION_ROW(initial_accumulator_value, ),
    [AMP_OPTION_MOMENTUM_DECAY] = OPTION_ROW(momentum_decay, ),
    [AMP_OPTION_NESTEROV] = OPTION_ROW(nesterov, .is_bool = true),
    [AMP_OPTION_AMSGRAD] = OPTION_ROW(amsgrad, .is_bool = true),
    [AMP_OPTION_CENTERED] = OPTION_ROW(centered, .is_bool = true),
    [AMP_OPTION_DECOUPLED_WEIGHT_DECAY] = OPTION_ROW(decoupled_weight_decay, .is_bool = true),
    [AMP_OPTION_MAXIMIZE] = OPTION_ROW(maximize, .is_bool = true),
};

/* ---- Numbers on the host, in double ------------------------------------------------------------------------------- */
#define O(name) o[AMP_OPTION_##name]

static void sign_and_decay(const double *o, double *n) {
    n[0] = O(MAXIMIZE) != 0 ? -1 : 1;
    n[1] = O(DECOUPLED_WEIGHT_DECAY) != 0 ? 0 : O(WEIGHT_DECAY);
}

static void sgd(const double *o, amp_progress *p, bool fresh, double *n) {
    (void)p;
    sign_and_decay(o, n);
    n[2] = O(LR);
    n[3] = O(MOMENTUM);
    n[4] = 1 - O(DAMPENING);
    n[5] = O(NESTEROV);
    n[6] = fresh;
}

static double correction(double beta, const amp_progress *p) {
    return 1 - pow(beta, p->step);
}

/* What Adam, NAdam and RAdam have in common. */
static void adam_like(const double *o, double *n) {
    sign_and_decay(o, n);
    n[2] = O(DECOUPLED_WEIGHT_DECAY) != 0 ? 1 - O(LR) * O(WEIGHT_DECAY) : 1;
    n[3] = O(BETA1);
    n[4] = O(BETA2);
    n[5] = O(EPS);
}

static void adam(const double *o, amp_progress *p, bool fresh, double *n) {
    (void)fresh;
    adam_like(o, n);
    n[6] = O(LR) / correction(O(BETA1), p);
    n[7] = 1 / sqrt(correction(O(BETA2), p));
}

/* Both numerators times r = √(1 − beta2ᵗ), for √(v / r²) + eps = (√v + eps·r) / r. */
static void nadam(const double *o, amp_progress *p, bool fresh, double *n) {
    (void)fresh;
    adam_like(o, n);
    const double r = sqrt(correction(O(BETA2), p)), decay = O(MOMENTUM_DECAY);
    const double mu = O(BETA1) * (1 - 0.5 * pow(0.96, p->step * decay));
    const double next = O(BETA1) * (1 - 0.5 * pow(0.96, (p->step + 1) * decay));
    p->mu_product *= mu;
    n[5] *= r;
    n[6] = r * O(LR) * (1 - mu) / (1 - p->mu_product);
    n[7] = r * O(LR) * next / (1 - p->mu_product * next);
}

/* Liu et al., "On the variance of the adaptive learning rate and beyond" (2020): rectified where the variance is
 * known. */
static void radam(const double *o, amp_progress *p, bool fresh, double *n) {
    (void)fresh;
    adam_like(o, n);
    const double of2 = correction(O(BETA2), p), most = 2 / (1 - O(BETA2)) - 1;
    const double length = most - 2 * p->step * (1 - of2) / of2;
    const bool rectified = length > 5;
    n[6] = O(LR) / correction(O(BETA1), p);
    if (rectified) n[6] *= sqrt(of2) * sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
    n[7] = rectified;
}

static void adagrad(const double *o, amp_progress *p, bool fresh, double *n) {
    (void)fresh;
    sign_and_decay(o, n);
    n[2] = O(LR) / (1 + (p->step - 1) * O(LR_DECAY));
    n[3] = O(EPS);
}

static void rmsprop(const double *o, amp_progress *p, bool fresh, double *n) {
    (void)p;
    (void)fresh;
    sign_and_decay(o, n);
    n[2] = O(LR);
    n[3] = O(ALPHA);
    n[4] = O(EPS);
    n[5] = O(MOMENTUM);
    n[6] = O(CENTERED);
}

static void adadelta(const double *o, amp_progress *p, bool fresh, double *n) {
    (void)p;
    (void)fresh;
    sign_and_decay(o, n);
    n[2] = O(LR);
    n[3] = O(RHO);
    n[4] = O(EPS);
}

static void adamax(const double *o, amp_progress *p, bool fresh, double *n) {
    (void)fresh;
    sign_and_decay(o, n);
    n[2] = O(LR) / correction(O(BETA1), p);
    n[3] = O(BETA1);
    n[4] = O(BETA2);
    n[5] = O(EPS);
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */
#define HAS(name) (1u << AMP_OPTION_##name)
#define ALL (HAS(LR) | HAS(WEIGHT_DECAY) | HAS(MAXIMIZE))
#define BETAS (HAS(BETA1) | HAS(BETA2) | HAS(EPS))
#define BETAS_OF(rate, small)                                                                                          \
    [AMP_OPTION_LR] = rate, [AMP_OPTION_BETA1] = 0.9, [AMP_OPTION_BETA2] = 0.999, [AMP_OPTION_EPS] = small
#define AVERAGES                                                                                                       \
    {"exp_avg", AMP_STATE_ALWAYS, false}, {                                                                            \
        "exp_avg_sq", AMP_STATE_ALWAYS, false                                                                          \
    }

static const amp_algorithm algorithms[] = {
    [AMP_SGD] = {.name = "SGD",
                 .update = "sgd",
                 .options = ALL | HAS(MOMENTUM) | HAS(DAMPENING) | HAS(NESTEROV),
                 .defaults = {[AMP_OPTION_LR] = 1e-3},
                 .states = {{"momentum_buffer", AMP_OPTION_MOMENTUM, false}},
                 .numbers = 7,
                 .prepare = sgd},
    [AMP_ADAM] = {.name = "Adam",
                  .update = "adam",
                  .options = ALL | BETAS | HAS(AMSGRAD) | HAS(DECOUPLED_WEIGHT_DECAY),
                  .defaults = {BETAS_OF(1e-3, 1e-8)},
                  .states = {AVERAGES, {"max_exp_avg_sq", AMP_OPTION_AMSGRAD, false}},
                  .numbers = 8,
                  .prepare = adam},
    [AMP_ADAMW] =
        {.name = "AdamW",
         .update = "adam",
         .options = ALL | BETAS | HAS(AMSGRAD),
         .defaults = {BETAS_OF(1e-3, 1e-8), [AMP_OPTION_WEIGHT_DECAY] = 1e-2, [AMP_OPTION_DECOUPLED_WEIGHT_DECAY] = 1},
         .states = {AVERAGES, {"max_exp_avg_sq", AMP_OPTION_AMSGRAD, false}},
         .numbers = 8,
         .prepare = adam},
    [AMP_ADAGRAD] = {.name = "Adagrad",
                     .update = "adagrad",
                     .options = ALL | HAS(EPS) | HAS(LR_DECAY) | HAS(INITIAL_ACCUMULATOR_VALUE),
                     .defaults = {[AMP_OPTION_LR] = 1e-2, [AMP_OPTION_EPS] = 1e-10},
                     .states = {{"sum", AMP_STATE_ALWAYS, true}},
                     .numbers = 4,
                     .prepare = adagrad},
    [AMP_RMSPROP] = {.name = "RMSprop",
                     .update = "rmsprop",
                     .options = ALL | HAS(EPS) | HAS(ALPHA) | HAS(MOMENTUM) | HAS(CENTERED),
                     .defaults = {[AMP_OPTION_LR] = 1e-2, [AMP_OPTION_ALPHA] = 0.99, [AMP_OPTION_EPS] = 1e-8},
                     .states = {{"square_avg", AMP_STATE_ALWAYS, false},
                                {"momentum_buffer", AMP_OPTION_MOMENTUM, false},
                                {"grad_avg", AMP_OPTION_CENTERED, false}},
                     .numbers = 7,
                     .prepare = rmsprop},
    [AMP_ADADELTA] = {.name = "Adadelta",
                      .update = "adadelta",
                      .options = ALL | HAS(EPS) | HAS(RHO),
                      .defaults = {[AMP_OPTION_LR] = 1, [AMP_OPTION_RHO] = 0.9, [AMP_OPTION_EPS] = 1e-6},
                      .states = {{"square_avg", AMP_STATE_ALWAYS, false}, {"acc_delta", AMP_STATE_ALWAYS, false}},
                      .numbers = 5,
                      .prepare = adadelta},
    [AMP_NADAM] = {.name = "NAdam",
                   .update = "nadam",
                   .options = ALL | BETAS | HAS(MOMENTUM_DECAY) | HAS(DECOUPLED_WEIGHT_DECAY),
                   .defaults = {BETAS_OF(2e-3, 1e-8), [AMP_OPTION_MOMENTUM_DECAY] = 4e-3},
                   .states = {AVERAGES},
                   .numbers = 8,
                   .prepare = nadam},
    [AMP_RADAM] = {.name = "RAdam",
                   .update = "radam",
                   .options = ALL | BETAS | HAS(DECOUPLED_WEIGHT_DECAY),
                   .defaults = {BETAS_OF(1e-3, 1e-8)},
                   .states = {AVERAGES},
                   .numbers = 8,
                   .prepare = radam},
    [AMP_ADAMAX] = {.name = "Adamax",
                    .update = "adamax",
                    .options = ALL | BETAS,
                    .defaults = {BETAS_OF(2e-3, 1e-8)},
                    .states = {{"exp_avg", AMP_STATE_ALWAYS, false}, {"exp_inf", AMP_STATE_ALWAYS, false}},
                    .numbers = 6,
                    .prepare = adamax},
};

const amp_algorithm *amp_algorithm_of(amp_optimizer_kind kind) {
    if ((size_t)kind < sizeof algorithms / sizeof *algorithms) return &algorithms[kind];
    (void)amp_fail(AMP_ERROR_INVALID, "optimizer_create: there is no optimizer of kind %d", (int)kind);
    return NULL;
}

bool amp_algorithm_has(const amp_algorithm *a, amp_option option) {
    return (a->options & 1u << option) != 0;
}
