/* Elementwise work on the device: the formulas of formulas.def on tensors and numbers. */
#ifndef AMP_CUDA_ELEMENTWISE_H
#define AMP_CUDA_ELEMENTWISE_H

#include "amp/ops.h"
#include "cuda/cuda_backend.h"
#include "steps/operands.h"

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

#endif /* AMP_CUDA_ELEMENTWISE_H */
