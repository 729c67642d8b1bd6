/* Batched matrix products on the CPU: from tensors to the GEMM of their dtype. */
#ifndef AMP_CPU_MATMUL_H
#define AMP_CPU_MATMUL_H

#include "call/call.h"
#include "steps/matmul.h"

/* Called for A and B before their strides are taken: gives a pending cast its memory, unless the kernel of its dtype
 * converts on the way. Residual and bias always have memory (amp_call_materialize). */
amp_status amp_cpu_matmul_operand(amp_call *call, amp_tensor *tensor, bool is_b);

/* A bias (NULL: none) of unit stride, as the kernels read it. */
amp_status amp_cpu_dense_bias(amp_call *call, amp_tensor **bias);

/* How long a packed form of `weight` (memory, or a pending cast) may be kept by the cast cache. */
amp_cast_life amp_cpu_weight_life(const amp_call *call, const amp_tensor *weight, bool weight_position);

/* Runs it, and may change it; `c.tensor` has the operands' dtype, or is f32 where they are bf16. Sets the call's
 * note. */
amp_status amp_cpu_matmul(amp_call *call, amp_matmul *p);

/* For several products with one B, none of them batched: m, a, c and what is added may differ. Unpack afterwards. */
amp_status amp_cpu_matmul_pack(amp_call *call, const amp_matmul *p, amp_packed_b *packed);

void amp_cpu_matmul_unpack(amp_packed_b *packed);

/* bool has no products. */
amp_status amp_cpu_check_product_dtype(const amp_call *call, const char *name, const amp_tensor *t);

/* Runs `implementation` with every f16 argument converted to f32, and rounds its results to f16. */
amp_status amp_cpu_run_widened(amp_call *call, amp_op_function implementation);

#endif /* AMP_CPU_MATMUL_H */
