/* What an optimizer is made of. */
#ifndef AMP_TRAIN_OPTIMIZER_H
#define AMP_TRAIN_OPTIMIZER_H

#include "train/algorithms.h"
#include "train/loading.h"
#include "train/parameters.h"

/* A parameter, and how far its optimization is. */
typedef struct amp_trained {
    char *name;
    amp_tensor *parameter;
    amp_tensor *master; /* its f32 copy, or NULL */
    amp_tensor *stash;  /* a gradient that was put aside while a scaled loss goes back (train/apex.h), or NULL */
    amp_tensor *states[AMP_ALGORITHM_STATES];
    amp_progress progress;
    int group;
    bool is_elsewhere; /* another process updates it, and has its states (distributed/shard.c) */
} amp_trained;

/* What an optimizer is told by who has shared it out among processes. */
typedef struct amp_optimizer_sharing {
    void *context; /* NULL: nobody has */
    bool is_whole; /* this process has all states now */
    /* Before each step, with what is wrong here already: an error of it is that of all processes, and none of them steps. */
    amp_status (*before_step)(void *context, amp_status status);
    /* After each, whatever its status was; what it gives is the step's. */
    amp_status (*after_step)(void *context, amp_status status);
    void (*end)(void *context); /* the optimizer goes */
} amp_optimizer_sharing;

typedef struct amp_group {
    double options[AMP_OPTIONS];
} amp_group;

struct amp_optimizer {
    const amp_algorithm *algorithm;
    double defaults[AMP_OPTIONS];
    bool master_weights;
    amp_trained *items;
    int64_t count, capacity;
    amp_group *groups;
    int64_t group_count, group_capacity;
    /* Of apex: gradients are its masters', and stay scaled while it says so; the next step is left out. */
    struct amp_apex *apex;
    bool skips_next, holds_scaled, in_scaled_loss;
    bool masters_are_new; /* no step and no state has made them: they follow what is written into their parameters */
    amp_optimizer_sharing sharing;
};

/* Before a step: tells the processes that share the optimizer how it stands here. An error, of this one or another: there
 * is no step in any. */
amp_status amp_optimizer_tell(amp_optimizer *o, amp_status status);

/* Gives it a master with the values of `from`. */
amp_status amp_trained_make_master(const char *what, amp_trained *t, amp_tensor *from);
/* Masters that are new get the values of their parameters, which may have been loaded since. */
amp_status amp_masters_refresh(amp_optimizer *o);
/* What it is updated by; NULL: nothing. */
amp_tensor *amp_trained_gradient(const amp_optimizer *o, const amp_trained *t);

/* A state of the algorithm is in use with these options. */
bool amp_state_is_used(const amp_state_row *row, const double *options);
/* What is updated: the f32 copy, where there is one. */
static inline amp_tensor *amp_trained_master(const amp_trained *t) {
    return t->master ? t->master : t->parameter;
}
/* Notes what amp_optimizer_load_state will write; the lists have been checked. */
amp_status amp_optimizer_note_state(amp_loading *loading, amp_optimizer *o, const char *const *names,
                                    amp_tensor *const *tensors, int64_t count);
/* Updates every parameter that has a gradient and is not elsewhere. After an error nothing was updated, or, where
 * parameters are at different steps or of different options, some; each has the states and the step that belong to its
 * values. */
amp_status amp_optimizer_update_all(amp_optimizer *o);
/* Makes the state where there is none. */
amp_status amp_trained_make_state(const amp_optimizer *o, amp_trained *t, int which);

#endif /* AMP_TRAIN_OPTIMIZER_H */
