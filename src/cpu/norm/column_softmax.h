/* softmax over a dimension that is not the last. */
#ifndef AMP_CPU_COLUMN_SOFTMAX_H
#define AMP_CPU_COLUMN_SOFTMAX_H

#include "call/call.h"

typedef struct amp_column_softmax {
    const amp_tensor *in; /* of any dtype that f32 computes for `out` */
    amp_tensor *out;      /* of the same shape */
    int dim;
    bool logarithm, negate; /* log_softmax, softmin */
} amp_column_softmax;

/* Whether columns of that shape are computed as such. */
bool amp_suits_columns(const amp_tensor *in, int dim, bool negate);

amp_status amp_cpu_column_softmax(amp_call *call, const amp_column_softmax *softmax);

#endif /* AMP_CPU_COLUMN_SOFTMAX_H */
