/* What a program adds: functions of its own whose arguments autocast casts, other policies for known names, and ops of
 * its own with their own kernels. examples/own_op.c shows all three. */
#ifndef AMP_USER_H
#define AMP_USER_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A C function whose floating arguments are cast --------------------------------------------------------------
 * Written first in the function, on pointers to its tensor parameters:
 *     amp_tensor *attend(amp_tensor *q, amp_tensor *k, amp_tensor *v) {
 *         amp_half_function(&q, &k, &v);
 *         return amp_matmul(amp_softmax(amp_matmul(q, amp_transpose(k, -2, -1)), -1), v);
 *     }
 * Where an enabled region of a tensor's device is open, the parameter is replaced by its cast; f64, integer, complex
 * and absent (NULL) tensors stay as they are, and so does everything outside of regions. The ops inside still follow
 * their own policies. amp_half_function casts to the region's dtype, amp_float_function to f32, amp_promote_function to
 * the widest dtype among the arguments where they differ. The casts belong to the innermost open scope, as every result
 * does; with no scope open they are released when the function returns, so do not return a parameter itself then. A
 * cast of a parameter of the model comes from the cast cache. An argument that was released is an error. */
typedef enum amp_function_rule {
    AMP_FUNCTION_HALF = 0, /* the region's lower dtype */
    AMP_FUNCTION_FLOAT,    /* f32 */
    AMP_FUNCTION_PROMOTE   /* the widest among the arguments */
} amp_function_rule;

/* Most tensors that one function casts. */
#define AMP_FUNCTION_TENSORS 16

/* The casts that were made for a function; the macros keep it. */
typedef struct amp_function_casts {
    amp_tensor *made[AMP_FUNCTION_TENSORS];
    int count, reserved[7];
} amp_function_casts;

/* What the macros call: casts *arguments[0 … count - 1] in place. Errors stand as every error does. */
AMP_API amp_function_casts amp_function_begin(amp_function_rule rule, amp_tensor **const *arguments, int count);
/* Releases the casts that no scope owned when they were made. */
AMP_API void amp_function_end(amp_function_casts *casts);

/* ---- Other policies by name --------------------------------------------------------------------------------------
 * From amp_register_end() on, and in every region, calls of the op `name` ("layer_norm", "add.scalar", or one that
 * amp_define_op made) cast their floating arguments: to the region's dtype, to f32, or to the widest of them, on every
 * device and in every policy table; amp_autocast_override still goes above. Of several registrations of a name the last
 * holds. Errors: a name that is no op; registration has ended. */
AMP_API amp_status amp_register_half_function(const char *name);
AMP_API amp_status amp_register_float_function(const char *name);
AMP_API amp_status amp_register_promote_function(const char *name);

typedef struct amp_register_end_args {
    size_t struct_size AMP_SIZE_OF_(amp_register_end_args);
    amp_opt_bool enabled; /* default true; AMP_SET(false): registrations have no effect */
} amp_register_end_args;

/* Ends the time of registration and puts what was registered into effect. NULL: the defaults. Call it once, before
 * other threads open regions; a second call is an error. amp_initialize and amp_init (amp/apex.h) do the same, where it
 * was not done. */
AMP_API amp_status amp_register_end(const amp_register_end_args *args);

/* ---- An op of your own -------------------------------------------------------------------------------------------
 * An op is a schema, a policy and an implementation for each device. It is called as the library's own are: by name
 * with amp_call_op, or with its argument struct. Autocast, amp_autocast_dtype_for, amp_autocast_override, the explain
 * report, `amp info --ops` and `amp replay` (with --load) know it.
 *
 * Schema: PyTorch's notation, as in src/policy/ops.def.
 *     swiglu(Tensor input, Tensor gate@weight, Tensor? bias=None, *, float beta=1.0, int[2] tile=8) -> Tensor
 * Types: Tensor, Tensor? (may be absent), Tensor(a!) (the op writes it), Tensor[], Tensor?[] (may hold NULL), Tensor(a!)[] (it
 * writes each of them, of which there may be none), Scalar,
 * float, int, bool, str, int[] and float[] (at most 8), int[2] (one number stands for both), ScalarType (a dtype),
 * Generator (to be handed to ops inside); `?` with =None: may be absent. @weight: a weight position (amp/tensor.h);
 * @uncast: no policy casts it. Results: `Tensor`, `(Tensor values, Tensor indices)`, `Tensor[]`. Overloads:
 * `swiglu.scalar(…)`, a definition of its own.
 *
 * Argument struct: `size_t struct_size`, then an `amp_tensor **` for each result after the first, then a field for each
 * argument in the order of the schema:
 *     Tensor amp_tensor *, Tensor[] amp_tensor_list, Scalar amp_scalar, int[] amp_dims, float[] amp_floats,
 *     ScalarType amp_dtype, str const char *, Generator amp_generator *; float, int, bool: amp_opt_float, amp_opt_int,
 *     amp_opt_bool where the default is not 0 (None, 1.0, True), else double, int64_t, bool.
 * If its size is not what the schema makes, the definition fails with the struct that was expected. */

/* An op, of the library or of a program. Lives as long as the process. */
typedef struct amp_op_info amp_op;
/* A call on its way; good inside the implementation only. */
typedef struct amp_call amp_call;

/* Runs the op. `args` is its argument struct, defaults filled in: absent only what the schema lets be absent. In a
 * region the tensors come cast, as the policy says; autocast is off for ops that are called in here, unless the policy
 * is "parts". Tensors that are made in here go at the end, but for the results. Inputs may be strided (amp_contiguous
 * helps). Returns AMP_OK with the results set, or the status of amp_call_fail or of the call that failed. Runs on the
 * caller's thread, on several at a time. It must not throw: a C++ exception that leaves it takes the thread's scopes
 * and layers with it. It must not keep or release its arguments (amp_keep says why), and must close the scopes and
 * regions that it opens. Another number than an amp_status is an error of the op. */
typedef amp_status (*amp_op_implementation)(amp_call *call, const void *args);

/* The gradient of one call, good inside its function only. */
typedef struct amp_gradient amp_gradient;

/* Gives the gradients of the op's arguments, from those of its results, by calling ops; no region is open, and what it
 * makes goes at its end. `amp_gradient_args` has the argument struct as the implementation got it, casts made; of its
 * tensors the elements are there that `saves` names, the others read as NaN. Where the ops that it calls are
 * differentiable, so is it. */
typedef void (*amp_op_gradient)(amp_gradient *gradient);

/* What an op is on one device. */
typedef struct amp_op_device {
    const char *policy; /* "lower", "fp32", "promote", …: amp_autocast_policy has the list. NULL: "fallthrough" */
    amp_op_implementation run; /* NULL: not implemented there */
} amp_op_device;

typedef struct amp_op_definition {
    size_t struct_size AMP_SIZE_OF_(amp_op_definition);
    const char *schema;
    const char *doc;         /* one sentence; may be NULL */
    size_t args_size;        /* sizeof the argument struct */
    amp_op_device cpu, cuda; /* the same policy in every table */
    bool in_place, out;      /* the op also has the form `name_`, which writes the first argument, and `name_out` */
    bool elementwise; /* element i of the result needs element i of the inputs only: in-place forms need no copy */
    bool
        not_differentiable; /* its results require no gradients (argmax); else a backward without `gradient` is an error */
    unsigned char reserved[4]; /* 0 */
    amp_op_gradient gradient;  /* NULL: none; an op that policy "parts" leaves to its parts has theirs */
    /* The arguments and results ("out" is the first) whose elements it reads: "x,out"; "x:w,w:x" where it reads x only
     * for the gradient of w, and w only for that of x; several for one: "x:w+b". NULL: none. */
    const char *saves;
} amp_op_definition;

/* Adds an op for the rest of the process; the texts are copied. NULL with an error: a schema that cannot be read; a
 * name that is an op already; an unknown policy; another args_size than the schema's; no implementation; 256 ops were
 * added. From any thread; a shared object that adds ops must not be unloaded. In C:
 *     op = amp_define_op("swiglu(…) -> Tensor", .args_size = sizeof(swiglu_args), .cpu = {"lower", swiglu_cpu}); */
AMP_API const amp_op *amp_define_op_call(const amp_op_definition *definition);

/* Calls an op with its argument struct, as amp_<op>() does: NULL, or an empty list, with an error. */
AMP_API amp_tensor *amp_call_defined(const amp_op *op, const void *args);
AMP_API amp_tensor *amp_call_defined_inplace(const amp_op *op, const void *args);
AMP_API amp_tensor *amp_call_defined_out(const amp_op *op, amp_tensor *out, const void *args);
AMP_API amp_tensor_list amp_call_defined_list(const amp_op *op, const void *args);

/* ---- Inside an implementation ---- */

/* Result number `index`: a fresh contiguous tensor to be written with amp_data_mut, or the target itself of an in-place
 * or out= call. NULL with an error: no memory; the target has another shape, or a dtype that the result cannot be cast
 * to. */
AMP_API amp_tensor *amp_call_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape);
/* Makes a tensor that other ops gave the result number `index`. NULL: the error that stands. */
AMP_API amp_status amp_call_return(amp_call *call, int index, amp_tensor *tensor);
/* The result of an op that returns Tensor[]: the array is copied; a tensor that stands there twice is a view the second
 * time. */
AMP_API amp_status amp_call_list(amp_call *call, amp_tensor *const *items, int64_t count);
/* Where the call runs. */
AMP_API amp_device amp_call_device(const amp_call *call);
/* What the explain report shows as the kernel; static text. */
AMP_API void amp_call_set_kernel(amp_call *call, const char *kernel);
/* Fails the call: "NAME: " and the sentence, which names argument, shapes and dtypes and what was expected, without a
 * full stop. The first error of a thread stands. Returns the code. */
AMP_API amp_status amp_call_fail(const amp_call *call, amp_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "[2, 3] f32": a tensor in a sentence; good for eight calls on this thread. */
AMP_API const char *amp_tensor_text(const amp_tensor *tensor);

/* ---- Inside a gradient ---- */

/* The op's argument struct. */
AMP_API const void *amp_gradient_args(const amp_gradient *gradient);
/* The gradient that arrived for result `index`; NULL: none did, or there is no such result. */
AMP_API amp_tensor *amp_gradient_of(const amp_gradient *gradient, int index);
/* Result `index` as it was; NULL: it was not made. */
AMP_API amp_tensor *amp_gradient_result(const amp_gradient *gradient, int index);
/* Somebody wants the gradient of an argument. `field` is its address in the struct, &a->weight; of a tensor in a list
 * &a->tensors.items[i]. */
AMP_API bool amp_gradient_wants(const amp_gradient *gradient, const void *field);
/* This is it: of the argument's shape, or one that broadcasting it gives, which is summed; converted to the dtype of
 * the argument before casts. A second one is added to the first. NULL: nothing. */
AMP_API void amp_gradient_give(amp_gradient *gradient, const void *field, amp_tensor *tensor);

#ifdef __cplusplus
} /* extern "C" */

inline amp_function_casts amp_function_begin_cxx(amp_function_rule rule,
                                                 std::initializer_list<amp_tensor **> arguments) {
    return amp_function_begin(rule, arguments.begin(), static_cast<int>(arguments.size()));
}
#define AMP_FUNCTION_(rule, ...) amp_function_begin_cxx(rule, {__VA_ARGS__})
#else
#define AMP_FUNCTION_(rule, ...)                                                                                       \
    amp_function_begin(rule, (amp_tensor * *const[]){__VA_ARGS__},                                                     \
                       (int)(sizeof((amp_tensor **const[]){__VA_ARGS__}) / sizeof(amp_tensor **)))
#define amp_define_op(...)                                                                                             \
    amp_define_op_call(&(const amp_op_definition){.struct_size = sizeof(amp_op_definition), .schema = __VA_ARGS__})
#endif

#define AMP_FUNCTION_JOIN_(a, b) a##b
#define AMP_FUNCTION_NAME_(line) AMP_FUNCTION_JOIN_(amp_function_casts_, line)
#define AMP_FUNCTION_DECLARE_(rule, ...)                                                                               \
    amp_function_casts AMP_FUNCTION_NAME_(__LINE__) __attribute__((cleanup(amp_function_end), unused)) =               \
        AMP_FUNCTION_(rule, __VA_ARGS__)
/* amp_half_function(&x, &w); at the top of a function. */
#define amp_half_function(...) AMP_FUNCTION_DECLARE_(AMP_FUNCTION_HALF, __VA_ARGS__)
#define amp_float_function(...) AMP_FUNCTION_DECLARE_(AMP_FUNCTION_FLOAT, __VA_ARGS__)
#define amp_promote_function(...) AMP_FUNCTION_DECLARE_(AMP_FUNCTION_PROMOTE, __VA_ARGS__)

#endif /* AMP_USER_H */
