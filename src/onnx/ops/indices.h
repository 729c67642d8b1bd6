/* Indices of ONNX's ops that pick and put: negative ones count from the end. All of it is computed by ops: a graph runs
 * on with other indices. */
#ifndef AMP_ONNX_INDICES_H
#define AMP_ONNX_INDICES_H

#include "onnx/step.h"

/* Indices into a dimension of extent n as i64; those from 0 to n − 1 that fit, others for the op that gets them to
 * refuse. NULL stays NULL. */
amp_tensor *amp_onnx_wrapped(amp_tensor *indices, int64_t n);

/* What GatherND and ScatterND speak of: x as rows, and a list of some of them. */
typedef struct amp_onnx_row_set {
    amp_tensor *of; /* x as (rows, elements) */
    int64_t elements, count;
    int depth;          /* dimensions of x that an entry of the list stands for */
    amp_tensor *places; /* the list: a vector of count */
} amp_onnx_row_set;

/* Of indices whose last dimension holds an index for each of x's dimensions from `batch_dims` on. Where one is outside,
 * the entry is none of the rows. */
amp_status amp_onnx_rows(const amp_onnx_step *s, amp_tensor *x, amp_tensor *indices, int64_t batch_dims,
                         amp_onnx_row_set *rows);

#endif /* AMP_ONNX_INDICES_H */
