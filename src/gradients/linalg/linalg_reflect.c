/* Gradients of products with reflectors H = I − τ v vᴴ, one after the other. */
#include "core/memory.h"
#include "gradients/linalg/matrices.h"

/* Reflectors first, first + step … are applied to a matrix; `between` are the matrices before each of them. */
typedef struct reflections {
    amp_tensor *vectors, *scales; /* (…, m, k), (…, 1, k) */
    int count, first, step;
    amp_tensor **between;
} reflections;

/* The gradients that come of it. */
typedef struct reflection_gradients {
    amp_tensor *of_matrix, *of_vectors, *of_scales;
} reflection_gradients;

static amp_tensor *column(amp_tensor *t, int i) {
    return amp_narrow(t, -1, i, 1);
}

static amp_tensor *reflected(amp_tensor *x, amp_tensor *v, amp_tensor *scale) {
    return amp_sub(x, amp_mul(scale, amp_matmul(v, amp_matmul(amp_adjoint(v), x))));
}

static void run_forward(const reflections *r, amp_tensor *x) {
    for (int j = 0, i = r->first; j < r->count; j++, i += r->step) {
        r->between[j] = x;
        if (j + 1 < r->count) x = reflected(x, column(r->vectors, i), column(r->scales, i));
    }
}

static void run_back(const reflections *r, amp_tensor **of_vectors, amp_tensor **of_scales, reflection_gradients *to) {
    for (int j = r->count - 1; j >= 0; j--) {
        const int i = r->first + j * r->step;
        amp_tensor *v = column(r->vectors, i), *scale = column(r->scales, i), *g = to->of_matrix;
        amp_tensor *xv = amp_matmul(amp_adjoint(r->between[j]), v), *gv = amp_matmul(amp_adjoint(g), v);
        of_scales[i] = amp_neg(amp_matmul(amp_adjoint(gv), xv));
        amp_tensor *t = amp_mul(amp_conjugate(scale), amp_matmul(g, xv));
        of_vectors[i] = amp_neg(amp_add(t, amp_mul(scale, amp_matmul(r->between[j], gv))));
        to->of_matrix = reflected(g, v, amp_conjugate(scale));
    }
}

/* Of the product x of the reflectors; the gradient of the product arrives in `of`. */
static reflection_gradients undo(const amp_gradient *g, reflections *r, amp_tensor *x, amp_tensor *of) {
    reflection_gradients result = {.of_matrix = of};
    const size_t count = (size_t)r->count;
    amp_tensor **room = r->count ? amp_alloc(3 * count * sizeof(amp_tensor *)) : NULL;
    if (r->count == 0) return result;
    if (!room) {
        amp_fail(AMP_ERROR_MEMORY, "%s: no memory for the gradients of %d reflectors", g->op->name, r->count);
        return (reflection_gradients){NULL, NULL, NULL};
    }
    r->between = room;
    run_forward(r, x);
    run_back(r, room + count, room + 2 * count, &result);
    result.of_vectors = amp_cat((amp_tensor_list){room + count, r->count, NULL}, -1);
    result.of_scales = amp_cat((amp_tensor_list){room + 2 * count, r->count, NULL}, -1);
    amp_free(room);
    return result;
}

/* Ones on the diagonal, zeros above: what the ops read of their input. */
static amp_tensor *vectors_of(amp_tensor *input, int64_t k) {
    return amp_add(amp_tril(amp_narrow(input, -1, 0, k), -1), amp_identities(input, input->shape[input->rank - 2], k));
}

static reflections in_order(amp_tensor *input, amp_tensor *tau, bool last_first, bool conjugate) {
    const int k = (int)tau->shape[tau->rank - 1];
    amp_tensor *scales = amp_unsqueeze(conjugate ? amp_conjugate(tau) : tau, -2);
    return (reflections){.vectors = vectors_of(input, k),
                         .scales = scales,
                         .count = k,
                         .first = last_first ? k - 1 : 0,
                         .step = last_first ? -1 : 1};
}

static void give_reflectors(amp_gradient *g, amp_tensor *const *input, amp_tensor *const *tau,
                            const reflection_gradients *t, bool conjugate) {
    if (amp_gradient_wants(g, input)) {
        amp_tensor *back = t->of_vectors ? amp_grown(amp_tril(t->of_vectors, -1), *input) : amp_zeros_like(*input);
        amp_gradient_give(g, input, back);
    }
    if (amp_gradient_wants(g, tau)) {
        amp_tensor *back = t->of_scales ? amp_squeeze(t->of_scales, .dim = AMP_DIMS(-2)) : amp_zeros_like(*tau);
        amp_gradient_give(g, tau, conjugate ? amp_conjugate(back) : back);
    }
}

/* H₁ H₂ … applied to the first columns of an identity. */
void amp_gradient_linalg_householder_product(amp_gradient *g) {
    const amp_linalg_householder_product_args *a = g->args;
    amp_tensor *input = a->input;
    reflections r = in_order(input, a->tau, true, false);
    amp_tensor *start = amp_identities(input, input->shape[input->rank - 2], input->shape[input->rank - 1]);
    const reflection_gradients t = undo(g, &r, start, g->of[0]);
    give_reflectors(g, &a->input, &a->tau, &t, false);
}

/* C Q is (Qᴴ Cᴴ)ᴴ, and Qᴴ has the reflectors' adjoints in the other order. */
void amp_gradient_ormqr(amp_gradient *g) {
    const amp_ormqr_args *a = g->args;
    const bool left = a->left.value, plain = left != a->transpose;
    reflections r = in_order(a->input, a->tau, plain, !plain);
    const reflection_gradients t =
        undo(g, &r, left ? a->other : amp_adjoint(a->other), left ? g->of[0] : amp_adjoint(g->of[0]));
    give_reflectors(g, &a->input, &a->tau, &t, !plain);
    if (amp_gradient_wants(g, &a->other))
        amp_gradient_give(g, &a->other, left ? t.of_matrix : amp_adjoint(t.of_matrix));
}
