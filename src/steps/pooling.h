/* Windows over planes. */
#ifndef AMP_STEPS_POOLING_H
#define AMP_STEPS_POOLING_H

#include "steps/spatial.h"

/* The part of a window that lies inside of the input, along one dimension. */
typedef struct amp_window {
    int64_t start, count; /* elements start, start + step, …; count may be 0 */
    int64_t padded;       /* how many there are with those in the padding */
} amp_window;

typedef struct amp_pool {
    amp_spatial s;
    const amp_window *windows[AMP_SPATIAL_DIMS]; /* of every output element along D, H, W */
    int64_t step[AMP_SPATIAL_DIMS];
    int64_t most[AMP_SPATIAL_DIMS];  /* elements of a window inside of the input */
    int64_t kernel, stride, padding; /* along W; kernel 0: the windows differ */
} amp_pool;

typedef struct amp_pool_options {
    const amp_dims *kernel, *stride, *padding, *dilation; /* stride absent or empty: the kernel; dilation NULL: 1 */
    bool ceil_mode;
} amp_pool_options;

/* Reads the geometry off `input`, checks the options, sets s.out and the windows. */
amp_status amp_pool_start(const amp_call *call, amp_pool *p, const amp_tensor *input, int dims,
                          const amp_pool_options *options);

/* The same for windows that cover the input evenly; a size of -1 is the input's. */
amp_status amp_pool_start_adaptive(const amp_call *call, amp_pool *p, const amp_tensor *input, int dims,
                                   const amp_dims *output_size);

/* The out= form has a tensor for the indices, and so asks for them. */
static inline bool amp_wants_indices(const amp_call *call, bool return_indices) {
    return return_indices || call->outs;
}

/* One extent of a list of `dims` sizes that must lie within [least, most]. */
amp_status amp_pool_check_dims(const amp_call *call, const char *name, const amp_dims *values, int dims, int64_t least,
                               int64_t most);

#endif /* AMP_STEPS_POOLING_H */
