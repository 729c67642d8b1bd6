/* linalg_multi_dot, chain_matmul: products in the order that costs least; bilinear. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/memory.h"
#include "cpu/product/matmul.h"

/* ---- linalg_multi_dot, chain_matmul ----------------------------------------------------------------------------- */

static amp_status check_chain(const amp_call *call, const amp_tensor_list *list) {
    if (list->count < 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has %lld; expected at least two matrices", amp_call_name(call),
                        call->op->args[0].name, (long long)list->count);
    }
    for (int64_t i = 0; i < list->count; i++) {
        const amp_tensor *t = list->items[i];
        const bool end = i == 0 || i == list->count - 1;
        if (!t) {
            return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld of 'tensors' is missing", amp_call_name(call),
                            (long long)i);
        }
        if (t->rank != 2 && !(end && t->rank == 1)) {
            return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld of 'tensors' is %s; expected a matrix%s",
                            amp_call_name(call), (long long)i, amp_describe(t), end ? " or a vector" : "");
        }
        AMP_TRY(amp_call_check_same_dtype(call, "tensors[0]", list->items[0], "tensors", t));
        if (i == 0) continue;
        const amp_tensor *before = list->items[i - 1];
        if (before->shape[before->rank - 1] == t->shape[0]) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: tensors %lld and %lld of 'tensors' are %s and %s, which do not chain",
                        amp_call_name(call), (long long)(i - 1), (long long)i, amp_describe(before), amp_describe(t));
    }
    return amp_cpu_check_product_dtype(call, "tensors[0]", list->items[0]);
}

/* Matrix chain order by dynamic programming (Cormen et al., Introduction to Algorithms, 15.2): split[i·n + j] is where
 * the product of matrices i … j is cut; matrix i is size[i] × size[i + 1]. */
typedef struct chain {
    const amp_tensor_list *matrices;
    int64_t n;
    const double *size;
    double *cost;
    int64_t *split;
} chain;

static void order_chain(const chain *c) {
    const int64_t n = c->n;
    for (int64_t i = 0; i < n; i++) c->cost[i * n + i] = 0;
    for (int64_t length = 2; length <= n; length++) {
        for (int64_t i = 0; i + length <= n; i++) {
            const int64_t j = i + length - 1;
            for (int64_t k = i; k < j; k++) {
                const double total =
                    c->cost[i * n + k] + c->cost[(k + 1) * n + j] + c->size[i] * c->size[k + 1] * c->size[j + 1];
                if (k > i && total >= c->cost[i * n + j]) continue;
                c->cost[i * n + j] = total;
                c->split[i * n + j] = k;
            }
        }
    }
}

static amp_tensor *run_chain(const chain *c, int64_t i, int64_t j) {
    if (i == j) return c->matrices->items[i];
    const int64_t k = c->split[i * c->n + j];
    amp_tensor *left = run_chain(c, i, k);
    amp_tensor *right = left ? run_chain(c, k + 1, j) : NULL;
    return right ? amp_matmul(left, right) : NULL;
}

static amp_tensor *multi_dot(const amp_tensor_list *list) {
    const int64_t n = list->count;
    const amp_tensor *first = list->items[0], *last = list->items[n - 1];
    double *size = amp_alloc((size_t)(n + 1 + n * n) * sizeof *size + (size_t)(n * n) * sizeof(int64_t));
    if (!size) {
        amp_fail(AMP_ERROR_MEMORY, "linalg_multi_dot: no memory to order %lld matrices", (long long)n);
        return NULL;
    }
    const chain c = {list, n, size, size + n + 1, (int64_t *)(void *)(size + n + 1 + n * n)};
    size[0] = first->rank == 1 ? 1 : (double)first->shape[0];
    for (int64_t i = 1; i < n; i++) size[i] = (double)list->items[i]->shape[0];
    size[n] = last->rank == 1 ? 1 : (double)last->shape[1];
    order_chain(&c);
    amp_tensor *product = run_chain(&c, 0, n - 1);
    amp_free(size);
    return product;
}

amp_status cpu_linalg_multi_dot(amp_call *call) {
    const amp_linalg_multi_dot_args *a = call->args;
    AMP_TRY(check_chain(call, &a->tensors));
    AMP_TRY(amp_call_check_target_dtype(call, a->tensors.items[0]->dtype));
    call->outputs[0] = multi_dot(&a->tensors);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* ---- bilinear --------------------------------------------------------------------------------------------------- */

static amp_status check_bilinear(const amp_call *call, const amp_bilinear_args *a) {
    const amp_tensor *x = a->input1, *y = a->input2, *w = a->weight, *bias = a->bias;
    AMP_TRY(amp_call_check_same_dtype(call, "input1", x, "input2", y));
    AMP_TRY(amp_call_check_same_dtype(call, "input1", x, "weight", w));
    AMP_TRY(amp_cpu_check_product_dtype(call, "input1", x));
    if (bias) AMP_TRY(amp_call_check_same_dtype(call, "input1", x, "bias", bias));
    const bool fits = w->rank == 3 && x->rank >= 1 && x->rank == y->rank && amp_same_leading(x, y, x->rank - 1) &&
                      x->shape[x->rank - 1] == w->shape[1] && y->shape[y->rank - 1] == w->shape[2];
    if (!fits) {
        return amp_fail(AMP_ERROR_INVALID,
                        "bilinear: 'input1' is %s, 'input2' is %s, 'weight' is %s; expected [..., I], [..., J] and "
                        "[O, I, J] with the same leading extents",
                        amp_describe(x), amp_describe(y), amp_describe(w));
    }
    if (!bias || (bias->rank == 1 && bias->shape[0] == w->shape[0])) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "bilinear: 'bias' is %s, 'weight' is %s; expected a bias of shape [%lld]",
                    amp_describe(bias), amp_describe(w), (long long)w->shape[0]);
}

enum { BILINEAR_PART = 1 << 20 }; /* products of pairs that are held at a time */

/* out = (x ⊗ y) · Wᵀ + b, each row's products of pairs against the matrices of W as rows; some rows at a time. */
static amp_tensor *run_bilinear(amp_tensor *x, amp_tensor *y, amp_tensor *w, amp_tensor *bias) {
    const int64_t o = w->shape[0], i = w->shape[1], j = w->shape[2], pairs = i * j;
    const int64_t rows = x->shape[0], part = pairs > 0 && pairs < BILINEAR_PART ? BILINEAR_PART / pairs : 1;
    const int64_t shape[2] = {rows, o};
    amp_tensor *out = amp_backend_tensor(x->storage->device, "bilinear", x->dtype, 2, shape);
    amp_tensor *matrix = amp_reshape(w, AMP_DIMS(o, pairs));
    if (!out || !matrix) return NULL;
    for (int64_t r = 0; r < rows; r += part) {
        const int64_t n = rows - r < part ? rows - r : part;
        amp_scope_frame frame;
        amp_scope_push(&frame);
        amp_tensor *left = amp_unsqueeze(amp_narrow(x, 0, r, n), 2), *right = amp_unsqueeze(amp_narrow(y, 0, r, n), 1);
        amp_tensor *products = left && right ? amp_reshape(amp_mul(left, right), AMP_DIMS(n, pairs)) : NULL;
        amp_tensor *to = amp_narrow(out, 0, r, n);
        const bool done = products && to && amp_linear_out(to, products, matrix, bias);
        amp_scope_pop(&frame);
        if (!done) return NULL;
    }
    return out;
}

static amp_tensor *as_f32(amp_tensor *t) {
    return t && (t->dtype == AMP_BF16 || t->dtype == AMP_F16) ? amp_to(t, .dtype = AMP_F32) : t;
}

/* Narrow types in f32, so that the products of pairs are not rounded. */
amp_status cpu_bilinear(amp_call *call) {
    const amp_bilinear_args *a = call->args;
    AMP_TRY(check_bilinear(call, a));
    amp_dims shape = {.count = a->input1->rank, .set = AMP_PRESENT};
    memcpy(shape.values, a->input1->shape, sizeof shape.values);
    shape.values[shape.count - 1] = a->weight->shape[0];
    int64_t rows = 1;
    for (int d = 0; d + 1 < a->input1->rank; d++) rows *= a->input1->shape[d];
    amp_tensor *x = amp_reshape(as_f32(a->input1), AMP_DIMS(rows, a->weight->shape[1]));
    amp_tensor *y = amp_reshape(as_f32(a->input2), AMP_DIMS(rows, a->weight->shape[2]));
    amp_tensor *w = as_f32(a->weight), *bias = as_f32(a->bias);
    if (!x || !y || !w || (a->bias && !bias)) return amp_pending_error();
    amp_tensor *out = run_bilinear(x, y, w, bias);
    if (out && out->dtype != a->input1->dtype) out = amp_to(out, .dtype = a->input1->dtype);
    call->outputs[0] = out ? amp_reshape(out, shape) : NULL;
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
