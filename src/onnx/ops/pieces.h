/* Small steps that several families of import functions take: lists of extents, numbers on the host, and the windows of
 * convolutions and pools. */
#ifndef AMP_ONNX_PIECES_H
#define AMP_ONNX_PIECES_H

#include "amp/ops.h"
#include "onnx/ops/compose.h"

enum {
    AMP_ONNX_MOST_SPATIAL = 3,   /* dimensions that a window slides over */
    AMP_ONNX_MOST_MADE = 1 << 28 /* elements of what a few numbers of a file ask for */
};

/* A list of one value `count` times. */
amp_dims amp_onnx_same_dims(int count, int64_t value);
/* The dimensions first … last - 1. */
amp_dims amp_onnx_dims_between(int first, int last);
/* The elements in another shape; -1 stands for what is left. */
amp_tensor *amp_onnx_reshaped(amp_tensor *t, int rank, const int64_t *shape);
/* The tensor with extents of 1 about its one dimension, which becomes dimension `axis` of `rank`; one of one element
 * becomes a number of rank 0. */
amp_tensor *amp_onnx_along(amp_tensor *t, int axis, int rank);

/* The elements as `dtype`, row by row, in memory of the host that lives as long as the step; NULL with an error. */
const void *amp_onnx_host(amp_tensor *t, amp_dtype dtype);
/* A tensor on the device of the step's inputs with a copy of these values. */
amp_tensor *amp_onnx_from_host(const amp_onnx_step *s, amp_dtype dtype, int rank, const int64_t *shape,
                               const void *values);
/* Memory of the host for `count` elements that lives as long as the step; zero at first. */
void *amp_onnx_memory(amp_dtype dtype, int64_t count);
/* The product of extents that a file asks for; -1 with an error where it is beyond `most`, or an extent below 0. */
int64_t amp_onnx_product(const amp_onnx_step *s, int count, const int64_t *extents, int64_t most);
/* A tensor of the host on the device of the step's inputs. */
amp_tensor *amp_onnx_to_inputs(const amp_onnx_step *s, amp_tensor *t);

/* ---- Windows -------------------------------------------------------------------------------------------------- */

/* What slides over the spatial dimensions of an input (N, C, …). */
typedef struct amp_onnx_window {
    int dims;
    int64_t input[AMP_ONNX_MOST_SPATIAL], kernel[AMP_ONNX_MOST_SPATIAL], stride[AMP_ONNX_MOST_SPATIAL],
        dilation[AMP_ONNX_MOST_SPATIAL];
    int64_t before[AMP_ONNX_MOST_SPATIAL], after[AMP_ONNX_MOST_SPATIAL]; /* padding */
    int64_t output[AMP_ONNX_MOST_SPATIAL];
} amp_onnx_window;

/* Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for input x; the kernel is that of `weight`
 * (O, C / group, …) where there is one. */
amp_status amp_onnx_window_of(const amp_onnx_step *s, const amp_tensor *x, const amp_tensor *weight,
                              amp_onnx_window *w);
/* The attributes alone, as ConvTranspose, Col2Im and MaxUnpool need them: padding is that of `pads`, no output. */
amp_status amp_onnx_window_read(const amp_onnx_step *s, int dims, const int64_t *kernel, amp_onnx_window *w);
/* The extent of a kernel with its gaps. */
int64_t amp_onnx_window_reach(const amp_onnx_window *w, int d);
/* Padding is the same on both sides. */
bool amp_onnx_window_is_even(const amp_onnx_window *w);
/* x with the window's padding, or with just as much as its windows reach (`reached`), of `value`. */
amp_tensor *amp_onnx_window_pad(const amp_onnx_window *w, amp_tensor *x, bool reached, amp_scalar value);
/* A view of padded x with what each window sees: (N, C, output …, kernel …). */
amp_tensor *amp_onnx_window_view(const amp_onnx_window *w, amp_tensor *x);
/* The convolution that the node's attributes describe, over padding of `value`; bias may be NULL. */
amp_tensor *amp_onnx_convolution(const amp_onnx_step *s, amp_tensor *x, amp_tensor *weight, amp_tensor *bias);

#endif /* AMP_ONNX_PIECES_H */
