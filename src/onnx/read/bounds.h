/* What a file cannot exceed. It may be made to harm: beyond a bound it is refused with a sentence, at a cost that the
 * bound sets. Each has its test in tests/onnx/test_onnx_hostile.cc. */
#ifndef AMP_ONNX_BOUNDS_H
#define AMP_ONNX_BOUNDS_H

enum {
    AMP_ONNX_MOST_MESSAGE_DEPTH = 48, /* of messages in each other (15 graphs): protobuf-c recurses without a bound */
    AMP_ONNX_MOST_GRAPH_DEPTH = 48,   /* of graphs and functions in each other, once calls are written out */
    AMP_ONNX_MOST_CALL_DEPTH = 16,    /* of functions that call each other */
    AMP_ONNX_MOST_FIELDS = 8000000,   /* that are kept; each costs protobuf-c about 100 bytes while it scans */
    AMP_ONNX_MOST_ITEMS = 1000000,    /* nodes, values and attributes of a model, its functions written out */
    AMP_ONNX_MOST_LINKS = 4000000,    /* inputs and outputs of nodes, likewise */
    AMP_ONNX_MOST_NAME = 4096,        /* bytes of a name */
    AMP_ONNX_MOST_BODY_TEXT = 256 << 20, /* bytes of names in the bodies of functions, each as often as it is called */
    AMP_ONNX_MOST_ATTRIBUTES = 64,       /* of a node, or of a function */
    AMP_ONNX_MOST_TENSORS = 100000,      /* of a model: each takes half a kilobyte, however small */
    AMP_ONNX_MOST_OPSETS = 256,          /* that a model, or a function, imports */
    AMP_ONNX_MOST_FILES = 1024,          /* of external data */
    AMP_ONNX_UNPACKED_BASE = 64 << 20,   /* bytes that protobuf-c may take of any skeleton, … */
    AMP_ONNX_UNPACKED_FACTOR = 4         /* … and how many for each byte of the file that is in it */
};

#endif /* AMP_ONNX_BOUNDS_H */
