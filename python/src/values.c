/* Python's objects as amp_values. What an argument must be only the op knows: amp_call_op looks, and says so. */
#include "binding.h"

static int convert(PyObject *object, amp_value *value, arguments *a);

/* Keeps an object, whose reference is taken over, until the call has returned. */
static int hold(arguments *a, PyObject *object) {
    if (!object) return -1;
    if (!a->held) a->held = PyList_New(0);
    const int status = a->held ? PyList_Append(a->held, object) : -1;
    Py_DECREF(object);
    return status;
}

static void *hold_memory(arguments *a, size_t bytes) {
    PyObject *memory = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    return hold(a, memory) < 0 ? NULL : PyBytes_AS_STRING(memory);
}

static void set_scalar(amp_value *value, amp_scalar scalar) {
    value->kind = AMP_VALUE_SCALAR;
    value->as.scalar = scalar;
}

/* ---- One object: 1 if it is of the kind, 0 if not, −1 with an exception ------------------------------------------ */
static int from_tensor(PyObject *object, amp_value *value, arguments *a) {
    (void)a;
    if (!is_tensor(object)) return 0;
    value->kind = AMP_VALUE_TENSOR;
    value->as.tensor = tensor_of(object);
    return 1;
}

static int from_none(PyObject *object, amp_value *value, arguments *a) {
    (void)a;
    value->kind = AMP_VALUE_NONE;
    return object == Py_None;
}

static int from_bool(PyObject *object, amp_value *value, arguments *a) {
    (void)a;
    if (!PyBool_Check(object)) return 0;
    set_scalar(value, amp_bool(object == Py_True));
    return 1;
}

static int from_float(PyObject *object, amp_value *value, arguments *a) {
    (void)a;
    if (!PyFloat_Check(object)) return 0;
    set_scalar(value, amp_float(PyFloat_AS_DOUBLE(object)));
    return 1;
}

static int from_int(PyObject *object, amp_value *value, arguments *a) {
    (void)a;
    if (!PyLong_Check(object)) return 0;
    const int64_t number = PyLong_AsLongLong(object);
    if (number == -1 && PyErr_Occurred()) return -1;
    set_scalar(value, amp_int(number));
    return 1;
}

static int from_text(PyObject *object, amp_value *value, arguments *a) {
    (void)a;
    if (!PyUnicode_Check(object)) return 0;
    value->kind = AMP_VALUE_STRING;
    value->as.string = PyUnicode_AsUTF8(object);
    return value->as.string ? 1 : -1;
}

static int from_dtype(PyObject *object, amp_value *value, arguments *a) {
    (void)a;
    if (Py_TYPE(object) != dtype_type) return 0;
    value->kind = AMP_VALUE_DTYPE;
    return dtype_converter(object, &value->as.dtype) ? 1 : -1;
}

static int from_generator(PyObject *object, amp_value *value, arguments *a) {
    (void)a;
    if (Py_TYPE(object) != generator_type) return 0;
    value->kind = AMP_VALUE_GENERATOR;
    value->as.generator = ((generator_object *)object)->generator;
    return 1;
}

/* An array of NumPy's, or of any other library that speaks DLPack and lends its memory. */
static int from_array(PyObject *object, amp_value *value, arguments *a) {
    if (!PyObject_CheckBuffer(object) || !PyObject_HasAttrString(object, "__dlpack__")) return 0;
    PyObject *tensor = tensor_from_buffer(object, AMP_DTYPE_NONE);
    if (hold(a, tensor) < 0) return -1;
    return from_tensor(tensor, value, a);
}

/* NumPy's numbers, and the like. */
static int from_number(PyObject *object, amp_value *value, arguments *a) {
    PyObject *number = NULL;
    if (PyIndex_Check(object)) {
        number = PyNumber_Index(object);
    } else if (PyComplex_Check(object)) {
        set_scalar(value, amp_complex(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object)));
        return 1;
    } else if (Py_TYPE(object)->tp_as_number && Py_TYPE(object)->tp_as_number->nb_float) {
        number = PyNumber_Float(object);
    } else {
        return 0;
    }
    const int taken = number ? convert(number, value, a) : -1;
    Py_XDECREF(number);
    return taken;
}

/* ---- Lists: of integers, of real numbers, of tensors; what the first element is decides -------------------------- */
static int fill_dims(PyObject *tuple, amp_value *value, arguments *a) {
    amp_dims dims = {.count = (int)Py_MIN(PyTuple_GET_SIZE(tuple), AMP_MAX_RANK + 1), .set = AMP_PRESENT};
    amp_floats floats = {.count = dims.count, .set = AMP_PRESENT};
    int whole = 1;
    for (int i = 0; i < Py_MIN(dims.count, AMP_MAX_RANK); i++) {
        amp_value item = {0};
        const int taken = convert(PyTuple_GET_ITEM(tuple, i), &item, a);
        if (taken <= 0 || item.kind != AMP_VALUE_SCALAR) return taken < 0 ? -1 : 0;
        const amp_scalar n = item.as.scalar;
        if (n.kind == AMP_SCALAR_COMPLEX) return 0;
        whole &= n.kind != AMP_SCALAR_FLOAT;
        dims.values[i] = n.i;
        floats.values[i] = n.kind == AMP_SCALAR_FLOAT ? n.re : (double)n.i;
    }
    value->kind = whole ? AMP_VALUE_DIMS : AMP_VALUE_FLOATS;
    if (whole) value->as.dims = dims;
    if (!whole) value->as.floats = floats;
    return 1;
}

static int fill_tensors(PyObject *tuple, amp_value *value, arguments *a) {
    const Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    amp_tensor **items = hold_memory(a, (size_t)count * sizeof *items);
    if (!items) return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        amp_value item = {0};
        const int taken = convert(PyTuple_GET_ITEM(tuple, i), &item, a);
        if (taken <= 0) return taken;
        if (item.kind != AMP_VALUE_TENSOR && item.kind != AMP_VALUE_NONE) return 0;
        items[i] = item.kind == AMP_VALUE_TENSOR ? item.as.tensor : NULL;
    }
    value->kind = AMP_VALUE_TENSOR_LIST;
    value->as.list = (amp_tensor_list){items, count, NULL};
    return 1;
}

static int from_sequence(PyObject *object, amp_value *value, arguments *a) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) return 0;
    PyObject *tuple = PySequence_Tuple(object); /* another thread may change the list meanwhile */
    if (hold(a, tuple) < 0) return -1;
    const int taken = fill_dims(tuple, value, a);
    return taken != 0 ? taken : fill_tensors(tuple, value, a);
}

/* What is asked first is what comes most. */
static int (*const conversions[])(PyObject *, amp_value *, arguments *) = {
    from_tensor, from_none,      from_bool,     from_float, from_int,    from_text,
    from_dtype,  from_generator, from_sequence, from_array, from_number,
};

static int convert(PyObject *object, amp_value *value, arguments *a) {
    for (size_t i = 0; i < sizeof conversions / sizeof conversions[0]; i++) {
        const int taken = conversions[i](object, value, a);
        if (taken != 0) return taken;
    }
    return 0;
}

/* ---- Arguments ---------------------------------------------------------------------------------------------------- */
static amp_argument *next_argument(arguments *a, PyObject *source) {
    if (a->count == MOST_ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "%s: too many arguments", a->op);
        return NULL;
    }
    a->sources[a->count] = source;
    return &a->items[a->count++];
}

int arguments_add(arguments *a, const char *name, PyObject *object) {
    amp_argument *argument = next_argument(a, object);
    if (!argument) return -1;
    argument->name = name;
    const int taken = convert(object, &argument->value, a);
    if (taken > 0) return 0;
    if (taken == 0 && name) {
        PyErr_Format(PyExc_TypeError, "%s: '%s': no op takes a %s, or a list of such", a->op, name,
                     Py_TYPE(object)->tp_name);
    } else if (taken == 0) {
        PyErr_Format(PyExc_TypeError, "%s: argument %d: no op takes a %s, or a list of such", a->op, a->count,
                     Py_TYPE(object)->tp_name);
    }
    return -1;
}

int arguments_add_dims(arguments *a, PyObject *const *objects, Py_ssize_t count) {
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(objects[i]));
    return hold(a, tuple) < 0 ? -1 : arguments_add(a, NULL, tuple);
}

void arguments_end(arguments *a) {
    Py_XDECREF(a->held);
}

int tensor_array(PyObject *sequence, const char *what, amp_tensor ***array, Py_ssize_t *count, PyObject **tuple) {
    *array = NULL;
    *tuple = PySequence_Tuple(sequence);
    if (!*tuple) return -1;
    *count = PyTuple_GET_SIZE(*tuple);
    *array = PyMem_Calloc((size_t)*count + 1, sizeof **array);
    if (!*array) PyErr_NoMemory();
    for (Py_ssize_t i = 0; *array && i < *count; i++) {
        PyObject *item = PyTuple_GET_ITEM(*tuple, i);
        if (!is_tensor(item)) {
            PyErr_Format(PyExc_TypeError, "%s: item %zd must be a Tensor, but a %s was given", what, i,
                         Py_TYPE(item)->tp_name);
            PyMem_Free(*array);
            *array = NULL;
        } else {
            (*array)[i] = tensor_of(item);
        }
    }
    if (!*array) Py_CLEAR(*tuple);
    return *array ? 0 : -1;
}
