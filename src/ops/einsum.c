/* einsum and tensordot: subscripts read, dimensions labelled, the product contracted. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "cpu/product/matmul.h"
#include "ops/contraction.h"
#include "steps/shape_rules.h"

/* Labels: letters 0 … 51 in the order in which an implicit result has them, then the dimensions of an ellipsis, aligned
 * at the last. */
enum { LETTERS = 52, ELLIPSIS_END = LETTERS + AMP_MAX_RANK, NO_ELLIPSIS = -1 };

typedef struct equation {
    const amp_call *call;
    const char *text, *at;
    int64_t extents[AMP_LABELS];
    int uses[LETTERS];
    int ellipsis; /* dimensions of the widest ellipsis */
} equation;

static int label_of(char letter) {
    return letter <= 'Z' ? letter - 'A' : letter - 'a' + 26;
}

static char letter_of(int label) {
    return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

static char next(equation *e) {
    while (*e->at == ' ') e->at++;
    return *e->at;
}

#define MALFORMED(e, ...) amp_fail(AMP_ERROR_INVALID, "einsum: 'equation' \"%s\" " __VA_ARGS__)

/* The subscripts of one tensor: letters, and the place of "..." among them. */
typedef struct subscripts {
    int labels[AMP_MAX_RANK], count;
    int ellipsis; /* letters before it; NO_ELLIPSIS */
} subscripts;

static amp_status read_ellipsis(equation *e, subscripts *s) {
    if (strncmp(e->at, "...", 3) != 0) return MALFORMED(e, "has a '.' that is not part of '...'", e->text);
    if (s->ellipsis != NO_ELLIPSIS) return MALFORMED(e, "has '...' twice for one tensor", e->text);
    s->ellipsis = s->count;
    e->at += 3;
    return AMP_OK;
}

/* Up to a ',', an arrow or the end. */
static amp_status read_subscripts(equation *e, subscripts *s) {
    *s = (subscripts){.ellipsis = NO_ELLIPSIS};
    for (char c = next(e); c && c != ',' && c != '-'; c = next(e)) {
        if (c == '.') {
            AMP_TRY(read_ellipsis(e, s));
            continue;
        }
        if (!isalpha((unsigned char)c)) {
            return MALFORMED(e, "has a '%c' at position %d; expected letters, '...', ',' and '->'", e->text, c,
                             (int)(e->at - e->text));
        }
        if (s->count == AMP_MAX_RANK) {
            return MALFORMED(e, "names more than %d dimensions of one tensor", e->text, AMP_MAX_RANK);
        }
        s->labels[s->count++] = label_of(c);
        e->at++;
    }
    return AMP_OK;
}

/* ---- Operands --------------------------------------------------------------------------------------------------- */

/* A label for every dimension of the tensor; one may come more than once. */
static amp_status label_dimensions(equation *e, int64_t index, const amp_tensor *t, const subscripts *s, int *labels) {
    const int covered = t->rank - s->count;
    if (covered < 0 || (covered > 0 && s->ellipsis == NO_ELLIPSIS)) {
        return MALFORMED(e, "names %d dimensions of tensor %lld, which is %s", e->text, s->count, (long long)index,
                         amp_describe(t));
    }
    int d = 0;
    for (int i = 0; i <= s->count; i++) {
        if (i == s->ellipsis) {
            for (int k = 0; k < covered; k++) labels[d++] = ELLIPSIS_END - covered + k;
        }
        if (i < s->count) labels[d++] = s->labels[i];
    }
    if (s->ellipsis != NO_ELLIPSIS && covered > e->ellipsis) e->ellipsis = covered;
    return AMP_OK;
}

static amp_status merge_extent(equation *e, int64_t index, const amp_tensor *t, int label, int64_t extent) {
    int64_t *known = &e->extents[label];
    if (*known == -1 || *known == 1) *known = extent;
    if (*known == extent || extent == 1) return AMP_OK;
    if (label < LETTERS) {
        return MALFORMED(e, "gives '%c' the extent %lld, but tensor %lld is %s", e->text, letter_of(label),
                         (long long)*known, (long long)index, amp_describe(t));
    }
    return MALFORMED(e, "has '...' dimensions that do not broadcast: one is %lld, but tensor %lld is %s", e->text,
                     (long long)*known, (long long)index, amp_describe(t));
}

/* Dimensions i and j of the term, which carry one label, become their diagonal, at the end. */
static amp_status take_diagonal(const equation *e, int64_t index, const amp_tensor *t, amp_term *term, int i, int j) {
    const int label = term->labels[i], rank = term->tensor->rank;
    const int64_t first = term->tensor->shape[i], second = term->tensor->shape[j];
    if (first != second) {
        return MALFORMED(e, "repeats '%c' for tensor %lld, which is %s; the extents %lld and %lld must be equal",
                         e->text, letter_of(label), (long long)index, amp_describe(t), (long long)first,
                         (long long)second);
    }
    term->tensor = amp_diagonal(term->tensor, .dim1 = i, .dim2 = AMP_SET(j));
    if (!term->tensor) return amp_pending_error();
    for (int d = 0, kept = 0; d < rank; d++) {
        if (d != i && d != j) term->labels[kept++] = term->labels[d];
    }
    term->labels[rank - 2] = label;
    return AMP_OK;
}

static amp_status make_term(equation *e, int64_t index, amp_tensor *t, const subscripts *s, amp_term *term) {
    AMP_TRY(label_dimensions(e, index, t, s, term->labels));
    term->tensor = t;
    for (int i = 0; i < term->tensor->rank; i++) {
        for (int j = i + 1; j < term->tensor->rank;) {
            if (term->labels[i] != term->labels[j]) {
                j++;
                continue;
            }
            AMP_TRY(take_diagonal(e, index, t, term, i, j));
            j = i + 1; /* another dimension stands at i now */
        }
    }
    for (int i = 0; i < s->count; i++) e->uses[s->labels[i]]++;
    for (int d = 0; d < term->tensor->rank; d++) {
        AMP_TRY(merge_extent(e, index, t, term->labels[d], term->tensor->shape[d]));
    }
    return AMP_OK;
}

static amp_status read_operands(equation *e, const amp_tensor_list *tensors, amp_term *terms) {
    int64_t i = 0;
    for (;; e->at++, i++) {
        subscripts s;
        AMP_TRY(read_subscripts(e, &s));
        if (i < tensors->count) AMP_TRY(make_term(e, i, tensors->items[i], &s, &terms[i]));
        if (*e->at != ',') break;
    }
    if (i + 1 == tensors->count) return AMP_OK;
    return MALFORMED(e, "has subscripts for %lld tensors, but 'tensors' has %lld", e->text, (long long)(i + 1),
                     (long long)tensors->count);
}

/* ---- The result ------------------------------------------------------------------------------------------------- */

static amp_status append_result(equation *e, int label, int *labels, int *rank) {
    if (*rank == AMP_MAX_RANK) {
        return MALFORMED(e, "has a result of more than %d dimensions", e->text, AMP_MAX_RANK);
    }
    labels[(*rank)++] = label;
    return AMP_OK;
}

static amp_status append_ellipsis(equation *e, int *labels, int *rank) {
    for (int k = 0; k < e->ellipsis; k++) AMP_TRY(append_result(e, ELLIPSIS_END - e->ellipsis + k, labels, rank));
    return AMP_OK;
}

static amp_status read_result(equation *e, int *labels, int *rank) {
    subscripts s;
    bool seen[LETTERS] = {false};
    if (e->at[1] != '>') return MALFORMED(e, "has a '-' that is not part of '->'", e->text);
    e->at += 2;
    AMP_TRY(read_subscripts(e, &s));
    if (*e->at) return MALFORMED(e, "has a '%c' after '->'", e->text, *e->at);
    for (int i = 0; i <= s.count; i++) {
        if (i == s.ellipsis) AMP_TRY(append_ellipsis(e, labels, rank));
        if (i == s.count) break;
        const int label = s.labels[i];
        if (seen[label]) return MALFORMED(e, "has '%c' twice in the result", e->text, letter_of(label));
        if (!e->uses[label]) return MALFORMED(e, "has '%c' in the result only", e->text, letter_of(label));
        seen[label] = true;
        AMP_TRY(append_result(e, label, labels, rank));
    }
    return AMP_OK;
}

/* Without an arrow: the ellipsis, then every letter that comes once, in the order of the alphabet. */
static amp_status implicit_result(equation *e, int *labels, int *rank) {
    AMP_TRY(append_ellipsis(e, labels, rank));
    for (int label = 0; label < LETTERS; label++) {
        if (e->uses[label] == 1) AMP_TRY(append_result(e, label, labels, rank));
    }
    return AMP_OK;
}

static amp_status check_tensors(const amp_call *call, const amp_tensor_list *tensors) {
    if (tensors->count < 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'tensors' is empty; expected at least one tensor", amp_call_name(call));
    }
    for (int64_t i = 0; i < tensors->count; i++) {
        if (!tensors->items[i]) {
            return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld of 'tensors' is missing", amp_call_name(call),
                            (long long)i);
        }
        char name[40];
        snprintf(name, sizeof name, "tensors[%lld]", (long long)i);
        AMP_TRY(amp_call_check_same_dtype(call, "tensors[0]", tensors->items[0], name, tensors->items[i]));
    }
    return amp_cpu_check_product_dtype(call, "tensors[0]", tensors->items[0]);
}

static amp_status run_einsum(amp_call *call, equation *e, const amp_tensor_list *tensors, amp_term *terms) {
    int labels[AMP_MAX_RANK], rank = 0;
    AMP_TRY(read_operands(e, tensors, terms));
    AMP_TRY(*e->at ? read_result(e, labels, &rank) : implicit_result(e, labels, &rank));
    call->outputs[0] = amp_cpu_contract("einsum", terms, (int)tensors->count, e->extents, rank, labels);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

amp_status amp_op_einsum(amp_call *call) {
    const amp_einsum_args *a = call->args;
    equation e = {.call = call, .text = a->equation, .at = a->equation};
    for (int i = 0; i < AMP_LABELS; i++) e.extents[i] = -1;
    AMP_TRY(check_tensors(call, &a->tensors));
    amp_term *terms = amp_alloc((size_t)a->tensors.count * sizeof *terms);
    if (!terms) {
        return amp_fail(AMP_ERROR_MEMORY, "einsum: no memory for %lld operands", (long long)a->tensors.count);
    }
    const amp_status status = run_einsum(call, &e, &a->tensors, terms);
    amp_free(terms);
    return status;
}

/* ---- tensordot -------------------------------------------------------------------------------------------------- */

/* Which dimensions are paired, as PyTorch's lists of both sides. */
static amp_status paired_dims(const amp_call *call, const amp_tensordot_args *args, int *count, int *of_a, int *of_b) {
    const amp_dims *dims = &args->dims;
    const amp_tensor *a = args->a, *b = args->b;
    AMP_TRY(amp_check_dims(call, "dims", dims));
    const bool number = dims->count == 1;
    *count = number ? (int)dims->values[0] : dims->count / 2;
    if (number ? dims->values[0] < 0 || dims->values[0] > a->rank || dims->values[0] > b->rank : dims->count % 2 != 0) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "tensordot: 'dims' has %d values, the first %lld; expected a number of dimensions that both %s and "
            "%s have, or as many dimensions of one as of the other",
            dims->count, (long long)dims->values[0], amp_describe(a), amp_describe(b));
    }
    unsigned seen_a = 0, seen_b = 0;
    for (int i = 0; i < *count; i++) {
        AMP_TRY(amp_wrap_dim(call, "dims", number ? a->rank - *count + i : dims->values[i], a->rank, &of_a[i]));
        AMP_TRY(amp_wrap_dim(call, "dims", number ? i : dims->values[*count + i], b->rank, &of_b[i]));
        if (seen_a & 1u << of_a[i] || seen_b & 1u << of_b[i]) {
            return amp_fail(AMP_ERROR_INVALID, "tensordot: 'dims' names a dimension twice, of %s or of %s",
                            amp_describe(a), amp_describe(b));
        }
        seen_a |= 1u << of_a[i];
        seen_b |= 1u << of_b[i];
    }
    return AMP_OK;
}

/* Sums over a dimension whose partner has extent 1. */
static amp_tensor *sum_unpaired(amp_tensor *t, int dim) {
    return amp_sum(t, .dim = AMP_DIMS(dim), .keepdim = true, .dtype = t->dtype);
}

static amp_status match_pairs(int count, const int *of_a, const int *of_b, amp_tensor **a, amp_tensor **b) {
    for (int i = 0; i < count; i++) {
        const int64_t ea = (*a)->shape[of_a[i]], eb = (*b)->shape[of_b[i]];
        if (ea != eb && ea != 1 && eb != 1) {
            return amp_fail(
                AMP_ERROR_INVALID,
                "tensordot: 'a' is %s, 'b' is %s; the extents %lld and %lld of paired dimensions must be equal",
                amp_describe(*a), amp_describe(*b), (long long)ea, (long long)eb);
        }
        if (ea != eb && eb == 1) *a = sum_unpaired(*a, of_a[i]);
        if (ea != eb && ea == 1) *b = sum_unpaired(*b, of_b[i]);
        if (!*a || !*b) return amp_pending_error();
    }
    return AMP_OK;
}

/* The order of t's dimensions with the paired ones together, behind the free ones or before them. */
static amp_dims pairs_together(const amp_tensor *t, int count, const int *paired, bool paired_first) {
    amp_dims order = {.count = t->rank, .set = AMP_PRESENT};
    int free_at = paired_first ? count : 0, paired_at = paired_first ? 0 : t->rank - count;
    unsigned seen = 0;
    for (int i = 0; i < count; i++) {
        order.values[paired_at++] = paired[i];
        seen |= 1u << paired[i];
    }
    for (int d = 0; d < t->rank; d++) {
        if (!(seen & 1u << d)) order.values[free_at++] = d;
    }
    return order;
}

/* One product of matrices; where its result has one element, of vectors, as in PyTorch, whose policies tell them
 * apart. */
amp_status amp_op_tensordot(amp_call *call) {
    const amp_tensordot_args *args = call->args;
    amp_tensor *a = args->a, *b = args->b;
    int count, of_a[AMP_MAX_RANK], of_b[AMP_MAX_RANK];
    AMP_TRY(amp_call_check_same_dtype(call, "a", a, "b", b));
    AMP_TRY(amp_call_check_target_dtype(call, a->dtype));
    AMP_TRY(amp_cpu_check_product_dtype(call, "a", a));
    AMP_TRY(paired_dims(call, args, &count, of_a, of_b));
    const int free_a = a->rank - count, rank = free_a + b->rank - count;
    if (rank > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID,
                        "tensordot: the result of %s and %s has %d dimensions, at most %d are possible",
                        amp_describe(a), amp_describe(b), rank, AMP_MAX_RANK);
    }
    AMP_TRY(match_pairs(count, of_a, of_b, &a, &b));
    a = amp_permute(a, pairs_together(a, count, of_a, false));
    b = a ? amp_permute(b, pairs_together(b, count, of_b, true)) : NULL;
    if (!b) return amp_pending_error();
    amp_dims shape = {.count = rank, .set = AMP_PRESENT};
    int64_t m = 1, k = 1, n = 1;
    for (int d = 0; d < rank; d++) shape.values[d] = d < free_a ? a->shape[d] : b->shape[count + d - free_a];
    for (int d = 0; d < free_a; d++) m *= shape.values[d];
    for (int d = 0; d < count; d++) k *= b->shape[d];
    for (int d = free_a; d < rank; d++) n *= shape.values[d];
    amp_tensor *product = m == 1 && n == 1 ? amp_dot(amp_reshape(a, AMP_DIMS(k)), amp_reshape(b, AMP_DIMS(k)))
                                           : amp_mm(amp_reshape(a, AMP_DIMS(m, k)), amp_reshape(b, AMP_DIMS(k, n)));
    call->outputs[0] = product ? amp_reshape(product, shape) : NULL;
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
