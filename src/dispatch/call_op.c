/* amp_call_op: from names and tagged values to an argument struct, then the same way through as amp_<op>(). */
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "amp/call.h"
#include "call/call.h"
#include "dispatch/arguments.h"

/* Why an overload does not take the arguments. */
typedef struct mismatch {
    char text[256];
} mismatch;

/* Writes the sentence; why NULL: nobody asks. False. */
__attribute__((format(printf, 2, 3))) static bool does_not_fit(mismatch *why, const char *format, ...) {
    if (!why) return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return false;
}

static const char *value_kind_name(amp_value_kind kind) {
    static const char *const names[] = {
        [AMP_VALUE_NONE] = "None",
        [AMP_VALUE_TENSOR] = "a tensor",
        [AMP_VALUE_TENSOR_LIST] = "a list of tensors",
        [AMP_VALUE_SCALAR] = "a number",
        [AMP_VALUE_DIMS] = "a list of integers",
        [AMP_VALUE_FLOATS] = "a list of real numbers",
        [AMP_VALUE_DTYPE] = "a dtype",
        [AMP_VALUE_STRING] = "a string",
        [AMP_VALUE_GENERATOR] = "a generator",
    };
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "no value";
}

static const char *argument_kind_name(amp_arg_kind kind) {
    switch (kind) {
    case AMP_ARG_TENSOR:
    case AMP_ARG_OUTPUT: return "a tensor";
    case AMP_ARG_TENSOR_LIST: return "a list of tensors";
    case AMP_ARG_SCALAR: return "a number";
    case AMP_ARG_FLOAT:
    case AMP_ARG_OPT_FLOAT: return "a real number";
    case AMP_ARG_INT:
    case AMP_ARG_OPT_INT: return "an integer";
    case AMP_ARG_BOOL:
    case AMP_ARG_OPT_BOOL: return "a bool";
    case AMP_ARG_DIMS: return "integers";
    case AMP_ARG_FLOATS: return "real numbers";
    case AMP_ARG_DTYPE: return "a dtype";
    case AMP_ARG_STRING: return "a string";
    case AMP_ARG_GENERATOR: return "a generator";
    }
    return "?";
}

/* ---- One value into one field ---------------------------------------------------------------------------------- */
static bool as_real(const amp_value *v, double *number) {
    if (v->kind != AMP_VALUE_SCALAR) return false;
    *number = v->as.scalar.kind == AMP_SCALAR_FLOAT ? v->as.scalar.re : (double)v->as.scalar.i;
    return v->as.scalar.kind != AMP_SCALAR_COMPLEX && v->as.scalar.kind != AMP_SCALAR_NONE;
}

static bool as_integer(const amp_value *v, int64_t *number) {
    if (v->kind != AMP_VALUE_SCALAR) return false;
    *number = v->as.scalar.i;
    return v->as.scalar.kind == AMP_SCALAR_INT || v->as.scalar.kind == AMP_SCALAR_BOOL;
}

static bool set_numeric(const amp_arg_info *arg, void *field, const amp_value *v) {
    double real = 0;
    int64_t integer = 0;
    const bool is_real = as_real(v, &real), is_integer = as_integer(v, &integer);
    switch (arg->kind) {
    case AMP_ARG_FLOAT: *(double *)field = real; return is_real;
    case AMP_ARG_OPT_FLOAT: *(amp_opt_float *)field = (amp_opt_float)AMP_SET(real); return is_real;
    case AMP_ARG_INT: *(int64_t *)field = integer; return is_integer;
    case AMP_ARG_OPT_INT: *(amp_opt_int *)field = (amp_opt_int)AMP_SET(integer); return is_integer;
    case AMP_ARG_BOOL: *(bool *)field = integer != 0; return is_integer;
    case AMP_ARG_OPT_BOOL: *(amp_opt_bool *)field = (amp_opt_bool)AMP_SET(integer != 0); return is_integer;
    case AMP_ARG_DIMS: *(amp_dims *)field = AMP_DIMS(integer); return is_integer;
    case AMP_ARG_FLOATS: *(amp_floats *)field = AMP_FLOATS(real); return is_real;
    default: return false;
    }
}

static bool set_dtype(void *field, const amp_value *v) {
    amp_dtype *dtype = field;
    if (v->kind == AMP_VALUE_STRING) *dtype = amp_dtype_from_name(v->as.string);
    if (v->kind == AMP_VALUE_DTYPE) *dtype = v->as.dtype;
    return *dtype != AMP_DTYPE_NONE;
}

/* A list of integers is one of real numbers too. */
static bool set_floats(const amp_arg_info *arg, amp_floats *field, const amp_value *v) {
    if (v->kind != AMP_VALUE_DIMS && v->kind != AMP_VALUE_FLOATS) return set_numeric(arg, field, v);
    if (v->kind == AMP_VALUE_FLOATS) *field = v->as.floats;
    if (v->kind == AMP_VALUE_DIMS) {
        field->count = v->as.dims.count;
        for (int i = 0; i < AMP_MAX_RANK; i++) field->values[i] = (double)v->as.dims.values[i];
    }
    field->set = AMP_PRESENT;
    return true;
}

/* False if the value is of the wrong kind. */
static bool set_field(const amp_arg_info *arg, void *field, const amp_value *v) {
    if (v->kind == AMP_VALUE_NONE) return true;
    switch (arg->kind) {
    case AMP_ARG_TENSOR: *(amp_tensor **)field = v->as.tensor; return v->kind == AMP_VALUE_TENSOR;
    case AMP_ARG_TENSOR_LIST: *(amp_tensor_list *)field = v->as.list; return v->kind == AMP_VALUE_TENSOR_LIST;
    case AMP_ARG_SCALAR: *(amp_scalar *)field = v->as.scalar; return v->kind == AMP_VALUE_SCALAR;
    case AMP_ARG_STRING: *(const char **)field = v->as.string; return v->kind == AMP_VALUE_STRING;
    case AMP_ARG_GENERATOR: *(amp_generator **)field = v->as.generator; return v->kind == AMP_VALUE_GENERATOR;
    case AMP_ARG_DTYPE: return set_dtype(field, v);
    case AMP_ARG_DIMS:
        if (v->kind != AMP_VALUE_DIMS) return set_numeric(arg, field, v);
        *(amp_dims *)field = v->as.dims;
        ((amp_dims *)field)->set = AMP_PRESENT;
        return true;
    case AMP_ARG_FLOATS: return set_floats(arg, field, v);
    case AMP_ARG_OUTPUT: return false;
    default: return set_numeric(arg, field, v);
    }
}

/* ---- All values into one struct -------------------------------------------------------------------------------- */
/* PyTorch's Python begins some names with _ that are plain in its schemas: _random_samples. */
static const amp_arg_info *find_argument(const amp_op_info *op, const char *name) {
    if (*name == '_') name++;
    for (int i = 0; i < op->arg_count; i++) {
        if (op->args[i].kind != AMP_ARG_OUTPUT && strcmp(op->args[i].name, name) == 0) return &op->args[i];
    }
    return NULL;
}

typedef struct binding {
    const amp_op_info *op;
    unsigned form;
    amp_tensor *const *outs; /* the out= tensors, one for each result */
    alignas(max_align_t) char args[AMP_MAX_ARGS_BYTES];
} binding;

/* One result takes a tensor, several a list of as many. */
static bool bind_out(binding *b, const amp_argument *given, mismatch *why) {
    const amp_tensor_list *list = &given->value.as.list;
    const bool one = b->op->output_count <= 1;
    bool fits = given->value.kind == (one ? AMP_VALUE_TENSOR : AMP_VALUE_TENSOR_LIST) && !b->outs;
    if (fits) fits = one ? given->value.as.tensor != NULL : list->count == b->op->output_count && list->items;
    if (!fits && one) return does_not_fit(why, "'out' must be one tensor");
    if (!fits) return does_not_fit(why, "'out' must be one list of %d tensors", b->op->output_count);
    b->outs = one ? (amp_tensor *const *)&given->value.as.tensor : list->items;
    return true;
}

static bool bind_one(binding *b, const amp_argument *given, int position, unsigned *seen, mismatch *why) {
    if (b->form == AMP_FORM_OUT && given->name && strcmp(given->name, "out") == 0) return bind_out(b, given, why);
    const bool fits = position < b->op->arg_count && b->op->args[position].kind != AMP_ARG_OUTPUT;
    const amp_arg_info *arg = given->name ? find_argument(b->op, given->name) : fits ? &b->op->args[position] : NULL;
    if (!arg && !given->name) return does_not_fit(why, "too many arguments");
    if (!arg) return does_not_fit(why, "there is no argument '%.60s'", given->name);
    const unsigned bit = 1u << (arg - b->op->args);
    if (*seen & bit) return does_not_fit(why, "'%s' is given twice", arg->name);
    *seen |= bit;
    if (set_field(arg, b->args + arg->offset, &given->value)) return true;
    return does_not_fit(why, "'%s' must be %s, but %s was given", arg->name, argument_kind_name(arg->kind),
                        value_kind_name(given->value.kind));
}

static bool bind_all(binding *b, const amp_argument *arguments, int count, mismatch *why) {
    unsigned seen = 0;
    memset(b->args, 0, b->op->args_size);
    memcpy(b->args, &b->op->args_size, sizeof b->op->args_size);
    b->outs = NULL;
    for (int i = 0; i < count; i++) {
        if (!bind_one(b, &arguments[i], i, &seen, why)) return false;
    }
    for (int i = 0; i < b->op->arg_count; i++) {
        if (!(b->op->args[i].flags & AMP_ARG_REQUIRED) || seen & 1u << i) continue;
        return does_not_fit(why, "the argument '%s' is missing", b->op->args[i].name);
    }
    return true;
}

/* ---- Names ----------------------------------------------------------------------------------------------------- */
/* "add_" and "add_out" are forms of "add", unless an op is called just that. */
static const amp_op_info *find_op(const char *name, unsigned *form) {
    static const struct {
        const char *suffix;
        unsigned form;
    } forms[] = {{"", AMP_FORM_FUNCTION}, {"_out", AMP_FORM_OUT}, {"_", AMP_FORM_INPLACE}};
    char base[80];
    const size_t length = name ? strnlen(name, sizeof base) : sizeof base;
    if (length == sizeof base) return NULL;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const size_t suffix = strlen(forms[i].suffix);
        if (suffix >= length || strcmp(name + length - suffix, forms[i].suffix) != 0) continue;
        snprintf(base, sizeof base, "%.*s", (int)(length - suffix), name);
        *form = forms[i].form;
        const amp_op_info *op = amp_op_find(base);
        if (op) return op;
    }
    return NULL;
}

/* The first overload of the name that the arguments fit. */
static amp_status choose_overload(const char *name, const amp_argument *arguments, int count, binding *b) {
    const amp_op_info *op = find_op(name, &b->form);
    if (!op) {
        (void)amp_op_unknown("call_op", name);
        return amp_pending_error();
    }
    const bool one_overload = amp_op_names_one(name, op);
    for (const amp_op_info *o = op; o; o = amp_op_next_overload(o)) {
        b->op = o;
        if (bind_all(b, arguments, count, NULL)) return AMP_OK;
        if (one_overload) break;
    }
    mismatch first = {""};
    b->op = op;
    (void)bind_all(b, arguments, count, &first);
    return amp_fail(AMP_ERROR_INVALID, "%s: %s; it is %s", name, first.text, op->schema);
}

/* ---- Running --------------------------------------------------------------------------------------------------- */
static void point_outputs(binding *b, amp_tensor **outputs, int capacity) {
    int index = 1;
    for (int i = 0; i < b->op->arg_count; i++) {
        if (b->op->args[i].kind != AMP_ARG_OUTPUT) continue;
        amp_tensor ***field = (amp_tensor ***)(void *)(b->args + b->op->args[i].offset);
        *field = index < capacity ? &outputs[index] : NULL;
        index++;
    }
}

static amp_status run_list(const binding *b, amp_tensor **outputs, int capacity, int *produced) {
    const amp_tensor_list list = amp_dispatch_list(b->op, b->args);
    if (amp_failed()) return amp_pending_error();
    *produced = (int)list.count;
    for (int64_t i = 0; i < list.count; i++) {
        if (i < capacity) {
            outputs[i] = list.items[i];
        } else {
            amp_tensor_drop(list.items[i]);
        }
    }
    amp_tensor_drop(list.holder);
    return AMP_OK;
}

static amp_status run_single(const binding *b, amp_tensor **outputs, int capacity, int *produced) {
    const bool several = b->form == AMP_FORM_OUT && b->op->output_count > 1;
    amp_tensor *first = several ? amp_dispatch_outs(b->op, b->args, b->outs)
                                : amp_dispatch(b->op, b->form, b->args, b->outs ? *b->outs : NULL);
    if (!first) return amp_pending_error();
    *produced = b->op->output_count;
    if (capacity > 0) {
        outputs[0] = first;
    } else if (b->form == AMP_FORM_FUNCTION) {
        amp_tensor_drop(first);
    }
    return AMP_OK;
}

amp_status amp_call_op(const char *name, const amp_argument *arguments, int argument_count, amp_tensor **outputs,
                       int output_capacity, int *output_count) {
    binding b;
    int produced = 0;
    for (int i = 0; outputs && i < output_capacity; i++) outputs[i] = NULL;
    if (amp_failed()) return amp_pending_error();
    const bool no_arguments = argument_count > 0 && !arguments;
    if (no_arguments || (output_capacity > 0 && !outputs)) {
        return amp_fail(AMP_ERROR_INVALID, "call_op: the %s array is NULL", no_arguments ? "argument" : "output");
    }
    AMP_TRY(choose_overload(name, arguments, argument_count, &b));
    point_outputs(&b, outputs, output_capacity);
    const bool is_list = (b.op->flags & AMP_OP_RETURNS_LIST) != 0;
    AMP_TRY(is_list ? run_list(&b, outputs, output_capacity, &produced)
                    : run_single(&b, outputs, output_capacity, &produced));
    if (output_count) *output_count = produced;
    return AMP_OK;
}
