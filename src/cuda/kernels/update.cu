/* Steps of optimizers over many parameters in one launch, in f32 (f64 for f64), each tensor rounded once. Formulas:
 * PyTorch's documentation of torch.optim, in the CPU's order; steps/steps.h says what the numbers n are. */
#include "cuda/args/update_args.h"
#include "cuda/kernels/pieces.h"
#include "cuda/kernels/unit.h"

/* The larger; NaN where one is. */
template <class T>
AMP_DEVICE T larger(T a, T b) {
    return a > b || a != a ? a : b;
}

template <class T>
AMP_DEVICE T root(T x) {
    return (T)sqrt(x);
}

/* The gradient to go down by. Weight decay of 0 adds nothing, also where the parameter is infinite. */
template <class T>
AMP_DEVICE T slope_of(const double *n, T x, T g) {
    return n[1] != 0 ? (T)n[0] * g + (T)n[1] * x : (T)n[0] * g;
}

/* The averages of the gradient and of its square, in s[0] and s[1]. */
template <class T>
AMP_DEVICE void average(const double *n, T g, T *s) {
    s[0] = (T)n[3] * s[0] + (T)(1 - n[3]) * g;
    s[1] = (T)n[4] * s[1] + (T)(1 - n[4]) * g * g;
}

/* UPDATE(name) { the parameter x and its states s after a step by the gradient g } */
#define UPDATE(name)                                                                                                   \
    struct name {                                                                                                      \
        template <class T>                                                                                             \
        AMP_DEVICE_MEMBER static void step(const double *n, T &x, T g, T *s);                                          \
    };                                                                                                                 \
    template <class T>                                                                                                 \
    AMP_DEVICE void name::step(const double *n, T &x, T g, T *s)

UPDATE(sgd) {
    (void)s;
    x -= (T)n[2] * slope_of(n, x, g);
}
/* The first gradient is taken whole: what the buffer has then is not looked at. */
UPDATE(sgd_momentum) {
    const T momentum = (T)n[3], kept = n[6] != 0 ? (T)1 : (T)n[4], before = n[6] != 0 ? (T)0 : s[0];
    g = slope_of(n, x, g);
    s[0] = momentum * before + kept * g;
    x -= (T)n[2] * (n[5] != 0 ? g + momentum * s[0] : s[0]);
}
UPDATE(adam) {
    const T kept = x * (T)n[2];
    average(n, slope_of(n, kept, g), s);
    x = kept - (T)n[6] * s[0] / (root(s[1]) * (T)n[7] + (T)n[5]);
}
UPDATE(amsgrad) {
    const T kept = x * (T)n[2];
    average(n, slope_of(n, kept, g), s);
    s[2] = larger(s[2], s[1]);
    x = kept - (T)n[6] * s[0] / (root(s[2]) * (T)n[7] + (T)n[5]);
}
UPDATE(adagrad) {
    g = slope_of(n, x, g);
    s[0] += g * g;
    x -= (T)n[2] * g / (root(s[0]) + (T)n[3]);
}
/* States: of the square, of the momentum, of the gradient, the last two where they are asked for. */
UPDATE(rmsprop) {
    const T alpha = (T)n[3], fresh = (T)(1 - n[3]);
    const bool moves = n[5] != 0, centers = n[6] != 0;
    g = slope_of(n, x, g);
    s[0] = alpha * s[0] + fresh * g * g;
    T mean = moves ? s[2] : s[1], spread = s[0];
    if (centers) {
        mean = alpha * mean + fresh * g;
        spread -= mean * mean;
    }
    const T straight = g / (root(spread) + (T)n[4]), move = moves ? (T)n[5] * s[1] + straight : straight;
    s[2] = mean;
    s[1] = moves ? move : mean;
    x -= (T)n[2] * move;
}
UPDATE(adadelta) {
    const T rho = (T)n[3], fresh = (T)(1 - n[3]), eps = (T)n[4];
    g = slope_of(n, x, g);
    s[0] = rho * s[0] + fresh * g * g;
    const T move = root(s[1] + eps) / root(s[0] + eps) * g;
    s[1] = rho * s[1] + fresh * move * move;
    x -= (T)n[2] * move;
}
UPDATE(nadam) {
    const T kept = x * (T)n[2];
    g = slope_of(n, kept, g);
    average(n, g, s);
    x = kept - ((T)n[6] * g + (T)n[7] * s[0]) / (root(s[1]) + (T)n[5]);
}
UPDATE(radam) {
    const T kept = x * (T)n[2];
    average(n, slope_of(n, kept, g), s);
    x = kept - (T)n[6] * s[0] / (n[7] != 0 ? root(s[1]) + (T)n[5] : (T)1);
}
UPDATE(adamax) {
    g = slope_of(n, x, g);
    s[0] = (T)n[3] * s[0] + (T)(1 - n[3]) * g;
    s[1] = larger((T)n[4] * s[1], (T)fabs(g) + (T)n[5]);
    x -= (T)n[2] * s[0] / s[1];
}

/* An element of any floating dtype. */
template <class T>
AMP_DEVICE T floating_at(const void *data, amp_dtype dtype, int64_t at) {
    return dtype == AMP_F64 ? (T)((const double *)data)[at] : (T)float_at(data, dtype, at);
}
template <class T>
AMP_DEVICE void put_floating(void *data, amp_dtype dtype, int64_t at, T x) {
    if (dtype == AMP_F64) {
        ((double *)data)[at] = x;
    } else {
        put_float(data, dtype, at, dtype == AMP_F32 ? (float)x : narrow(x));
    }
}

template <class Update, class T>
AMP_DEVICE void update_piece(const amp_cuda_update &a, int t, int64_t begin, int64_t end) {
    for (int64_t i = begin + AMP_THREAD; i < end; i += AMP_THREADS) {
        T x = floating_at<T>(a.parameters[t], a.dtypes[t], i), s[AMP_CUDA_UPDATE_STATES] = {0, 0, 0};
        AMP_UNROLLED for (int k = 0; k < AMP_CUDA_UPDATE_STATES; k++) {
            if (k < a.state_count) s[k] = floating_at<T>(a.states[k][t], a.dtypes[t], i);
        }
        Update::step(a.numbers, x, floating_at<T>(a.gradients[t], a.gradient_dtypes[t], i), s);
        put_floating<T>(a.parameters[t], a.dtypes[t], i, x);
        AMP_UNROLLED for (int k = 0; k < AMP_CUDA_UPDATE_STATES; k++) {
            if (k < a.state_count) put_floating<T>(a.states[k][t], a.dtypes[t], i, s[k]);
        }
        if (a.copies[t]) put_floating<T>(a.copies[t], a.copy_dtypes[t], i, x);
    }
}

template <class Update>
AMP_DEVICE void update_all(const amp_cuda_update &a) {
    for (int64_t piece = AMP_BLOCK; piece < a.first_piece[a.tensors]; piece += AMP_BLOCKS) {
        const int t = tensor_of(a.first_piece, a.tensors, piece);
        const int64_t begin = (piece - a.first_piece[t]) * AMP_CUDA_PIECE, after = begin + AMP_CUDA_PIECE;
        const int64_t end = after < a.counts[t] ? after : a.counts[t];
        if (a.dtypes[t] == AMP_F64) {
            update_piece<Update, double>(a, t, begin, end);
        } else {
            update_piece<Update, float>(a, t, begin, end);
        }
    }
}

#define UPDATE_KERNEL(name)                                                                                            \
    AMP_KERNEL(update_##name, amp_cuda_update) {                                                                       \
        update_all<name>(a);                                                                                           \
    }
UPDATE_KERNEL(sgd)
UPDATE_KERNEL(sgd_momentum)
UPDATE_KERNEL(adam)
UPDATE_KERNEL(amsgrad)
UPDATE_KERNEL(adagrad)
UPDATE_KERNEL(rmsprop)
UPDATE_KERNEL(adadelta)
UPDATE_KERNEL(nadam)
UPDATE_KERNEL(radam)
UPDATE_KERNEL(adamax)
