/* Broadcast, strided iteration. */
#include "cpu/elementwise/iterate.h"

#include <omp.h>
#include <string.h>

#include "core/parallel.h"

void amp_iterator_start(amp_iterator *it, int rank, const int64_t *shape) {
    it->rank = rank;
    it->operands = 0;
    memcpy(it->shape, shape, (size_t)rank * sizeof *shape);
}

void amp_iterator_add(amp_iterator *it, const amp_tensor *tensor) {
    const uint64_t size = amp_dtype_size(tensor->dtype);
    int64_t strides[AMP_MAX_RANK];
    for (int d = 0; d < it->rank; d++) {
        const int from = d - (it->rank - tensor->rank);
        /* without signs: the strides of a tensor without elements, which nothing follows, may be beyond all memory */
        strides[d] = from < 0 || tensor->shape[from] == 1 ? 0 : (int64_t)((uint64_t)tensor->strides[from] * size);
    }
    amp_iterator_add_memory(it, amp_tensor_pointer(tensor), strides);
}

void amp_iterator_add_memory(amp_iterator *it, void *data, const int64_t *strides) {
    memcpy(it->strides[it->operands], strides, (size_t)it->rank * sizeof *strides);
    it->data[it->operands++] = data;
}

/* Whether dimension a should be inside of b: the first operand that moves along both decides. */
static bool belongs_inside(const amp_iterator *it, int a, int b) {
    for (int k = 0; k < it->operands; k++) {
        const int64_t sa = amp_stride_reach(it->strides[k][a]), sb = amp_stride_reach(it->strides[k][b]);
        if (sa && sb && sa != sb) return sa < sb;
    }
    return false;
}

static void swap_dimensions(amp_iterator *it, int a, int b) {
    const int64_t extent = it->shape[a];
    it->shape[a] = it->shape[b];
    it->shape[b] = extent;
    for (int k = 0; k < it->operands; k++) {
        const int64_t stride = it->strides[k][a];
        it->strides[k][a] = it->strides[k][b];
        it->strides[k][b] = stride;
    }
}

static void drop_dimension(amp_iterator *it, int d) {
    for (int e = d; e + 1 < it->rank; e++) swap_dimensions(it, e, e + 1);
    it->rank--;
}

/* Dimension d and the one inside of it step as one. */
static bool can_merge(const amp_iterator *it, int d) {
    for (int k = 0; k < it->operands; k++) {
        if (it->strides[k][d] != it->strides[k][d + 1] * it->shape[d + 1]) return false;
    }
    return true;
}

static void plan(amp_iterator *it) {
    for (int d = it->rank - 1; d >= 0; d--) {
        if (it->shape[d] == 1) drop_dimension(it, d);
    }
    for (int d = 1; d < it->rank; d++) { /* insertion sort, stable: rank ≤ 8 */
        for (int e = d; e > 0 && belongs_inside(it, e - 1, e); e--) swap_dimensions(it, e - 1, e);
    }
    for (int d = it->rank - 2; d >= 0; d--) {
        if (!can_merge(it, d)) continue;
        it->shape[d + 1] *= it->shape[d];
        drop_dimension(it, d);
    }
}

/* Elements [begin, end) in the iterator's order. */
static void run_range(const amp_iterator *it, amp_iterator_loop *loop, void *context, int64_t begin, int64_t end) {
    const int inner = it->rank - 1;
    int64_t index[AMP_MAX_RANK], steps[AMP_ITERATOR_OPERANDS];
    char *data[AMP_ITERATOR_OPERANDS];
    memcpy(data, it->data, sizeof data);
    int64_t rest = begin;
    for (int d = inner; d >= 0; d--) {
        index[d] = rest % it->shape[d];
        rest /= it->shape[d];
    }
    for (int k = 0; k < it->operands; k++) {
        for (int d = 0; d <= inner; d++) data[k] += index[d] * it->strides[k][d];
        steps[k] = it->strides[k][inner];
    }
    for (int64_t at = begin; at < end;) {
        const int64_t left = it->shape[inner] - index[inner], count = left < end - at ? left : end - at;
        loop(context, data, steps, count);
        at += count;
        if (at >= end) return;
        for (int k = 0; k < it->operands; k++) data[k] -= index[inner] * steps[k];
        index[inner] = 0;
        for (int d = inner - 1; d >= 0; d--) {
            for (int k = 0; k < it->operands; k++) data[k] += it->strides[k][d];
            if (++index[d] < it->shape[d]) break;
            for (int k = 0; k < it->operands; k++) data[k] -= it->shape[d] * it->strides[k][d];
            index[d] = 0;
        }
    }
}

void amp_iterator_run(amp_iterator *it, amp_iterator_loop *loop, void *context, int64_t cost) {
    int64_t elements = 1;
    for (int d = 0; d < it->rank; d++) elements *= it->shape[d];
    if (elements == 0) return;
    plan(it);
    if (it->rank == 0) {
        static const int64_t none[AMP_ITERATOR_OPERANDS];
        loop(context, it->data, none, 1);
        return;
    }
    const int threads = amp_parallel_threads(elements * cost, AMP_GRAIN_ELEMENTS);
    if (threads <= 1) {
        run_range(it, loop, context, 0, elements);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        const amp_range part = amp_parallel_part(elements, 1024, omp_get_thread_num(), omp_get_num_threads());
        if (part.begin < part.end) run_range(it, loop, context, part.begin, part.end);
    }
}
