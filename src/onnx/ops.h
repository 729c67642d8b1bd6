/* The functions that onnx_ops.def names. */
#ifndef AMP_ONNX_OPS_H
#define AMP_ONNX_OPS_H

#include "onnx/step.h"

#define ONNX_OP(type, since, function, to, least, most, attributes) amp_status function(amp_onnx_step *s);
#include "onnx/onnx_ops.def"
#undef ONNX_OP

#endif /* AMP_ONNX_OPS_H */
