/* What the ops of ONNX are here: a table of functions that compute one node each, on tensors, through libamp's own ops.
 *
 * A function reads the node's inputs and attributes by the calls below, calls ops (amp_conv2d(…), as a program would)
 * and hands its results to amp_onnx_set. It sees tensors with their shapes and, on the CPU, their values: nothing is
 * symbolic. What it makes on the way goes when it returns. Errors stand as everywhere: the ops behind one that failed
 * do nothing, and the runner puts the node in front of the sentence. In a region of autocast each op is cast as
 * everywhere. */
#ifndef AMP_ONNX_STEP_H
#define AMP_ONNX_STEP_H

#include "amp/amp.h"
#include "core/fail.h"
#include "onnx/model.h"

struct amp_onnx_run;

enum { AMP_ONNX_MOST_PLACES = 1024 }; /* inputs of a node, and outputs */

/* One node while it is computed. */
typedef struct amp_onnx_step {
    struct amp_onnx_run *run;
    const amp_onnx_node *node;
    amp_tensor *const *values; /* of the node's graph, by number; NULL: not made, or gone */
    amp_tensor **results;      /* by place among the node's outputs */
} amp_onnx_step;

typedef amp_status (*amp_onnx_function)(amp_onnx_step *step);

/* A row of onnx_ops.def: what a type of node means from an opset on, until the next row of the type. */
typedef struct amp_onnx_op {
    const char *type;
    int64_t since; /* 7: also before */
    amp_onnx_function run;
    const char *to;         /* for functions that several types share: libamp's op, or the word in which they differ */
    int least, most;        /* inputs */
    const char *attributes; /* those that `run` knows, with blanks between; one with another name is refused */
} amp_onnx_op;

/* The row of a type of the domain "" (or of com.microsoft where we have it) for an opset; NULL: none. */
const amp_onnx_op *amp_onnx_op_find(const char *domain, const char *type, int64_t opset);

/* ---- What a function asks and does ---- */

/* Input number i; NULL: absent. */
amp_tensor *amp_onnx_input(const amp_onnx_step *s, int i);
/* An input that must be there: NULL with an error. */
amp_tensor *amp_onnx_required(const amp_onnx_step *s, int i);
/* Somebody reads output number i. */
bool amp_onnx_wants(const amp_onnx_step *s, int i);
/* The result is output number i; NULL stands for the error that stands. Returns the status. A tensor that is an input
 * itself is fine. */
amp_status amp_onnx_set(amp_onnx_step *s, int i, amp_tensor *result);

/* Attributes. The reader has checked the names; one of another kind is an error, and the default is returned. */
bool amp_onnx_has(const amp_onnx_step *s, const char *name);
int64_t amp_onnx_int(const amp_onnx_step *s, const char *name, int64_t otherwise);
double amp_onnx_float(const amp_onnx_step *s, const char *name, double otherwise);
const char *amp_onnx_text(const amp_onnx_step *s, const char *name, const char *otherwise);
amp_tensor *amp_onnx_tensor(const amp_onnx_step *s, const char *name);              /* NULL: absent */
amp_onnx_graph *amp_onnx_body(const amp_onnx_step *s, const char *name);            /* NULL: absent */
const int64_t *amp_onnx_ints(const amp_onnx_step *s, const char *name, int *count); /* NULL and 0: absent */
const double *amp_onnx_floats(const amp_onnx_step *s, const char *name, int *count);
const char *const *amp_onnx_texts(const amp_onnx_step *s, const char *name, int *count);

/* The integers of a tensor of rank 0 or 1 (or any other number of them, row by row), from whatever device: at most
 * `room` into `to`; returns how many there are, -1 with an error that names the input. */
int64_t amp_onnx_read_ints(const amp_onnx_step *s, const amp_tensor *t, int64_t *to, int64_t room);
/* Axes that are an attribute in old opsets and input number `i` in newer ones, each made 0 … rank − 1. */
amp_status amp_onnx_axes(const amp_onnx_step *s, int i, const char *name, int rank, amp_dims *axes);
/* An axis counted from the front; -1 with an error if there is no such axis. */
int64_t amp_onnx_axis(const amp_onnx_step *s, int64_t axis, int rank);
/* An error that begins with the node: for attributes and shapes that cannot be, and for what is not done yet
 * (AMP_ERROR_NOT_IMPLEMENTED). */
amp_status amp_onnx_fail(const amp_onnx_step *s, amp_status code, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* which cannot see that this is never AMP_OK */
#define amp_onnx_fail(s, code, ...) (amp_onnx_fail((s), (code), __VA_ARGS__), AMP_ERROR_INTERNAL)
#endif
/* ONNX's number of a dtype as ours; AMP_DTYPE_NONE with an error that names the type where libamp lacks it. */
amp_dtype amp_onnx_dtype(const amp_onnx_step *s, int64_t number);
/* A tensor with these values on the device of the step's inputs, in the innermost scope. */
amp_tensor *amp_onnx_vector(const amp_onnx_step *s, const int64_t *values, int64_t count);

/* Runs a sub-graph (If, Loop, Scan) or a function's body: `inputs` in the order of its inputs, `outputs` filled in the
 * order of its outputs, in the innermost scope. What it captures it finds in the step's values. */
amp_status amp_onnx_run_body(amp_onnx_step *s, const amp_onnx_graph *body, amp_tensor *const *inputs,
                             amp_tensor **outputs);

#endif /* AMP_ONNX_STEP_H */
