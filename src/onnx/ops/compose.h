/* What the functions of several families of ONNX's ops are made of. */
#ifndef AMP_ONNX_COMPOSE_H
#define AMP_ONNX_COMPOSE_H

#include "onnx/step.h"

/* The result of libamp's op of that name, whose first arguments are these tensors and whose others stay away; NULL with
 * an error. */
amp_tensor *amp_onnx_call(const char *op, amp_tensor *const *tensors, int count);
#define AMP_ONNX_CALL(op, ...)                                                                                         \
    amp_onnx_call(op, (amp_tensor *const[]){__VA_ARGS__},                                                              \
                  (int)(sizeof((amp_tensor *const[]){__VA_ARGS__}) / sizeof(amp_tensor *)))

/* Of tensors on several devices, those on the CPU go to the other: what is known of shapes is on the CPU. NULLs
 * stay. */
void amp_onnx_meet(amp_tensor **tensors, int count);

/* The first `count` inputs, which must be there, on one device; false with an error. */
bool amp_onnx_operands(const amp_onnx_step *s, amp_tensor **operands, int count);

/* A list of `count` sizes or axes, at most AMP_MAX_RANK; values NULL: to be filled in. */
amp_dims amp_onnx_dims(int count, const int64_t *values);

/* `t` in another dtype; `t` itself where it has it. */
amp_tensor *amp_onnx_as(amp_tensor *t, amp_dtype dtype);

/* Neither floating point nor complex. */
static inline bool amp_onnx_is_integer(const amp_tensor *t) {
    return !amp_dtype_is_floating(t->dtype) && !amp_dtype_is_complex(t->dtype);
}

/* The number in a tensor of one element, in its own category, from whatever device. */
amp_status amp_onnx_read_number(const amp_onnx_step *s, const amp_tensor *t, amp_scalar *number);

/* An error where so many elements are out of all proportion to `from`, which they are made of (NULL: of numbers
 * alone). */
amp_status amp_onnx_check_made(const amp_onnx_step *s, const amp_tensor *from, int rank, const int64_t *shape);

/* All integers of a tensor, from whatever device, in memory that the caller gives to amp_free; NULL with an error. */
int64_t *amp_onnx_all_ints(const amp_onnx_step *s, const amp_tensor *t);

/* A vector of these integers where `beside` is; the step's amp_onnx_vector is where the run's inputs are, which what is
 * known of shapes is not. */
amp_tensor *amp_onnx_vector_beside(const amp_tensor *beside, const int64_t *values, int64_t count);

/* At most `room` integers that are an attribute in old opsets and input number `i` in newer ones; how many there are, 0
 * for neither, -1 with an error. */
int64_t amp_onnx_list(const amp_onnx_step *s, int i, const char *name, int64_t *to, int room);

/* Memory for so many numbers of 64 bits, which the caller gives to amp_free; NULL with an error. */
void *amp_onnx_room(const amp_onnx_step *s, int64_t count);

/* Extents multiplied: of dimensions `from` up to but without `to`. INT64_MAX stands for more than that, which a tensor
 * without elements may have. */
int64_t amp_onnx_extent(const amp_tensor *t, int from, int to);

#endif /* AMP_ONNX_COMPOSE_H */
