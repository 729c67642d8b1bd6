/* The coordinates of Resize and the weights of its filters: ONNX's operator documentation, Resize. In f64. */
#include "onnx/ops/resize_taps.h"

#include <math.h>

/* Where the middle of output element o lies in the input. */
static double place_of(const amp_resize_axis *a, int64_t o) {
    const double x = (double)o, input = (double)a->input, output = a->scale * input;
    switch (a->place) {
    case AMP_RESIZE_ALIGN_CORNERS: return output == 1 ? 0 : x * (input - 1) / (output - 1);
    case AMP_RESIZE_ASYMMETRIC: return x / a->scale;
    case AMP_RESIZE_CROP: {
        const double reach = (a->roi_end - a->roi_begin) * (input - 1);
        return a->roi_begin * (input - 1) + (output == 1 ? reach / 2 : x * reach / (output - 1));
    }
    case AMP_RESIZE_HALF_PIXEL_SYMMETRIC:
        return input / 2 * (1 - (double)a->output / output) + (x + 0.5) / a->scale - 0.5;
    case AMP_RESIZE_PYTORCH_HALF_PIXEL: return a->output > 1 ? (x + 0.5) / a->scale - 0.5 : 0;
    default: return (x + 0.5) / a->scale - 0.5;
    }
}

/* What lies between two elements up to rounding errors does so: scales come in f32. */
static int64_t nearest_to(const amp_resize_axis *a, double x) {
    x = rint(x * 0x1p20) * 0x1p-20;
    switch (a->round) {
    case AMP_RESIZE_PREFER_CEIL: return (int64_t)floor(x + 0.5);
    case AMP_RESIZE_FLOOR: return (int64_t)floor(x);
    case AMP_RESIZE_CEIL: return (int64_t)ceil(x);
    case AMP_RESIZE_SIMPLE: return (int64_t)(a->scale < 1 ? ceil(x) : trunc(x));
    default: return (int64_t)ceil(x - 0.5);
    }
}

static double cubic_weight(double x, double a) {
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Half the width of the filter, in elements of the input: wider where it shrinks without aliases. */
static double shrinking(const amp_resize_axis *a) {
    return a->antialias && a->scale < 1 ? a->scale : 1;
}
static int64_t taps_below(const amp_resize_axis *a) {
    return -(int64_t)(floor((a->mode == AMP_RESIZE_CUBIC ? -2 : -1) / shrinking(a)) + 1);
}

int64_t amp_resize_tap_count(const amp_resize_axis *a) {
    return a->mode == AMP_RESIZE_NEAREST ? 1 : 2 + 2 * taps_below(a);
}

static int64_t kept_inside(int64_t i, int64_t extent) {
    return i < 0 ? 0 : i >= extent ? extent - 1 : i;
}

static void weigh(const amp_resize_axis *a, double x, int64_t o, int64_t count, int64_t *indices, float *weights) {
    const int64_t first = (int64_t)floor(x) - taps_below(a);
    const double narrow = shrinking(a);
    double sum = 0;
    for (int round = 0; round < 2; round++) { /* the sum first */
        for (int64_t t = 0; t < count; t++) {
            const int64_t i = first + t;
            const double away = ((double)i - x) * narrow, linear = 1 - fabs(away);
            double weight = a->mode == AMP_RESIZE_CUBIC ? cubic_weight(away, a->cubic_a) : linear > 0 ? linear : 0;
            if (a->exclude_outside && (i < 0 || i >= a->input)) weight = 0;
            if (round == 0) {
                sum += weight;
                continue;
            }
            indices[t * a->output + o] = kept_inside(i, a->input);
            weights[t * a->output + o] = (float)(weight / sum);
        }
    }
}

bool amp_resize_taps(const amp_resize_axis *a, int64_t count, int64_t *indices, float *weights,
                     unsigned char *outside) {
    bool any = false;
    for (int64_t o = 0; o < a->output; o++) {
        const double x = place_of(a, o);
        outside[o] = a->place == AMP_RESIZE_CROP && !(x >= 0 && x <= (double)(a->input - 1));
        any = any || outside[o];
        if (a->mode == AMP_RESIZE_NEAREST || outside[o]) {
            const double here = x >= -1 && x <= (double)a->input ? x : 0; /* a number that an integer holds */
            for (int64_t t = 0; t < count; t++) {
                indices[t * a->output + o] = kept_inside(nearest_to(a, here), a->input);
                if (weights) weights[t * a->output + o] = 0;
            }
        } else {
            weigh(a, x, o, count, indices, weights);
        }
    }
    return any;
}
