/* What each optimizer is: its options and their defaults, its states, and what it computes on the host. */
#ifndef AMP_TRAIN_ALGORITHMS_H
#define AMP_TRAIN_ALGORITHMS_H

#include "amp/optimizer.h"

typedef enum amp_option {
    AMP_OPTION_LR,
    AMP_OPTION_WEIGHT_DECAY,
    AMP_OPTION_MOMENTUM,
    AMP_OPTION_DAMPENING,
    AMP_OPTION_BETA1,
    AMP_OPTION_BETA2,
    AMP_OPTION_EPS,
    AMP_OPTION_ALPHA,
    AMP_OPTION_RHO,
    AMP_OPTION_LR_DECAY,
    AMP_OPTION_INITIAL_ACCUMULATOR_VALUE,
    AMP_OPTION_MOMENTUM_DECAY,
    AMP_OPTION_NESTEROV,
    AMP_OPTION_AMSGRAD,
    AMP_OPTION_CENTERED,
    AMP_OPTION_DECOUPLED_WEIGHT_DECAY,
    AMP_OPTION_MAXIMIZE,
    AMP_OPTIONS
} amp_option;

/* An option of any algorithm. */
typedef struct amp_option_row {
    const char *name;
    size_t offset; /* in amp_optimizer_args */
    bool is_bool;
    bool below_one; /* from 0 up to but without 1; else from 0 on */
    bool any;       /* any finite number */
} amp_option_row;
extern const amp_option_row amp_option_rows[AMP_OPTIONS] __attribute__((visibility("hidden")));
/* Whether the option may have the value. */
amp_status amp_option_check(const char *what, const amp_option_row *row, double value);

/* How far a parameter is. */
typedef struct amp_progress {
    double step;       /* steps made, the one at hand included */
    double mu_product; /* NAdam's */
} amp_progress;

typedef struct amp_state_row {
    const char *name;  /* PyTorch's; NULL ends the list */
    int only_if;       /* an option that is not 0, or ALWAYS */
    bool begins_other; /* with initial_accumulator_value instead of 0 */
} amp_state_row;
enum { AMP_ALGORITHM_STATES = 3, AMP_STATE_ALWAYS = -1 };

typedef struct amp_algorithm {
    const char *name, *update; /* as sentences have it, and optimizer_update */
    unsigned options;          /* a bit for each that it has */
    double defaults[AMP_OPTIONS];
    amp_state_row states[AMP_ALGORITHM_STATES + 1];
    int numbers;
    /* The numbers of optimizer_update (steps/steps.h); `fresh`: the states were made for this step. */
    void (*prepare)(const double *options, amp_progress *progress, bool fresh, double *numbers);
} amp_algorithm;

/* NULL with an error: no such kind. */
const amp_algorithm *amp_algorithm_of(amp_optimizer_kind kind);
bool amp_algorithm_has(const amp_algorithm *a, amp_option option);

#endif /* AMP_TRAIN_ALGORITHMS_H */
