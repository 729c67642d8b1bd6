/* What the parts of the reader share: read.c (the file, the model), read_graph.c (graphs, values), read_node.c (nodes,
 * attributes, calls of functions), read_tensor.c (constants), external.c (files of constants). */
#ifndef AMP_ONNX_READER_H
#define AMP_ONNX_READER_H

#include "io/file_map.h"
#include "onnx/model.h"
#include "onnx/read/arena.h"
#include "onnx/read/bounds.h"
#include "onnx/read/names.h"
#include "onnx/read/onnx.pb-c.h"
#include "onnx/read/skim.h"

typedef AmpOnnx__ModelProto amp_onnx_model_proto;
typedef AmpOnnx__GraphProto amp_onnx_graph_proto;
typedef AmpOnnx__NodeProto amp_onnx_node_proto;
typedef AmpOnnx__AttributeProto amp_onnx_attribute_proto;
typedef AmpOnnx__TensorProto amp_onnx_tensor_proto;
typedef AmpOnnx__ValueInfoProto amp_onnx_value_proto;
typedef AmpOnnx__FunctionProto amp_onnx_function_proto;
typedef AmpOnnx__OperatorSetIdProto amp_onnx_opset_proto;

/* Bytes that tensors are made of: a file, or memory that is the caller's. */
typedef struct amp_onnx_source {
    const unsigned char *data;
    size_t bytes;
    amp_file_map *map; /* NULL: memory, of which tensors are copies */
} amp_onnx_source;

/* A file of external data. */
typedef struct amp_onnx_file {
    uint64_t device, number;
    amp_file_map *map;
} amp_onnx_file;

/* All that a model lies in. */
struct amp_onnx_memory {
    amp_onnx_arena arena; /* the protobuf messages too, whose texts and numbers are the model's */
    amp_onnx_source source;
    amp_tensor **tensors;
    int tensor_count, tensor_room;
    amp_onnx_file *files;
    int file_count;
};

/* What is made of a message once, however often the function is called that it stands in. */
typedef struct amp_onnx_once {
    const void *message;
    void *made;
} amp_onnx_once;

/* Opsets by domain: a model's, or a function's. */
typedef struct amp_onnx_opsets {
    amp_onnx_names names; /* domain → place among … */
    amp_onnx_opset_proto *const *imports;
} amp_onnx_opsets;

typedef struct amp_onnx_reader {
    const char *path;   /* of the file */
    const char *shown;  /* its end, for sentences */
    const char *folder; /* of the model; NULL: it has none */
    const char *data_folder;
    struct amp_onnx_memory *memory;
    const amp_onnx_model_proto *proto;
    amp_onnx_names functions; /* domain:name:overload → place among proto->functions */
    amp_onnx_opsets *opsets;  /* of each function, then the model's */
    amp_onnx_names files;     /* location → place among memory->files */
    amp_onnx_once *once;      /* by address; room: a power of two, or 0 */
    size_t once_room, once_count;
    uint64_t structure;         /* of the skeleton: a sum */
    int depth;                  /* of graphs and functions in each other */
    int64_t items, links, text; /* counted so far: nodes, values and attributes; inputs and outputs; bytes of names */
} amp_onnx_reader;

/* A call of a function, while its body is read. */
typedef struct amp_onnx_call {
    const struct amp_onnx_call *outer;
    const amp_onnx_function_proto *function;
    const amp_onnx_opsets *opsets;
    amp_onnx_names names;         /* of its attributes → place in … */
    amp_onnx_attribute *bindings; /* what the call, or the default, gives; kind 0: nothing */
} amp_onnx_call;

/* A value, while its graph is read. */
typedef struct amp_onnx_draft {
    const char *name;
    amp_tensor *constant;
    const amp_onnx_value_proto *declared; /* as an input, else as an output; NULL: as neither */
    int maker;                            /* node, in the file's order; MADE_BY_… */
    int outside;                          /* of a captured one: its number in the outer graph */
} amp_onnx_draft;

/* A graph, while it is read. Numbers of values are final from the start; nodes are sorted at the end. */
typedef struct amp_onnx_place {
    amp_onnx_reader *reader;
    struct amp_onnx_place *outer; /* of a sub-graph: where its node stands */
    const amp_onnx_call *call;    /* of the function that it belongs to; NULL: none */
    const amp_onnx_opsets *opsets;
    amp_onnx_graph *graph;
    amp_onnx_names names;   /* of values; ABSENT_VALUE: an input of a function that the call leaves out */
    amp_onnx_draft *drafts; /* of the graph's values */
    int draft_room;
    size_t node_count;
    amp_onnx_node_proto *const *node_protos;
} amp_onnx_place;

enum { MADE_BY_CALLER = -1, MADE_OUTSIDE = -2, MADE_AS_INITIALISER = -3 };
enum { NO_VALUE = -1, ABSENT_VALUE = INT32_MAX };

/* "graph_load: PATH: …" */
amp_status amp_onnx_read_fail(const amp_onnx_reader *reader, amp_status code, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));
amp_status amp_onnx_no_memory(const amp_onnx_reader *reader);
#ifdef __clang_analyzer__ /* which cannot see that these are never AMP_OK */
#define amp_onnx_read_fail(...) (amp_onnx_read_fail(__VA_ARGS__), AMP_ERROR_INTERNAL)
#define amp_onnx_no_memory(reader) (amp_onnx_no_memory(reader), AMP_ERROR_MEMORY)
#endif
/* NULL: amp_onnx_no_memory. */
void *amp_onnx_get(amp_onnx_reader *reader, size_t count, size_t size);
/* An error once there is more than a model may have. */
amp_status amp_onnx_count(amp_onnx_reader *reader, int64_t items, int64_t links, int64_t text);
static inline const char *amp_onnx_text_of(const char *text) {
    return text ? text : "";
}
/* "" for "ai.onnx". */
const char *amp_onnx_domain_of(const char *domain);
/* The version of a domain; false: it is not imported. */
bool amp_onnx_find_opset(const amp_onnx_opsets *opsets, const char *domain, int64_t *version);

enum { AMP_ONNX_FUNCTION_KEY = 3 * AMP_ONNX_MOST_NAME + 3 };
/* What functions are found by, domain:name:overload, into AMP_ONNX_FUNCTION_KEY bytes. */
void amp_onnx_function_key(const char *domain, const char *name, const char *overload, char *key);
/* NULL: amp_onnx_no_memory. */
char *amp_onnx_copy_text(amp_onnx_reader *reader, const char *text, size_t length);

/* What was made of a message before; NULL: nothing. */
void *amp_onnx_made(const amp_onnx_reader *reader, const void *message);
amp_status amp_onnx_keep_made(amp_onnx_reader *reader, const void *message, void *made);

/* ---- read_tensor.c ---- */
/* The tensor of a message; `what` begins sentences ("tensor 'w'"). The model owns it. NULL with an error. */
amp_tensor *amp_onnx_read_tensor(amp_onnx_reader *reader, amp_onnx_tensor_proto *proto, const char *what);

/* ---- external.c ---- */
/* Where the external data of a tensor of so many bytes lies. */
amp_status amp_onnx_external(amp_onnx_reader *reader, const amp_onnx_tensor_proto *proto, const char *what,
                             uint64_t bytes, amp_onnx_source *source, amp_onnx_span *span);

/* ---- read_graph.c ---- */
/* NULL with an error. outer, call: as in the place. */
amp_onnx_graph *amp_onnx_read_graph(amp_onnx_reader *reader, const amp_onnx_graph_proto *proto, amp_onnx_place *outer);
/* The body of a function for one call; `given` by input: the call has it. */
amp_onnx_graph *amp_onnx_read_function(amp_onnx_reader *reader, const amp_onnx_call *call, const int *given);
/* The number of the value of that name, captured where it is an outer graph's; NO_VALUE: nobody makes it. ABSENT_VALUE:
 * nothing is to be read there. AMP_ERROR_…: with an error. */
amp_status amp_onnx_find_value(amp_onnx_place *place, const char *name, int *number);
/* Words for a sentence. */
typedef struct amp_onnx_words {
    char text[400];
} amp_onnx_words;
/* "graph 'g'", "function 'f'", "a graph without a name inside function 'f'". */
amp_onnx_words amp_onnx_place_words(const amp_onnx_place *place);
/* "node 'name' (Type) of graph 'g'"; by its number in the file where it has no name. */
amp_onnx_words amp_onnx_node_words(const amp_onnx_place *place, size_t node);

/* ---- read_node.c ---- */
amp_status amp_onnx_read_node(amp_onnx_place *place, size_t index, amp_onnx_node *node);

/* ---- order.c ---- */
/* Puts each node behind those whose results it reads, in the file's order otherwise; fills in last_use. */
amp_status amp_onnx_order(amp_onnx_place *place);

#endif /* AMP_ONNX_READER_H */
