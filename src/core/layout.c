/* Plain and channels-last layouts. */
#include "core/layout.h"

enum { LEAST_RANK = 3, MOST_RANK = 5 };

bool amp_is_channels_last(const amp_tensor *t) {
    if (t->rank < LEAST_RANK || t->rank > MOST_RANK || t->strides[1] == 0) return false;
    int64_t least = 0;
    for (int i = 0; i < t->rank; i++) {
        const int d = i == 0 ? 1 : i == t->rank - 1 ? 0 : t->rank - i;
        if (t->shape[d] == 0 || t->strides[d] < least || (d == 0 && least == t->strides[1])) return false;
        least = t->strides[d] * t->shape[d];
    }
    return true;
}

bool amp_prefers_channels_last(const amp_tensor *t) {
    return amp_is_channels_last(t) && !amp_tensor_is_dense(t);
}

void amp_channels_last_strides(int rank, const int64_t *shape, int64_t *strides) {
    int64_t step = shape[1] > 1 ? shape[1] : 1; /* no stride is 0, also where there are no elements */
    strides[1] = 1;
    for (int d = rank - 1; d > 1; d--) {
        strides[d] = step;
        step *= shape[d] > 1 ? shape[d] : 1;
    }
    strides[0] = step;
}

void amp_take_layout(amp_tensor *fresh, const amp_tensor *like) {
    if (like->rank == fresh->rank && amp_prefers_channels_last(like)) {
        amp_channels_last_strides(fresh->rank, fresh->shape, fresh->strides);
    }
}

bool amp_fills_memory(const amp_tensor *t) {
    int64_t reach = 1;
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] > 1 && t->strides[d] <= 0) return false;
        reach += (t->shape[d] - 1) * t->strides[d];
    }
    return reach == amp_tensor_elements(t);
}

bool amp_broadcast_shapes(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *shape) {
    *rank = rank_a > rank_b ? rank_a : rank_b;
    for (int d = *rank - 1; d >= 0; d--) { /* from the last: `shape` may be `a` or `b` */
        const int da = d - (*rank - rank_a), db = d - (*rank - rank_b);
        const int64_t ea = da < 0 ? 1 : a[da], eb = db < 0 ? 1 : b[db];
        if (ea != eb && ea != 1 && eb != 1) return false;
        shape[d] = ea == 1 ? eb : ea;
    }
    return true;
}
