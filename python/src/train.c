/* Optimizers, the scaler, clipping, and gradients of chosen inputs. amp/optim.py and amp/_train.py dress them. */
#include "binding.h"

static PyTypeObject *optimizer_type, *scaler_type;

/* ---- Clipping ------------------------------------------------------------------------------------------------------- */
static PyObject *clip_grad_norm(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *parameters = NULL;
    double most = 0, p = 2;
    int strict = 0;
    if (!PyArg_ParseTuple(args, "Odd|p", &parameters, &most, &p, &strict)) return NULL;
    amp_parameters *list = parameter_list(parameters, 0);
    if (!list) return NULL;
    amp_clip_grad_norm_args options = {
        .struct_size = sizeof options, .parameters = list, .max_norm = most, .error_if_nonfinite = strict};
    options.norm_type = (amp_opt_float)AMP_SET(p);
    const double norm = amp_clip_grad_norm_call(&options);
    amp_parameters_destroy(list);
    return amp_last_status() == AMP_OK ? PyFloat_FromDouble(norm) : raise_error();
}

static PyObject *clip_grad_value(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *parameters = NULL;
    double most = 0;
    if (!PyArg_ParseTuple(args, "Od", &parameters, &most)) return NULL;
    amp_parameters *list = parameter_list(parameters, 0);
    if (!list) return NULL;
    const amp_status status = amp_clip_grad_value(list, most);
    amp_parameters_destroy(list);
    return none_or_error(status);
}

/* ---- Optimizers --------------------------------------------------------------------------------------------------------------- */
typedef struct optimizer_object {
    PyObject_HEAD amp_optimizer *optimizer;
} optimizer_object;

amp_optimizer *optimizer_of(PyObject *self) {
    return ((optimizer_object *)self)->optimizer;
}

PyObject *inner_optimizer(PyObject *optimizer) {
    PyObject *inner = PyObject_GetAttrString(optimizer, "_optimizer");
    if (inner && Py_TYPE(inner) == optimizer_type) return inner;
    Py_XDECREF(inner);
    PyErr_Clear();
    return PyErr_Format(PyExc_TypeError, "an optimizer of amp.optim is wanted, but a %s was given",
                        Py_TYPE(optimizer)->tp_name);
}

static const named_kind kinds[] = {
    {"SGD", AMP_SGD},         {"Adam", AMP_ADAM},
    {"AdamW", AMP_ADAMW},     {"Adagrad", AMP_ADAGRAD},
    {"RMSprop", AMP_RMSPROP}, {"Adadelta", AMP_ADADELTA},
    {"NAdam", AMP_NADAM},     {"RAdam", AMP_RADAM},
    {"Adamax", AMP_ADAMAX},   {0},
};

static const option optimizer_options[] = {
    OPTION(amp_optimizer_args, FLOAT, lr),
    OPTION(amp_optimizer_args, FLOAT, weight_decay),
    OPTION(amp_optimizer_args, FLOAT, momentum),
    OPTION(amp_optimizer_args, FLOAT, dampening),
    OPTION(amp_optimizer_args, FLOAT, beta1),
    OPTION(amp_optimizer_args, FLOAT, beta2),
    OPTION(amp_optimizer_args, FLOAT, eps),
    OPTION(amp_optimizer_args, FLOAT, alpha),
    OPTION(amp_optimizer_args, FLOAT, rho),
    OPTION(amp_optimizer_args, FLOAT, lr_decay),
    OPTION(amp_optimizer_args, FLOAT, initial_accumulator_value),
    OPTION(amp_optimizer_args, FLOAT, momentum_decay),
    OPTION(amp_optimizer_args, BOOL, nesterov),
    OPTION(amp_optimizer_args, BOOL, amsgrad),
    OPTION(amp_optimizer_args, BOOL, centered),
    OPTION(amp_optimizer_args, BOOL, decoupled_weight_decay),
    OPTION(amp_optimizer_args, BOOL, maximize),
    OPTION(amp_optimizer_args, FLAG, master_weights),
    {0},
};

static amp_optimizer *create_optimizer(const char *name, const amp_optimizer_args *options) {
    const int kind = find_kind(kinds, "optimizer", name);
    amp_optimizer *optimizer = kind < 0 ? NULL : amp_optimizer_create((amp_optimizer_kind)kind, options);
    if (!optimizer && kind >= 0) (void)raise_error();
    return optimizer;
}

static PyObject *optimizer_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    const char *name = NULL;
    PyObject *parameters = NULL, *dict = NULL;
    amp_optimizer_args options = {.struct_size = sizeof options};
    if (!PyArg_ParseTuple(args, "sOO!", &name, &parameters, &PyDict_Type, &dict)) return NULL;
    if (set_options(name, optimizer_options, &options, dict) < 0) return NULL;
    amp_parameters *list = parameter_list(parameters, 0);
    if (!list) return NULL;
    options.parameters = list;
    amp_optimizer *optimizer = create_optimizer(name, &options);
    amp_parameters_destroy(list);
    optimizer_object *self = optimizer ? PyObject_New(optimizer_object, type) : NULL;
    if (self) self->optimizer = optimizer;
    if (!self) amp_optimizer_destroy(optimizer);
    return (PyObject *)self;
}

static void optimizer_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    amp_optimizer_destroy(optimizer_of(self));
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *optimizer_add_group(PyObject *self, PyObject *args) {
    PyObject *parameters = NULL, *dict = NULL;
    amp_optimizer_args options = {.struct_size = sizeof options};
    if (!PyArg_ParseTuple(args, "OO!", &parameters, &PyDict_Type, &dict)) return NULL;
    if (set_options("add_param_group", optimizer_options, &options, dict) < 0) return NULL;
    amp_parameters *list = parameter_list(parameters, amp_optimizer_parameter_count(optimizer_of(self)));
    if (!list) return NULL;
    options.parameters = list;
    const amp_status status = amp_optimizer_add_group_call(optimizer_of(self), &options);
    amp_parameters_destroy(list);
    return none_or_error(status);
}

static PyObject *optimizer_step(PyObject *self, PyObject *unused) {
    (void)unused;
    amp_status status = AMP_OK;
    Py_BEGIN_ALLOW_THREADS status = amp_optimizer_step(optimizer_of(self));
    Py_END_ALLOW_THREADS return none_or_error(status);
}
static PyObject *optimizer_zero_grad(PyObject *self, PyObject *unused) {
    (void)unused;
    return none_or_error(amp_optimizer_zero_grad(optimizer_of(self)));
}

static PyObject *optimizer_get(PyObject *self, PyObject *args) {
    int group = 0;
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "is", &group, &name)) return NULL;
    const double value = amp_optimizer_get(optimizer_of(self), group, name);
    return amp_last_status() == AMP_OK ? PyFloat_FromDouble(value) : raise_error();
}
static PyObject *optimizer_set(PyObject *self, PyObject *args) {
    int group = 0;
    const char *name = NULL;
    double value = 0;
    if (!PyArg_ParseTuple(args, "isd", &group, &name, &value)) return NULL;
    return none_or_error(amp_optimizer_set(optimizer_of(self), group, name, value));
}
static PyObject *optimizer_group_count(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(amp_optimizer_group_count(optimizer_of(self)));
}

static PyObject *optimizer_state(PyObject *self, PyObject *unused) {
    (void)unused;
    return state_dict(amp_optimizer_state(optimizer_of(self)));
}
static amp_status take_state(void *optimizer, const char *const *names, amp_tensor *const *tensors, int64_t count) {
    return amp_optimizer_load_state(optimizer, names, tensors, count);
}
static PyObject *optimizer_load_state(PyObject *self, PyObject *dict) {
    return load_state_dict(dict, take_state, optimizer_of(self));
}

static PyMethodDef optimizer_methods[] = {
    {"add_group", optimizer_add_group, METH_VARARGS, NULL},
    {"step", optimizer_step, METH_NOARGS, "Updates every parameter that has a gradient."},
    {"zero_grad", optimizer_zero_grad, METH_NOARGS, "Takes the gradient of each parameter away."},
    {"get", optimizer_get, METH_VARARGS, "get(group, option)"},
    {"set", optimizer_set, METH_VARARGS, "set(group, option, value); group -1 is all of them"},
    {"group_count", optimizer_group_count, METH_NOARGS, NULL},
    {"state", optimizer_state, METH_NOARGS, NULL},
    {"load_state", optimizer_load_state, METH_O, NULL},
    {0},
};
static PyType_Slot optimizer_slots[] = {
    {Py_tp_new, optimizer_new}, {Py_tp_dealloc, optimizer_dealloc}, {Py_tp_methods, optimizer_methods}, {0}};
static PyType_Spec optimizer_spec = {.name = "amp._amp.Optimizer",
                                     .basicsize = sizeof(optimizer_object),
                                     .flags = Py_TPFLAGS_DEFAULT,
                                     .slots = optimizer_slots};

/* ---- The scaler ------------------------------------------------------------------------------------------------------------------ */
typedef struct scaler_object {
    PyObject_HEAD amp_grad_scaler *scaler;
} scaler_object;

static amp_grad_scaler *scaler_of(PyObject *self) {
    return ((scaler_object *)self)->scaler;
}

static const option scaler_options[] = {
    OPTION(amp_grad_scaler_args, FLOAT, init_scale),
    OPTION(amp_grad_scaler_args, FLOAT, growth_factor),
    OPTION(amp_grad_scaler_args, FLOAT, backoff_factor),
    OPTION(amp_grad_scaler_args, INT, growth_interval),
    OPTION(amp_grad_scaler_args, BOOL, enabled),
    OPTION(amp_grad_scaler_args, FLOAT, min_scale),
    {0},
};

static PyObject *scaler_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    amp_grad_scaler_args options = {.struct_size = sizeof options};
    if (!PyArg_ParseTuple(args, "|O&", device_converter, &options.device)) return NULL;
    if (keywords && set_options("GradScaler", scaler_options, &options, keywords) < 0) return NULL;
    amp_grad_scaler *scaler = amp_grad_scaler_create_call(&options);
    if (!scaler) return raise_error();
    scaler_object *self = PyObject_New(scaler_object, type);
    if (self) self->scaler = scaler;
    if (!self) amp_grad_scaler_destroy(scaler);
    return (PyObject *)self;
}

static void scaler_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    amp_grad_scaler_destroy(scaler_of(self));
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *scaler_scale(PyObject *self, PyObject *loss) {
    if (!is_tensor(loss)) return PyErr_Format(PyExc_TypeError, "scale: the loss must be a Tensor");
    amp_tensor *scaled = amp_grad_scaler_scale(scaler_of(self), tensor_of(loss));
    return scaled == tensor_of(loss) ? Py_NewRef(loss) : tensor_wrap(scaled);
}

static PyObject *scaler_unscale(PyObject *self, PyObject *optimizer) {
    PyObject *inner = inner_optimizer(optimizer);
    if (!inner) return NULL;
    PyObject *result = none_or_error(amp_grad_scaler_unscale(scaler_of(self), optimizer_of(inner)));
    Py_DECREF(inner);
    return result;
}

static PyObject *scaler_step(PyObject *self, PyObject *optimizer) {
    PyObject *inner = inner_optimizer(optimizer);
    if (!inner) return NULL;
    amp_step_result result = AMP_STEP_FAILED;
    Py_BEGIN_ALLOW_THREADS result = amp_grad_scaler_step(scaler_of(self), optimizer_of(inner));
    Py_END_ALLOW_THREADS Py_DECREF(inner);
    return result == AMP_STEP_FAILED ? raise_error() : PyBool_FromLong(result == AMP_STEPPED);
}

static PyObject *scaler_update(PyObject *self, PyObject *args) {
    PyObject *scale = Py_None;
    if (!PyArg_ParseTuple(args, "|O", &scale)) return NULL;
    if (scale == Py_None) return none_or_error(amp_grad_scaler_update(scaler_of(self)));
    const double number = PyFloat_AsDouble(scale);
    return PyErr_Occurred() ? NULL : none_or_error(amp_grad_scaler_update_to(scaler_of(self), number));
}
static PyObject *scaler_get_scale(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyFloat_FromDouble(amp_grad_scaler_get_scale(scaler_of(self)));
}
static PyObject *scaler_is_enabled(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(amp_grad_scaler_is_enabled(scaler_of(self)));
}

static PyObject *scaler_state_dict(PyObject *self, PyObject *unused) {
    (void)unused;
    amp_grad_scaler_state s = {.struct_size = sizeof s};
    if (amp_grad_scaler_get_state(scaler_of(self), &s) != AMP_OK) return raise_error();
    return Py_BuildValue("{sdsdsdsLsL}", "scale", s.scale, "growth_factor", s.growth_factor, "backoff_factor",
                         s.backoff_factor, "growth_interval", (long long)s.growth_interval, "growth_tracker",
                         (long long)s.growth_tracker);
}
static PyObject *scaler_load_state_dict(PyObject *self, PyObject *dict) {
    static char *names[] = {"scale", "growth_factor", "backoff_factor", "growth_interval", "growth_tracker", NULL};
    amp_grad_scaler_state s = {.struct_size = sizeof s};
    long long interval = 0, tracker = 0;
    PyObject *none = PyTuple_New(0);
    const int read = none && PyDict_Check(dict) &&
                     PyArg_ParseTupleAndKeywords(none, dict, "dddLL:load_state_dict", names, &s.scale, &s.growth_factor,
                                                 &s.backoff_factor, &interval, &tracker);
    Py_XDECREF(none);
    if (!read) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "load_state_dict: a dict is wanted");
    s.growth_interval = interval;
    s.growth_tracker = tracker;
    return none_or_error(amp_grad_scaler_set_state(scaler_of(self), &s));
}

static PyMethodDef scaler_methods[] = {
    {"scale", scaler_scale, METH_O, "scale(loss): the loss times the scale"},
    {"unscale_", scaler_unscale, METH_O, "unscale_(optimizer): divides the gradients by the scale"},
    {"step", scaler_step, METH_O,
     "step(optimizer): unscales, and steps unless a gradient is not finite; whether it did"},
    {"update", scaler_update, METH_VARARGS, "update(new_scale=None): after the steps of all optimizers"},
    {"get_scale", scaler_get_scale, METH_NOARGS, "The scale."},
    {"is_enabled", scaler_is_enabled, METH_NOARGS, "Whether it does anything."},
    {"state_dict", scaler_state_dict, METH_NOARGS, "All that there is to know between updates."},
    {"load_state_dict", scaler_load_state_dict, METH_O, "load_state_dict(state)"},
    {0},
};
static PyType_Slot scaler_slots[] = {
    {Py_tp_new, scaler_new},
    {Py_tp_dealloc, scaler_dealloc},
    {Py_tp_methods, scaler_methods},
    {Py_tp_doc,
     "GradScaler(device='cpu', *, init_scale=65536, growth_factor=2, backoff_factor=0.5, growth_interval=2000, "
     "enabled=True)\n\nScales a loss for f16: torch.amp.GradScaler."},
    {0},
};
static PyType_Spec scaler_spec = {
    .name = "amp.GradScaler", .basicsize = sizeof(scaler_object), .flags = Py_TPFLAGS_DEFAULT, .slots = scaler_slots};

/* ---- Gradients of chosen inputs ------------------------------------------------------------------------------------------------------ */
static PyObject *grad(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *outputs = NULL, *inputs = NULL, *held[2] = {NULL, NULL};
    int retain = 0, create = 0, unused = 0;
    if (!PyArg_ParseTuple(args, "OOppp", &outputs, &inputs, &retain, &create, &unused)) return NULL;
    amp_tensor **from = NULL, **by = NULL;
    Py_ssize_t from_count = 0, by_count = 0;
    PyObject *result = NULL;
    if (tensor_array(outputs, "grad: outputs", &from, &from_count, &held[0]) == 0 &&
        tensor_array(inputs, "grad: inputs", &by, &by_count, &held[1]) == 0) {
        const amp_grad_args options = {.struct_size = sizeof options,
                                       .outputs = {from, from_count, NULL},
                                       .inputs = {by, by_count, NULL},
                                       .retain_graph = retain,
                                       .create_graph = create,
                                       .allow_unused = unused};
        amp_tensor_list list = {NULL, 0, NULL};
        Py_BEGIN_ALLOW_THREADS list = amp_grad_call(&options);
        Py_END_ALLOW_THREADS result = !PyErr_Occurred() && amp_last_status() == AMP_OK
                                          ? tensor_wrap_list(list.items, (Py_ssize_t)list.count)
                                          : none_or_first_error(amp_last_status());
        if (list.holder) amp_release(list.holder);
    }
    PyMem_Free(from);
    PyMem_Free(by);
    Py_XDECREF(held[0]);
    Py_XDECREF(held[1]);
    return result;
}

PyMethodDef train_functions[] = {
    {"clip_grad_norm", clip_grad_norm, METH_VARARGS, NULL},
    {"clip_grad_value", clip_grad_value, METH_VARARGS, NULL},
    {"grad", grad, METH_VARARGS, NULL},
    {0},
};

int add_training(PyObject *module) {
    if (add_type(module, &optimizer_spec, &optimizer_type) < 0) return -1;
    return add_type(module, &scaler_spec, &scaler_type);
}
