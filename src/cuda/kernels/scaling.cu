/* Unscaling of many gradients in one launch. */
#include "cuda/kernels/pieces.h"

template <class Elements>
struct unscaling {
    typedef typename Elements::stored stored;
    typedef typename Elements::wide wide;
    enum { EACH = 16 / sizeof(stored) };
    wide factor;
    bool bad;

    AMP_DEVICE_MEMBER stored scaled(stored x) {
        const wide value = Elements::widen(x);
        bad = bad || !(value - value == 0);
        return Elements::narrow(value * factor);
    }

    /* Elements [begin, end), by packs where memory allows it. By 1 nothing is written. */
    AMP_DEVICE_MEMBER void run(stored *data, int64_t begin, int64_t end) {
        const int64_t packs = (uintptr_t)data % 16 ? begin : begin + (end - begin) / EACH * EACH;
        for (int64_t i = begin + (int64_t)AMP_THREAD * EACH; i < packs; i += (int64_t)AMP_THREADS * EACH) {
            pack<stored> values = *(const pack<stored> *)(const void *)&data[i];
            for (int j = 0; j < EACH; j++) values.e[j] = scaled(values.e[j]);
            if (factor != 1) *(pack<stored> *)(void *)&data[i] = values;
        }
        for (int64_t i = packs + AMP_THREAD; i < end; i += AMP_THREADS) {
            const stored value = scaled(data[i]);
            if (factor != 1) data[i] = value;
        }
    }
};

template <class Elements>
AMP_DEVICE void unscale_piece(const amp_cuda_scaling &a, int tensor, int64_t begin, int64_t end) {
    unscaling<Elements> work = {(typename Elements::wide) * a.factor, false};
    work.run((typename Elements::stored *)a.data[tensor], begin, end);
    if (work.bad) *a.found = 1.0f; /* whoever finds something writes the same */
}

AMP_KERNEL(unscale, amp_cuda_scaling) {
    for (int64_t piece = AMP_BLOCK; piece < a.first_piece[a.tensors]; piece += AMP_BLOCKS) {
        const int t = tensor_of(a.first_piece, a.tensors, piece);
        const int64_t begin = (piece - a.first_piece[t]) * AMP_CUDA_PIECE, after = begin + AMP_CUDA_PIECE;
        const int64_t end = after < a.counts[t] ? after : a.counts[t];
        switch (a.dtypes[t]) {
        case AMP_F16: unscale_piece<f16_elements>(a, t, begin, end); break;
        case AMP_BF16: unscale_piece<bf16_elements>(a, t, begin, end); break;
        case AMP_F32: unscale_piece<plain_elements<float>>(a, t, begin, end); break;
        default: unscale_piece<plain_elements<double>>(a, t, begin, end); break;
        }
    }
}
