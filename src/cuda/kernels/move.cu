/* Copies from strides to strides, of units as wide as both allow; and by tiles in shared memory where neighbours in one
 * are not neighbours in the other, so that both are read and written in whole lines. */
#include "cuda/args/move_args.h"
#include "cuda/kernels/kernel.h"

/* Of `rank` dimensions; of several there are fewer than 2³¹ units. */
AMP_DEVICE void locate(const amp_cuda_move &a, int rank, int64_t i, int64_t *in, int64_t *out) {
    uint32_t rest = (uint32_t)i;
    *in = *out = 0;
    AMP_ROLLED for (int d = rank - 1; d > 0; d--) {
        const int64_t position = digit_of(&rest, a.shape[d]);
        *in += position * a.in_strides[d];
        *out += position * a.out_strides[d];
    }
    if (rank < 1) return;
    const int64_t position = rank > 1 ? (int64_t)rest : i;
    *in += position * a.in_strides[0];
    *out += position * a.out_strides[0];
}

/* Two units at a time, so that both are under way before the first is written. */
template <class Unit>
AMP_DEVICE void move(const amp_cuda_move &a) {
    for (int64_t i = first_element(); i < a.count; i += 2 * element_step()) {
        const int64_t next = i + element_step();
        int64_t in, out, in_after, out_after;
        locate(a, a.rank, i, &in, &out);
        locate(a, a.rank, next < a.count ? next : i, &in_after, &out_after);
        const Unit here = ((const Unit *)a.in)[in], there = ((const Unit *)a.in)[in_after];
        ((Unit *)a.out)[out] = here;
        if (next < a.count) ((Unit *)a.out)[out_after] = there;
    }
}

template <class Unit>
AMP_DEVICE void turn(const amp_cuda_move &a) {
    enum { SIDE = AMP_CUDA_TURN, STEP = SIDE + 1 }; /* columns begin in different banks */
    AMP_SHARED_BYTES(bytes, SIDE * STEP * sizeof(Unit));
    Unit *const tile = (Unit *)(void *)bytes;
    const int r = a.rank - 2, c = a.rank - 1;
    const int64_t side = SIDE;
    for (int64_t work = AMP_BLOCK; work < a.count; work += AMP_BLOCKS) {
        int64_t rest = work, in, out;
        const int64_t column = digit_of(&rest, a.tiles[1]) * side, row = digit_of(&rest, a.tiles[0]) * side;
        const int rows = (int)(a.shape[r].extent - row < side ? a.shape[r].extent - row : side);
        const int columns = (int)(a.shape[c].extent - column < side ? a.shape[c].extent - column : side);
        locate(a, r, rest, &in, &out);
        in += row + column * a.in_strides[c]; /* the steps that are 1 are left out */
        out += row * a.out_strides[r] + column;
        AMP_UNROLLED_4 for (int i = AMP_THREAD; i < SIDE * SIDE; i += AMP_THREADS) {
            const int x = i % SIDE, y = i / SIDE;
            if (x < rows && y < columns) tile[y * STEP + x] = ((const Unit *)a.in)[in + x + y * a.in_strides[c]];
        }
        AMP_BARRIER();
        for (int i = AMP_THREAD; i < SIDE * SIDE; i += AMP_THREADS) {
            const int x = i / SIDE, y = i % SIDE;
            if (x < rows && y < columns) ((Unit *)a.out)[out + x * a.out_strides[r] + y] = tile[y * STEP + x];
        }
        AMP_BARRIER(); /* before the next tile comes */
    }
}

#define MOVES(size, unit)                                                                                              \
    AMP_KERNEL(move_##size, amp_cuda_move) {                                                                           \
        move<unit>(a);                                                                                                 \
    }                                                                                                                  \
    AMP_KERNEL(turn_##size, amp_cuda_move) {                                                                           \
        turn<unit>(a);                                                                                                 \
    }
MOVES(1, uint8_t)
MOVES(2, uint16_t)
MOVES(4, uint32_t)
MOVES(8, uint64_t)
MOVES(16, sixteen_bytes)
