/* cdist and pdist: one thread makes a distance, the coordinates in their order. Sums are in T with no carried error:
 * f32 for p of 0, 1, 2 and infinity of narrow points, else f64. */
#include "cuda/kernels/kernel.h"

/* The first point of pair i of n·(n − 1)/2, and the second. */
AMP_DEVICE void pair_of(int64_t i, int64_t n, int64_t *first, int64_t *second) {
    const double wide = (double)(2 * n - 1);
    int64_t row = (int64_t)((wide - sqrt(wide * wide - 8.0 * (double)i)) / 2.0);
    while (row > 0 && row * n - row * (row + 1) / 2 > i) row--; /* the root is rounded */
    while ((row + 1) * n - (row + 1) * (row + 2) / 2 <= i) row++;
    *first = row;
    *second = i - (row * n - row * (row + 1) / 2) + row + 1;
}

template <class T>
AMP_DEVICE T distance(const amp_cuda_distances &a, int64_t x, int64_t y) {
    T sum = 0;
    for (int64_t k = 0; k < a.depth; k++) {
        const T d =
            magnitude(load<T>(a.x1, a.x1_dtype, x + k * a.x1_step) - load<T>(a.x2, a.x2_dtype, y + k * a.x2_step));
        if (isinf(a.p)) {
            sum = d > sum || d != d ? d : sum;
        } else if (a.p == 0.0) {
            sum += (T)(d != 0);
        } else {
            sum += a.p == 1.0 ? d : a.p == 2.0 ? d * d : (T)pow((double)d, a.p);
        }
    }
    if (a.p == 2.0) return (T)sqrt(sum);
    return a.p == 0.0 || a.p == 1.0 || isinf(a.p) ? sum : (T)pow((double)sum, 1.0 / a.p);
}

template <class T>
AMP_DEVICE void distances(const amp_cuda_distances &a) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        int64_t x = 0, y = 0;
        if (a.points > 0) {
            pair_of(i, a.points, &x, &y);
            x *= a.point_step;
            y *= a.point_step;
        } else {
            x = place(i, a.rank, a.shape, a.x1_strides);
            y = place(i, a.rank, a.shape, a.x2_strides);
        }
        store<T>(a.out, a.out_dtype, i, distance<T>(a, x, y));
    }
}
AMP_KERNEL(distances_f32, amp_cuda_distances) {
    distances<float>(a);
}
AMP_KERNEL(distances_f64, amp_cuda_distances) {
    distances<double>(a);
}
