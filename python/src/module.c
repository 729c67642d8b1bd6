/* The module amp._amp: its parts, put together. */
#include "binding.h"

int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type) {
    *type = (PyTypeObject *)PyType_FromSpec(spec);
    return *type ? PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, (PyObject *)*type) : -1;
}

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "amp._amp",
                                        .m_doc = "libamp for Python: what amp is made of.", .m_size = -1};

typedef int (*part)(PyObject *module);
static const part parts[] = {add_errors, add_dtypes,   add_tensor,     add_ops,  add_generator,
                             add_graph,  add_training, add_schedulers, add_lbfgs};
static PyMethodDef *const functions[] = {array_functions, mode_functions, file_functions, train_functions};

static int fill(PyObject *module) {
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i](module) < 0) return -1;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (PyModule_AddFunctions(module, functions[i]) < 0) return -1;
    }
    return PyModule_AddStringConstant(module, "__version__", amp_version_string());
}

PyMODINIT_FUNC PyInit__amp(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && fill(module) < 0) Py_CLEAR(module);
    return module;
}
