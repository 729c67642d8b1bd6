/* Which elements of an axis a resized one is made of, and by what weights. Numbers only: no tensors. */
#ifndef AMP_ONNX_RESIZE_TAPS_H
#define AMP_ONNX_RESIZE_TAPS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum amp_resize_mode { AMP_RESIZE_NEAREST, AMP_RESIZE_LINEAR, AMP_RESIZE_CUBIC } amp_resize_mode;
typedef enum amp_resize_place {
    AMP_RESIZE_HALF_PIXEL,
    AMP_RESIZE_HALF_PIXEL_SYMMETRIC,
    AMP_RESIZE_PYTORCH_HALF_PIXEL,
    AMP_RESIZE_ALIGN_CORNERS,
    AMP_RESIZE_ASYMMETRIC,
    AMP_RESIZE_CROP /* tf_crop_and_resize */
} amp_resize_place;
typedef enum amp_resize_round {
    AMP_RESIZE_PREFER_FLOOR,
    AMP_RESIZE_PREFER_CEIL,
    AMP_RESIZE_FLOOR,
    AMP_RESIZE_CEIL,
    AMP_RESIZE_SIMPLE /* opsets 7 to 10: up where it shrinks, else down */
} amp_resize_round;

/* How one axis is resized. */
typedef struct amp_resize_axis {
    int64_t input, output;
    double scale, roi_begin, roi_end;
    amp_resize_mode mode;
    amp_resize_place place;
    amp_resize_round round;
    double cubic_a;
    bool antialias, exclude_outside;
} amp_resize_axis;

/* How many elements of the input each of the output is made of. */
int64_t amp_resize_tap_count(const amp_resize_axis *axis);
/* For each element o of the output and tap t < count: indices[t · output + o] and, but for nearest, weights[…]. Returns
 * whether some lie outside of what is cropped from; these are marked in outside[o]. */
bool amp_resize_taps(const amp_resize_axis *axis, int64_t count, int64_t *indices, float *weights,
                     unsigned char *outside);

#endif /* AMP_ONNX_RESIZE_TAPS_H */
