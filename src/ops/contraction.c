/* Pairs of labelled tensors as batched matrix products: labels of both that stay are the batch, labels of both that go
 * are summed, the others are rows and columns. */
#include "ops/contraction.h"

#include "amp/ops.h"

typedef uint64_t label_set;

static label_set bit(int label) {
    return (label_set)1 << label;
}

static label_set labels_of(const amp_term *t) {
    label_set set = 0;
    for (int d = 0; d < t->tensor->rank; d++) set |= bit(t->labels[d]);
    return set;
}

/* ---- One term --------------------------------------------------------------------------------------------------- */

/* Without the dimensions of extent 1: they are what is broadcast. */
static amp_status squeeze(amp_term *t) {
    const amp_tensor *from = t->tensor;
    int rank = 0;
    for (int d = 0; d < from->rank; d++) {
        if (from->shape[d] != 1) t->labels[rank++] = t->labels[d];
    }
    if (rank < from->rank) t->tensor = amp_squeeze(t->tensor);
    return t->tensor ? AMP_OK : amp_pending_error();
}

/* Sums over the labels that nobody else wants. */
static amp_status sum_out(amp_term *t, label_set gone) {
    amp_dims dims = {.set = AMP_PRESENT};
    int rank = 0;
    for (int d = 0; d < t->tensor->rank; d++) {
        if (gone & bit(t->labels[d]))
            dims.values[dims.count++] = d;
        else
            t->labels[rank++] = t->labels[d];
    }
    if (dims.count == 0) return AMP_OK;
    t->tensor = amp_sum(t->tensor, .dim = dims, .dtype = t->tensor->dtype);
    return t->tensor ? AMP_OK : amp_pending_error();
}

/* The dimensions with a label of `set`, in the term's order, behind those that are there; returns their elements. */
static int64_t append(const amp_term *t, label_set set, amp_dims *order, int *labels) {
    int64_t elements = 1;
    for (int d = 0; d < t->tensor->rank; d++) {
        if (!(set & bit(t->labels[d]))) continue;
        if (labels) labels[order->count] = t->labels[d];
        order->values[order->count++] = d;
        elements *= t->tensor->shape[d];
    }
    return elements;
}

/* The dimensions of `set` behind `order`, in the order in which `like` has those labels. */
static void append_like(const amp_term *t, const amp_term *like, label_set set, amp_dims *order) {
    for (int d = 0; d < like->tensor->rank; d++) {
        if (!(set & bit(like->labels[d]))) continue;
        for (int own = 0; own < t->tensor->rank; own++) {
            if (t->labels[own] == like->labels[d]) order->values[order->count++] = own;
        }
    }
}

/* ---- A pair ------------------------------------------------------------------------------------------------------ */

/* The pair in matrices: a is (batch, m, k), b is (batch, k, n). */
typedef struct pair {
    amp_tensor *a, *b;
    int64_t batch, m, n, k;
} pair;

static amp_tensor *multiply(const pair *p, bool summed) {
    if (!summed) return amp_mul(p->a, p->b);
    const bool parameter = atomic_load_explicit(&p->b->storage->parameter, memory_order_relaxed);
    if (p->batch != 1 || !parameter) return amp_bmm(p->a, p->b);
    amp_tensor *c = amp_mm(amp_select(p->a, 0, 0), amp_select(p->b, 0, 0)); /* its packed form is kept */
    return c ? amp_unsqueeze(c, 0) : NULL;
}

static amp_status contract_pair(const char *op, amp_term *a, amp_term *b, label_set kept) {
    AMP_TRY(sum_out(a, labels_of(a) & ~labels_of(b) & ~kept));
    AMP_TRY(sum_out(b, labels_of(b) & ~labels_of(a) & ~kept));
    const label_set both = labels_of(a) & labels_of(b), batch = both & kept, summed = both & ~kept;
    amp_dims a_order = {.set = AMP_PRESENT}, b_order = a_order, shape = a_order;
    int labels[2 * AMP_MAX_RANK];
    pair p;
    p.batch = append(a, batch, &a_order, labels);
    p.m = append(a, labels_of(a) & ~both, &a_order, labels);
    const int left = a_order.count;
    p.k = append(a, summed, &a_order, NULL);
    append_like(b, a, batch, &b_order);
    append_like(b, a, summed, &b_order);
    const int before = b_order.count;
    p.n = append(b, labels_of(b) & ~both, &b_order, NULL);
    const int rank = left + b_order.count - before;
    if (rank > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: the product of %s and %s has %d dimensions, at most %d are possible",
                        op, amp_describe(a->tensor), amp_describe(b->tensor), rank, AMP_MAX_RANK);
    }
    shape.count = rank;
    for (int d = 0; d < left; d++) shape.values[d] = a->tensor->shape[a_order.values[d]];
    for (int d = left; d < rank; d++) {
        const int64_t from = b_order.values[before + d - left];
        shape.values[d] = b->tensor->shape[from];
        labels[d] = b->labels[from];
    }
    p.a = amp_reshape(amp_permute(a->tensor, a_order), AMP_DIMS(p.batch, p.m, p.k));
    p.b = p.a ? amp_reshape(amp_permute(b->tensor, b_order), AMP_DIMS(p.batch, p.k, p.n)) : NULL;
    amp_tensor *c = p.b ? multiply(&p, summed != 0) : NULL;
    a->tensor = c ? amp_reshape(c, shape) : NULL;
    if (!a->tensor) return amp_pending_error();
    for (int d = 0; d < rank; d++) a->labels[d] = labels[d];
    return AMP_OK;
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

static double cost(const amp_term *a, const amp_term *b, const int64_t *extents) {
    const label_set set = labels_of(a) | labels_of(b);
    double products = 1;
    for (int label = 0; label < AMP_LABELS; label++) {
        if (set & bit(label)) products *= (double)extents[label];
    }
    return products;
}

/* The pair with the fewest products; the first of equals. */
static void choose_pair(const amp_term *terms, int count, const int64_t *extents, int *first, int *second) {
    double least = 0;
    *second = 0;
    for (int i = 0; i < count; i++) {
        for (int j = i + 1; j < count; j++) {
            const double c = cost(&terms[i], &terms[j], extents);
            if (*second && !(c < least)) continue;
            least = c;
            *first = i;
            *second = j;
        }
    }
}

/* The one term that is left, in the result's order of dimensions. */
static amp_tensor *arrange(amp_term *t, label_set wanted, int rank, const int *result) {
    amp_dims order = {.set = AMP_PRESENT}, shape = {.count = rank, .set = AMP_PRESENT};
    if (sum_out(t, ~wanted) != AMP_OK) return NULL;
    for (int i = 0; i < rank; i++) {
        shape.values[i] = 1;
        for (int d = 0; d < t->tensor->rank; d++) {
            if (t->labels[d] != result[i]) continue;
            shape.values[i] = t->tensor->shape[d];
            order.values[order.count++] = d;
        }
    }
    return amp_reshape(amp_permute(t->tensor, order), shape);
}

amp_tensor *amp_cpu_contract(const char *op, amp_term *terms, int count, const int64_t extents[AMP_LABELS], int rank,
                             const int *result) {
    label_set wanted = 0;
    for (int i = 0; i < rank; i++) wanted |= bit(result[i]);
    for (int i = 0; i < count; i++) {
        if (squeeze(&terms[i]) != AMP_OK) return NULL;
    }
    for (; count > 1; count--) {
        int i = 0, j = 1;
        label_set kept = wanted;
        choose_pair(terms, count, extents, &i, &j);
        for (int k = 0; k < count; k++) {
            if (k != i && k != j) kept |= labels_of(&terms[k]);
        }
        if (contract_pair(op, &terms[i], &terms[j], kept) != AMP_OK) return NULL;
        for (int k = j; k + 1 < count; k++) terms[k] = terms[k + 1];
    }
    return arrange(&terms[0], wanted, rank, result);
}
