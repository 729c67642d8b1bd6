/* Elementwise work on the device: the formulas of formulas.def on tensors and numbers. */
#ifndef AMP_CUDA_ELEMENTWISE_H
#define AMP_CUDA_ELEMENTWISE_H

#include "amp/ops.h"
#include "steps/operands.h"
#include "cuda/cuda_backend.h"

typedef enum amp_formula {
#define F(name, inputs, types, expression) AMP_FORMULA_##name,
#include "cuda/args/formulas.def"
#undef F
    AMP_FORMULA_COUNT
} amp_formula;

typedef struct amp_formula_numbers {
    double p, q, r;
    int64_t whole;
} amp_formula_numbers;

/* Computes `formula` of the values, which broadcast to `out`, in `compute` (f32, f64, i64 or c128). */
amp_status amp_cuda_compute(const amp_call *call, amp_formula formula, const amp_operand *values, int count,
                            amp_dtype compute, amp_formula_numbers numbers, amp_tensor *out);

/* The same into a new output of the call, of `dtype`; computed in the dtype's compute type. */
amp_status amp_cuda_elementwise_op(amp_call *call, amp_formula formula, const amp_operand *values, int count,
                                   amp_dtype dtype, amp_formula_numbers numbers);

/* polar into `out`, and fake quantisation with tensors of one number for scale and zero point; the arguments have been
 * checked. */
amp_status amp_cuda_polar(const amp_call *call, const amp_polar_args *args, const amp_tensor *out);
amp_status amp_cuda_fake_quantize(amp_call *call, amp_tensor *input, amp_tensor *scale, amp_tensor *zero_point,
                                  int64_t low, int64_t high);

/* out[i] = start + i·step, of a dense vector. */
amp_status amp_cuda_write_range(const char *op, amp_tensor *out, const amp_scalar *start, const amp_scalar *step);

#endif /* AMP_CUDA_ELEMENTWISE_H */
