/* What a thread or the process is set to: regions, recording, seeds, threads, the report; and generators. */
#include "binding.h"

PyTypeObject *generator_type;

/* ---- Regions of autocast -------------------------------------------------------------------------------------------- */
/* An enter that fails counts as entered for C; for Python, whose `with` then never begins, it is left at once. */
static PyObject *autocast_enter(PyObject *module, PyObject *args) {
    (void)module;
    amp_autocast_args options = {.struct_size = sizeof options};
    int enabled = 1, cache = 1, strict = 0, banned = 0;
    if (!PyArg_ParseTuple(args, "O&O&ppppz", device_converter, &options.device, dtype_converter, &options.dtype,
                          &enabled, &cache, &strict, &banned, &options.table)) {
        return NULL;
    }
    options.enabled = (amp_opt_bool)AMP_SET(enabled != 0);
    if (!cache) options.cache_enabled = (amp_opt_bool)AMP_SET(false);
    options.strict = strict;
    options.allow_banned = banned;
    if (amp_autocast_enter(&options) == AMP_OK) Py_RETURN_NONE;
    (void)raise_error();
    (void)amp_autocast_exit(options.device);
    amp_clear_error();
    return NULL;
}

static PyObject *autocast_exit(PyObject *module, PyObject *args) {
    (void)module;
    amp_device device = AMP_DEVICE_CPU;
    if (!PyArg_ParseTuple(args, "O&", device_converter, &device)) return NULL;
    return none_or_error(amp_autocast_exit(device));
}

static PyObject *is_autocast_enabled(PyObject *module, PyObject *args) {
    (void)module;
    amp_device device = AMP_DEVICE_CPU;
    if (!PyArg_ParseTuple(args, "|O&", device_converter, &device)) return NULL;
    return PyBool_FromLong(amp_autocast_is_enabled(device));
}

static PyObject *get_autocast_dtype(PyObject *module, PyObject *args) {
    (void)module;
    amp_device device = AMP_DEVICE_CPU;
    if (!PyArg_ParseTuple(args, "|O&", device_converter, &device)) return NULL;
    return dtype_object(amp_autocast_dtype(device));
}

/* ---- Recording -------------------------------------------------------------------------------------------------------- */
static PyObject *set_grad_enabled(PyObject *module, PyObject *args) {
    (void)module;
    int enabled = 1;
    if (!PyArg_ParseTuple(args, "p", &enabled)) return NULL;
    return PyBool_FromLong(amp_grad_set_enabled(enabled));
}
static PyObject *is_grad_enabled(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(amp_grad_is_enabled());
}

/* ---- The process -------------------------------------------------------------------------------------------------------- */
static PyObject *manual_seed(PyObject *module, PyObject *seed) {
    (void)module;
    const uint64_t number = PyLong_AsUnsignedLongLongMask(seed);
    if (PyErr_Occurred()) return NULL;
    amp_manual_seed(number);
    Py_RETURN_NONE;
}
static PyObject *set_num_threads(PyObject *module, PyObject *args) {
    (void)module;
    int threads = 0;
    if (!PyArg_ParseTuple(args, "i", &threads)) return NULL;
    return none_or_error(amp_set_num_threads(threads));
}
static PyObject *get_num_threads(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromLong(amp_get_num_threads());
}
static PyObject *memory_statistics(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    const amp_memory_stats s = amp_memory_statistics();
    return Py_BuildValue("{snsnsnsn}", "live_bytes", (Py_ssize_t)s.live_bytes, "cached_bytes",
                         (Py_ssize_t)s.cached_bytes, "system_allocations", (Py_ssize_t)s.system_allocations,
                         "live_tensors", (Py_ssize_t)s.live_tensors);
}

/* ---- Explain -------------------------------------------------------------------------------------------------------------- */
static PyObject *explain_begin(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    amp_explain_begin();
    Py_RETURN_NONE;
}
static PyObject *explain_end(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    amp_explain_end();
    Py_RETURN_NONE;
}
static PyObject *explain_reset(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    amp_explain_reset();
    Py_RETURN_NONE;
}
static PyObject *explain_report(PyObject *module, PyObject *args) {
    (void)module;
    int json = 0;
    if (!PyArg_ParseTuple(args, "p", &json)) return NULL;
    char *report = amp_explain_report(json ? AMP_EXPLAIN_JSON : AMP_EXPLAIN_TABLE);
    if (!report) return raise_error();
    PyObject *text = PyUnicode_FromString(report);
    amp_explain_free(report);
    return text;
}
static PyObject *label_enter(PyObject *module, PyObject *args) {
    (void)module;
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    return none_or_error(amp_label_enter(name));
}
static PyObject *label_exit(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return none_or_error(amp_label_exit());
}

PyMethodDef mode_functions[] = {
    {"autocast_enter", autocast_enter, METH_VARARGS, NULL},
    {"autocast_exit", autocast_exit, METH_VARARGS, NULL},
    {"is_autocast_enabled", is_autocast_enabled, METH_VARARGS,
     "is_autocast_enabled(device='cpu'): this thread is in a region"},
    {"get_autocast_dtype", get_autocast_dtype, METH_VARARGS,
     "get_autocast_dtype(device='cpu'): the region's lower dtype"},
    {"set_grad_enabled", set_grad_enabled, METH_VARARGS, "set_grad_enabled(enabled): what it was on this thread"},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether calls are recorded on this thread."},
    {"manual_seed", manual_seed, METH_O, "manual_seed(seed): of the generators that ops use by default"},
    {"set_num_threads", set_num_threads, METH_VARARGS, "set_num_threads(threads): that an op may use"},
    {"get_num_threads", get_num_threads, METH_NOARGS, "Threads that an op may use."},
    {"memory_statistics", memory_statistics, METH_NOARGS,
     "Counters of libamp's memory: bytes, tensors that are alive."},
    {"explain_begin", explain_begin, METH_NOARGS, NULL},
    {"explain_end", explain_end, METH_NOARGS, NULL},
    {"explain_reset", explain_reset, METH_NOARGS, NULL},
    {"explain_report", explain_report, METH_VARARGS, NULL},
    {"label_enter", label_enter, METH_VARARGS, NULL},
    {"label_exit", label_exit, METH_NOARGS, NULL},
    {0},
};

/* ---- Generators ------------------------------------------------------------------------------------------------------------- */
static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"device", NULL};
    amp_device device = AMP_DEVICE_CPU;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O&", names, device_converter, &device)) return NULL;
    amp_generator *generator = amp_generator_create(device);
    if (!generator) return raise_error();
    generator_object *self = PyObject_New(generator_object, type);
    if (self) self->generator = generator;
    if (!self) amp_generator_destroy(generator);
    return (PyObject *)self;
}

static void generator_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    amp_generator_destroy(((generator_object *)self)->generator);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *generator_manual_seed(PyObject *self, PyObject *seed) {
    const uint64_t number = PyLong_AsUnsignedLongLongMask(seed);
    if (PyErr_Occurred()) return NULL;
    if (amp_generator_manual_seed(((generator_object *)self)->generator, number) != AMP_OK) return raise_error();
    return Py_NewRef(self);
}

static PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O, "manual_seed(seed): back to the beginning of that sequence; self"},
    {0},
};
static PyType_Slot generator_slots[] = {
    {Py_tp_new, generator_new},
    {Py_tp_dealloc, generator_dealloc},
    {Py_tp_methods, generator_methods},
    {Py_tp_doc, "Generator(device='cpu'): where random numbers come from, for ops' option `generator`"},
    {0},
};
static PyType_Spec generator_spec = {.name = "amp.Generator",
                                     .basicsize = sizeof(generator_object),
                                     .flags = Py_TPFLAGS_DEFAULT,
                                     .slots = generator_slots};

int add_generator(PyObject *module) {
    return add_type(module, &generator_spec, &generator_type);
}
