/* The argument structs of the CUDA kernels, as libamp fills them and the .cu files read them. Strides are in
 * elements. */
#ifndef AMP_CUDA_KERNEL_ARGS_H
#define AMP_CUDA_KERNEL_ARGS_H

#include "amp/types.h"
#include "cuda/args/divisor.h"

enum { AMP_CUDA_INPUTS = 3 };

/* What products, convolutions and the formula `finish` do last. */
typedef enum amp_cuda_activation {
    AMP_CUDA_NONE = 0,
    AMP_CUDA_RELU,
    AMP_CUDA_GELU_ERF,
    AMP_CUDA_GELU_TANH,
    AMP_CUDA_SILU,
    AMP_CUDA_TANH,
    AMP_CUDA_SIGMOID,
    AMP_CUDA_HARDSWISH,
    AMP_CUDA_LEAKY_RELU,
    AMP_CUDA_HARDTANH
} amp_cuda_activation;

/* What kernels met that has no result: the op of the last of them, or NULL. In host memory, one for each stream; the
 * host looks there whenever it has waited for the stream. */
typedef struct amp_cuda_faults {
    const char *zero_divisor, *index, *probability;
} amp_cuda_faults;

/* Where the kernels of `op` write that. They go on without the element. */
typedef struct amp_cuda_report {
    amp_cuda_faults *faults;
    const char *op;
} amp_cuda_report;

/* Functions of one to three elements; the kernels are called <formula>_<compute>: exp_f32, add_i64. The switch kernels
 * of f64, i64 and c128 (elementwise_f64 …) take the formula's number instead. */
typedef struct amp_cuda_operand {
    void *data; /* NULL: the constant, for every element */
    int64_t strides[AMP_MAX_RANK];
    amp_dtype dtype;
    bool spread; /* one element for a whole unit */
    double constant, imaginary;
    int64_t whole; /* the constant of an i64 kernel */
} amp_cuda_operand;

/* A thread takes `width` elements at a time, 8, 4 or 1, which are neighbours in the last dimension: `count`, the last
 * of `shape` and the last strides are of such units. More than 1: out and in are f32, f16, bf16 or bool; along a unit
 * they have their elements side by side, aligned, or, where the last stride is 0, one for all. `rest`: elements behind
 * the units, of a single dimension. */
typedef struct amp_cuda_elementwise {
    int64_t count, rest;
    amp_cuda_divisor shape[AMP_MAX_RANK];
    int rank;
    int formula;
    int width;
    amp_cuda_operand out, in[AMP_CUDA_INPUTS];
    double p, q, r; /* the op's numbers */
    int64_t whole;
    amp_cuda_report report;
} amp_cuda_elementwise;

typedef struct amp_cuda_range {
    void *out;
    amp_dtype dtype;
    bool integers;
    int64_t count, whole_start, whole_step;
    double start, step;
} amp_cuda_range;

/* Two sets of dimensions: those that results are for, and those that go into one. */
typedef struct amp_cuda_reduce {
    const void *in;
    void *out;
    amp_dtype in_dtype, out_dtype;
    int kept_rank, reduced_rank;
    int64_t kept[AMP_MAX_RANK], kept_strides[AMP_MAX_RANK], out_strides[AMP_MAX_RANK];
    int64_t reduced[AMP_MAX_RANK], reduced_strides[AMP_MAX_RANK];
    int64_t results, elements; /* products of kept and reduced */
    int kind;                  /* amp_reduction */
    double power, scale, root;
    int width;      /* threads for one result: a power of two, at most the block */
    int64_t *index; /* of the extreme element, dense in the order of results; NULL: not asked for */
    /* In two stages: the elements of each result in so many pieces, joined first; then these. */
    int64_t pieces;
    void *joined; /* AMP_CUDA_STATE bytes for each piece; NULL: all in one stage */
    bool second;  /* the pieces have been joined */
} amp_cuda_reduce;
enum { AMP_CUDA_STATE = 64 };

/* Rows of `length` elements, `inner` apart; row i starts at (i / inner)·length·inner + i % inner. Teams of so many
 * threads take one each, a power of two, and `width` elements at a time, 8 or 4. `vectors`: those can be read,
 * and written, at once. */
typedef struct amp_cuda_softmax {
    const void *in;
    void *out;
    amp_dtype in_dtype, out_dtype;
    int64_t rows, length, inner;
    amp_cuda_divisor by_inner;
    bool logarithm, vectors;
    int team, width;
} amp_cuda_softmax;

/* Numbers that a normalisation multiplies by, or adds; data NULL: none. */
typedef struct amp_cuda_parameter {
    const void *data;
    amp_dtype dtype;
    bool vectors;
} amp_cuda_parameter;

/* Dense rows, as of amp_cuda_softmax; element j of row i has weight number (i % groups)·per_group + j / inner. */
typedef struct amp_cuda_norm {
    const void *in;
    void *out;
    amp_cuda_parameter weight, bias;
    amp_dtype dtype;
    int64_t rows, length, per_group;
    amp_cuda_divisor groups, inner;
    double eps;
    bool root_mean_square; /* no mean is taken away */
    bool vectors;
    int team, width;
} amp_cuda_norm;

/* (x − mean) · weight / √(variance + eps) + bias by channels, in f32, of dense f32, f16 or bf16:
 * [samples][channels][inner], or, of channels that lie side by side, [samples · inner][channels] with `inner` 1. A
 * thread takes `width` neighbours at a time, 8, 4 or 1: `count`, and the inner one of `channels` and `inner` that is
 * not 1, are of such units. */
typedef struct amp_cuda_channel_norm {
    const void *in;
    void *out;
    amp_cuda_parameter mean, variance, weight, bias;
    amp_dtype dtype;
    int64_t count;
    amp_cuda_divisor channels, inner;
    bool side_by_side;
    int width;
    double eps;
} amp_cuda_channel_norm;

/* Running sums, products and extremes along dense rows as of amp_cuda_softmax. */
typedef struct amp_cuda_scan {
    const void *in;
    void *out;
    int64_t *index; /* of extremes: where they are */
    amp_dtype in_dtype, out_dtype;
    int64_t rows, length, inner;
} amp_cuda_scan;

/* Losses over classes: class c of sample i is element (i / inner)·classes·inner + c·inner + i % inner. All is dense;
 * what is written has the type that is computed in. */
typedef struct amp_cuda_classes {
    const void *in, *target, *probabilities, *weight; /* target or probabilities; weight: of classes, or NULL */
    void *losses, *weights;                           /* of samples; weights: what a mean divides by, or NULL */
    amp_dtype in_dtype, target_dtype, probability_dtype, weight_dtype;
    int64_t samples, classes, inner, ignore;
    double smoothing;
    double margin;
    bool squared;
    amp_cuda_report report;
} amp_cuda_classes;

/* Matrices (…, rows, columns) of one operand of attention; steps are 0 where it broadcasts. */
typedef struct amp_cuda_heads {
    void *data;
    amp_dtype dtype;
    int64_t batch[AMP_MAX_RANK], row, column;
    bool vectors; /* rows can be read 16 bytes at a time */
} amp_cuda_heads;

/* softmax(scale · q·kᵀ + mask)·v for every head; `group` of them share a key head. */
typedef struct amp_cuda_attention {
    amp_cuda_heads q, k, v, mask, out; /* mask.data NULL: none; bool: true attends */
    int batch_rank;
    int64_t batch[AMP_MAX_RANK];
    int64_t heads, group, rows, keys;
    int depth, width;
    double scale;
    float factor; /* scale · log₂ e, of the flash_* kernels */
    bool causal;
    /* More than one part: a block meets `part_keys` of the keys. What it sums, f32 or f64, goes to
     * [part][head][row][column], its greatest score and sum of weights to [part][head][row], and attention_join_<dtype>
     * makes results of them. */
    int64_t parts, part_keys;
    void *sums, *highs, *totals;
} amp_cuda_attention;

/* out[c…] = in[c… with c[dim] replaced by index[c…]], 0 where that is outside; of units of `size` bytes. */
typedef struct amp_cuda_gather {
    const void *in, *index;
    void *out;
    amp_dtype index_dtype;
    int size, rank;
    int64_t count, extent, dim_stride;
    amp_cuda_divisor shape[AMP_MAX_RANK];
    int64_t in_strides[AMP_MAX_RANK], index_strides[AMP_MAX_RANK];
    amp_cuda_report report;
} amp_cuda_gather;

/* What a convolution's outputs meet, as rows of a matrix: out[g][n][o0 o1 o2][c][k0 k1 k2], 0 outside of the input. */
typedef struct amp_cuda_axis {
    int64_t in, out, kernel, stride, pad, dilation;
    int64_t step; /* in the input, in elements */
} amp_cuda_axis;

typedef struct amp_cuda_unfold {
    const void *in;
    void *out;
    int size; /* of an element, in bytes */
    bool transposed;
    int64_t count;
    amp_cuda_divisor batch, channels;                       /* channels: of one group */
    amp_cuda_divisor by_out[3], by_kernel[3], by_stride[3]; /* of the axes */
    int64_t batch_step, channel_step;
    amp_cuda_axis axis[3];
} amp_cuda_unfold;

/* Windows of three dimensions behind a batch and channels. Output o of an axis is made of counts[o] inputs, index[o ·
 * most …]; of a pooling op they are `stride` apart. */
typedef struct amp_cuda_window_axis {
    int64_t out, in, most, stride;
    amp_cuda_divisor by_out;
    const int64_t *index, *counts, *padded; /* counts NULL: one; padded: elements with those in the padding */
    const double *weights;                  /* beside index */
} amp_cuda_window_axis;

typedef struct amp_cuda_steps {
    int64_t batch, channel, axis[3];
} amp_cuda_steps;

typedef struct amp_cuda_windows {
    const void *in;
    void *out;
    int64_t *places; /* of maxima, as d·H·W + h·W + w; NULL: not asked for */
    amp_dtype in_dtype, out_dtype;
    int64_t count, channels;
    amp_cuda_divisor by_channels;
    amp_cuda_steps in_steps, out_steps, place_steps;
    amp_cuda_window_axis axis[3];
    bool round;         /* to bytes, the columns of a line first */
    bool count_padding; /* in a mean */
    int64_t divisor;    /* of a mean; 0: the elements */
    int size;           /* of an element that is moved, in bytes */
    amp_cuda_report report;
} amp_cuda_windows;

/* p-norms of x1 − x2 along the last dimension: of all pairs of a row-major shape, or, where `points` is set, of the
 * pairs (i, j > i) of so many points in x1, one after the other. */
typedef struct amp_cuda_distances {
    const void *x1, *x2;
    void *out;
    amp_dtype x1_dtype, x2_dtype, out_dtype;
    int rank;
    int64_t count, shape[AMP_MAX_RANK], x1_strides[AMP_MAX_RANK], x2_strides[AMP_MAX_RANK];
    int64_t depth, x1_step, x2_step, points, point_step;
    double p;
} amp_cuda_distances;

/* grid_sampler: for each sample of a grid, all channels of the input there. Axes are D, H, W. */
typedef struct amp_cuda_samples {
    const void *in, *grid;
    void *out;
    amp_dtype dtype;
    int dims, mode, border; /* linear, nearest, cubic; zeros, edge, mirror */
    bool align;
    int64_t batch, channels, in_extent[3], out_extent[3];
    amp_cuda_steps in_steps, out_steps, grid_steps; /* the grid's channel step is that of its last dimension */
} amp_cuda_samples;

/* Dense memory of many tensors, in pieces of `AMP_CUDA_PIECE` elements: tensor i has those from first_piece[i] on. */
enum { AMP_CUDA_TENSORS = 96, AMP_CUDA_PIECE = 16 * 1024 };
typedef struct amp_cuda_scaling {
    void *data[AMP_CUDA_TENSORS];
    int64_t counts[AMP_CUDA_TENSORS], first_piece[AMP_CUDA_TENSORS + 1];
    amp_dtype dtypes[AMP_CUDA_TENSORS];
    int tensors;
    const float *factor;
    float *found; /* becomes 1 where an element is not finite */
} amp_cuda_scaling;

#endif /* AMP_CUDA_KERNEL_ARGS_H */
