/* amp.dtype: one object for each of libamp's element types, under PyTorch's names. */
#include "binding.h"

typedef struct dtype_instance {
    PyObject_HEAD amp_dtype id;
} dtype_instance;

PyTypeObject *dtype_type;
static PyObject *dtypes[AMP_DTYPE_COUNT];

static const char *const names[AMP_DTYPE_COUNT] = {
    [AMP_F64] = "float64", [AMP_F32] = "float32", [AMP_F16] = "float16",   [AMP_BF16] = "bfloat16",
    [AMP_I64] = "int64",   [AMP_I32] = "int32",   [AMP_I16] = "int16",     [AMP_I8] = "int8",
    [AMP_U8] = "uint8",    [AMP_BOOL] = "bool",   [AMP_C64] = "complex64", [AMP_C128] = "complex128",
};

static PyObject *dtype_repr(PyObject *self) {
    return PyUnicode_FromFormat("amp.%s", names[((dtype_instance *)self)->id]);
}

static PyObject *get_name(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(names[((dtype_instance *)self)->id]);
}
static PyObject *get_itemsize(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(amp_dtype_size(((dtype_instance *)self)->id));
}
static PyObject *get_is_floating_point(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(amp_dtype_is_floating(((dtype_instance *)self)->id));
}
static PyObject *get_is_complex(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(amp_dtype_is_complex(((dtype_instance *)self)->id));
}
/* Copies and pickles are the object itself. */
static PyObject *dtype_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return get_name(self, NULL);
}

static PyGetSetDef dtype_fields[] = {
    {"name", get_name, NULL, "\"float32\"", NULL},
    {"itemsize", get_itemsize, NULL, "bytes of an element", NULL},
    {"is_floating_point", get_is_floating_point, NULL, "float64, float32, float16 or bfloat16", NULL},
    {"is_complex", get_is_complex, NULL, "complex64 or complex128", NULL},
    {0},
};
static PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, NULL}, {0}};
static PyType_Slot dtype_slots[] = {
    {Py_tp_repr, dtype_repr},
    {Py_tp_getset, dtype_fields},
    {Py_tp_methods, dtype_methods},
    {Py_tp_doc, "The type of a tensor's elements: amp.float32, amp.bfloat16, …"},
    {0},
};
static PyType_Spec dtype_spec = {
    .name = "amp._amp.dtype",
    .basicsize = sizeof(dtype_instance),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = dtype_slots,
};

int add_dtypes(PyObject *module) {
    if (add_type(module, &dtype_spec, &dtype_type) < 0) return -1;
    for (int id = AMP_DTYPE_NONE + 1; id < AMP_DTYPE_COUNT; id++) {
        dtype_instance *instance = PyObject_New(dtype_instance, dtype_type);
        if (!instance) return -1;
        instance->id = (amp_dtype)id;
        dtypes[id] = (PyObject *)instance;
        if (PyModule_AddObjectRef(module, names[id], dtypes[id]) < 0) return -1;
    }
    return 0;
}

PyObject *dtype_object(amp_dtype dtype) {
    return Py_NewRef(dtype == AMP_DTYPE_NONE ? Py_None : dtypes[dtype]);
}

int dtype_converter(PyObject *object, void *dtype) {
    amp_dtype *id = dtype;
    *id = AMP_DTYPE_NONE;
    if (object == Py_None) return 1;
    if (Py_TYPE(object) == dtype_type) *id = ((dtype_instance *)object)->id;
    if (PyUnicode_Check(object)) {
        const char *name = PyUnicode_AsUTF8(object);
        if (!name) return 0;
        *id = amp_dtype_from_name(name);
    }
    if (*id == AMP_DTYPE_NONE) PyErr_Format(PyExc_TypeError, "%R is no dtype: amp.float32, amp.bfloat16, …", object);
    return *id != AMP_DTYPE_NONE;
}

int device_converter(PyObject *object, void *device) {
    const char *name = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : NULL;
    for (int d = 0; name && d < AMP_DEVICE_COUNT; d++) {
        const char *own = amp_device_name((amp_device)d);
        const size_t length = strlen(own);
        if (strncmp(name, own, length) != 0 || (name[length] != '\0' && name[length] != ':')) continue;
        *(amp_device *)device = (amp_device)d;
        return 1;
    }
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%R is no device: \"cpu\" or \"cuda\"", object);
    return 0;
}
