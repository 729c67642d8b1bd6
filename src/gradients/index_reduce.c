/* Gradients of scatter_reduce and index_reduce: the same for elements at indices as for slices at them. */
#include <string.h>

#include "gradients/pieces.h"

typedef struct places {
    bool by_slice; /* index names slices of dim, else it names each element's place */
    int64_t dim;
    amp_tensor *index;
} places;

static amp_tensor *picked(const places *p, amp_tensor *table) {
    return p->by_slice ? amp_index_select(table, p->dim, p->index) : amp_gather(table, p->dim, p->index);
}

static amp_tensor *added(const places *p, amp_tensor *table, amp_tensor *values) {
    return p->by_slice ? amp_index_add(table, p->dim, p->index, values)
                       : amp_scatter_add(table, p->dim, p->index, values);
}

static amp_tensor *cleared(const places *p, amp_tensor *table) {
    return p->by_slice ? amp_index_fill(table, p->dim, p->index, amp_int(0))
                       : amp_scatter_value(table, p->dim, p->index, amp_int(0));
}

static amp_tensor *product(const places *p, amp_tensor *table, amp_tensor *values, bool include_self) {
    return p->by_slice
               ? amp_index_reduce(table, p->dim, p->index, values, "prod", .include_self = AMP_SET(include_self))
               : amp_scatter_reduce(table, p->dim, p->index, values, "prod", .include_self = AMP_SET(include_self));
}

typedef struct reduced {
    places at;
    amp_tensor *input, *source, *result, *of; /* source: only what was read of it */
    bool include_self;
    amp_tensor *for_input, *for_source;
} reduced;

static amp_tensor *without(amp_tensor *t, amp_tensor *mask, int with) {
    return amp_masked_fill(t, mask, amp_int(with));
}

static void undo_sum(reduced *r) {
    r->for_input = r->of;
    r->for_source = picked(&r->at, r->of);
}

static void undo_mean(reduced *r) {
    amp_tensor *start = r->include_self ? amp_ones_like(r->of) : amp_zeros_like(r->of);
    amp_tensor *count = added(&r->at, start, amp_ones_like(r->source, .dtype = r->of->dtype));
    count = without(count, amp_eq_scalar(count, amp_int(0)), 1);
    r->for_input = amp_div(r->of, count);
    r->for_source = picked(&r->at, r->for_input);
}

/* The product of all others: divided by the element, but where it is 0 made without it. */
static void undo_product(reduced *r) {
    amp_tensor *input = without(r->input, amp_eq_scalar(r->input, amp_int(0)), 1);
    amp_tensor *others = amp_div(product(&r->at, input, r->source, r->include_self), input);
    r->for_input = amp_mul(r->of, amp_conjugate(others));
    amp_tensor *zero = amp_eq_scalar(r->source, amp_int(0));
    amp_tensor *zeros = added(&r->at, amp_zeros_like(r->input), amp_to(zero, r->input->dtype));
    amp_tensor *single = amp_logical_and(zero, amp_eq_scalar(picked(&r->at, zeros), amp_int(1)));
    amp_tensor *masked = product(&r->at, r->input, without(r->source, single, 1), r->include_self);
    amp_tensor *quotient = amp_div(picked(&r->at, r->result), without(r->source, zero, 1));
    amp_tensor *rest = amp_where(single, picked(&r->at, masked), quotient);
    r->for_source = amp_mul(picked(&r->at, r->of), amp_conjugate(rest));
}

/* Equal ones share. */
static void undo_extreme(reduced *r) {
    const amp_dtype dtype = r->of->dtype;
    amp_tensor *input_is = amp_to(amp_eq(r->input, r->result), dtype);
    amp_tensor *source_is = amp_to(amp_eq(r->source, picked(&r->at, r->result)), dtype);
    amp_tensor *share = amp_div(r->of, added(&r->at, input_is, source_is));
    r->for_input = amp_mul(input_is, share);
    r->for_source = amp_mul(source_is, picked(&r->at, share));
}

static void undo(reduced *r, const char *name) {
    static const struct {
        const char *name;
        void (*function)(reduced *r);
    } rules[] = {
        {"sum", undo_sum}, {"mean", undo_mean}, {"prod", undo_product}, {"amax", undo_extreme}, {"amin", undo_extreme}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!strcmp(rules[i].name, name)) rules[i].function(r);
    }
    if (!r->include_self && r->for_input) r->for_input = cleared(&r->at, r->for_input);
}

void amp_gradient_index_reduce(amp_gradient *g) {
    const amp_index_reduce_args *a = g->args;
    reduced r = {.at = {true, a->dim, a->index},
                 .input = a->input,
                 .source = a->source,
                 .result = g->results[0],
                 .of = g->of[0],
                 .include_self = a->include_self.value};
    undo(&r, a->reduce);
    amp_gradient_give(g, &a->input, r.for_input);
    amp_gradient_give(g, &a->source, r.for_source);
}

void amp_gradient_scatter_reduce(amp_gradient *g) {
    const amp_scatter_reduce_args *a = g->args;
    amp_tensor *source = a->src;
    for (int d = 0; source && d < a->index->rank && a->index->rank == a->src->rank; d++) {
        if (source->shape[d] > a->index->shape[d]) source = amp_narrow(source, d, 0, a->index->shape[d]);
    }
    if (!source) return;
    reduced r = {.at = {false, a->dim, a->index},
                 .input = a->input,
                 .source = source,
                 .result = g->results[0],
                 .of = g->of[0],
                 .include_self = a->include_self.value};
    undo(&r, a->reduce);
    amp_gradient_give(g, &a->input, r.for_input);
    amp_gradient_give(g, &a->src, amp_grown(r.for_source, a->src));
}
