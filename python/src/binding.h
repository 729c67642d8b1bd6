/* The extension amp._amp: what its files know of each other. It links libamp.so's public API and nothing else. */
#ifndef AMP_PYTHON_BINDING_H
#define AMP_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "amp/amp.h"

/* ---- Objects ----------------------------------------------------------------------------------------------------
 * A tensor that Python sees has one owner more than C knows of: the object, which releases it when it goes. */
typedef struct tensor_object {
    PyObject_HEAD amp_tensor *tensor;
    PyObject *weak_references;
} tensor_object;

typedef struct generator_object {
    PyObject_HEAD amp_generator *generator;
} generator_object;

extern PyTypeObject *tensor_type, *dtype_type, *op_type, *generator_type;

static inline int is_tensor(PyObject *object) {
    return Py_TYPE(object) == tensor_type;
}
static inline amp_tensor *tensor_of(PyObject *object) {
    return ((tensor_object *)object)->tensor;
}

/* An object around a tensor that came from libamp, which it takes over. NULL raises the thread's error. */
PyObject *tensor_wrap(amp_tensor *tensor);
/* The same of a tensor that something else owns too; NULL without an error is None. */
PyObject *tensor_wrap_borrowed(amp_tensor *tensor);
/* A list, or what is left of one after an error: NULL, and every tensor is released. */
PyObject *tensor_wrap_list(amp_tensor *const *tensors, Py_ssize_t count);

PyObject *dtype_object(amp_dtype dtype); /* a new reference; None for AMP_DTYPE_NONE */
/* "O&": a dtype, its name, or None. */
int dtype_converter(PyObject *object, void *dtype);
/* "O&": "cpu", "cuda", "cuda:0". */
int device_converter(PyObject *object, void *device);

/* ---- Errors ------------------------------------------------------------------------------------------------------ */
/* Raises what stands on this thread as an amp.Error and clears it. Returns NULL. */
PyObject *raise_error(void);
/* None, or the error. */
PyObject *none_or_error(amp_status status);
/* The same where functions of Python's were called: an exception of theirs goes before libamp's sentence about it. */
PyObject *none_or_first_error(amp_status status);
/* In such a function, where an exception waits: an error of libamp's, so that it stops. */
void stop_libamp(void);

/* ---- Values for ops ---------------------------------------------------------------------------------------------- */
/* The most arguments of a call: those of the widest op, and "out". */
enum { MOST_ARGUMENTS = 32 };

typedef struct arguments {
    amp_argument items[MOST_ARGUMENTS];
    PyObject *sources[MOST_ARGUMENTS]; /* what each was made of, borrowed */
    int count;
    PyObject *held; /* a list of what must live until the call has returned, or NULL */
    const char *op;
} arguments;

/* Adds an argument; name NULL: by its place. −1 with an exception that names op and argument. */
int arguments_add(arguments *a, const char *name, PyObject *object);
/* Adds integers as one list. */
int arguments_add_dims(arguments *a, PyObject *const *objects, Py_ssize_t count);
void arguments_end(arguments *a);

/* A sequence of Tensors as an array to be freed with PyMem_Free; `tuple` holds them until it is released. −1 with an
 * exception. */
int tensor_array(PyObject *sequence, const char *what, amp_tensor ***array, Py_ssize_t *count, PyObject **tuple);

/* ---- Options, lists and states of training ------------------------------------------------------------------------- */
/* FLOAT, INT and BOOL are amp_opt_…, FLAG a bool, DIMS an amp_dims, FLOATS an amp_floats. */
typedef enum option_kind { OPTION_FLOAT, OPTION_BOOL, OPTION_FLAG, OPTION_INT, OPTION_DIMS, OPTION_FLOATS } option_kind;
typedef struct option {
    const char *name;
    size_t offset;
    option_kind kind;
} option; /* a table ends with one of no name */

#define OPTION(type, kind, field)                                                                                      \
    { #field, offsetof(type, field), OPTION_##kind }

/* Every entry of a dict into its field; an unknown one is a TypeError. −1 with an exception. */
int set_options(const char *what, const option *table, void *options, PyObject *dict);

/* A class of amp.optim, and what libamp calls it. */
typedef struct named_kind {
    const char *name;
    int kind;
} named_kind; /* a table ends with one of no name */
/* The kind of that name; −1 with a ValueError: "there is no WHAT 'NAME'". */
int find_kind(const named_kind *table, const char *what, const char *name);

/* Tensors under their numbers, from `first` on, as libamp's list; NULL with an exception. */
amp_parameters *parameter_list(PyObject *sequence, int64_t first);

/* Of a state that was asked for just now, which it frees; NULL with the thread's error. */
PyObject *state_dict(amp_state state);
typedef amp_status (*state_taker)(void *owner, const char *const *names, amp_tensor *const *tensors, int64_t count);
PyObject *load_state_dict(PyObject *dict, state_taker take, void *owner);

/* The optimizer inside of amp.optim's, a new reference; NULL with a TypeError. */
PyObject *inner_optimizer(PyObject *optimizer);
amp_optimizer *optimizer_of(PyObject *inner);

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */
/* A tensor over an object's buffer (PEP 3118), without a copy. dtype AMP_DTYPE_NONE: what its format says. */
PyObject *tensor_from_buffer(PyObject *object, amp_dtype dtype);
int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
void tensor_release_buffer(PyObject *self, Py_buffer *view);

/* ---- Parts of the module ------------------------------------------------------------------------------------------ */
extern PyMethodDef array_methods[], array_functions[], mode_functions[], file_functions[], train_functions[];
int add_errors(PyObject *module);
int add_dtypes(PyObject *module);
int add_tensor(PyObject *module);
int add_ops(PyObject *module);
int add_generator(PyObject *module);
int add_graph(PyObject *module);
int add_training(PyObject *module);
int add_schedulers(PyObject *module);
int add_lbfgs(PyObject *module);

/* A heap type of the module, also kept in *type. */
int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type);

#endif /* AMP_PYTHON_BINDING_H */
