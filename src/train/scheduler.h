/* What a scheduler is made of. */
#ifndef AMP_TRAIN_SCHEDULER_H
#define AMP_TRAIN_SCHEDULER_H

#include "amp/scheduler.h"

struct amp_scheduler {
    amp_scheduler_args options;
    amp_scheduler_kind kind;
    int64_t step, groups;
    double *initial; /* of each group; behind them, room for what they become */
};

/* As sentences have it: "step_lr". */
const char *amp_scheduler_name(const amp_scheduler *scheduler);

/* Of a caller, or of a file. */
amp_status amp_scheduler_check_step(const char *what, int64_t step);

#endif /* AMP_TRAIN_SCHEDULER_H */
