/* Copies of elements as they are: in units of up to 16 bytes where rows lie alike, by tiles where they lie across. */
#include "cuda/cuda_move.h"

#include <string.h>

#include "cuda/move_args.h"

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
    even = even && m->shape[last] * element % size == 0;
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
    m->shape[m->rank - 1] /= factor;
    m->count /= factor;
    for (int d = 0; d < m->rank - 1; d++) {
        m->in_strides[d] /= factor;
        m->out_strides[d] /= factor;
    }
}

/* The dimension along which `in` has its neighbours becomes the second last one. */
static bool lies_across(amp_cuda_move *m) {
    enum { LEAST = 16 };
    const int last = m->rank - 1, second = last - 1;
    if (last < 1 || m->out_strides[last] != 1 || m->in_strides[last] == 1 || m->shape[last] < LEAST) return false;
    int d = second;
    while (d >= 0 && (m->in_strides[d] != 1 || m->shape[d] < LEAST)) d--;
    if (d < 0) return false;
    int64_t *const all[] = {m->shape, m->in_strides, m->out_strides};
    for (int i = 0; i < 3; i++) {
        const int64_t moved = all[i][d];
        all[i][d] = all[i][second];
        all[i][second] = moved;
    }
    return true;
}

static void count_tiles(amp_cuda_move *m) {
    for (int d = m->rank - 2; d < m->rank; d++) {
        const int64_t tiles = (m->shape[d] + AMP_CUDA_TURN - 1) / AMP_CUDA_TURN;
        m->count = m->count / m->shape[d] * tiles;
    }
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
    if (lies_across(&m)) {
        count_tiles(&m);
        return amp_cuda_launch_over(op, row->turn, &m, m.count < 65536 ? m.count : 65536);
    }
    in_units(&m, row->size / element);
    return amp_cuda_launch_over(op, row->move, &m, amp_cuda_blocks(m.count));
}
