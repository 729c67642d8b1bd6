/* What ops ask of a device: the table of steps that stands below src/ops. A step takes a problem whose arguments have
 * been checked, on tensors of the device; what it writes, it makes by amp_call_output or is given. A step that is NULL
 * is one that the device does not have. */
#ifndef AMP_STEPS_STEPS_H
#define AMP_STEPS_STEPS_H

#include "amp/ops.h"
#include "steps/activation.h"
#include "steps/attention_heads.h"
#include "steps/conv.h"
#include "steps/fft_lines.h"
#include "steps/kinds.h"
#include "steps/linalg.h"
#include "steps/matmul.h"
#include "steps/operands.h"
#include "steps/pooling.h"
#include "steps/reduce.h"
#include "steps/rnn.h"
#include "steps/rows.h"
#include "steps/taps.h"

/* Lists of `count` tensors: those of one parameter are of one shape, and their elements in the same order without
 * gaps. */
typedef struct amp_update {
    amp_update_kind kind;
    double numbers[AMP_MAX_RANK];
    int64_t count;
    amp_tensor *const *parameters, *const *gradients; /* any floating dtypes */
    amp_tensor *const *states[AMP_UPDATE_STATES];     /* of the parameter's dtype; NULL: there are none */
    amp_tensor *const *copies;                        /* get the new values in their own dtype; or NULL */
} amp_update;

/* Variances, or deviations (power ½), of a floating or complex input into output 0 and, if asked for, means into
 * output 1. */
typedef struct amp_variance {
    amp_tensor *input;
    unsigned mask; /* bit d: dimension d is reduced */
    bool keepdim;
    double correction, power;
    bool with_mean;
} amp_variance;

/* Quantiles of rows, q by q: [q, rows]. */
typedef enum amp_quantile_rule {
    AMP_QUANTILE_LINEAR,
    AMP_QUANTILE_LOWER,
    AMP_QUANTILE_HIGHER,
    AMP_QUANTILE_MIDPOINT,
    AMP_QUANTILE_NEAREST
} amp_quantile_rule;
typedef struct amp_quantiles {
    amp_tensor *q; /* of rank 0 or 1, of the rows' dtype, not checked yet; NULL: … */
    double number; /* … this */
    int64_t count;
    int rule; /* amp_quantile_rule */
    bool without_nan;
} amp_quantiles;
/* Number `index` of q is one from 0 to 1. */
amp_status amp_check_quantile(const amp_call *call, int64_t index, double q);

/* searchsorted: a vector for all values, or a row of the sequence for each of theirs; `sorter` (i64) may be NULL. */
typedef struct amp_searching {
    amp_tensor *sequence, *sorter;
    amp_dtype compute;
    bool right;
} amp_searching;

/* Values put into `table` at the places of `index` (i64), which all have one rank, from 1 up. An index below `least`
 * or not below the extent of dimension `dim` has been refused, or is told of later. */
typedef struct amp_writing {
    const amp_tensor *table, *index, *values; /* values NULL: `number`, an element of the table's dtype */
    const void *number;
    amp_scatter_kind kind;
    int dim;
    int64_t least;
    amp_scalar alpha; /* of AMP_SCATTER_ADD */
} amp_writing;

/* Output 0, of `rank` dimensions: table[…] with dimension `dim` named by index[place], for every place of the index;
 * both have one rank, from 1 up, and indices may count from the end. `given`: the index in its own shape, for
 * messages. */
typedef struct amp_reading {
    const amp_tensor *given, *table, *index;
    int dim, rank;
} amp_reading;

/* The input at the places of `grid`. */
typedef enum amp_sampling_mode { AMP_SAMPLE_LINEAR, AMP_SAMPLE_NEAREST, AMP_SAMPLE_CUBIC } amp_sampling_mode;
typedef enum amp_sampling_border { AMP_BORDER_ZEROS, AMP_BORDER_EDGE, AMP_BORDER_MIRROR } amp_sampling_border;
enum { AMP_SAMPLE_FARTHEST = INT32_MAX - 8 }; /* a plane has fewer elements */
typedef struct amp_sampling {
    amp_tensor *input, *grid;
    int64_t mode, border; /* of the enums above: PyTorch's numbers */
    bool align;
} amp_sampling;

typedef enum amp_bag_mode { AMP_BAG_SUM, AMP_BAG_MEAN, AMP_BAG_MAX } amp_bag_mode;

/* Losses (f64, of the broadcast shape) from the sums of vectors: cosine_losses takes Σ x·y, Σ x², Σ y² and the target,
 * triplet_losses the distances of anchor and positive, anchor and negative and, with `swap`, positive and negative. */
typedef amp_status amp_pair_losses(const amp_call *call, const amp_operand *sums, int count, double margin,
                                   amp_tensor *losses);

/* The gradients of layer_norm and rms_norm (whose mean is not taken away), from d, that of the result: rows are the
 * dimensions from `dim` on. */
typedef struct amp_norm_slope {
    amp_tensor *d, *input, *weight; /* weight NULL: ones */
    double eps;
    int dim;
    bool is_centred;
} amp_norm_slope;

/* Those of group_norm, batch_norm and instance_norm. `groups` of channels have statistics of their own in each sample;
 * 0: a channel has those of the batch, or the running ones where they are not NULL. */
typedef struct amp_channel_norm_slope {
    amp_tensor *d, *input, *weight, *running_mean, *running_var;
    int64_t groups;
    double eps;
} amp_channel_norm_slope;

struct amp_random_task;

typedef struct amp_steps {
    /* ---- Products, convolutions, recurrent networks ---- */
    amp_status (*matmul)(amp_call *call, amp_matmul *p);
    /* Σ x[…, k]·y[…, k]; with `conjugate`, of x's conjugate. x and y have one dtype and shape, out that without its
     * last dimension and any dtype. */
    amp_status (*dots)(const char *op, amp_tensor *out, const amp_tensor *x, const amp_tensor *y, bool conjugate);
    /* `loops`: as amp_conv_suits_loops chose for the CPU. */
    amp_status (*convolve)(amp_call *call, const amp_conv *c, bool loops);
    /* A gradient of a convolution, and whether there is a way for a result of that dtype, whose tensor is NULL in the
     * question; it may still turn out that there is none. NULL, both: made of other ops. */
    bool (*has_convolve_back)(const amp_conv_back *c, amp_dtype dtype);
    amp_status (*convolve_back)(amp_call *call, const amp_conv_back *c, bool *served);
    amp_status (*rnn_pass)(amp_call *call, const amp_rnn_pass *layer);
    /* NULL: a device that keeps no workspace. */
    amp_status (*rnn_back)(amp_call *call, const amp_rnn_back *layer);

    /* ---- Elements ---- */
    amp_status (*write_range)(amp_tensor *out, const amp_scalar *start, const amp_scalar *step); /* of a dense vector */
    /* NULL: made of other ops. */
    amp_status (*slope)(amp_call *call, const amp_slope *slope);
    /* Along the last dimension, of real floating numbers of one shape and dtype. NULL: made of other ops. */
    amp_status (*softmax_slope)(amp_call *call, amp_tensor *d, amp_tensor *y, bool logarithm);
    /* Of f32 and 16-bit floats, the batches of all of them one. NULL: made of other ops, as the two below. */
    amp_status (*attention_slope)(amp_call *call, const amp_attention_slope *slope);
    /* Output 0, and those of 1 and 2 that are wanted: the gradients by input, weight and bias, the latter in f32. d and
     * input are f32 or 16-bit floats, and not without elements for channel_norm_slope. */
    amp_status (*norm_slope)(amp_call *call, const amp_norm_slope *slope);
    amp_status (*channel_norm_slope)(amp_call *call, const amp_channel_norm_slope *slope);
    /* Output 0: batch_norm of f32 or 16-bit floats, at least `least` (NaN stays), rounded once to `dtype`, which is one of
     * them too. */
    amp_status (*batch_norm)(amp_call *call, const amp_batch_norm_args *args, amp_dtype dtype, float least);
    amp_status (*polar)(const amp_call *call, const amp_polar_args *args, amp_tensor *out);
    /* scale and zero_point have one element each; a zero point out of range is refused, or told of later. */
    amp_status (*fake_quantize)(amp_call *call, amp_tensor *input, amp_tensor *scale, amp_tensor *zero_point,
                                int64_t low, int64_t high);
    /* out = v₀·v₁ − v₂·v₃ */
    amp_status (*difference_of_products)(const amp_call *call, const amp_tensor *const v[4], amp_dtype compute,
                                         amp_tensor *out);
    /* Output 0 of renorm: input, its slices scaled down to `limit` where their norms, f64, are above it. */
    amp_status (*scale_slices)(amp_call *call, amp_tensor *input, amp_tensor *norms, double limit);
    /* Output 0 of local_response_norm; `inner`: elements behind the channel. */
    amp_status (*respond)(amp_call *call, const amp_local_response_norm_args *args, int64_t inner);

    /* Random elements into dense `out`; dense `in` may be NULL (cpu/random/random_task.h). */
    amp_status (*random_elements)(amp_call *call, struct amp_random_task *task, const amp_tensor *out,
                                  const amp_tensor *in);

    /* ---- Reductions and distances ---- */
    amp_status (*reduce)(const amp_reduce_work *work, amp_tensor *out);
    amp_status (*variance)(amp_call *call, const amp_variance *v);
    /* Into output 0, of `dtype`: of every point of `one` from every one of `many`, both [batch…, points, coordinates]
     * with equal batches; of every point of a matrix from those behind it. */
    amp_status (*distances_between)(amp_call *call, const amp_tensor *one, const amp_tensor *many, double p,
                                    amp_dtype dtype);
    amp_status (*distances_within)(amp_call *call, const amp_tensor *points, double p);
    /* |a − b + eps| and a·b of a pair that broadcasts; x·y/(|x|·|y|) from Σ x·y, Σ x², Σ y². */
    amp_status (*moduli)(const amp_call *call, const amp_operand pair[2], amp_dtype compute, double eps,
                         amp_tensor *moduli);
    amp_status (*products)(const amp_call *call, const amp_operand pair[2], amp_dtype compute, amp_tensor *products);
    amp_status (*cosines)(const amp_call *call, const amp_operand sums[3], double eps, amp_tensor *out);
    amp_pair_losses *cosine_losses, *triplet_losses;

    /* ---- Planes ---- */
    /* Every output element is the input element that the tables name for its D, H and W: out[n] numbers each, 0 …
     * in[n] − 1. */
    amp_status (*spatial_gather)(amp_call *call, const amp_spatial *s, amp_tensor *input,
                                 const int64_t *const tables[AMP_SPATIAL_DIMS]);
    amp_status (*resample)(amp_call *call, const amp_spatial *s, amp_tensor *input,
                           const amp_taps taps[AMP_SPATIAL_DIMS]);
    /* `divisor`: instead of the window's elements; may be NULL. */
    amp_status (*pool_average)(amp_call *call, const amp_pool *p, amp_tensor *input, bool count_padding,
                               const int64_t *divisor);
    /* Maxima into output 0 and, if asked for, where they are into output 1. */
    amp_status (*pool_maximum)(amp_call *call, const amp_pool *p, amp_tensor *input, bool with_places);
    amp_status (*pool_fractional)(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *samples,
                                  const int64_t kernel[AMP_SPATIAL_DIMS], bool with_places);
    /* Elements of the input where `indices` say, in a result of zeros. */
    amp_status (*unpool)(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *indices);
    amp_status (*sample_grid)(amp_call *call, const amp_spatial *s, const amp_sampling *sampling);

    /* ---- Gradients ---- */
    /* Each times *factor, in place; *found becomes 1 where an element is not finite. */
    amp_status (*unscale)(amp_call *call, const amp_tensor_list *grads, amp_tensor *found, const amp_tensor *factor);
    /* Each element times `factor`, and no further from 0 than `limit`, in place. NULL: made of other ops. */
    amp_status (*clip)(amp_call *call, const amp_tensor_list *grads, double factor, double limit);
    /* out (f64, dense) gets √Σx² of each; they fill their memory. NULL: made of other ops. */
    amp_status (*norms)(amp_call *call, const amp_tensor_list *grads, amp_tensor *out);
    /* One step of an optimizer, of a list of parameters. */
    amp_status (*update)(amp_call *call, const amp_update *u);

    /* ---- Indices, order ---- */
    amp_status (*write_by_index)(const amp_call *call, const amp_writing *w);
    amp_status (*read_along)(amp_call *call, const amp_reading *r);
    /* out[place] = Σ indices[d][place] · stride of dimension d, where indices[d] is not NULL; they broadcast to `out`,
     * and may count from the end. */
    amp_status (*make_offsets)(const amp_call *call, const amp_tensor *table, amp_tensor *const *indices, int dims,
                               amp_tensor *out);
    /* index_put whose only index is a mask over the dimensions from `first` on; NULL: masks become indices. */
    amp_status (*index_put_mask)(amp_call *call, const amp_index_put_args *a, amp_tensor *mask, int first);
    /* The largest element, at least 0; NULL: nobody waits for the device to know. */
    int64_t (*largest_index)(const amp_tensor *index);
    /* out (i64, zeros) is 1 at index[place] of its last dimension, for every place. */
    amp_status (*set_hot)(const amp_call *call, const amp_tensor *index, amp_tensor *out);
    /* Rows of the table put together; mode and padding row (−1: none) have been read. */
    amp_status (*embedding_bag)(amp_call *call, const amp_embedding_bag_args *args, amp_bag_mode mode, int64_t padding);
    /* The first k elements of each row in order, and their places. */
    amp_status (*first_of_rows)(const amp_call *call, const amp_rows *in, int64_t k, bool descending, bool last_first,
                                const amp_rows *values, const amp_rows *places);
    amp_status (*quantiles)(const amp_call *call, const amp_rows *in, const amp_quantiles *asked, const amp_rows *out);
    amp_status (*search)(const amp_call *call, const amp_searching *s, const amp_rows *values, const amp_rows *out);

    /* ---- Lines and matrices ---- */
    amp_status (*fft_lines)(const amp_fft_lines *lines);
    amp_status (*linalg_run)(amp_call *call, const amp_linalg_loop *loop); /* of at least one matrix */
    amp_status (*conjugate)(amp_tensor *t);                                /* a dense, complex tensor, in place */
} amp_steps;

extern const amp_steps amp_cpu_step_table, amp_cuda_step_table;

static inline const amp_steps *amp_steps_on(amp_device device) {
    return __builtin_expect(device == AMP_DEVICE_CPU, 1) ? &amp_cpu_step_table : &amp_cuda_step_table;
}
static inline const amp_steps *amp_steps_of(const amp_call *call) {
    return amp_steps_on(call->device);
}

/* On the device of the result. */
static inline amp_status amp_reduce(const amp_reduce_work *work, amp_tensor *out) {
    return amp_steps_on(out->storage->device)->reduce(work, out);
}

#endif /* AMP_STEPS_STEPS_H */
