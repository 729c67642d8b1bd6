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

/* Moves on by `steps` along dimension d, which may end there, with what that carries to the dimensions around it. */
static void advance(const amp_iterator *it, int64_t *index, char **data, int d, int64_t steps) {
    for (; d >= 0; d--, steps = 1) {
        index[d] += steps;
        for (int k = 0; k < it->operands; k++) data[k] += steps * it->strides[k][d];
        if (index[d] < it->shape[d]) return;
        for (int k = 0; k < it->operands; k++) data[k] -= index[d] * it->strides[k][d];
        index[d] = 0;
    }
}

/* How many whole rows lie behind one another from here on, in the dimension around them, of `left` elements. */
static int64_t whole_rows(const amp_iterator *it, const int64_t *index, int64_t left) {
    const int inner = it->rank - 1;
    if (inner == 0 || index[inner] != 0 || left < it->shape[inner]) return 0;
    const int64_t rows = it->shape[inner - 1] - index[inner - 1], fit = left / it->shape[inner];
    return rows < fit ? rows : fit;
}

/* Elements [begin, end) in the iterator's order. */
static void run_range(const amp_iterator *it, amp_iterator_rows_loop *loop, void *context, int64_t begin, int64_t end) {
    const int inner = it->rank - 1;
    int64_t index[AMP_MAX_RANK], steps[AMP_ITERATOR_OPERANDS], row_steps[AMP_ITERATOR_OPERANDS];
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
        row_steps[k] = inner > 0 ? it->strides[k][inner - 1] : 0;
    }
    for (int64_t at = begin; at < end;) {
        const int64_t rows = whole_rows(it, index, end - at);
        const int64_t row = it->shape[inner] - index[inner], count = row < end - at ? row : end - at;
        loop(context, data, steps, row_steps, count, rows > 0 ? rows : 1);
        at += rows > 0 ? rows * count : count;
        advance(it, index, data, rows > 0 ? inner - 1 : inner, rows > 0 ? rows : count);
    }
}

void amp_iterator_run_rows(amp_iterator *it, amp_iterator_rows_loop *loop, void *context, int64_t cost) {
    int64_t elements = 1;
    for (int d = 0; d < it->rank; d++) elements *= it->shape[d];
    if (elements == 0) return;
    plan(it);
    if (it->rank == 0) {
        static const int64_t none[AMP_ITERATOR_OPERANDS];
        loop(context, it->data, none, none, 1, 1);
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

/* ---- Loops of one row -------------------------------------------------------------------------------------------- */

typedef struct row_loop {
    amp_iterator_loop *loop;
    void *context;
    int operands;
} row_loop;

static void run_row_by_row(void *context, char *const *data, const int64_t *strides, const int64_t *row_strides,
                           int64_t count, int64_t rows) {
    const row_loop *l = context;
    amp_iterator_row_by_row(l->loop, l->context, l->operands, data, strides, row_strides, count, rows);
}

void amp_iterator_run(amp_iterator *it, amp_iterator_loop *loop, void *context, int64_t cost) {
    row_loop rows = {loop, context, it->operands};
    amp_iterator_run_rows(it, run_row_by_row, &rows, cost);
}
