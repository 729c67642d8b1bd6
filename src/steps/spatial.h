/* Planes of one to three dimensions behind a batch and channels: what pooling, resampling and padding share. */
#ifndef AMP_STEPS_SPATIAL_H
#define AMP_STEPS_SPATIAL_H

#include "call/call.h"

enum { AMP_SPATIAL_DIMS = 3 };

typedef struct amp_spatial {
    int dims; /* spatial dimensions, the last of the tensors'; missing ones have extent 1 */
    int rank; /* of the tensors: dims + 1, or dims + 2 with a batch */
    bool channels_last;
    int64_t batch, channels, outer, inner;
    int64_t in[AMP_SPATIAL_DIMS], out[AMP_SPATIAL_DIMS]; /* D, H, W */
} amp_spatial;

/* Reads batch, channels, layout and `in` off `input`, and sets `out` to the same. The result of a channels-last input
 * of rank 4 or 5 is channels last. An error if the rank is not dims + 1 or dims + 2, or if a spatial dimension is
 * empty. */
amp_status amp_spatial_start(const amp_call *call, amp_spatial *s, const amp_tensor *input, int dims);

/* Extent of `out` at the tensor's own spatial dimension d, 0 … dims − 1. */
static inline int64_t *amp_spatial_out(amp_spatial *s, int d) {
    return &s->out[AMP_SPATIAL_DIMS - s->dims + d];
}

static inline int64_t amp_spatial_in(const amp_spatial *s, int d) {
    return s->in[AMP_SPATIAL_DIMS - s->dims + d];
}

/* Memory for count·size bytes of a table, in the call's frame; NULL with an error. */
void *amp_spatial_table(const amp_call *call, int64_t count, size_t size);

#endif /* AMP_STEPS_SPATIAL_H */
