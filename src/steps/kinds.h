/* What steps can be told to do, in plain C: kernels of all devices read it. */
#ifndef AMP_STEPS_KINDS_H
#define AMP_STEPS_KINDS_H

/* What becomes of a table's element and the value that is put there. */
typedef enum amp_scatter_kind {
    AMP_SCATTER_WRITE,
    AMP_SCATTER_ADD,
    AMP_SCATTER_MULTIPLY,
    AMP_SCATTER_LARGEST, /* of real numbers; NaN wins */
    AMP_SCATTER_SMALLEST
} amp_scatter_kind;

/* What is computed of gradient g, parameter p, states (PyTorch's, in its order) and the numbers n, which are, after
 * n[0], the sign of the gradient (−1 where it is to grow), and n[1], how much of p is added to the gradient:
 *
 *              n[2]    n[3]      n[4]    n[5]      n[6]                  n[7]
 *     sgd      lr      momentum  kept    nesterov  first                          kept: 1 − dampening
 *     adam     keep    beta1     beta2   eps       lr/(1 − beta1ᵗ)       1/√(1 − beta2ᵗ)
 *     adagrad  lr/(1 + (t − 1)·lr_decay)  eps
 *     rmsprop  lr      alpha     eps     momentum  centered
 *     adadelta lr      rho       eps
 *     nadam    keep    beta1     beta2   eps·r     of the gradient       of the average        r: √(1 − beta2ᵗ)
 *     radam    keep    beta1     beta2   eps       of the average        whether √v divides
 *     adamax   lr/(1 − beta1ᵗ)   beta1   beta2     eps
 *
 * keep: what p is multiplied by before (decoupled weight decay: 1 − lr·decay). */
typedef enum amp_update_kind {
    AMP_UPDATE_SGD,
    AMP_UPDATE_ADAM,
    AMP_UPDATE_ADAGRAD,
    AMP_UPDATE_RMSPROP,
    AMP_UPDATE_ADADELTA,
    AMP_UPDATE_NADAM,
    AMP_UPDATE_RADAM,
    AMP_UPDATE_ADAMAX,
    AMP_UPDATE_KINDS
} amp_update_kind;

enum { AMP_UPDATE_STATES = 3 };

#endif /* AMP_STEPS_KINDS_H */
