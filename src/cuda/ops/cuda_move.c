/* Copies of elements as they are: in units of up to 16 bytes where rows lie alike, by tiles where they lie across. */
#include "cuda/ops/cuda_move.h"

#include <string.h>

#include "cuda/args/move_args.h"
#include "cuda/cuda_backend.h"

typedef struct kernel_row {
    int64_t size; /* of a unit */
    const char *move, *turn;
} kernel_row;
static const kernel_row kernels[] = {{16, "move_16", "turn_16"},
                                     {8, "move_8", "turn_8"},
                                     {4, "move_4", "turn_4"},
                                     {2, "move_2", "turn_2"},
                                     {1, "move_1", "turn_1"}};

/* Whether every row begins and ends at a multiple of `size` bytes. */
static bool fits(const amp_cuda_move *m, int64_t element, int64_t size) {
    const int last = m->rank - 1;
    bool even = (uintptr_t)m->in % (uintptr_t)size == 0 && (uintptr_t)m->out % (uintptr_t)size == 0;
    even = even && m->shape[last].extent * element % size == 0;
    for (int d = 0; d < last; d++)
        even = even && m->in_strides[d] * element % size == 0 && m->out_strides[d] * element % size == 0;
    return even;
}

static const kernel_row *widest(const amp_cuda_move *m, int64_t element) {
    const int last = m->rank - 1;
    const bool alike = last >= 0 && m->in_strides[last] == 1 && m->out_strides[last] == 1;
    const kernel_row *row = kernels;
    while (row->size > element && !(alike && fits(m, element, row->size))) row++;
    return row;
}

static void in_units(amp_cuda_move *m, int64_t factor) {
    if (factor == 1) return;
    m->shape[m->rank - 1].extent /= factor;
    m->count /= factor;
    for (int d = 0; d < m->rank - 1; d++) {
        m->in_strides[d] /= factor;
        m->out_strides[d] /= factor;
    }
}

static void swap(int64_t *strides, int d, int e) {
    const int64_t stride = strides[d];
    strides[d] = strides[e];
    strides[e] = stride;
}

/* The dimension along which `in` has its neighbours becomes the second last one. */
static bool lies_across(amp_cuda_move *m) {
    enum { LEAST = 16 };
    const int last = m->rank - 1, second = last - 1;
    if (last < 1 || m->out_strides[last] != 1 || m->in_strides[last] == 1 || m->shape[last].extent < LEAST)
        return false;
    int d = second;
    while (d >= 0 && (m->in_strides[d] != 1 || m->shape[d].extent < LEAST)) d--;
    if (d < 0) return false;
    const amp_cuda_divisor extent = m->shape[d];
    m->shape[d] = m->shape[second];
    m->shape[second] = extent;
    swap(m->in_strides, d, second);
    swap(m->out_strides, d, second);
    return true;
}

static void count_tiles(amp_cuda_move *m) {
    for (int d = m->rank - 2; d < m->rank; d++) {
        const int64_t tiles = (m->shape[d].extent + AMP_CUDA_TURN - 1) / AMP_CUDA_TURN;
        m->count = m->count / m->shape[d].extent * tiles;
        m->tiles[d - (m->rank - 2)] = amp_cuda_divide_by(tiles);
    }
}

/* Kernels count several dimensions in 32 bits: of more, halves of the longest dimension. */
static amp_status launch_move(const char *op, const kernel_row *row, amp_cuda_move m) {
    while (m.rank > 1 && m.count > INT32_MAX) {
        const int d = amp_cuda_longest(m.rank, m.shape);
        const int64_t half = m.shape[d].extent / 2, others = m.count / m.shape[d].extent;
        amp_cuda_move first = m;
        first.count = half * others;
        first.shape[d] = amp_cuda_divide_by(half);
        AMP_TRY(launch_move(op, row, first));
        m.in = (const char *)m.in + half * m.in_strides[d] * row->size;
        m.out = (char *)m.out + half * m.out_strides[d] * row->size;
        m.count -= first.count;
        m.shape[d] = amp_cuda_divide_by(m.shape[d].extent - half);
    }
    return amp_cuda_launch_over(op, row->move, &m, amp_cuda_unit_blocks(m.count));
}

amp_status amp_cuda_move_tensor(amp_tensor *to, const amp_tensor *from) {
    static const char op[] = "copy";
    const amp_operand source = amp_tensor_operand("source", (amp_tensor *)from);
    amp_cuda_elementwise layout = {.count = amp_tensor_elements(to), .rank = to->rank};
    if (layout.count == 0) return AMP_OK;
    AMP_TRY(amp_cuda_lay_out(op, &source, 1, to, &layout));
    amp_cuda_move m = {.in = layout.in[0].data, .out = layout.out.data, .rank = layout.rank, .count = layout.count};
    memcpy(m.shape, layout.shape, sizeof m.shape);
    memcpy(m.in_strides, layout.in[0].strides, sizeof m.in_strides);
    memcpy(m.out_strides, layout.out.strides, sizeof m.out_strides);
    const int64_t element = (int64_t)amp_dtype_size(to->dtype);
    const kernel_row *row = widest(&m, element);
    const bool across = lies_across(&m);
    if (across) {
        count_tiles(&m);
    } else {
        in_units(&m, row->size / element);
    }
    for (int d = 0; d < m.rank; d++) m.shape[d] = amp_cuda_divide_by(m.shape[d].extent);
    return across ? amp_cuda_launch_over(op, row->turn, &m, m.count) : launch_move(op, row, m);
}
