/* A node in a sentence. */
#ifndef AMP_ONNX_NODE_NAME_H
#define AMP_ONNX_NODE_NAME_H

#include "onnx/model.h"

enum { AMP_ONNX_NAME_BYTES = 200 };

/* "node 'conv1' (Conv, opset 13)" in `text`, which is returned; of long names the end. */
const char *amp_onnx_node_name(const amp_onnx_node *node, char text[AMP_ONNX_NAME_BYTES]);

#endif /* AMP_ONNX_NODE_NAME_H */
