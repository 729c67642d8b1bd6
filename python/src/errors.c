/* libamp's errors as exceptions: the same sentence, of the kind that Python has for it. */
#include "binding.h"

static PyObject *base_error;
static PyObject *kinds[AMP_ERROR_INTERNAL + 1];

/* Each is an amp.Error, and what Python calls such a mistake. */
static const struct {
    const char *name;
    PyObject **also;
} rows[] = {
    [AMP_ERROR_INVALID] = {"amp.InvalidError", &PyExc_ValueError},
    [AMP_ERROR_DTYPE] = {"amp.DtypeError", &PyExc_TypeError},
    [AMP_ERROR_MEMORY] = {"amp.OutOfMemoryError", &PyExc_MemoryError},
    [AMP_ERROR_IO] = {"amp.FileError", &PyExc_OSError},
    [AMP_ERROR_NOT_IMPLEMENTED] = {"amp.NotImplementedYet", &PyExc_NotImplementedError},
    [AMP_ERROR_INTERNAL] = {NULL, NULL}, /* this and the others: amp.Error itself */
};

static int add_kind(PyObject *module, int status) {
    PyObject *bases = PyTuple_Pack(2, base_error, *rows[status].also);
    if (!bases) return -1;
    kinds[status] = PyErr_NewException(rows[status].name, bases, NULL);
    Py_DECREF(bases);
    return kinds[status] ? PyModule_AddObjectRef(module, strchr(rows[status].name, '.') + 1, kinds[status]) : -1;
}

int add_errors(PyObject *module) {
    base_error = PyErr_NewException("amp.Error", PyExc_RuntimeError, NULL);
    if (!base_error || PyModule_AddObjectRef(module, "Error", base_error) < 0) return -1;
    for (int status = 0; status < (int)(sizeof rows / sizeof rows[0]); status++) {
        if (rows[status].name && add_kind(module, status) < 0) return -1;
    }
    return 0;
}

PyObject *raise_error(void) {
    const unsigned status = amp_last_status();
    PyObject *kind = status < sizeof kinds / sizeof kinds[0] ? kinds[status] : NULL;
    PyErr_SetString(kind ? kind : base_error, amp_last_error());
    amp_clear_error();
    return NULL;
}

PyObject *none_or_error(amp_status status) {
    if (status != AMP_OK) return raise_error();
    Py_RETURN_NONE;
}

PyObject *none_or_first_error(amp_status status) {
    if (!PyErr_Occurred()) return none_or_error(status);
    amp_clear_error();
    return NULL;
}

void stop_libamp(void) {
    (void)amp_lbfgs_step(NULL, NULL, NULL); /* any error will do */
}
