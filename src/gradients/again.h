/* Gradients of ops that are made of others: run once more, of those, recorded, and gone back over. */
#ifndef AMP_GRADIENTS_AGAIN_H
#define AMP_GRADIENTS_AGAIN_H

#include "gradients/pieces.h"

/* The op's results of its arguments, made of ops that have gradients; what it leaves NULL counts for nothing. */
typedef void (*amp_composition)(const void *args, amp_tensor **results);

/* Gives every argument that wants one its gradient. 16-bit numbers are f32 in it. All arguments are to be in
 * `saves`. */
void amp_gradient_again(amp_gradient *g, amp_composition compose);

/* amp_gradient_NAME of an op whose results NAME's composition makes, a function `static void compose_NAME(const void *,
 * amp_tensor **)`. */
#define AMP_GRADIENT_AGAIN(name)                                                                                       \
    void amp_gradient_##name(amp_gradient *g) {                                                                        \
        amp_gradient_again(g, compose_##name);                                                                         \
    }

/* "none", "mean" or "sum" of the losses of elements. */
amp_tensor *amp_reduce_losses(amp_tensor *losses, const char *reduction);
/* At least `least`, but with the gradient of the number itself: what PyTorch clamps unrecorded. */
amp_tensor *amp_clamp_unrecorded(amp_tensor *t, double least);

#endif /* AMP_GRADIENTS_AGAIN_H */
