/* A point on a line that suits both of Wolfe's strong conditions. */
#ifndef AMP_TRAIN_LINE_SEARCH_H
#define AMP_TRAIN_LINE_SEARCH_H

#include "core/tensor_impl.h"

/* Where the line was looked at. */
typedef struct amp_line_point {
    double t, loss, slope; /* slope: of the loss by t */
    amp_tensor *gradient;  /* by all parameters */
} amp_line_point;

/* Fills all of *point but t, which it is given. */
typedef amp_status (*amp_line_look)(void *context, amp_line_point *point);

/* From `start`, where t is 0 and the slope below it, with `t` as the first guess. `reach` is the largest element of the
 * direction. Formulas: Nocedal and Wright, "Numerical Optimization" (2006), algorithms 3.5 and 3.6, with cubic
 * interpolation and the constants of torch.optim.LBFGS. */
amp_status amp_strong_wolfe(const amp_line_point *start, double t, double reach, amp_line_look look, void *context,
                            amp_line_point *found);

#endif /* AMP_TRAIN_LINE_SEARCH_H */
