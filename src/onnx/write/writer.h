/* An ONNX model while it is made of a recorded graph (graph/record.h): nodes in the order in which they run, and
 * numbered values. In the typed form always, in which a value that libamp has in bf16 is bf16; portable.c makes the
 * other of it.
 *
 *     record ── from_ops.def, a function a call ──> nodes ── finish.c ──> [portable.c] ──> message.c ──> file
 *
 * What is written is a fixed point: each node, loaded again, becomes calls of which the same node is written. */
#ifndef AMP_ONNX_WRITE_WRITER_H
#define AMP_ONNX_WRITE_WRITER_H

#include "amp/graph.h"
#include "core/tensor_impl.h"
#include "graph/record.h"

enum { AMP_MADE_NONE = -1, AMP_MADE_ATTRIBUTES = 8, AMP_MADE_INTEGERS = 16, AMP_MADE_OPEN = -1 };

/* What is to be known of a type of node: a row of node_types.def. */
typedef struct amp_node_type {
    const char *name;
    int since;  /* the opset from which on it has the form that is written here */
    int bf16;   /* … and takes bf16 */
    bool moves; /* every element of its result is one of its inputs': nothing is rounded */
} amp_node_type;

typedef enum amp_made_kind { AMP_MADE_INT = 2, AMP_MADE_FLOAT = 1, AMP_MADE_TEXT = 3, AMP_MADE_INTS = 7 } amp_made_kind;

typedef struct amp_made_attribute {
    const char *name; /* static, as is text */
    amp_made_kind kind;
    int count; /* of integers */
    double number;
    const char *text;
    int64_t integers[AMP_MADE_INTEGERS]; /* the first is an AMP_MADE_INT */
} amp_made_attribute;

typedef struct amp_made_value {
    amp_dtype dtype;
    int rank;
    int64_t shape[AMP_MAX_RANK]; /* below 0: AMP_MADE_OPEN, or AMP_MADE_OPEN - 1 - i of writer.extent_names[i] */
    amp_tensor *constant;        /* held, dense; NULL: none */
    int input;                   /* the graph's; AMP_MADE_NONE */
    int node;                    /* that makes it; AMP_MADE_NONE */
    int same_as;                 /* the value that stands for it; itself */
    bool used;
    const char *name;
} amp_made_value;

typedef struct amp_made_node {
    const amp_node_type *type; /* NULL: taken out */
    int *inputs;               /* AMP_MADE_NONE: absent */
    int input_count, output_count, attribute_count;
    int outputs[AMP_MAX_OUTPUTS];
    amp_made_attribute attributes[AMP_MADE_ATTRIBUTES];
} amp_made_node;

typedef struct amp_writer {
    const amp_graph_source *source;
    amp_made_value *values;
    amp_made_node *nodes;
    int value_count, node_count, value_room, node_room;
    int *outputs;   /* of the graph */
    int *constants; /* those that are read, as nodes read them */
    int constant_count;
    int opset;
    bool portable;
    const char *const *extent_names; /* of free extents; NULL: there are none */
    char *names;
} amp_writer;

/* ---- Making (made.c): AMP_MADE_NONE, or false, with an error that stands -------------------------------------------- */
typedef struct amp_made_shape {
    amp_dtype dtype;
    int rank;
    int64_t extents[AMP_MAX_RANK];
} amp_made_shape;

amp_made_shape amp_made_shape_of(const amp_writer *w, int value);
amp_made_shape amp_made_shape_from(amp_dtype dtype, int rank, const int64_t *extents);

/* A value that is this tensor, which is held; equal ones are one. */
int amp_made_constant(amp_writer *w, amp_tensor *tensor);
int amp_made_integers(amp_writer *w, const int64_t *numbers, int count);
/* One number, without dimensions. */
int amp_made_number(amp_writer *w, amp_dtype dtype, amp_scalar number);
/* All elements are the number. */
int amp_made_filled(amp_writer *w, amp_dtype dtype, int rank, const int64_t *shape, double number);
int amp_made_input(amp_writer *w, int input, const amp_made_shape *shape);

/* A node with one result, which is returned; inputs are values, AMP_MADE_NONE of absent ones. */
int amp_made_node_of(amp_writer *w, const char *type, const int *inputs, int count, const amp_made_shape *result);
#define AMP_MADE(w, type, result, ...)                                                                                 \
    amp_made_node_of((w), (type), (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)), \
                     (result))
/* Of the node made last: one more result, and attributes. */
int amp_made_another(amp_writer *w, const amp_made_shape *result);
void amp_made_int(amp_writer *w, const char *name, int64_t value);
void amp_made_float(amp_writer *w, const char *name, double value);
void amp_made_text(amp_writer *w, const char *name, const char *text);
void amp_made_ints(amp_writer *w, const char *name, const int64_t *values, int count);

/* Nodes that several rows need; none is made where there is nothing to do. */
int amp_made_cast(amp_writer *w, int value, amp_dtype dtype);
int amp_made_reshape(amp_writer *w, int value, int rank, const int64_t *shape);
int amp_made_transpose(amp_writer *w, int value, const int64_t *order);
int amp_made_slice(amp_writer *w, int value, int axis, int64_t start, int64_t end, int64_t step);
const amp_made_attribute *amp_made_find(const amp_made_node *node, const char *name);

void amp_writer_end(amp_writer *w);

/* ---- From calls to nodes (calls.c; the rows' functions in from_<family>.c) -------------------------------------------- */
typedef struct amp_written_call {
    amp_writer *w;
    amp_net_node node; /* with the arguments as the implementation saw them */
    const amp_net *net;
    const amp_recorded_call *seen;
    const int *known; /* values of the file by those of the net */
    int *results;     /* … of this call, by place; to be filled in */
    const char *to;   /* of the row */
    amp_dtype dtype;  /* that floating operands have: one for all; AMP_DTYPE_NONE: each its own */
} amp_written_call;

typedef amp_status (*amp_from_call)(amp_written_call *c);

/* All calls of the record, and the outputs. */
amp_status amp_write_calls(amp_writer *w, const amp_record *record);

/* An operand in the call's dtype, if it is floating; AMP_MADE_NONE: absent, or an error stands. */
int amp_written_operand(amp_written_call *c, const char *argument);
/* Operand number `place` of a list, likewise. */
int amp_written_item(amp_written_call *c, const char *argument, int place);
int amp_written_count(const amp_written_call *c, const char *argument);
/* Result number `i` of the call, as it has to be: cast and, where `value` has another one, in its shape. */
amp_status amp_written_set(amp_written_call *c, int i, int value);
bool amp_written_wants(const amp_written_call *c, int i);
amp_made_shape amp_written_shape(const amp_written_call *c, int i); /* of a result, in the call's dtype */
const amp_net_value *amp_written_value(const amp_written_call *c, const char *argument); /* NULL: absent */

/* Options, by name, whatever their kind. */
int64_t amp_written_int(const amp_written_call *c, const char *argument, int64_t otherwise);
double amp_written_float(const amp_written_call *c, const char *argument, double otherwise);
const char *amp_written_text(const amp_written_call *c, const char *argument, const char *otherwise);
const amp_dims *amp_written_dims(const amp_written_call *c, const char *argument); /* NULL: absent */
amp_scalar amp_written_scalar(const amp_written_call *c, const char *argument);
/* One number for each of `count` dimensions. */
void amp_written_spread(const amp_written_call *c, const char *argument, int count, int64_t otherwise, int64_t *to);
int amp_written_axis(const amp_written_call *c, const char *argument, int64_t otherwise, int rank);
/* AMP_ERROR_NOT_IMPLEMENTED: "graph_save: NAME: OP: …". */
amp_status amp_written_fail(const amp_written_call *c, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/* ---- From nodes to a file --------------------------------------------------------------------------------------------- */
/* Equal nodes become one, what nobody reads goes. */
amp_status amp_writer_join(amp_writer *w);
/* What nobody reads goes. */
void amp_writer_mark_used(amp_writer *w);
bool amp_made_same_attributes(const amp_made_node *a, const amp_made_node *b);
/* That, the opset, and names. */
amp_status amp_writer_finish(amp_writer *w);
/* The same model in the other form, in `to`. */
amp_status amp_write_portable(const amp_writer *w, amp_writer *to);
amp_status amp_write_file(const amp_writer *w, const char *path, bool external);

#endif /* AMP_ONNX_WRITE_WRITER_H */
