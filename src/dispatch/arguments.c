/* From the caller's argument struct to the one that layers and kernels see. */
#include "dispatch/arguments.h"

#include <stdio.h>
#include <string.h>

#include "amp/ops/args.h"
#include "core/hot.h"
#include "core/struct_size.h"
#include "policy/user_ops.h"

static amp_status missing(const amp_call *call, const amp_arg_info *arg) {
    return amp_fail(AMP_ERROR_INVALID, "%s: the argument '%s' is missing", amp_call_name(call), arg->name);
}

/* Only the layer that made a result without elements knows what to do with it. */
AMP_APART static amp_status check_ahead(const amp_call *call, const amp_arg_info *arg, const amp_tensor *t) {
    if (call->layers & AMP_LAYER_CAPTURE) return AMP_OK;
    return amp_fail(
        AMP_ERROR_INVALID,
        "%s: the argument '%s', %s, is not computed yet: it comes from the function of a graph that is being "
        "captured, and only the thread that runs the function can use it",
        amp_call_name(call), arg->name, amp_describe(t));
}

AMP_APART static amp_status released(const amp_call *call, const amp_arg_info *arg) {
    return amp_fail(AMP_ERROR_INVALID, "%s: the argument '%s' was released before (a scope that ended, or amp_release)",
                    amp_call_name(call), arg->name);
}

static inline amp_status check_tensor(amp_call *call, const amp_arg_info *arg, const amp_tensor *t) {
    if (__builtin_expect(!amp_tensor_is_live(t), 0)) return released(call, arg);
    const amp_storage *memory = t->storage;
    if (__builtin_expect(!memory, 0)) {
        memory = t->source->storage;
        call->has_pending = true;
    }
    call->has_unaligned |= amp_storage_is_unaligned(memory);
    if (memory->device != AMP_DEVICE_CPU) call->device = memory->device;
    return __builtin_expect(memory->is_ahead, 0) ? check_ahead(call, arg, t) : AMP_OK;
}

static amp_status check_list(amp_call *call, const amp_arg_info *arg, const amp_tensor_list *list) {
    const bool may_be_empty = !(arg->flags & AMP_ARG_REQUIRED) || arg->flags & AMP_ARG_MUTATED; /* nothing to write */
    if (list->count == 0 && may_be_empty) return AMP_OK;
    if (list->count <= 0 || !list->items) {
        return amp_fail(AMP_ERROR_INVALID, "%s: the argument '%s' is an empty list of tensors", amp_call_name(call),
                        arg->name);
    }
    for (int64_t i = 0; i < list->count; i++) {
        if (list->items[i]) {
            AMP_TRY(check_tensor(call, arg, list->items[i]));
        } else if (!(arg->flags & AMP_ARG_NULLABLE)) {
            return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld of the argument '%s' is missing", amp_call_name(call),
                            (long long)i, arg->name);
        }
    }
    return AMP_OK;
}

/* A value without the mark of presence is a bare number, which C accepted in the mark's place. */
static amp_status check_mark(const amp_call *call, const amp_arg_info *arg, int mark, bool has_value,
                             const char *instead) {
    if (__builtin_expect(mark == AMP_PRESENT || (mark == 0 && !has_value), 1)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is a bare number; write %s", amp_call_name(call), arg->name, instead);
}

/* A single value of an int[N] or float[N] stands for all. */
static amp_status check_count(const amp_call *call, const amp_arg_info *arg, int count) {
    if (count < 0 || count > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has %d values; at most %d are allowed", amp_call_name(call),
                        arg->name, count, AMP_MAX_RANK);
    }
    if (arg->dims > 1 && count > 1 && count != arg->dims) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has %d values; expected %d, or one for all", amp_call_name(call),
                        arg->name, count, arg->dims);
    }
    return AMP_OK;
}

/* A default value stands for every dimension; so does a single given value of an int[N]. */
static amp_status complete_dims(amp_call *call, const amp_arg_info *arg, amp_dims *dims) {
    AMP_TRY(check_mark(call, arg, dims->set, dims->values[0] != 0 || dims->count != 0, "AMP_DIMS(…)"));
    if (!dims->set && arg->has_default) {
        dims->set = AMP_PRESENT;
        dims->count = 1;
        dims->values[0] = (int64_t)arg->default_number;
    }
    if (!dims->set) return arg->flags & AMP_ARG_REQUIRED ? missing(call, arg) : AMP_OK;
    AMP_TRY(check_count(call, arg, dims->count));
    if (dims->count == 1 && arg->dims > 1) {
        for (int i = 1; i < arg->dims; i++) dims->values[i] = dims->values[0];
        dims->count = arg->dims;
    }
    return AMP_OK;
}

static amp_status complete_floats(amp_call *call, const amp_arg_info *arg, amp_floats *floats) {
    AMP_TRY(check_mark(call, arg, floats->set, floats->values[0] != 0 || floats->count != 0, "AMP_FLOATS(…)"));
    if (!floats->set && arg->has_default) *floats = AMP_FLOATS(arg->default_number);
    if (!floats->set) return arg->flags & AMP_ARG_REQUIRED ? missing(call, arg) : AMP_OK;
    AMP_TRY(check_count(call, arg, floats->count));
    if (floats->count == 1 && arg->dims > 1) {
        for (int i = 1; i < arg->dims; i++) floats->values[i] = floats->values[0];
        floats->count = arg->dims;
    }
    return AMP_OK;
}

static amp_status complete_scalar(amp_call *call, const amp_arg_info *arg, amp_scalar *scalar) {
    if ((unsigned)scalar->kind > AMP_SCALAR_COMPLEX) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is no number (kind %d)", amp_call_name(call), arg->name,
                        (int)scalar->kind);
    }
    if (scalar->kind != AMP_SCALAR_NONE) return AMP_OK;
    const bool bare = scalar->re != 0 || scalar->im != 0 || scalar->i != 0;
    AMP_TRY(check_mark(call, arg, 0, bare, "amp_float(…) or amp_int(…)"));
    if (!arg->has_default) return arg->flags & AMP_ARG_REQUIRED ? missing(call, arg) : AMP_OK;
    scalar->kind = arg->default_scalar_kind;
    scalar->re = arg->default_number;
    scalar->i = (int64_t)arg->default_number;
    return AMP_OK;
}

/* Any argument but a tensor. Never inlined: a call of tensors alone keeps its few lines. */
AMP_HOT __attribute__((noinline)) static amp_status complete_value(amp_call *call, const amp_arg_info *arg) {
    void *field = amp_call_slot(call, arg);
    switch (arg->kind) {
    case AMP_ARG_TENSOR_LIST: return check_list(call, arg, field);
    case AMP_ARG_SCALAR: return complete_scalar(call, arg, field);
    case AMP_ARG_DIMS: return complete_dims(call, arg, field);
    case AMP_ARG_FLOATS: return complete_floats(call, arg, field);
    case AMP_ARG_OPT_FLOAT: {
        amp_opt_float *option = field;
        AMP_TRY(check_mark(call, arg, option->set, option->value != 0, "AMP_SET(…)"));
        if (!option->set && arg->has_default) *option = (amp_opt_float)AMP_SET(arg->default_number);
        return !option->set && arg->flags & AMP_ARG_REQUIRED ? missing(call, arg) : AMP_OK;
    }
    case AMP_ARG_OPT_INT: {
        amp_opt_int *option = field;
        AMP_TRY(check_mark(call, arg, option->set, option->value != 0, "AMP_SET(…)"));
        if (!option->set && arg->has_default) *option = (amp_opt_int)AMP_SET((int64_t)arg->default_number);
        return !option->set && arg->flags & AMP_ARG_REQUIRED ? missing(call, arg) : AMP_OK;
    }
    case AMP_ARG_OPT_BOOL: {
        amp_opt_bool *option = field;
        AMP_TRY(check_mark(call, arg, option->set, option->value, "AMP_SET(…)"));
        if (!option->set && arg->has_default) *option = (amp_opt_bool)AMP_SET(arg->default_number != 0);
        return AMP_OK;
    }
    case AMP_ARG_INT: {
        const bool given = *(const int64_t *)field != AMP_MISSING_INT_ || !(arg->flags & AMP_ARG_REQUIRED);
        return given ? AMP_OK : missing(call, arg);
    }
    case AMP_ARG_FLOAT: {
        const bool given = *(const double *)field != AMP_MISSING_FLOAT_ || !(arg->flags & AMP_ARG_REQUIRED);
        return given ? AMP_OK : missing(call, arg);
    }
    case AMP_ARG_STRING: {
        const char **string = field;
        if (!*string) *string = arg->default_string;
        return !*string && arg->flags & AMP_ARG_REQUIRED ? missing(call, arg) : AMP_OK;
    }
    case AMP_ARG_GENERATOR: {
        const bool absent = *(amp_generator *const *)field == NULL;
        return absent && arg->flags & AMP_ARG_REQUIRED ? missing(call, arg) : AMP_OK;
    }
    case AMP_ARG_DTYPE: {
        const amp_dtype dtype = *(amp_dtype *)field;
        if (dtype == AMP_DTYPE_NONE && arg->flags & AMP_ARG_REQUIRED) return missing(call, arg);
        if (dtype == AMP_DTYPE_NONE || amp_dtype_size(dtype) != 0) return AMP_OK;
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %d, which is no dtype", amp_call_name(call), arg->name,
                        (int)dtype);
    }
    default: return AMP_OK;
    }
}

static amp_status complete_argument(amp_call *call, const amp_arg_info *arg) {
    if (arg->kind != AMP_ARG_TENSOR) return complete_value(call, arg);
    amp_tensor *t = *amp_call_tensor(call, arg);
    if (t) return check_tensor(call, arg, t);
    return __builtin_expect(arg->flags & AMP_ARG_REQUIRED, 0) ? missing(call, arg) : AMP_OK;
}

/* Whether one of the bytes behind the last field is set, of which there are less than a word. */
static bool has_reserved(const amp_call *call) {
    const size_t bytes = call->op->args_size - call->op->args_used;
    uint64_t word;
    memcpy(&word, (const char *)call->args + call->op->args_size - sizeof word, sizeof word);
    return bytes != 0 && word >> (8 * (sizeof word - bytes)) != 0; /* the last byte is the highest */
}

static amp_status fail_reserved(const amp_call *call) {
    const size_t used = call->op->args_used;
    return amp_struct_reserved(amp_call_name(call), (const char *)call->args + used, call->op->args_size - used);
}

/* Nearly always a struct of the size that this libamp knows. */
static amp_status copy_struct(amp_call *call, const void *given) {
    size_t size = 0;
    if (given) memcpy(&size, given, sizeof size);
    if (__builtin_expect(size == call->op->args_size, 1)) {
        amp_copy_words((void *)(uintptr_t)call->args, given, size);
        return has_reserved(call) ? fail_reserved(call) : AMP_OK;
    }
    char type[80] = "the op's struct";
    if (!amp_op_is_user(call->op)) snprintf(type, sizeof type, "amp_%s_args", call->op->c_name);
    return amp_struct_read(amp_call_name(call), type, (void *)(uintptr_t)call->args, call->op->args_size, sizeof size,
                           given);
}

/* An op that makes tensors of nothing runs on the device that it is told. */
static amp_status place(amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind != AMP_ARG_INT || strcmp(arg->name, "device") != 0) continue;
        const int64_t device = *(const int64_t *)amp_call_field(call, arg);
        if (device < 0 || device >= AMP_DEVICE_COUNT) {
            return amp_fail(AMP_ERROR_DEVICE, "%s: 'device' is %lld; expected AMP_DEVICE_CPU or AMP_DEVICE_CUDA",
                            amp_call_name(call), (long long)device);
        }
        call->device = (amp_device)device;
    }
    return AMP_OK;
}

AMP_HOT amp_status amp_arguments_prepare(amp_call *call, const void *given) {
    AMP_TRY(copy_struct(call, given));
    call->device = AMP_DEVICE_CPU;
    for (int i = 0; i < call->op->arg_count; i++) AMP_TRY(complete_argument(call, &call->op->args[i]));
    return __builtin_expect((call->op->flags & AMP_OP_PLACED) != 0, 0) ? place(call) : AMP_OK;
}
