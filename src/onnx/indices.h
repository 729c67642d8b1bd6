/* Indices of ONNX's ops that pick and put: negative ones count from the end. */
#ifndef AMP_ONNX_INDICES_H
#define AMP_ONNX_INDICES_H

#include "onnx/step.h"

/* Indices into dimension `axis` of x as i64 from 0 on, in their shape, where x is; NULL with an error. On the CPU one outside is
 * an error here, on a device one of the op that gets it. */
amp_tensor *amp_onnx_wrapped(const amp_onnx_step *s, amp_tensor *indices, const amp_tensor *x, int axis);

/* What GatherND and ScatterND speak of: x as rows, and a list of some of them. */
typedef struct amp_onnx_row_set {
    amp_tensor *of; /* x as (rows, elements) */
    int64_t elements, count;
    int depth;          /* dimensions of x that an entry of the list stands for */
    amp_tensor *places; /* the list: a vector of count */
} amp_onnx_row_set;

/* Of indices whose last dimension holds an index for each of x's dimensions from `batch_dims` on. */
amp_status amp_onnx_rows(const amp_onnx_step *s, amp_tensor *x, const amp_tensor *indices, int64_t batch_dims,
                         amp_onnx_row_set *rows);

#endif /* AMP_ONNX_INDICES_H */
