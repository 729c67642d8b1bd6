/* Memory shared with NumPy and the others, without a copy: Python's buffers and DLPack. Both go through libamp's
 * DLPack, which knows of read-only memory and keeps what it lends alive. */
#include "amp/dlpack.h"

#include <stdatomic.h>

#include "binding.h"

/* ---- Formats of Python's buffers (struct's letters) ---------------------------------------------------------------- */
static const struct {
    const char *format;
    amp_dtype dtype;
} formats[] = {
    {"d", AMP_F64}, {"f", AMP_F32}, {"e", AMP_F16}, {"q", AMP_I64},  {"l", AMP_I64},  {"i", AMP_I32},
    {"h", AMP_I16}, {"b", AMP_I8},  {"B", AMP_U8},  {"?", AMP_BOOL}, {"Zf", AMP_C64}, {"Zd", AMP_C128},
};
enum { FORMAT_COUNT = sizeof formats / sizeof formats[0] };

static const char *format_of(amp_dtype dtype) {
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (formats[i].dtype == dtype) return formats[i].format;
    }
    return NULL;
}

static amp_dtype dtype_of_format(const char *format) {
    if (!format) return AMP_U8;
    if (*format == '@' || *format == '=' || *format == '<') format++;
    for (int i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(formats[i].format, format) == 0) return formats[i].dtype;
    }
    return AMP_DTYPE_NONE;
}

/* ---- Out: a tensor's buffer ----------------------------------------------------------------------------------------- */
/* What a Py_buffer points at until it is released. */
typedef struct lent {
    DLManagedTensorVersioned *managed;
    Py_ssize_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
} lent;

static void fill_view(Py_buffer *view, lent *l, PyObject *self, int flags) {
    const DLTensor *t = &l->managed->dl_tensor;
    const amp_dtype dtype = amp_tensor_dtype(tensor_of(self));
    *view = (Py_buffer){.buf = t->data,
                        .obj = Py_NewRef(self),
                        .itemsize = (Py_ssize_t)amp_dtype_size(dtype),
                        .readonly = (l->managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0,
                        .ndim = t->ndim,
                        .format = flags & PyBUF_FORMAT ? (char *)format_of(dtype) : NULL,
                        .shape = flags & PyBUF_ND ? l->shape : NULL,
                        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? l->strides : NULL,
                        .internal = l};
    view->len = view->itemsize * (Py_ssize_t)amp_tensor_numel(tensor_of(self));
    for (int d = 0; d < t->ndim; d++) {
        l->shape[d] = (Py_ssize_t)t->shape[d];
        l->strides[d] = (Py_ssize_t)t->strides[d] * view->itemsize;
    }
}

/* Why a tensor has no buffer of the wanted kind, or NULL. */
static const char *no_buffer(const amp_tensor *tensor, int flags) {
    if (amp_tensor_device(tensor) != AMP_DEVICE_CPU) return "it is not in the CPU's memory";
    if (!format_of(amp_tensor_dtype(tensor))) return "Python's buffers have no bfloat16: x.numpy() gives an array";
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !amp_tensor_is_contiguous(tensor)) return "it is not contiguous";
    return NULL;
}

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags) {
    const char *why = no_buffer(tensor_of(self), flags);
    view->obj = NULL;
    if (why) {
        PyErr_Format(PyExc_BufferError, "a tensor of %s gives no buffer: %s",
                     amp_dtype_name(amp_tensor_dtype(tensor_of(self))), why);
        return -1;
    }
    lent *l = PyMem_Malloc(sizeof *l);
    if (l) l->managed = amp_to_dlpack(tensor_of(self));
    if (!l || !l->managed) {
        (void)(l ? raise_error() : PyErr_NoMemory());
        PyMem_Free(l);
        return -1;
    }
    fill_view(view, l, self, flags);
    if (!(flags & PyBUF_WRITABLE) || !view->readonly) return 0;
    PyErr_SetString(PyExc_BufferError, "the tensor's memory is read-only");
    tensor_release_buffer(self, view);
    Py_CLEAR(view->obj);
    return -1;
}

void tensor_release_buffer(PyObject *self, Py_buffer *view) {
    (void)self;
    lent *l = view->internal;
    l->managed->deleter(l->managed);
    PyMem_Free(l);
}

/* ---- In: a buffer as a tensor ----------------------------------------------------------------------------------------- */
/* What keeps the buffer while a tensor is over it. */
typedef struct borrowed {
    DLManagedTensorVersioned managed;
    Py_buffer view;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
    struct borrowed *next; /* among those to be freed */
} borrowed;

static void free_borrowed(borrowed *b) {
    PyBuffer_Release(&b->view);
    PyMem_RawFree(b);
}

/* Buffers whose tensors went where the interpreter was not held. */
static _Atomic(borrowed *) left_behind;

static int free_left_behind(void *unused) {
    (void)unused;
    borrowed *b = atomic_exchange(&left_behind, NULL);
    while (b) {
        borrowed *next = b->next;
        free_borrowed(b);
        b = next;
    }
    return 0;
}

/* The last tensor may go on any thread, and after Python. Whoever lets it go may hold a lock of libamp's that another
 * thread, which has the interpreter, waits for: so nobody waits for the interpreter here. */
static void delete_borrowed(DLManagedTensorVersioned *managed) {
    borrowed *b = managed->manager_ctx;
    if (!Py_IsInitialized()) return;
    if (PyGILState_Check()) {
        free_borrowed(b);
        return;
    }
    b->next = atomic_load(&left_behind);
    while (!atomic_compare_exchange_weak(&left_behind, &b->next, b)) {
    }
    (void)Py_AddPendingCall(free_left_behind, NULL); /* where there is no room, the next buffer that comes in does it */
}

static const DLDataType dlpack_dtypes[AMP_DTYPE_COUNT] = {
    [AMP_F64] = {kDLFloat, 64, 1},   [AMP_F32] = {kDLFloat, 32, 1},   [AMP_F16] = {kDLFloat, 16, 1},
    [AMP_BF16] = {kDLBfloat, 16, 1}, [AMP_I64] = {kDLInt, 64, 1},     [AMP_I32] = {kDLInt, 32, 1},
    [AMP_I16] = {kDLInt, 16, 1},     [AMP_I8] = {kDLInt, 8, 1},       [AMP_U8] = {kDLUInt, 8, 1},
    [AMP_BOOL] = {kDLBool, 8, 1},    [AMP_C64] = {kDLComplex, 64, 1}, [AMP_C128] = {kDLComplex, 128, 1},
};

/* What the elements are: what is asked for, of which a row of bytes holds several, or what the format says. */
static amp_dtype element_type(Py_buffer *v, amp_dtype asked) {
    const Py_ssize_t size = (Py_ssize_t)amp_dtype_size(asked);
    if (asked != AMP_DTYPE_NONE && v->itemsize == 1 && v->ndim == 1 && v->len % size == 0) {
        v->shape[0] /= size;
        v->strides[0] = v->itemsize = size;
    }
    const amp_dtype dtype = asked == AMP_DTYPE_NONE ? dtype_of_format(v->format) : asked;
    if ((Py_ssize_t)amp_dtype_size(dtype) == v->itemsize && v->ndim <= AMP_MAX_RANK) return dtype;
    PyErr_Format(
        PyExc_TypeError,
        "from_numpy: libamp has no tensor of %d dimensions of the format '%s', %zd bytes each; it has at most %d "
        "dimensions, of float, int, uint8, bool and complex",
        v->ndim, v->format ? v->format : "B", v->itemsize, AMP_MAX_RANK);
    return AMP_DTYPE_NONE;
}

/* −1 with an exception: a buffer that no tensor can be over. */
static int copy_geometry(borrowed *b) {
    const Py_buffer *v = &b->view;
    for (int d = 0; d < v->ndim; d++) {
        b->shape[d] = v->shape[d];
        b->strides[d] = v->strides[d] / v->itemsize;
        if (v->strides[d] % v->itemsize == 0) continue;
        PyErr_Format(PyExc_ValueError, "from_numpy: dimension %d steps by %zd bytes, elements have %zd: copy it first",
                     d, v->strides[d], v->itemsize);
        return -1;
    }
    return 0;
}

static int describe_buffer(borrowed *b, amp_dtype asked) {
    const amp_dtype dtype = element_type(&b->view, asked);
    if (dtype == AMP_DTYPE_NONE || copy_geometry(b) < 0) return -1;
    b->managed = (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                            .manager_ctx = b,
                                            .deleter = delete_borrowed,
                                            .flags = b->view.readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
                                            .dl_tensor = {.data = b->view.len > 0 ? b->view.buf : NULL,
                                                          .device = {kDLCPU, 0},
                                                          .ndim = b->view.ndim,
                                                          .dtype = dlpack_dtypes[dtype],
                                                          .shape = b->shape,
                                                          .strides = b->strides}};
    return 0;
}

PyObject *tensor_from_buffer(PyObject *object, amp_dtype dtype) {
    (void)free_left_behind(NULL);
    borrowed *b = PyMem_RawCalloc(1, sizeof *b);
    if (!b) return PyErr_NoMemory();
    if (PyObject_GetBuffer(object, &b->view, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        PyMem_RawFree(b);
        return NULL;
    }
    amp_tensor *tensor = describe_buffer(b, dtype) == 0 ? amp_from_dlpack(&b->managed) : NULL;
    if (tensor) return tensor_wrap(tensor);
    free_borrowed(b);
    return PyErr_Occurred() ? NULL : raise_error();
}

static PyObject *from_buffer(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *object = NULL;
    amp_dtype dtype = AMP_DTYPE_NONE;
    if (!PyArg_ParseTuple(args, "O|O&", &object, dtype_converter, &dtype)) return NULL;
    return tensor_from_buffer(object, dtype);
}

/* ---- DLPack's capsules ---------------------------------------------------------------------------------------------------- */
static const char versioned_name[] = "dltensor_versioned", plain_name[] = "dltensor";

static void drop_versioned(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, versioned_name)) return; /* somebody took it */
    DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, versioned_name);
    managed->deleter(managed);
}
static void drop_plain(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, plain_name)) return;
    DLManagedTensor *managed = PyCapsule_GetPointer(capsule, plain_name);
    managed->deleter(managed);
}

static PyObject *versioned_capsule(amp_tensor *tensor) {
    DLManagedTensorVersioned *managed = amp_to_dlpack(tensor);
    PyObject *capsule = managed ? PyCapsule_New(managed, versioned_name, drop_versioned) : raise_error();
    if (managed && !capsule) managed->deleter(managed);
    return capsule;
}
static PyObject *plain_capsule(amp_tensor *tensor) {
    DLManagedTensor *managed = amp_to_dlpack_unversioned(tensor);
    PyObject *capsule = managed ? PyCapsule_New(managed, plain_name, drop_plain) : raise_error();
    if (managed && !capsule) managed->deleter(managed);
    return capsule;
}

/* The consumer says which DLPack it knows, and whether it wants a copy. */
static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", names, &stream, &version, &device, &copy)) return NULL;
    if (copy == Py_True)
        return PyErr_Format(PyExc_BufferError, "__dlpack__: libamp shares memory; x.clone() is a copy");
    const int known = PyTuple_Check(version) && PyTuple_GET_SIZE(version) > 0;
    const long major = known ? PyLong_AsLong(PyTuple_GET_ITEM(version, 0)) : 0;
    if (major == -1 && PyErr_Occurred()) return NULL;
    return major >= DLPACK_MAJOR_VERSION ? versioned_capsule(tensor_of(self)) : plain_capsule(tensor_of(self));
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused) {
    (void)unused;
    const bool cuda = amp_tensor_device(tensor_of(self)) == AMP_DEVICE_CUDA;
    return Py_BuildValue("(ii)", cuda ? kDLCUDA : kDLCPU, 0);
}

/* Takes what is in a capsule; on success the capsule is used. */
static PyObject *from_capsule(PyObject *module, PyObject *capsule) {
    (void)module;
    const bool versioned = PyCapsule_IsValid(capsule, versioned_name);
    void *managed = PyCapsule_GetPointer(capsule, versioned ? versioned_name : plain_name);
    if (!managed) return NULL;
    amp_tensor *tensor = versioned ? amp_from_dlpack(managed) : amp_from_dlpack_unversioned(managed);
    if (!tensor) return raise_error();
    (void)PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    return tensor_wrap(tensor);
}

/* ---- bf16 where nobody has it ------------------------------------------------------------------------------------------------ */
static void release_original(void *tensor) {
    amp_release(tensor);
}

/* The same memory of 16-bit elements as integers. */
static PyObject *tensor_bits(PyObject *self, PyObject *unused) {
    (void)unused;
    amp_tensor *tensor = tensor_of(self);
    if (amp_dtype_size(amp_tensor_dtype(tensor)) != 2) {
        return PyErr_Format(PyExc_TypeError, "_bits: the elements must have 16 bits");
    }
    void *data = (void *)amp_data(tensor);
    amp_tensor *bits = amp_from_memory(data, AMP_I16, amp_tensor_rank(tensor), amp_tensor_shape(tensor),
                                       amp_tensor_strides(tensor), release_original, amp_retain(tensor));
    if (!bits) amp_release(tensor);
    return tensor_wrap(bits);
}

PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The tensor as a DLPack capsule."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "DLPack's numbers of the device."},
    {"_bits", tensor_bits, METH_NOARGS, "The same memory of 16-bit elements as int16."},
    {0},
};
PyMethodDef array_functions[] = {
    {"from_buffer", from_buffer, METH_VARARGS,
     "from_buffer(object, dtype=None): a tensor over a buffer, without a copy"},
    {"from_capsule", from_capsule, METH_O, "from_capsule(capsule): a tensor over what a DLPack capsule holds"},
    {0},
};
