/* An op as a callable object. It knows its name, and of its schema what Python's way to call it needs: all else
 * amp_call_op finds out. As an attribute of Tensor it is a method. */
#include "binding.h"

#include <structmember.h>

PyTypeObject *op_type;

/* Results that have room without being counted before. */
enum { FEW_RESULTS = 8 };

typedef struct op_object {
    PyObject_HEAD vectorcallfunc call;
    PyObject *name, *out_name, *doc, *results; /* str; str; str; what makes a named tuple of several results, or None */
    const char *c_name, *c_out_name;           /* of name and out_name */
    int sizes_at;     /* the argument that takes all integers that follow: x.view(2, 3); −1: none */
    int returns_list; /* as many results as there happen to be */
    int is_operator;  /* what it cannot take is NotImplemented */
} op_object;

/* ---- Arguments ---------------------------------------------------------------------------------------------------- */
static int add_positional(const op_object *op, arguments *a, PyObject *const *args, Py_ssize_t count) {
    const Py_ssize_t sizes = op->sizes_at;
    const int gathers = sizes >= 0 && count > sizes && PyLong_CheckExact(args[sizes]);
    const Py_ssize_t one_by_one = gathers ? sizes : count;
    for (Py_ssize_t i = 0; i < one_by_one; i++) {
        if (arguments_add(a, NULL, args[i]) < 0) return -1;
    }
    return gathers ? arguments_add_dims(a, args + sizes, count - sizes) : 0;
}

/* `out=` chooses the op's other form. */
static int add_named(const op_object *op, arguments *a, PyObject *const *args, PyObject *names) {
    const Py_ssize_t count = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
        if (!name) return -1;
        if (strcmp(name, "out") == 0) {
            if (args[i] == Py_None) continue;
            a->op = op->c_out_name;
        }
        if (arguments_add(a, name, args[i]) < 0) return -1;
    }
    return 0;
}

/* An operator is for tensors and numbers; of anything else Python asks the other side. */
static bool is_for_operator(const arguments *a) {
    for (int i = 0; i < a->count; i++) {
        const amp_value_kind kind = a->items[i].value.kind;
        if (kind != AMP_VALUE_TENSOR && kind != AMP_VALUE_SCALAR) return false;
    }
    return true;
}

/* ---- Results ------------------------------------------------------------------------------------------------------- */
/* At least as many results as a list can have: pieces of a tensor, one for each of several tensors, or a number that is
 * given. */
static int64_t most_results(const arguments *a) {
    int64_t most = FEW_RESULTS + AMP_MAX_RANK;
    for (int i = 0; i < a->count; i++) {
        const amp_value *v = &a->items[i].value;
        if (v->kind == AMP_VALUE_TENSOR_LIST) most += v->as.list.count;
        if (v->kind == AMP_VALUE_SCALAR && v->as.scalar.kind == AMP_SCALAR_INT) most += Py_MAX(v->as.scalar.i, 0);
        const int rank = v->kind == AMP_VALUE_TENSOR ? amp_tensor_rank(v->as.tensor) : 0;
        for (int d = 0; d < rank; d++) most += amp_tensor_shape(v->as.tensor)[d];
    }
    return Py_MIN(most, INT32_MAX);
}

/* The object itself of a tensor that was given and written. */
static PyObject *result_object(const arguments *a, amp_tensor *tensor) {
    for (int i = 0; i < a->count; i++) {
        const amp_value *v = &a->items[i].value;
        if (v->kind == AMP_VALUE_TENSOR && v->as.tensor == tensor) {
            return is_tensor(a->sources[i]) ? Py_NewRef(a->sources[i]) : tensor_wrap_borrowed(tensor);
        }
        for (int64_t k = 0; v->kind == AMP_VALUE_TENSOR_LIST && k < v->as.list.count; k++) {
            if (v->as.list.items[k] == tensor) return tensor_wrap_borrowed(tensor);
        }
    }
    return tensor_wrap(tensor);
}

static PyObject *several_results(const op_object *op, const arguments *a, amp_tensor **tensors, Py_ssize_t count) {
    PyObject *list = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = !list ? NULL : tensors[i] ? result_object(a, tensors[i]) : Py_NewRef(Py_None);
        if (item) {
            PyTuple_SET_ITEM(list, i, item);
        } else {
            if (!list) amp_release(tensors[i]);
            Py_CLEAR(list);
        }
    }
    if (!list || op->results == Py_None) return list;
    PyObject *named = PyObject_Call(op->results, list, NULL);
    Py_DECREF(list);
    return named;
}

static PyObject *run(const op_object *op, const arguments *a, amp_tensor **tensors, int capacity) {
    int count = 0;
    amp_status status = AMP_OK;
    Py_BEGIN_ALLOW_THREADS status = amp_call_op(a->op, a->items, a->count, tensors, capacity, &count);
    Py_END_ALLOW_THREADS if (status != AMP_OK) return raise_error();
    int made = count; /* without those at the end that were not asked for */
    while (made > 1 && !tensors[made - 1]) made--;
    if (op->returns_list || made > 1) return several_results(op, a, tensors, Py_MIN(count, capacity));
    return result_object(a, tensors[0]);
}

static PyObject *run_list(const op_object *op, const arguments *a) {
    const int64_t capacity = most_results(a);
    amp_tensor **tensors = PyMem_Calloc((size_t)capacity, sizeof *tensors);
    PyObject *result = tensors ? run(op, a, tensors, (int)capacity) : PyErr_NoMemory();
    PyMem_Free(tensors);
    return result;
}

static PyObject *op_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
    const op_object *op = (const op_object *)self;
    const Py_ssize_t count = PyVectorcall_NARGS(flagged);
    amp_tensor *tensors[FEW_RESULTS];
    arguments a;
    a.count = 0;
    a.held = NULL;
    a.op = op->c_name;
    PyObject *result = NULL;
    const bool taken = add_positional(op, &a, args, count) == 0 && add_named(op, &a, args + count, names) == 0;
    if (op->is_operator && (taken ? !is_for_operator(&a) : PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear();
        result = Py_NewRef(Py_NotImplemented);
    } else if (taken) {
        result = op->returns_list ? run_list(op, &a) : run(op, &a, tensors, FEW_RESULTS);
    }
    arguments_end(&a);
    return result;
}

/* ---- The object ----------------------------------------------------------------------------------------------------- */
static PyObject *op_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"name", "out_name", "doc", "sizes_at", "returns_list", "results", "operator", NULL};
    op_object o = {.sizes_at = -1, .results = Py_None, .doc = Py_None};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "UU|OipOp", names, &o.name, &o.out_name, &o.doc, &o.sizes_at,
                                     &o.returns_list, &o.results, &o.is_operator)) {
        return NULL;
    }
    o.c_name = PyUnicode_AsUTF8(o.name);
    o.c_out_name = PyUnicode_AsUTF8(o.out_name);
    op_object *self = o.c_name && o.c_out_name ? PyObject_New(op_object, type) : NULL;
    if (!self) return NULL;
    o.ob_base = self->ob_base;
    o.call = op_call;
    *self = o;
    Py_INCREF(o.name);
    Py_INCREF(o.out_name);
    Py_INCREF(o.doc);
    Py_INCREF(o.results);
    return (PyObject *)self;
}

static void op_dealloc(PyObject *object) {
    op_object *self = (op_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->name);
    Py_XDECREF(self->out_name);
    Py_XDECREF(self->doc);
    Py_XDECREF(self->results);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *op_repr(PyObject *self) {
    return PyUnicode_FromFormat("<amp op %U>", ((op_object *)self)->name);
}

/* A method where it is reached through a tensor. */
static PyObject *op_get(PyObject *self, PyObject *instance, PyObject *type) {
    (void)type;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

static PyMemberDef op_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(op_object, call), READONLY, NULL},
    {"__name__", T_OBJECT, offsetof(op_object, name), READONLY, NULL},
    {"__qualname__", T_OBJECT, offsetof(op_object, name), READONLY, NULL},
    {"__doc__", T_OBJECT, offsetof(op_object, doc), READONLY, NULL},
    {"results", T_OBJECT, offsetof(op_object, results), READONLY, "the named tuple of several results, or None"},
    {0},
};
static PyType_Slot op_slots[] = {
    {Py_tp_new, op_new},
    {Py_tp_dealloc, op_dealloc},
    {Py_tp_repr, op_repr},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, op_get},
    {Py_tp_members, op_members},
    {0},
};
static PyType_Spec op_spec = {
    .name = "amp._amp.Op",
    .basicsize = sizeof(op_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = op_slots,
};

int add_ops(PyObject *module) {
    return add_type(module, &op_spec, &op_type);
}
