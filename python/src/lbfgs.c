/* L-BFGS, whose steps call a function of Python's. amp/optim dresses it. */
#include "binding.h"

typedef struct lbfgs_object {
    PyObject_HEAD amp_lbfgs *lbfgs;
} lbfgs_object;

static const option lbfgs_options[] = {
    OPTION(amp_lbfgs_args, FLOAT, lr),
    OPTION(amp_lbfgs_args, FLOAT, tolerance_grad),
    OPTION(amp_lbfgs_args, FLOAT, tolerance_change),
    OPTION(amp_lbfgs_args, INT, max_iter),
    OPTION(amp_lbfgs_args, INT, max_eval),
    OPTION(amp_lbfgs_args, INT, history_size),
    {0},
};

static amp_lbfgs *lbfgs_of(PyObject *self) {
    return ((lbfgs_object *)self)->lbfgs;
}

static PyObject *lbfgs_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    PyObject *parameters = NULL, *dict = NULL;
    int strong_wolfe = 0;
    amp_lbfgs_args options = {.struct_size = sizeof options};
    if (!PyArg_ParseTuple(args, "OO!p", &parameters, &PyDict_Type, &dict, &strong_wolfe)) return NULL;
    if (set_options("LBFGS", lbfgs_options, &options, dict) < 0) return NULL;
    amp_parameters *list = parameter_list(parameters, 0);
    if (!list) return NULL;
    options.parameters = list;
    options.line_search = strong_wolfe ? AMP_STRONG_WOLFE : AMP_LINE_SEARCH_NONE;
    amp_lbfgs *lbfgs = amp_lbfgs_create(&options);
    amp_parameters_destroy(list);
    if (!lbfgs) return raise_error();
    lbfgs_object *self = PyObject_New(lbfgs_object, type);
    if (self) self->lbfgs = lbfgs;
    if (!self) amp_lbfgs_destroy(lbfgs);
    return (PyObject *)self;
}

static void lbfgs_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    amp_lbfgs_destroy(lbfgs_of(self));
    PyObject_Free(self);
    Py_DECREF(type);
}

/* The loss as a number. */
static double call_closure(void *closure) {
    PyObject *loss = PyObject_CallNoArgs(closure);
    const double number = loss ? PyFloat_AsDouble(loss) : 0;
    Py_XDECREF(loss);
    if (PyErr_Occurred()) stop_libamp();
    return number;
}

static PyObject *lbfgs_step(PyObject *self, PyObject *closure) {
    if (!PyCallable_Check(closure)) return PyErr_Format(PyExc_TypeError, "LBFGS.step: a closure is wanted");
    const double loss = amp_lbfgs_step(lbfgs_of(self), call_closure, closure);
    if (!PyErr_Occurred() && amp_last_status() == AMP_OK) return PyFloat_FromDouble(loss);
    return none_or_first_error(amp_last_status());
}

static PyObject *lbfgs_state(PyObject *self, PyObject *unused) {
    (void)unused;
    return state_dict(amp_lbfgs_state(lbfgs_of(self)));
}
static amp_status take_state(void *lbfgs, const char *const *names, amp_tensor *const *tensors, int64_t count) {
    return amp_lbfgs_load_state(lbfgs, names, tensors, count);
}
static PyObject *lbfgs_load_state(PyObject *self, PyObject *dict) {
    return load_state_dict(dict, take_state, lbfgs_of(self));
}

static PyMethodDef lbfgs_methods[] = {
    {"step", lbfgs_step, METH_O, "step(closure): the loss before it"},
    {"state", lbfgs_state, METH_NOARGS, NULL},
    {"load_state", lbfgs_load_state, METH_O, NULL},
    {0},
};
static PyType_Slot lbfgs_slots[] = {
    {Py_tp_new, lbfgs_new}, {Py_tp_dealloc, lbfgs_dealloc}, {Py_tp_methods, lbfgs_methods}, {0}};
static PyType_Spec lbfgs_spec = {
    .name = "amp._amp.LBFGS", .basicsize = sizeof(lbfgs_object), .flags = Py_TPFLAGS_DEFAULT, .slots = lbfgs_slots};

int add_lbfgs(PyObject *module) {
    static PyTypeObject *lbfgs_type;
    return add_type(module, &lbfgs_spec, &lbfgs_type);
}
