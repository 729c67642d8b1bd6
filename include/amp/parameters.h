/* Parameters: the tensors of a model that training changes, by name and in order.
 *
 *     amp_scope_here(); // what amp_randn gives is released at its end; the list has a hold of its own
 *     amp_parameters *p = amp_parameters_create();
 *     amp_tensor *w = amp_parameters_add(p, "fc.weight", amp_randn(AMP_DIMS(10, 64)));
 *     amp_optimizer *opt = amp_adamw(p, .lr = AMP_SET(3e-4));
 *     …
 *     amp_parameters_destroy(p);
 */
#ifndef AMP_PARAMETERS_H
#define AMP_PARAMETERS_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list of tensors and their names. One thread at a time. */
typedef struct amp_parameters amp_parameters;

/* An empty list, the caller's, until amp_parameters_destroy. NULL with an error: no memory. */
AMP_API amp_parameters *amp_parameters_create(void);
/* Releases the tensors, which may live on with other owners (an optimizer is one). NULL is allowed. */
AMP_API void amp_parameters_destroy(amp_parameters *parameters);

/* Adds a tensor at the end: it requires gradients from now on, its casts are cached (amp_tensor_mark_parameter), and
 * the list is one more owner of it. The name is copied. Returns the tensor; NULL with an error: one is NULL, there is
 * such a name or the tensor already, a dtype that is not floating or complex, a result of a recorded op, no memory; the
 * list stays as it was. */
AMP_API amp_tensor *amp_parameters_add(amp_parameters *parameters, const char *name, amp_tensor *tensor);

/* Adds a tensor that belongs to the model and is not trained, as running statistics are: it is saved and loaded with
 * the parameters, and optimizers pass it by. Of any dtype. NULL with an error: as amp_parameters_add's, and a tensor
 * that requires gradients. */
AMP_API amp_tensor *amp_parameters_add_buffer(amp_parameters *parameters, const char *name, amp_tensor *tensor);

/* How many there are, buffers too; 0 for NULL. */
AMP_API int64_t amp_parameters_count(const amp_parameters *parameters);
/* Number `index` from 0 on, borrowed; NULL outside of the list. */
AMP_API amp_tensor *amp_parameters_at(const amp_parameters *parameters, int64_t index);
/* Its name, which lives as long as the list; NULL outside of it. */
AMP_API const char *amp_parameters_name(const amp_parameters *parameters, int64_t index);
/* The tensor of that name, borrowed. NULL with an error that says which name may be meant. */
AMP_API amp_tensor *amp_parameters_find(const amp_parameters *parameters, const char *name);
/* Takes the gradient of each away (amp_tensor_zero_grad). An error: NULL. */
AMP_API amp_status amp_parameters_zero_grad(amp_parameters *parameters);

/* ---- Clipping --------------------------------------------------------------------------------------------------- */
typedef struct amp_clip_grad_norm_args {
    size_t struct_size AMP_SIZE_OF_(amp_clip_grad_norm_args);
    amp_parameters *parameters; /* those without a gradient count as nothing */
    double max_norm;            /* what the norm of all gradients together is at most afterwards */
    amp_opt_float norm_type;    /* the p of the p-norm; 2. INFINITY: the largest element */
    bool error_if_nonfinite;    /* a norm that is infinite or NaN is an error, and changes nothing */
    unsigned char reserved[7];
} amp_clip_grad_norm_args;

/* Multiplies every gradient by max_norm / (norm + 1e-6) where that is less than 1: torch.nn.utils.clip_grad_norm_. Of
 * complex elements the absolute value counts. Returns the norm before, computed in f64; 0 with an error: no list, a
 * norm_type that is none, those of the ops. */
AMP_API double amp_clip_grad_norm_call(const amp_clip_grad_norm_args *args);
/* Every element of a gradient becomes one from −clip_value to clip_value; NaN stays: torch.nn.utils.clip_grad_value_. A
 * complex gradient is an error, and nothing is clipped. */
AMP_API amp_status amp_clip_grad_value(amp_parameters *parameters, double clip_value);

/* ---- Files ------------------------------------------------------------------------------------------------------------
 * Parameters and buffers under their names, as safetensors. What a run needs to go on is amp/training.h's. */
typedef struct amp_parameters_save_args {
    size_t struct_size AMP_SIZE_OF_(amp_parameters_save_args);
    const amp_parameters *parameters; /* on any device */
    const char *path;
    amp_dtype dtype;             /* in the file, of those that are floating; default: each its own */
    int reserved;                /* 0 */
    const char *const *metadata; /* as amp_save_safetensors takes it; may be NULL */
} amp_parameters_save_args;

/* Writes the file whole or not at all (amp_save_safetensors). Errors: no list, one that was released, a dtype that is
 * not floating; those of files, a full disk among them. */
AMP_API amp_status amp_parameters_save_call(const amp_parameters_save_args *args);
/* Copies the tensors of a file into those of the list, in place; views, optimizers and casts see the new values. A
 * floating one may be f32 in the file. Errors: one of the list is not in the file, or is of another shape or dtype
 * there; the file has one that is not in the list (with a name that may be meant); those of files. Then nothing is
 * changed. */
AMP_API amp_status amp_parameters_load(amp_parameters *parameters, const char *path);

#ifndef __cplusplus
/* amp_parameters_save(p, "model.safetensors"); amp_parameters_save(p, "model.safetensors", .dtype = AMP_F32); */
#define amp_parameters_save(list, ...)                                                                                 \
    AMP_CALL_(amp_parameters_save_call(&(const amp_parameters_save_args){                                              \
        .struct_size = sizeof(amp_parameters_save_args), .parameters = list, .path = __VA_ARGS__}))
/* amp_clip_grad_norm(p, 1.0); amp_clip_grad_norm(p, 1.0, .norm_type = AMP_SET(INFINITY)); */
#define amp_clip_grad_norm(list, ...)                                                                                  \
    AMP_CALL_(amp_clip_grad_norm_call(&(const amp_clip_grad_norm_args){                                                \
        .struct_size = sizeof(amp_clip_grad_norm_args), .parameters = list, .max_norm = __VA_ARGS__}))
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_PARAMETERS_H */
