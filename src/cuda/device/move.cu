/* Copies from strides to strides, of units as wide as both allow; and by tiles in shared memory where neighbours in one are not
 * neighbours in the other, so that both are read and written in whole lines. */
#include "cuda/device/kernel.h"
#include "cuda/move_args.h"

template <class Index>
AMP_DEVICE void locate(const amp_cuda_move &a, int rank, int64_t i, int64_t *in, int64_t *out) {
    Index rest = (Index)i;
    *in = *out = 0;
    for (int d = rank - 1; d >= 0; d--) {
        const Index extent = (Index)a.shape[d], next = rest / extent;
        const int64_t position = (int64_t)(rest - next * extent);
        rest = next;
        *in += position * a.in_strides[d];
        *out += position * a.out_strides[d];
    }
}

template <class Unit, class Index>
AMP_DEVICE void move(const amp_cuda_move &a) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        int64_t in, out;
        locate<Index>(a, a.rank, i, &in, &out);
        ((Unit *)a.out)[out] = ((const Unit *)a.in)[in];
    }
}

template <class Unit>
AMP_DEVICE void turn(const amp_cuda_move &a) {
    enum { SIDE = AMP_CUDA_TURN, STEP = SIDE + 1 }; /* columns begin in different banks */
    AMP_SHARED_BYTES(bytes, SIDE * STEP * sizeof(Unit));
    Unit *const tile = (Unit *)(void *)bytes;
    const int r = a.rank - 2, c = a.rank - 1;
    const int64_t side = SIDE, down = (a.shape[r] + side - 1) / side, across = (a.shape[c] + side - 1) / side;
    for (int64_t work = AMP_BLOCK; work < a.count; work += AMP_BLOCKS) {
        const int64_t row = work / across % down * side, column = work % across * side;
        const int64_t rows = a.shape[r] - row < side ? a.shape[r] - row : side;
        const int64_t columns = a.shape[c] - column < side ? a.shape[c] - column : side;
        int64_t in, out;
        locate<uint64_t>(a, r, work / across / down, &in, &out);
        in += row * a.in_strides[r] + column * a.in_strides[c];
        out += row * a.out_strides[r] + column * a.out_strides[c];
        for (int i = AMP_THREAD; i < SIDE * SIDE; i += AMP_THREADS) {
            const int x = i % SIDE, y = i / SIDE;
            if (x < rows && y < columns)
                tile[y * STEP + x] = ((const Unit *)a.in)[in + x * a.in_strides[r] + y * a.in_strides[c]];
        }
        AMP_BARRIER();
        for (int i = AMP_THREAD; i < SIDE * SIDE; i += AMP_THREADS) {
            const int x = i / SIDE, y = i % SIDE;
            if (x < rows && y < columns)
                ((Unit *)a.out)[out + x * a.out_strides[r] + y * a.out_strides[c]] = tile[y * STEP + x];
        }
        AMP_BARRIER(); /* before the next tile comes */
    }
}

#define MOVES(size, unit)                                                                                              \
    AMP_KERNEL(move_##size, amp_cuda_move) {                                                                           \
        if (a.count <= INT32_MAX) {                                                                                    \
            move<unit, uint32_t>(a);                                                                                   \
        } else {                                                                                                       \
            move<unit, uint64_t>(a);                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    AMP_KERNEL(turn_##size, amp_cuda_move) {                                                                           \
        turn<unit>(a);                                                                                                 \
    }
MOVES(1, uint8_t)
MOVES(2, uint16_t)
MOVES(4, uint32_t)
MOVES(8, uint64_t)
MOVES(16, sixteen_bytes)
