/* What L-BFGS is made of. */
#ifndef AMP_TRAIN_LBFGS_H
#define AMP_TRAIN_LBFGS_H

#include "amp/lbfgs.h"
#include "train/parameters.h"

/* What an iteration has shown of the curvature. */
typedef struct amp_curvature_pair {
    amp_tensor *change, *step; /* of the gradient, and of the parameters */
    double inverse;            /* 1 / (change · step) */
    double part;               /* of the direction that is being found, along the step */
} amp_curvature_pair;

/* What is known between iterations; vectors are all parameters in a row. */
typedef struct amp_curvature {
    amp_tensor *direction, *gradient; /* of the iteration before; NULL: there was none */
    amp_curvature_pair *pairs;        /* the oldest first; behind `count` of them, room that is empty */
    int64_t count, room;
    double t, scale, loss; /* how far it went, the diagonal of the first guess, the loss before it */
    int64_t iterations, evaluations;
} amp_curvature;

struct amp_lbfgs {
    amp_parameter *items;
    int64_t count, capacity, elements;
    amp_dtype dtype; /* of vectors */
    amp_device device;
    double lr, tolerance_grad, tolerance_change;
    int64_t max_iter, max_eval, history_size;
    amp_line_search line_search;
    amp_curvature known;
};

/* Room for so many pairs. What there is may move. */
amp_status amp_curvature_make_room(const char *what, amp_curvature *known, int64_t pairs);

/* Notes what amp_lbfgs_load_state will write; the lists have been checked. */
amp_status amp_lbfgs_note_state(amp_loading *loading, amp_lbfgs *lbfgs, const amp_named *from);

#endif /* AMP_TRAIN_LBFGS_H */
