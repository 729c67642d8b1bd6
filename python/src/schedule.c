/* Schedulers of learning rates. amp/optim/lr_scheduler.py dresses them. */
#include <math.h>

#include "binding.h"

/* ---- By a formula ---------------------------------------------------------------------------------------------------- */
typedef struct scheduler_object {
    PyObject_HEAD amp_scheduler *scheduler;
    PyObject *optimizer; /* outlives the scheduler */
    PyObject *function;  /* LambdaLR's, or NULL */
} scheduler_object;

static const named_kind kinds[] = {
    {"StepLR", AMP_STEP_LR},
    {"MultiStepLR", AMP_MULTI_STEP_LR},
    {"ConstantLR", AMP_CONSTANT_LR},
    {"LinearLR", AMP_LINEAR_LR},
    {"ExponentialLR", AMP_EXPONENTIAL_LR},
    {"PolynomialLR", AMP_POLYNOMIAL_LR},
    {"CosineAnnealingLR", AMP_COSINE_ANNEALING_LR},
    {"CosineAnnealingWarmRestarts", AMP_COSINE_ANNEALING_WARM_RESTARTS},
    {"OneCycleLR", AMP_ONE_CYCLE_LR},
    {"LambdaLR", AMP_LAMBDA_LR},
    {0},
};

static const option scheduler_options[] = {
    OPTION(amp_scheduler_args, INT, step_size),
    OPTION(amp_scheduler_args, DIMS, milestones),
    OPTION(amp_scheduler_args, FLOAT, gamma),
    OPTION(amp_scheduler_args, FLOAT, factor),
    OPTION(amp_scheduler_args, FLOAT, start_factor),
    OPTION(amp_scheduler_args, FLOAT, end_factor),
    OPTION(amp_scheduler_args, INT, total_iters),
    OPTION(amp_scheduler_args, FLOAT, power),
    OPTION(amp_scheduler_args, FLOAT, eta_min),
    OPTION(amp_scheduler_args, INT, t_max),
    OPTION(amp_scheduler_args, INT, t_0),
    OPTION(amp_scheduler_args, INT, t_mult),
    OPTION(amp_scheduler_args, FLOAT, max_lr),
    OPTION(amp_scheduler_args, INT, total_steps),
    OPTION(amp_scheduler_args, FLOAT, pct_start),
    OPTION(amp_scheduler_args, FLOAT, div_factor),
    OPTION(amp_scheduler_args, FLOAT, final_div_factor),
    OPTION(amp_scheduler_args, BOOL, linear_anneal),
    OPTION(amp_scheduler_args, BOOL, three_phase),
    {0},
};

/* Calls Python's function; its exception, which waits, makes the rate NaN, which libamp refuses. */
static double call_function(void *function, int64_t step) {
    PyObject *made = PyErr_Occurred() ? NULL : PyObject_CallFunction(function, "L", (long long)step);
    const double factor = made ? PyFloat_AsDouble(made) : NAN;
    Py_XDECREF(made);
    return PyErr_Occurred() ? NAN : factor;
}

static amp_scheduler *scheduler_of(PyObject *self) {
    return ((scheduler_object *)self)->scheduler;
}

static int set_up_scheduler(scheduler_object *self, const char *name, PyObject *dict, PyObject *function) {
    amp_scheduler_args options = {.struct_size = sizeof options, .optimizer = optimizer_of(self->optimizer)};
    if (set_options(name, scheduler_options, &options, dict) < 0) return -1;
    if (function != Py_None) {
        self->function = Py_NewRef(function);
        options.function = call_function;
        options.context = function;
    }
    const int kind = find_kind(kinds, "scheduler", name);
    if (kind < 0) return -1;
    self->scheduler = amp_scheduler_create((amp_scheduler_kind)kind, &options);
    if (!self->scheduler) (void)none_or_first_error(amp_last_status());
    return self->scheduler ? 0 : -1;
}

static PyObject *scheduler_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    const char *name = NULL;
    PyObject *optimizer = NULL, *dict = NULL, *function = Py_None;
    if (!PyArg_ParseTuple(args, "sOO!|O", &name, &optimizer, &PyDict_Type, &dict, &function)) return NULL;
    if (function != Py_None && !PyCallable_Check(function))
        return PyErr_Format(PyExc_TypeError, "%s: a function of the step is wanted", name);
    PyObject *inner = inner_optimizer(optimizer);
    scheduler_object *self = inner ? PyObject_New(scheduler_object, type) : NULL;
    if (!self) {
        Py_XDECREF(inner);
        return NULL;
    }
    self->scheduler = NULL;
    self->function = NULL;
    self->optimizer = inner;
    if (set_up_scheduler(self, name, dict, function) == 0) return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void scheduler_dealloc(PyObject *object) {
    scheduler_object *self = (scheduler_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    amp_scheduler_destroy(self->scheduler);
    Py_XDECREF(self->optimizer);
    Py_XDECREF(self->function);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *scheduler_step(PyObject *self, PyObject *unused) {
    (void)unused;
    return none_or_first_error(amp_scheduler_step(scheduler_of(self)));
}
static PyObject *scheduler_get_step(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(amp_scheduler_get_step(scheduler_of(self)));
}
static PyObject *scheduler_set_step(PyObject *self, PyObject *number) {
    const int64_t step = PyLong_AsLongLong(number);
    return PyErr_Occurred() ? NULL : none_or_first_error(amp_scheduler_set_step(scheduler_of(self), step));
}

static PyMethodDef scheduler_methods[] = {
    {"step", scheduler_step, METH_NOARGS, "Goes to the next step."},
    {"get_step", scheduler_get_step, METH_NOARGS, "Steps made."},
    {"set_step", scheduler_set_step, METH_O, "Goes to a step at once."},
    {0},
};
static PyType_Slot scheduler_slots[] = {
    {Py_tp_new, scheduler_new}, {Py_tp_dealloc, scheduler_dealloc}, {Py_tp_methods, scheduler_methods}, {0}};
static PyType_Spec scheduler_spec = {.name = "amp._amp.Scheduler",
                                     .basicsize = sizeof(scheduler_object),
                                     .flags = Py_TPFLAGS_DEFAULT,
                                     .slots = scheduler_slots};

/* ---- By what is seen ------------------------------------------------------------------------------------------------- */
typedef struct plateau_object {
    PyObject_HEAD amp_plateau *plateau;
    PyObject *optimizer; /* outlives it */
} plateau_object;

static const option plateau_options[] = {
    OPTION(amp_plateau_args, FLAG, maximize),
    OPTION(amp_plateau_args, FLAG, absolute),
    OPTION(amp_plateau_args, FLOAT, factor),
    OPTION(amp_plateau_args, INT, patience),
    OPTION(amp_plateau_args, FLOAT, threshold),
    OPTION(amp_plateau_args, INT, cooldown),
    OPTION(amp_plateau_args, FLOATS, min_lr),
    OPTION(amp_plateau_args, FLOAT, eps),
    {0},
};

static amp_plateau *plateau_of(PyObject *self) {
    return ((plateau_object *)self)->plateau;
}

static PyObject *plateau_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    PyObject *optimizer = NULL, *dict = NULL;
    amp_plateau_args options = {.struct_size = sizeof options};
    if (!PyArg_ParseTuple(args, "OO!", &optimizer, &PyDict_Type, &dict)) return NULL;
    if (set_options("ReduceLROnPlateau", plateau_options, &options, dict) < 0) return NULL;
    PyObject *inner = inner_optimizer(optimizer);
    if (!inner) return NULL;
    options.optimizer = optimizer_of(inner);
    amp_plateau *plateau = amp_plateau_create_call(&options);
    if (!plateau) (void)raise_error();
    plateau_object *self = plateau ? PyObject_New(plateau_object, type) : NULL;
    if (!self) {
        amp_plateau_destroy(plateau);
        Py_DECREF(inner);
        return NULL;
    }
    self->plateau = plateau;
    self->optimizer = inner;
    return (PyObject *)self;
}

static void plateau_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    amp_plateau_destroy(plateau_of(self));
    Py_DECREF(((plateau_object *)self)->optimizer);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *plateau_step(PyObject *self, PyObject *metric) {
    const double number = PyFloat_AsDouble(metric);
    return PyErr_Occurred() ? NULL : none_or_error(amp_plateau_step(plateau_of(self), number));
}
static PyObject *plateau_state(PyObject *self, PyObject *unused) {
    (void)unused;
    const amp_plateau_state s = amp_plateau_get_state(plateau_of(self));
    return Py_BuildValue("dLL", s.best, (long long)s.bad_steps, (long long)s.cooldown_left);
}
static PyObject *plateau_load_state(PyObject *self, PyObject *args) {
    amp_plateau_state s = {0};
    long long bad = 0, cooldown = 0;
    if (!PyArg_ParseTuple(args, "dLL", &s.best, &bad, &cooldown)) return NULL;
    s.bad_steps = bad;
    s.cooldown_left = cooldown;
    return none_or_error(amp_plateau_set_state(plateau_of(self), s));
}

static PyMethodDef plateau_methods[] = {
    {"step", plateau_step, METH_O, "Takes the metric."},
    {"state", plateau_state, METH_NOARGS, "(best, num_bad_epochs, cooldown_counter)"},
    {"load_state", plateau_load_state, METH_VARARGS, NULL},
    {0},
};
static PyType_Slot plateau_slots[] = {
    {Py_tp_new, plateau_new}, {Py_tp_dealloc, plateau_dealloc}, {Py_tp_methods, plateau_methods}, {0}};
static PyType_Spec plateau_spec = {.name = "amp._amp.Plateau",
                                   .basicsize = sizeof(plateau_object),
                                   .flags = Py_TPFLAGS_DEFAULT,
                                   .slots = plateau_slots};

int add_schedulers(PyObject *module) {
    static PyTypeObject *scheduler_type, *plateau_type;
    if (add_type(module, &scheduler_spec, &scheduler_type) < 0) return -1;
    return add_type(module, &plateau_spec, &plateau_type);
}
