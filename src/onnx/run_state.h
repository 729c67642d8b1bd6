/* What all nodes of one run share. */
#ifndef AMP_ONNX_RUN_STATE_H
#define AMP_ONNX_RUN_STATE_H

#include "onnx/run.h"

struct amp_onnx_run {
    amp_onnx_limits limits; /* most_rounds filled in */
    amp_device device;
    int depth; /* of graphs in each other */
};

#endif /* AMP_ONNX_RUN_STATE_H */
