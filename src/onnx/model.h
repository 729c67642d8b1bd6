/* An ONNX model in memory: names turned into numbers, constants into tensors, nodes in an order in which they can run.
 * read.c makes it of a file, run.c runs it. All that a model consists of lives until amp_onnx_free. */
#ifndef AMP_ONNX_MODEL_H
#define AMP_ONNX_MODEL_H

#include "core/tensor_impl.h"
#include "graph/graph.h"

typedef struct amp_onnx_graph amp_onnx_graph;
struct amp_onnx_op;

/* The numbers are those of AttributeProto.AttributeType. */
typedef enum amp_onnx_kind {
    AMP_ONNX_FLOAT = 1,
    AMP_ONNX_INT = 2,
    AMP_ONNX_STRING = 3,
    AMP_ONNX_TENSOR = 4,
    AMP_ONNX_GRAPH = 5,
    AMP_ONNX_FLOATS = 6,
    AMP_ONNX_INTS = 7,
    AMP_ONNX_STRINGS = 8
} amp_onnx_kind;

typedef struct amp_onnx_attribute {
    const char *name;
    amp_onnx_kind kind;
    int count; /* of a list */
    union {
        double number;
        int64_t integer;
        const char *text; /* ends with a zero; has none inside */
        amp_tensor *tensor;
        amp_onnx_graph *graph;
        const double *numbers;
        const int64_t *integers;
        const char *const *texts;
    } as;
} amp_onnx_attribute;

/* Values are numbered by graph: -1 is "absent". */
typedef struct amp_onnx_node {
    const char *name;             /* "" where the file gives none */
    const char *type, *domain;    /* "Conv", "" (ai.onnx is "" too) */
    int64_t opset;                /* of the domain, as the model imports it */
    const struct amp_onnx_op *op; /* the row that runs it; NULL for a call of `function` */
    amp_onnx_graph *function;     /* the body of a function of the model, its attributes put in; else NULL */
    int input_count, output_count,
        attribute_count; /* of a call: as many as the function has, absent ones at the end too */
    const int *inputs, *outputs;
    const amp_onnx_attribute *attributes;
} amp_onnx_node;

/* What libamp's own files say of their producer; the version of a portable one (write/portable.c) ends so. */
#define AMP_ONNX_PRODUCER "libamp"
#define AMP_ONNX_PORTABLE "+portable"

enum { AMP_ONNX_ANY = -1 }; /* a rank or an extent that the file leaves open */

typedef struct amp_onnx_value {
    const char *name;
    amp_tensor *constant; /* an initialiser; NULL: none */
    amp_dtype dtype;      /* of inputs and outputs, as declared; AMP_DTYPE_NONE: open */
    int rank;             /* … */
    int64_t shape[AMP_MAX_RANK];
    const char *extent_names[AMP_MAX_RANK]; /* "batch"; NULL: none */
    int last_use; /* the last needed node that reads it; INT_MAX: an output of the graph; -1: nobody */
} amp_onnx_value;

struct amp_onnx_graph {
    const char *name;      /* of a function's body: the function's */
    amp_onnx_graph *outer; /* of a sub-graph */
    int value_count, node_count, input_count, output_count, capture_count;
    amp_onnx_value *values;
    amp_onnx_node *nodes;        /* each behind those whose results it reads */
    const int *inputs, *outputs; /* without initialisers that are listed among the inputs (IR 3) */
    const int *captured,
        *captured_as; /* values of `outer` that the graph, or one inside it, reads, and their numbers here */
};

/* Some output hangs on its results: others are not run. */
static inline bool amp_onnx_node_is_needed(const amp_onnx_graph *graph, const amp_onnx_node *node) {
    for (int i = 0; i < node->output_count; i++) {
        if (node->outputs[i] >= 0 && graph->values[node->outputs[i]].last_use >= 0) return true;
    }
    return false;
}

typedef struct amp_onnx_model {
    const char *path;
    int64_t ir_version, opset; /* opset: of the domain "" */
    const char *producer;
    int metadata_count;
    const amp_graph_property *metadata;
    bool is_portable; /* by libamp, in the form in which bf16 stands as f32 between Casts */
    amp_graph_weights weights;
    amp_onnx_graph *graph;
    struct amp_onnx_memory *memory; /* what all this lies in, and the maps of the files */
} amp_onnx_model;

typedef struct amp_onnx_read_options {
    const char *data_folder; /* one more folder that external data may lie in; NULL: none */
} amp_onnx_read_options;

/* Maps and reads the file; its sentence names the file, and the node or tensor, that cannot be read. Ops are not looked
 * up: amp_onnx_node.op is NULL. Constants of 4 KiB and more stay in the map, at whatever address (core/tensor_impl.h,
 * "Bytes of files"). NULL with an error. */
amp_onnx_model *amp_onnx_read(const char *path, const amp_onnx_read_options *options);
/* The same of a file that lies in memory, which is the caller's again afterwards. External data is found in data_folder
 * only. */
amp_onnx_model *amp_onnx_read_bytes(const void *data, size_t bytes, const amp_onnx_read_options *options);
void amp_onnx_free(amp_onnx_model *model); /* may be NULL */

/* libamp's dtype of a TensorProto.DataType, and its name; AMP_DTYPE_NONE: libamp has none. */
amp_dtype amp_onnx_dtype_of(int64_t number, const char **name);

#endif /* AMP_ONNX_MODEL_H */
