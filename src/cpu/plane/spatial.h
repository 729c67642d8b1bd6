/* What pooling, resampling and padding share: planes of one to three dimensions behind a batch and channels, walked as
 * dense rows in one of two layouts.
 *
 * A tensor is read as (outer, D, H, W, inner): outer counts batch and channels and inner is 1, or, channels last, outer
 * counts the batch and inner the channels. One loop then serves both: a row has W·inner elements that lie together. */
#ifndef AMP_CPU_SPATIAL_H
#define AMP_CPU_SPATIAL_H

#include "steps/spatial.h"

/* A tensor's elements as dense rows of a dtype: its own memory if it is like that, else a copy in the call's frame. */
amp_status amp_spatial_read(const amp_call *call, const amp_spatial *s, amp_tensor *tensor, amp_dtype dtype,
                            const void **data);

/* Where dense rows of results are written. */
typedef struct amp_spatial_result {
    amp_tensor *tensor, *scratch; /* the output; what is written in its place, or NULL */
    void *data;
} amp_spatial_result;

/* Makes output number `index`, of `dtype` and s->out; `data` takes rows of `compute`. */
amp_status amp_spatial_write(amp_call *call, const amp_spatial *s, int index, amp_dtype dtype, amp_dtype compute,
                             amp_spatial_result *result);

/* After the rows were written. */
amp_status amp_spatial_finish(const amp_spatial_result *result);

/* Rows [begin, end), with `scratch` of the thread's own. */
typedef void amp_spatial_rows(void *context, int64_t begin, int64_t end, void *scratch);

/* Spreads `rows` over threads; `cost` is what a row takes, in simple operations. */
amp_status amp_spatial_run(const amp_call *call, int64_t rows, int64_t cost, size_t scratch_bytes,
                           amp_spatial_rows *function, void *context);

/* Number `index` of the output's rows: which plane, depth and line it is. */
typedef struct amp_spatial_row {
    int64_t outer, d, h;
} amp_spatial_row;

static inline amp_spatial_row amp_spatial_row_at(const amp_spatial *s, int64_t index) {
    const int64_t plane = index / s->out[1];
    return (amp_spatial_row){plane / s->out[0], plane % s->out[0], index % s->out[1]};
}

static inline int64_t amp_spatial_row_count(const amp_spatial *s) {
    return s->outer * s->out[0] * s->out[1];
}

/* Every output element is the input element that the tables name for its D, H and W: out[n] numbers each, 0 … in[n] −
 * 1. */
amp_status amp_spatial_gather(amp_call *call, const amp_spatial *s, amp_tensor *input,
                              const int64_t *const tables[AMP_SPATIAL_DIMS]);

#endif /* AMP_CPU_SPATIAL_H */
