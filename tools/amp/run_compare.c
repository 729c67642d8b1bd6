/* amp run: bf16's outputs against f32's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "run.h"

/* All values as doubles, of a complex number both parts; *count of them. NULL with libamp's error, or without one where
 * there is no memory. */
static double *values_of(const amp_tensor *t, int64_t *count) {
    const bool pairs = amp_dtype_is_complex(amp_tensor_dtype(t));
    *count = amp_tensor_numel(t) * (pairs ? 2 : 1);
    const size_t bytes = (size_t)*count * sizeof(double);
    double *values = malloc(bytes ? bytes : 1);
    if (values && amp_read(t, pairs ? AMP_C128 : AMP_F64, values, bytes) == AMP_OK) return values;
    free(values);
    return NULL;
}

static int fail_reading(void) {
    return amp_last_status() == AMP_OK ? run_no_memory() : run_fail_amp();
}

static bool is_same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

/* NaN where a number is none in one of the two only; of nothing but zeros 1. */
static double cosine_of(double product, double norms, bool differ) {
    if (norms == 0) return differ ? 0 : 1;
    return product / norms > 1 ? 1 : product / norms;
}

static void compare_values(run_comparison *c, const double *a, const double *b, int64_t count) {
    double product = 0, squares_a = 0, squares_b = 0;
    for (int64_t i = 0; i < count; i++) {
        c->different += !is_same(a[i], b[i]);
        if (!isfinite(a[i]) && is_same(a[i], b[i])) continue;
        const double error = isfinite(a[i] - b[i]) ? fabs(a[i] - b[i]) : INFINITY;
        c->largest = fmax(c->largest, error);
        c->magnitude = fmax(c->magnitude, fabs(a[i]));
        product += a[i] * b[i];
        squares_a += a[i] * a[i];
        squares_b += b[i] * b[i];
    }
    c->cosine = cosine_of(product, sqrt(squares_a) * sqrt(squares_b), c->different > 0);
}

static bool has_same_shape(const amp_tensor *a, const amp_tensor *b) {
    const int rank = amp_tensor_rank(a);
    if (rank != amp_tensor_rank(b)) return false;
    for (int d = 0; d < rank; d++) {
        if (amp_tensor_shape(a)[d] != amp_tensor_shape(b)[d]) return false;
    }
    return amp_dtype_is_complex(amp_tensor_dtype(a)) == amp_dtype_is_complex(amp_tensor_dtype(b));
}

int run_compare(run_comparison *c, const amp_tensor *f32, const amp_tensor *bf16) {
    int64_t count = 0;
    *c = (run_comparison){.same_shape = has_same_shape(f32, bf16), .elements = amp_tensor_numel(f32)};
    if (!c->same_shape) return AMP_EXIT_OK;
    double *a = values_of(f32, &count), *b = a ? values_of(bf16, &count) : NULL;
    if (b) compare_values(c, a, b, count);
    const int code = b ? AMP_EXIT_OK : fail_reading();
    free(a);
    free(b);
    return code;
}

/* The first elements, row by row. */
static const amp_tensor *corner(const amp_tensor *t, int room) {
    amp_tensor *x = amp_reshape((amp_tensor *)t, AMP_DIMS(-1));
    return amp_narrow(x, 0, 0, amp_tensor_numel(t) < room ? amp_tensor_numel(t) : room);
}

int run_first_values(const amp_tensor *t, double *values, int room) {
    int64_t count = -1;
    amp_scope {
        double *all = values_of(corner(t, room), &count);
        if (count > room) count = room;
        if (all) memcpy(values, all, (size_t)count * sizeof *values);
        if (!all) count = -1;
        free(all);
    }
    return (int)count;
}
