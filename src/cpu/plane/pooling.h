/* Windows of pooling ops. */
#ifndef AMP_CPU_POOLING_H
#define AMP_CPU_POOLING_H

#include "cpu/plane/spatial.h"

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

/* Means into output 0; NULL for no divisor_override. */
amp_status amp_pool_average(amp_call *call, const amp_pool *p, amp_tensor *input, bool count_padding,
                            const int64_t *divisor);

/* Maxima of the rows of one output line, and where they are: number d·H·W + h·W + w of the element in its plane. The
 * first of equal ones; the last NaN. */
typedef struct amp_pool_line {
    const amp_pool *pool;
    const amp_window *d, *h;
    const void *in;   /* the plane */
    void *out;        /* the line */
    int64_t *indices; /* NULL: not wanted */
    void *scratch;
} amp_pool_line;
/* Number `index` of all output lines; `in`, `out` and `indices` are whole tensors of elements of `size` bytes. */
amp_pool_line amp_pool_line_at(const amp_pool *p, int64_t index, const char *in, char *out, int64_t *indices,
                               int64_t size, void *scratch);
typedef void amp_pool_line_function(const amp_pool_line *line);
/* For f32, f64 or i64. */
amp_pool_line_function *amp_pool_maximum(amp_dtype compute);

/* The out= form has a tensor for the indices, and so asks for them. */
static inline bool amp_wants_indices(const amp_call *call, bool return_indices) {
    return return_indices || call->outs;
}

/* The pixels of a window, channels last, and, unless NULL, their numbers in the plane; returns how many. */
int64_t amp_pool_pixels(const amp_pool_line *line, const amp_window *columns, const float **pixels, int64_t *places);
/* The same for whole lines of the input under one of the output. */
int64_t amp_pool_lines(const amp_pool_line *line, const float **lines);
/* How many there are at most. */
static inline int64_t amp_pool_most_lines(const amp_pool *p) {
    return p->most[0] * p->most[1];
}

/* One extent of a list of `dims` sizes that must lie within [least, most]. */
amp_status amp_pool_check_dims(const amp_call *call, const char *name, const amp_dims *values, int dims, int64_t least,
                               int64_t most);

#endif /* AMP_CPU_POOLING_H */
