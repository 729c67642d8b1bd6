/* The functions of from_ops.def. */
#ifndef AMP_ONNX_WRITE_FROM_H
#define AMP_ONNX_WRITE_FROM_H

#include "onnx/write/writer.h"

#define FROM_OP(op, overload, from, to) amp_status from(amp_written_call *c);
#define FROM_MIXED(op, overload, from, to) amp_status from(amp_written_call *c);
#include "onnx/write/from_ops.def"
#undef FROM_OP
#undef FROM_MIXED

#endif /* AMP_ONNX_WRITE_FROM_H */
