/* The gradient of an op, as ops.def names it (`grad=NAME saves=…`): a function that is written in ops, and so serves
 * every device.
 *
 *     void amp_gradient_mul(amp_gradient *g) {
 *         const amp_mul_args *a = g->args;
 *         if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mul(g->of[0], a->other));
 *         …
 *     }
 *
 * It stands below its op in src/ops. What it may read is what `saves` names: the elements of all else are gone, and NaN
 * stands in their places. What it gives may be of a broadcast shape and of another dtype than the argument: the tape
 * sums and converts. Errors stand, as everywhere. */
#ifndef AMP_CALL_GRADIENT_H
#define AMP_CALL_GRADIENT_H

#include "amp/user.h"
#include "core/generator.h"
#include "policy/op_table.h"

struct amp_gradient {
    const amp_op_info *op; /* NULL: the node is of no op */
    const void *args;      /* the op's struct as its device got it, casts made, defaults filled in */
    /* The results as they were (`saves` names them too), and the gradients that arrived for them: NULL where there is
     * none. */
    amp_tensor *const *results, *const *of;
    int result_count;
    amp_device device;
    amp_random_place random; /* from where the op took random numbers, if it did */
    /* By argument: tensors and elements of lists, in their order. */
    const bool *wanted;
    const amp_dtype *dtypes; /* what the tape makes of what is given: f32 for an argument that was cast from f32 */
    amp_tensor **given;
    amp_tensor *const *saved; /* … of a node of no op: the tensors, in no struct */
};

/* amp_gradient_wants and amp_gradient_give are in amp/user.h. */

/* The dtype that the argument's gradient arrives in; what can be made in it need not be converted. */
amp_dtype amp_gradient_dtype(const amp_gradient *g, const void *field);

#endif /* AMP_CALL_GRADIENT_H */
