/* Unique: computed on the CPU, by sorting. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "onnx/ops.h"
#include "onnx/ops/compose.h"

/* n things of `length` numbers each, and what is known of them. */
typedef struct things {
    int64_t n, length, kinds;
    const int64_t *integers; /* one of the two */
    const double *reals;
    int64_t *order, *other; /* sorted; room for sorting */
    int64_t *kind;          /* of each */
    int64_t *first, *count; /* of each kind */
} things;

/* NaN is behind all numbers, and equal to NaN. */
static int compare_reals(double a, double b) {
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int compare(const things *t, int64_t a, int64_t b) {
    for (int64_t i = 0; i < t->length; i++) {
        const int64_t at = a * t->length + i, beside = b * t->length + i;
        const int order = t->reals ? compare_reals(t->reals[at], t->reals[beside])
                                   : (t->integers[at] > t->integers[beside]) - (t->integers[at] < t->integers[beside]);
        if (order != 0) return order;
    }
    return 0;
}

/* Two sorted runs of `order` become one of `other`; of equal things the earlier comes first. */
static void merge(const things *t, int64_t begin, int64_t middle, int64_t end) {
    int64_t left = begin, right = middle;
    for (int64_t i = begin; i < end; i++) {
        const bool take_right = left == middle || (right < end && compare(t, t->order[right], t->order[left]) < 0);
        t->other[i] = t->order[take_right ? right++ : left++];
    }
}

static void sort(things *t) {
    for (int64_t i = 0; i < t->n; i++) t->order[i] = i;
    for (int64_t width = 1; width < t->n; width *= 2) {
        for (int64_t begin = 0; begin < t->n; begin += 2 * width) {
            const int64_t middle = begin + width < t->n ? begin + width : t->n;
            merge(t, begin, middle, middle + width < t->n ? middle + width : t->n);
        }
        int64_t *sorted = t->other;
        t->other = t->order;
        t->order = sorted;
    }
}

static void find_kinds(things *t) {
    t->kinds = 0;
    for (int64_t i = 0; i < t->n; i++) {
        if (i == 0 || compare(t, t->order[i - 1], t->order[i]) != 0) {
            t->first[t->kinds] = t->order[i];
            t->count[t->kinds++] = 0;
        }
        t->kind[t->order[i]] = t->kinds - 1;
        t->count[t->kinds - 1]++;
    }
}

/* Kinds numbered as they first appear, not as they are sorted. */
static void keep_order(things *t) {
    int64_t *renumbered = t->order, *counts = t->other, next = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const int64_t k = t->kind[i];
        if (t->first[k] != i) continue;
        counts[next] = t->count[k];
        renumbered[k] = next++;
    }
    for (int64_t i = 0, k = 0; i < t->n; i++) {
        t->kind[i] = renumbered[t->kind[i]];
        if (t->kind[i] == k) t->first[k++] = i;
    }
    memcpy(t->count, counts, (size_t)t->kinds * sizeof *counts);
}

static amp_status hand_out(amp_onnx_step *s, amp_tensor *from, int64_t axis, const things *t) {
    amp_tensor *first = amp_onnx_vector_beside(from, t->first, t->kinds);
    AMP_TRY(amp_onnx_set(s, 0, amp_index_select(from, axis, first)));
    AMP_TRY(amp_onnx_set(s, 1, first));
    AMP_TRY(amp_onnx_set(s, 2, amp_onnx_vector_beside(from, t->kind, t->n)));
    return amp_onnx_set(s, 3, amp_onnx_vector_beside(from, t->count, t->kinds));
}

/* Dimension `axis` first, the others in their order. */
static amp_tensor *in_front(amp_tensor *x, int axis) {
    amp_dims order = amp_onnx_dims(x->rank, NULL);
    for (int d = 0; d < x->rank; d++) order.values[d] = d == 0 ? axis : d <= axis ? d - 1 : d;
    return amp_permute(x, order);
}

/* By the slices of `axis`: `numbers` gets them one after the other, `lists` is five arrays of n. */
static amp_status find(amp_onnx_step *s, amp_tensor *from, int axis, void *numbers, int64_t *lists) {
    const int64_t n = from->shape[axis], elements = amp_tensor_numel(from);
    const amp_tensor *slices = in_front(from, axis);
    things t = {.n = n,
                .length = n > 0 ? elements / n : 0,
                .order = lists,
                .other = lists + n,
                .kind = lists + 2 * n,
                .first = lists + 3 * n,
                .count = lists + 4 * n};
    const bool integers = amp_onnx_is_integer(from);
    if (integers) {
        t.integers = numbers;
    } else {
        t.reals = numbers;
    }
    AMP_TRY(amp_read(slices, integers ? AMP_I64 : AMP_F64, numbers, (size_t)elements * sizeof(int64_t)));
    sort(&t);
    find_kinds(&t);
    if (amp_onnx_int(s, "sorted", 1) == 0) keep_order(&t);
    return hand_out(s, from, axis, &t);
}

amp_status onnx_unique(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const bool flat = !amp_onnx_has(s, "axis");
    if (!x) return amp_pending_error();
    if (amp_dtype_is_complex(x->dtype))
        return amp_onnx_fail(s, AMP_ERROR_DTYPE, "%s: complex numbers have no order", amp_describe(x));
    const int64_t axis = flat ? 0 : amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x->rank);
    amp_tensor *from = flat ? amp_reshape(x, AMP_DIMS(amp_tensor_numel(x))) : x;
    if (axis < 0 || !from) return amp_pending_error();
    const int64_t n = from->shape[axis];
    void *numbers = amp_onnx_room(s, amp_tensor_numel(from));
    int64_t *lists = amp_onnx_room(s, n < INT64_MAX / 5 ? 5 * n : n);
    const amp_status status = numbers && lists ? find(s, from, (int)axis, numbers, lists) : amp_pending_error();
    amp_free(numbers);
    amp_free(lists);
    return status;
}
