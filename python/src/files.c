/* Graphs from ONNX files, and safetensors. */
#include "binding.h"

static PyTypeObject *graph_type;

/* ---- Graphs ---------------------------------------------------------------------------------------------------------------- */
typedef struct graph_object {
    PyObject_HEAD amp_graph *graph;
} graph_object;

static amp_graph *graph_of(PyObject *self) {
    return ((graph_object *)self)->graph;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"path", "exact", "data_folder", NULL};
    PyObject *path = NULL;
    int exact = 0;
    amp_graph_options options = {.struct_size = sizeof options};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|pz", names, PyUnicode_FSConverter, &path, &exact,
                                     &options.data_folder)) {
        return NULL;
    }
    options.exact = exact;
    amp_graph *graph = NULL;
    const char *name = PyBytes_AS_STRING(path);
    Py_BEGIN_ALLOW_THREADS graph = amp_graph_load(name, &options);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (!graph) return raise_error();
    graph_object *self = (graph_object *)type->tp_alloc(type, 0); /* amp.Graph is a class of Python's */
    if (self) self->graph = graph;
    if (!self) amp_graph_release(graph);
    return (PyObject *)self;
}

static void graph_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    amp_graph_release(graph_of(self));
    type->tp_free(self);
    Py_DECREF(type);
}

/* The extents, of which one that is open is its name or None; None where the rank is open. */
static PyObject *shape_of(const amp_graph_value *value) {
    if (value->rank == AMP_GRAPH_OPEN) Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(value->rank);
    for (int d = 0; tuple && d < value->rank; d++) {
        const char *name = value->extent_names[d];
        PyObject *extent = value->shape[d] != AMP_GRAPH_OPEN ? PyLong_FromLongLong(value->shape[d])
                           : name                            ? PyUnicode_FromString(name)
                                                             : Py_NewRef(Py_None);
        if (extent) {
            PyTuple_SET_ITEM(tuple, d, extent);
        } else {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

typedef amp_status (*value_getter)(const amp_graph *graph, int index, amp_graph_value *value, size_t bytes);

static PyObject *values(const amp_graph *graph, int count, value_getter get) {
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        amp_graph_value value;
        PyObject *row = get(graph, i, &value, sizeof value) != AMP_OK
                            ? raise_error()
                            : Py_BuildValue("(sNN)", value.name, dtype_object(value.dtype), shape_of(&value));
        if (row) {
            PyTuple_SET_ITEM(tuple, i, row);
        } else {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}
static PyObject *graph_inputs(PyObject *self, void *unused) {
    (void)unused;
    return values(graph_of(self), amp_graph_input_count(graph_of(self)), amp_graph_get_input);
}
static PyObject *graph_outputs(PyObject *self, void *unused) {
    (void)unused;
    return values(graph_of(self), amp_graph_output_count(graph_of(self)), amp_graph_get_output);
}

static PyObject *run_graph(amp_graph *graph, amp_tensor **inputs, int input_count) {
    const int count = amp_graph_output_count(graph);
    amp_tensor **outputs = PyMem_Calloc((size_t)count + 1, sizeof *outputs);
    if (!outputs) return PyErr_NoMemory();
    amp_status status = AMP_OK;
    Py_BEGIN_ALLOW_THREADS status = amp_graph_run(graph, inputs, input_count, outputs, count);
    Py_END_ALLOW_THREADS PyObject *result = status == AMP_OK ? tensor_wrap_list(outputs, count) : raise_error();
    PyMem_Free(outputs);
    return result;
}

static PyObject *graph_run(PyObject *self, PyObject *sequence) {
    amp_tensor **inputs = NULL;
    PyObject *tuple = NULL;
    Py_ssize_t count = 0;
    if (tensor_array(sequence, "run", &inputs, &count, &tuple) < 0) return NULL;
    PyObject *result = run_graph(graph_of(self), inputs, (int)count);
    PyMem_Free(inputs);
    Py_DECREF(tuple);
    return result;
}

static PyObject *graph_metadata(PyObject *self, PyObject *args) {
    const char *key = NULL;
    if (!PyArg_ParseTuple(args, "s", &key)) return NULL;
    const char *text = amp_graph_metadata(graph_of(self), key);
    return text ? PyUnicode_FromString(text) : none_or_error(amp_last_status());
}

static PyObject *graph_save(PyObject *self, PyObject *args) {
    PyObject *path = NULL, *sequence = NULL, *tuple = NULL;
    amp_graph_save_options options = {.struct_size = sizeof options};
    if (!PyArg_ParseTuple(args, "O&O|z", PyUnicode_FSConverter, &path, &sequence, &options.dynamic)) return NULL;
    amp_tensor **inputs = NULL;
    Py_ssize_t count = 0;
    PyObject *result = NULL;
    if (tensor_array(sequence, "save", &inputs, &count, &tuple) == 0) {
        result = none_or_error(amp_graph_save(graph_of(self), PyBytes_AS_STRING(path), inputs, (int)count, &options));
    }
    PyMem_Free(inputs);
    Py_XDECREF(tuple);
    Py_DECREF(path);
    return result;
}

static PyGetSetDef graph_fields[] = {
    {"inputs", graph_inputs, NULL, "name, dtype and shape of each input", NULL},
    {"outputs", graph_outputs, NULL, "name, dtype and shape of each output", NULL},
    {0},
};
static PyMethodDef graph_methods[] = {
    {"run", graph_run, METH_O, "run(inputs): the outputs as a list"},
    {"metadata", graph_metadata, METH_VARARGS, "metadata(key): what the model's maker wrote there, or None"},
    {"save", graph_save, METH_VARARGS, "save(path, inputs, dynamic=None): as ONNX, as it runs on these in the region"},
    {0},
};
static PyType_Slot graph_slots[] = {{Py_tp_new, graph_new},
                                    {Py_tp_dealloc, graph_dealloc},
                                    {Py_tp_getset, graph_fields},
                                    {Py_tp_methods, graph_methods},
                                    {0}};
static PyType_Spec graph_spec = {.name = "amp._amp.Graph",
                                 .basicsize = sizeof(graph_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                 .slots = graph_slots};

int add_graph(PyObject *module) {
    return add_type(module, &graph_spec, &graph_type);
}

/* ---- safetensors -------------------------------------------------------------------------------------------------------------- */
static PyObject *tensors_of(amp_safetensors *file) {
    PyObject *dict = PyDict_New();
    const int64_t count = amp_safetensors_count(file);
    for (int64_t i = 0; dict && i < count; i++) {
        const char *name = amp_safetensors_name(file, i);
        PyObject *tensor = tensor_wrap(amp_safetensors_get(file, name));
        if (!tensor || PyDict_SetItemString(dict, name, tensor) < 0) Py_CLEAR(dict);
        Py_XDECREF(tensor);
    }
    return dict;
}

static PyObject *metadata_of(const amp_safetensors *file) {
    PyObject *dict = PyDict_New();
    const int64_t count = amp_safetensors_metadata_count(file);
    for (int64_t i = 0; dict && i < count; i++) {
        PyObject *value = PyUnicode_FromString(amp_safetensors_metadata_value(file, i));
        if (!value || PyDict_SetItemString(dict, amp_safetensors_metadata_key(file, i), value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* The tensors, and what else is written in the file. */
static PyObject *load_file(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    amp_safetensors *file = amp_safetensors_open(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    if (!file) return raise_error();
    PyObject *tensors = tensors_of(file), *metadata = tensors ? metadata_of(file) : NULL;
    amp_safetensors_close(file);
    PyObject *result = metadata ? PyTuple_Pack(2, tensors, metadata) : NULL;
    Py_XDECREF(tensors);
    Py_XDECREF(metadata);
    return result;
}

/* A sequence of str as texts that end with NULL; they live as long as `tuple`. */
static const char **texts_of(PyObject *sequence, PyObject **tuple) {
    *tuple = PySequence_Tuple(sequence);
    const Py_ssize_t count = *tuple ? PyTuple_GET_SIZE(*tuple) : 0;
    const char **texts = *tuple ? PyMem_Calloc((size_t)count + 1, sizeof *texts) : NULL;
    for (Py_ssize_t i = 0; texts && i < count; i++) {
        texts[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(*tuple, i));
        if (texts[i]) continue;
        PyMem_Free(texts);
        texts = NULL;
    }
    return texts;
}

static PyObject *save_file(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path = NULL, *names = NULL, *tensors = NULL, *metadata = NULL, *held[3] = {NULL, NULL, NULL};
    if (!PyArg_ParseTuple(args, "O&OOO", PyUnicode_FSConverter, &path, &names, &tensors, &metadata)) return NULL;
    const char **texts = texts_of(names, &held[0]), **pairs = texts ? texts_of(metadata, &held[1]) : NULL;
    amp_tensor **items = NULL;
    Py_ssize_t count = 0;
    PyObject *result = NULL;
    if (pairs && tensor_array(tensors, "save_file", &items, &count, &held[2]) == 0) {
        const char *name = PyBytes_AS_STRING(path);
        amp_status status = AMP_OK;
        Py_BEGIN_ALLOW_THREADS status = amp_save_safetensors(name, texts, items, count, pairs);
        Py_END_ALLOW_THREADS result = none_or_error(status);
    }
    PyMem_Free(texts);
    PyMem_Free(pairs);
    PyMem_Free(items);
    for (int i = 0; i < 3; i++) Py_XDECREF(held[i]);
    Py_DECREF(path);
    return result;
}

PyMethodDef file_functions[] = {
    {"load_file", load_file, METH_VARARGS, NULL},
    {"save_file", save_file, METH_VARARGS, NULL},
    {0},
};
