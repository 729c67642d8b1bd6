/* amp.Tensor: what it is, and what it knows of gradients. Its ops are hung on by amp/_tensor.py. */
#include "binding.h"

#include <structmember.h>

PyTypeObject *tensor_type;

/* ---- Owning ------------------------------------------------------------------------------------------------------- */
PyObject *tensor_wrap(amp_tensor *tensor) {
    if (!tensor) return raise_error();
    amp_tensor *kept = amp_keep(tensor); /* where a scope of C's is open around Python */
    tensor_object *self = PyObject_New(tensor_object, tensor_type);
    if (!self) {
        amp_release(kept);
        return NULL;
    }
    self->tensor = kept;
    self->weak_references = NULL;
    return (PyObject *)self;
}

PyObject *tensor_wrap_borrowed(amp_tensor *tensor) {
    if (tensor) return tensor_wrap(amp_retain(tensor));
    return none_or_error(amp_last_status());
}

PyObject *tensor_wrap_list(amp_tensor *const *tensors, Py_ssize_t count) {
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = !list ? NULL : tensors[i] ? tensor_wrap(tensors[i]) : Py_NewRef(Py_None);
        if (item) {
            PyList_SET_ITEM(list, i, item);
        } else {
            if (!list) amp_release(tensors[i]);
            Py_CLEAR(list); /* what is in it already goes with it */
        }
    }
    return list;
}

static void tensor_dealloc(PyObject *object) {
    tensor_object *self = (tensor_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->weak_references) PyObject_ClearWeakRefs(object);
    amp_release(self->tensor);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* ---- What it is --------------------------------------------------------------------------------------------------- */
static PyObject *integers(const int64_t *values, int count) {
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (number) {
            PyTuple_SET_ITEM(tuple, i, number);
        } else {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *unused) {
    (void)unused;
    return integers(amp_tensor_shape(tensor_of(self)), amp_tensor_rank(tensor_of(self)));
}
static PyObject *get_strides(PyObject *self, void *unused) {
    (void)unused;
    return integers(amp_tensor_strides(tensor_of(self)), amp_tensor_rank(tensor_of(self)));
}
static PyObject *get_dtype(PyObject *self, void *unused) {
    (void)unused;
    return dtype_object(amp_tensor_dtype(tensor_of(self)));
}
static PyObject *get_device(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(amp_device_name(amp_tensor_device(tensor_of(self))));
}
static PyObject *get_ndim(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(amp_tensor_rank(tensor_of(self)));
}
static PyObject *get_requires_grad(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(amp_tensor_requires_grad(tensor_of(self)));
}
static PyObject *get_is_leaf(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(amp_tensor_is_leaf(tensor_of(self)));
}
static PyObject *get_grad(PyObject *self, void *unused) {
    (void)unused;
    return tensor_wrap_borrowed(amp_tensor_grad(tensor_of(self)));
}
static PyObject *get_version(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(amp_tensor_version(tensor_of(self)));
}

static int zero_or_error(amp_status status) {
    if (status != AMP_OK) (void)raise_error();
    return status == AMP_OK ? 0 : -1;
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    const int wanted = value ? PyObject_IsTrue(value) : 0;
    if (wanted < 0) return -1;
    return zero_or_error(amp_tensor_set_requires_grad(tensor_of(self), wanted));
}

static int set_grad(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    if (value && value != Py_None && !is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "grad must be a Tensor or None, but a %s was given", Py_TYPE(value)->tp_name);
        return -1;
    }
    return zero_or_error(amp_tensor_set_grad(tensor_of(self), value && is_tensor(value) ? tensor_of(value) : NULL));
}

static PyGetSetDef tensor_fields[] = {
    {"shape", get_shape, NULL, "the extents", NULL},
    {"strides", get_strides, NULL, "the step of each dimension, in elements", NULL},
    {"dtype", get_dtype, NULL, "the type of an element", NULL},
    {"device", get_device, NULL, "\"cpu\" or \"cuda\"", NULL},
    {"ndim", get_ndim, NULL, "the number of dimensions", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "whether gradients are wanted", NULL},
    {"is_leaf", get_is_leaf, NULL, "no recorded op made it", NULL},
    {"grad", get_grad, set_grad, "the gradient that has arrived, or None; each look gives a new object of one tensor",
     NULL},
    {"_version", get_version, NULL, "grows with every write of the storage", NULL},
    {0},
};

static PyObject *tensor_repr(PyObject *self) {
    char *text = amp_repr(tensor_of(self));
    if (!text) return raise_error();
    PyObject *result = PyUnicode_FromString(text);
    amp_repr_free(text);
    return result;
}

static Py_ssize_t tensor_length(PyObject *self) {
    if (amp_tensor_rank(tensor_of(self)) > 0) return (Py_ssize_t)amp_tensor_shape(tensor_of(self))[0];
    PyErr_SetString(PyExc_TypeError, "a tensor of no dimensions has no length");
    return -1;
}

static PyObject *tensor_size(PyObject *self, PyObject *args) {
    PyObject *dim = Py_None;
    if (!PyArg_ParseTuple(args, "|O", &dim)) return NULL;
    if (dim == Py_None) return get_shape(self, NULL);
    const long number = PyLong_AsLong(dim);
    if (number == -1 && PyErr_Occurred()) return NULL;
    const int64_t extent = amp_tensor_size(tensor_of(self), (int)Py_MAX(Py_MIN(number, INT_MAX), INT_MIN));
    return amp_last_status() != AMP_OK ? raise_error() : PyLong_FromLongLong(extent);
}
static PyObject *tensor_stride(PyObject *self, PyObject *unused) {
    return get_strides(self, unused);
}
static PyObject *tensor_dim(PyObject *self, PyObject *unused) {
    return get_ndim(self, unused);
}
static PyObject *tensor_numel(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(amp_tensor_numel(tensor_of(self)));
}
static PyObject *tensor_is_contiguous(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(amp_tensor_is_contiguous(tensor_of(self)));
}
static PyObject *tensor_data_ptr(PyObject *self, PyObject *unused) {
    (void)unused;
    const void *data = amp_data(tensor_of(self));
    return amp_last_status() != AMP_OK ? raise_error() : PyLong_FromVoidPtr((void *)data);
}

/* ---- Elements as Python's numbers --------------------------------------------------------------------------------- */
static PyObject *float_at(const void *data, int64_t i) {
    return PyFloat_FromDouble(((const double *)data)[i]);
}
static PyObject *complex_at(const void *data, int64_t i) {
    return PyComplex_FromDoubles(((const double *)data)[2 * i], ((const double *)data)[2 * i + 1]);
}
static PyObject *integer_at(const void *data, int64_t i) {
    return PyLong_FromLongLong(((const int64_t *)data)[i]);
}
static PyObject *bool_at(const void *data, int64_t i) {
    return PyBool_FromLong(((const bool *)data)[i]);
}

/* The widest type of a dtype's kind, and its element as an object. */
typedef struct reading {
    amp_dtype dtype;
    PyObject *(*at)(const void *data, int64_t i);
} reading;

static reading reading_of(amp_dtype dtype) {
    if (amp_dtype_is_floating(dtype)) return (reading){AMP_F64, float_at};
    if (amp_dtype_is_complex(dtype)) return (reading){AMP_C128, complex_at};
    return dtype == AMP_BOOL ? (reading){AMP_BOOL, bool_at} : (reading){AMP_I64, integer_at};
}

static PyObject *nested(const amp_tensor *tensor, const reading *r, const void *data, int dim, int64_t *next) {
    if (dim == amp_tensor_rank(tensor)) return r->at(data, (*next)++);
    const int64_t extent = amp_tensor_shape(tensor)[dim];
    PyObject *list = PyList_New((Py_ssize_t)extent);
    for (int64_t i = 0; list && i < extent; i++) {
        PyObject *item = nested(tensor, r, data, dim + 1, next);
        if (item) {
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
        } else {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *tensor_tolist(PyObject *self, PyObject *unused) {
    (void)unused;
    const amp_tensor *tensor = tensor_of(self);
    const reading r = reading_of(amp_tensor_dtype(tensor));
    const size_t bytes = (size_t)amp_tensor_numel(tensor) * amp_dtype_size(r.dtype);
    void *data = PyMem_Malloc(bytes);
    if (!data) return PyErr_NoMemory();
    int64_t next = 0;
    const amp_status status = amp_read(tensor, r.dtype, data, bytes);
    PyObject *result = status == AMP_OK ? nested(tensor, &r, data, 0, &next) : raise_error();
    PyMem_Free(data);
    return result;
}

static PyObject *tensor_item(PyObject *self, PyObject *unused) {
    (void)unused;
    double data[2] = {0};
    const reading r = reading_of(amp_tensor_dtype(tensor_of(self)));
    (void)amp_item(tensor_of(self)); /* says what is wrong with it */
    if (amp_last_status() != AMP_OK) return raise_error();
    if (amp_read(tensor_of(self), r.dtype, data, sizeof data) != AMP_OK) return raise_error();
    return r.at(data, 0);
}

static int tensor_bool(PyObject *self) {
    PyObject *number = tensor_item(self, NULL);
    const int truth = number ? PyObject_IsTrue(number) : -1;
    Py_XDECREF(number);
    return truth;
}
static PyObject *through_item(PyObject *self, PyObject *(*convert)(PyObject *)) {
    PyObject *number = tensor_item(self, NULL), *result = number ? convert(number) : NULL;
    Py_XDECREF(number);
    return result;
}
static PyObject *tensor_float(PyObject *self) {
    return through_item(self, PyNumber_Float);
}
static PyObject *tensor_int(PyObject *self) {
    return through_item(self, PyNumber_Long);
}

/* ---- Gradients ---------------------------------------------------------------------------------------------------- */
static PyObject *tensor_requires_grad_(PyObject *self, PyObject *args) {
    int wanted = 1;
    if (!PyArg_ParseTuple(args, "|p", &wanted)) return NULL;
    if (amp_tensor_set_requires_grad(tensor_of(self), wanted) != AMP_OK) return raise_error();
    return Py_NewRef(self);
}

static PyObject *tensor_backward(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"gradient", "retain_graph", "create_graph", NULL};
    PyObject *gradient = Py_None;
    int retain = 0, create = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|Opp", names, &gradient, &retain, &create)) return NULL;
    if (gradient != Py_None && !is_tensor(gradient)) {
        return PyErr_Format(PyExc_TypeError, "backward: gradient must be a Tensor or None");
    }
    const amp_backward_args options = {.struct_size = sizeof options,
                                       .loss = tensor_of(self),
                                       .gradient = gradient == Py_None ? NULL : tensor_of(gradient),
                                       .retain_graph = retain,
                                       .create_graph = create};
    amp_status status = AMP_OK;
    Py_BEGIN_ALLOW_THREADS status = amp_backward_call(&options);
    Py_END_ALLOW_THREADS return none_or_first_error(status);
}

/* Another view of all of it, which belongs to the scope that is open. */
static amp_tensor *view_of_all(amp_tensor *tensor) {
    amp_dims shape = {.set = AMP_PRESENT, .count = amp_tensor_rank(tensor)};
    memcpy(shape.values, amp_tensor_shape(tensor), (size_t)shape.count * sizeof *shape.values);
    return amp_view(tensor, shape);
}

/* Python's function of a gradient, which gives another or None. */
static amp_tensor *call_hook(void *hook, amp_tensor *gradient) {
    const PyGILState_STATE state = PyGILState_Ensure();
    amp_tensor *result = NULL;
    PyObject *given = tensor_wrap(view_of_all(gradient)), *made = given ? PyObject_CallOneArg(hook, given) : NULL;
    if (made && is_tensor(made)) {
        result = view_of_all(tensor_of(made));
    } else if (made && made != Py_None) {
        PyErr_Format(PyExc_TypeError, "a hook gives a Tensor or None, but not a %s", Py_TYPE(made)->tp_name);
    }
    Py_XDECREF(made);
    Py_XDECREF(given);
    if (PyErr_Occurred()) stop_libamp();
    PyGILState_Release(state);
    return result;
}

static void release_hook(void *hook) {
    if (!Py_IsInitialized()) return; /* a record that outlives Python */
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)hook);
    PyGILState_Release(state);
}

static PyObject *tensor_register_hook(PyObject *self, PyObject *hook) {
    if (!PyCallable_Check(hook))
        return PyErr_Format(PyExc_TypeError, "register_hook: a function of the gradient is wanted");
    return none_or_error(amp_tensor_register_hook_owned(tensor_of(self), call_hook, Py_NewRef(hook), release_hook));
}

static PyObject *tensor_retain_grad(PyObject *self, PyObject *unused) {
    (void)unused;
    return none_or_error(amp_tensor_retain_grad(tensor_of(self)));
}
static PyObject *tensor_mark_dirty(PyObject *self, PyObject *unused) {
    (void)unused;
    return none_or_error(amp_tensor_mark_dirty(tensor_of(self)));
}
static PyObject *tensor_mark_parameter(PyObject *self, PyObject *unused) {
    (void)unused;
    if (amp_tensor_mark_parameter(tensor_of(self)) != AMP_OK) return raise_error();
    return Py_NewRef(self);
}

static PyMethodDef tensor_methods[] = {
    {"size", tensor_size, METH_VARARGS, "size(dim=None): the extents, or that of one dimension"},
    {"stride", tensor_stride, METH_NOARGS, "The step of each dimension, in elements."},
    {"dim", tensor_dim, METH_NOARGS, "The number of dimensions."},
    {"numel", tensor_numel, METH_NOARGS, "The number of elements."},
    {"is_contiguous", tensor_is_contiguous, METH_NOARGS, "Dense and row-major."},
    {"data_ptr", tensor_data_ptr, METH_NOARGS, "The address of the first element, for reading."},
    {"item", tensor_item, METH_NOARGS, "The one element as a number of Python's."},
    {"tolist", tensor_tolist, METH_NOARGS, "The elements as nested lists."},
    {"requires_grad_", tensor_requires_grad_, METH_VARARGS,
     "requires_grad_(requires_grad=True): gradients are wanted. Returns self."},
    {"backward", (PyCFunction)(void (*)(void))tensor_backward, METH_VARARGS | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=False, create_graph=False)\n\n"
     "Adds the gradient of this loss by each leaf to the leaf's grad."},
    {"_register_hook", tensor_register_hook, METH_O, NULL},
    {"retain_grad", tensor_retain_grad, METH_NOARGS, "A result's gradient is to be kept too."},
    {"mark_dirty", tensor_mark_dirty, METH_NOARGS,
     "Tells libamp that the memory was written by somebody else (through NumPy): no cast of the old values is used "
     "again."},
    {"mark_parameter", tensor_mark_parameter, METH_NOARGS, "Its casts are cached wherever it is used. Returns self."},
    {0},
};

static PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(tensor_object, weak_references), READONLY, NULL},
    {0},
};
static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_getset, tensor_fields},
    {Py_tp_methods, tensor_methods},
    {Py_tp_members, tensor_members},
    {Py_mp_length, tensor_length},
    {Py_nb_bool, tensor_bool},
    {Py_nb_float, tensor_float},
    {Py_nb_int, tensor_int},
    {Py_bf_getbuffer, tensor_get_buffer},
    {Py_bf_releasebuffer, tensor_release_buffer},
    {Py_tp_doc,
     "A tensor: shape, strides and dtype over memory that views share. amp.tensor, amp.from_numpy and ops make them."},
    {0},
};
static PyType_Spec tensor_spec = {
    .name = "amp.Tensor",
    .basicsize = sizeof(tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = tensor_slots,
};

int add_tensor(PyObject *module) {
    if (add_type(module, &tensor_spec, &tensor_type) < 0) return -1;
    for (PyMethodDef *method = array_methods; method->ml_name; method++) {
        PyObject *descriptor = PyDescr_NewMethod(tensor_type, method);
        if (!descriptor || PyObject_SetAttrString((PyObject *)tensor_type, method->ml_name, descriptor) < 0) return -1;
        Py_DECREF(descriptor);
    }
    return 0;
}
