/* Windows of pooling ops. */
#ifndef AMP_CPU_POOLING_H
#define AMP_CPU_POOLING_H

#include "cpu/plane/spatial.h"
#include "steps/pooling.h"

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
    int64_t size; /* of an element */
} amp_pool_line;

/* Number `index` of all output lines; `in`, `out` and `indices` are whole tensors of elements of `size` bytes. */
amp_pool_line amp_pool_line_at(const amp_pool *p, int64_t index, const char *in, char *out, int64_t *indices,
                               int64_t size, void *scratch);

typedef void amp_pool_line_function(const amp_pool_line *line);

/* For f32, bf16, f16, f64 or i64. */
amp_pool_line_function *amp_pool_maximum(amp_dtype dtype);

/* The pixels of a window, channels last, and, unless NULL, their numbers in the plane; returns how many. */
int64_t amp_pool_pixels(const amp_pool_line *line, const amp_window *columns, const void **pixels, int64_t *places);

/* The same for whole lines of the input under one of the output. */
int64_t amp_pool_lines(const amp_pool_line *line, const void **lines);

/* How many there are at most. */
static inline int64_t amp_pool_most_lines(const amp_pool *p) {
    return p->most[0] * p->most[1];
}

#endif /* AMP_CPU_POOLING_H */
