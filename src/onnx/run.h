/* Running a model as it stands, node by node. */
#ifndef AMP_ONNX_RUN_H
#define AMP_ONNX_RUN_H

#include "onnx/model.h"

typedef struct amp_onnx_limits {
    int64_t most_rounds; /* of one Loop or Scan; 0: a million */
    const volatile int
        *cancel; /* looked at between nodes: a number other than 0 ends the run with an error; may be NULL */
} amp_onnx_limits;

/* Looks up the row of every node, those of sub-graphs and functions included. An error names the node, its type and
 * opset, and what is not supported; `list` (may be NULL) gets a sentence for each such node instead, and no error is
 * made. */
typedef void (*amp_onnx_complaint)(void *context, const amp_onnx_node *node, const char *sentence);
amp_status amp_onnx_resolve(amp_onnx_model *model, amp_onnx_complaint complain, void *context);

/* Computes the graph's outputs from its inputs, both in the file's order, each on one device; results belong to the
 * innermost scope, else to the caller. What is not needed any more goes at once. */
amp_status amp_onnx_run_model(const amp_onnx_model *model, const amp_onnx_limits *limits, amp_tensor *const *inputs,
                              amp_tensor **outputs);

#endif /* AMP_ONNX_RUN_H */
