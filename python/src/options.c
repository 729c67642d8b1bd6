/* What optimizers and schedulers share: options by name, lists of parameters, and states as dicts. */
#include "binding.h"

/* ---- Options of structs by name -------------------------------------------------------------------------------------- */
/* A number, or a sequence of as many as an option holds, as a tuple; NULL with an exception. */
static PyObject *few_numbers(PyObject *value) {
    PyObject *tuple = PyNumber_Check(value) ? PyTuple_Pack(1, value) : PySequence_Tuple(value);
    const Py_ssize_t count = tuple ? PyTuple_GET_SIZE(tuple) : 0;
    if (count <= AMP_MAX_RANK) return tuple;
    Py_DECREF(tuple);
    return PyErr_Format(PyExc_ValueError, "%zd numbers were given where at most %d are taken", count, AMP_MAX_RANK);
}

static void set_dims(amp_dims *dims, PyObject *value) {
    PyObject *tuple = few_numbers(value);
    dims->set = AMP_PRESENT;
    dims->count = tuple ? (int)PyTuple_GET_SIZE(tuple) : 0;
    for (int i = 0; i < dims->count; i++) dims->values[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    Py_XDECREF(tuple);
}

static void set_floats(amp_floats *floats, PyObject *value) {
    PyObject *tuple = few_numbers(value);
    floats->set = AMP_PRESENT;
    floats->count = tuple ? (int)PyTuple_GET_SIZE(tuple) : 0;
    for (int i = 0; i < floats->count; i++) floats->values[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(tuple, i));
    Py_XDECREF(tuple);
}

static int set_option(const option *o, void *options, PyObject *value) {
    void *field = (char *)options + o->offset;
    switch (o->kind) {
    case OPTION_FLOAT: *(amp_opt_float *)field = (amp_opt_float)AMP_SET(PyFloat_AsDouble(value)); break;
    case OPTION_INT: *(amp_opt_int *)field = (amp_opt_int)AMP_SET(PyLong_AsLongLong(value)); break;
    case OPTION_BOOL: *(amp_opt_bool *)field = (amp_opt_bool)AMP_SET(PyObject_IsTrue(value) == 1); break;
    case OPTION_FLAG: *(bool *)field = PyObject_IsTrue(value) == 1; break;
    case OPTION_DIMS: set_dims(field, value); break;
    case OPTION_FLOATS: set_floats(field, value); break;
    }
    return PyErr_Occurred() ? -1 : 0;
}

int set_options(const char *what, const option *table, void *options, PyObject *dict) {
    PyObject *key = NULL, *value = NULL;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value)) {
        const option *o = table;
        while (o->name && PyUnicode_CompareWithASCIIString(key, o->name) != 0) o++;
        if (!o->name) {
            PyErr_Format(PyExc_TypeError, "%s: there is no option %R", what, key);
            return -1;
        }
        if (set_option(o, options, value) < 0) return -1;
    }
    return 0;
}

int find_kind(const named_kind *table, const char *what, const char *name) {
    while (table->name && strcmp(table->name, name) != 0) table++;
    if (table->name) return table->kind;
    PyErr_Format(PyExc_ValueError, "there is no %s '%s'", what, name);
    return -1;
}

/* ---- Lists of parameters --------------------------------------------------------------------------------------------------- */
amp_parameters *parameter_list(PyObject *sequence, int64_t first) {
    amp_tensor **tensors = NULL;
    PyObject *tuple = NULL;
    Py_ssize_t count = 0;
    if (tensor_array(sequence, "parameters", &tensors, &count, &tuple) < 0) return NULL;
    amp_parameters *list = amp_parameters_create();
    for (Py_ssize_t i = 0; list && i < count; i++) {
        char name[24];
        PyOS_snprintf(name, sizeof name, "%lld", (long long)(first + i));
        if (amp_parameters_add(list, name, tensors[i])) continue;
        amp_parameters_destroy(list);
        list = NULL;
    }
    if (!list) (void)raise_error();
    PyMem_Free(tensors);
    Py_DECREF(tuple);
    return list;
}

/* ---- States ---------------------------------------------------------------------------------------------------------- */
PyObject *state_dict(amp_state state) {
    if (amp_last_status() != AMP_OK) return raise_error();
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; dict && i < state.count; i++) {
        PyObject *tensor = tensor_wrap_borrowed(state.tensors[i]);
        if (!tensor || PyDict_SetItemString(dict, state.names[i], tensor) < 0) Py_CLEAR(dict);
        Py_XDECREF(tensor);
    }
    amp_state_free(state);
    return dict;
}

PyObject *load_state_dict(PyObject *dict, state_taker take, void *owner) {
    if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "load_state_dict: a dict of tensors is wanted");
    const Py_ssize_t count = PyDict_GET_SIZE(dict);
    const char **names = PyMem_Calloc((size_t)count + 1, sizeof *names);
    amp_tensor **tensors = PyMem_Calloc((size_t)count + 1, sizeof *tensors);
    PyObject *key = NULL, *value = NULL;
    Py_ssize_t position = 0, n = 0;
    while (names && tensors && PyDict_Next(dict, &position, &key, &value)) {
        names[n] = PyUnicode_AsUTF8(key);
        if (!names[n] || !is_tensor(value)) break;
        tensors[n++] = tensor_of(value);
    }
    PyObject *result = n == count && names && tensors
                           ? none_or_error(take(owner, names, tensors, count))
                           : PyErr_Format(PyExc_TypeError, "load_state_dict: names and tensors are wanted");
    PyMem_Free(names);
    PyMem_Free(tensors);
    return result;
}
