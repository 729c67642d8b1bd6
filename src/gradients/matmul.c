/* Gradients of products. */
#include "gradients/pieces.h"

/* All dimensions but the last as rows. */
static amp_tensor *rows_of(amp_tensor *t) {
    return t->rank == 2
               ? t
               : amp_reshape(t, AMP_DIMS(amp_tensor_elements(t) / (t->shape[t->rank - 1] ? t->shape[t->rank - 1] : 1),
                                         t->shape[t->rank - 1]));
}

void amp_gradient_linear(amp_gradient *g) {
    const amp_linear_args *a = g->args;
    amp_tensor *rows = rows_of(g->of[0]);
    if (!rows) return;
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *back = amp_mm(rows, amp_conjugate(a->weight));
        amp_gradient_give(g, &a->input, amp_reshape(back, amp_shape_of(a->input)));
    }
    if (amp_gradient_wants(g, &a->weight))
        amp_gradient_give(g, &a->weight, amp_mm(amp_t(rows), amp_conjugate(rows_of(a->input))));
    if (amp_gradient_wants(g, &a->bias)) amp_gradient_give(g, &a->bias, amp_sum(rows, .dim = AMP_DIMS(0)));
}

void amp_gradient_mm(amp_gradient *g) {
    const amp_mm_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mm(g->of[0], amp_adjoint(a->mat2)));
    if (amp_gradient_wants(g, &a->mat2)) amp_gradient_give(g, &a->mat2, amp_mm(amp_adjoint(a->input), g->of[0]));
}
