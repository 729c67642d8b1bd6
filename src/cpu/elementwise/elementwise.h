/* Elementwise work on any operands: broadcast, strided, of mixed dtypes, in blocks of one compute type each. */
#ifndef AMP_CPU_ELEMENTWISE_H
#define AMP_CPU_ELEMENTWISE_H

#include "core/tensor_impl.h"
#include "steps/operands.h"

enum { AMP_ELEMENTWISE_INPUTS = AMP_MOST_OPERANDS };

/* n results from n elements of each input, dense, in the compute types that the caller named. out may be one of in. */
typedef void amp_dense_function(void *context, void *out, const void *const *in, int64_t n);

/* An input: a tensor, or one constant of the compute type that stands for every element. */
typedef struct amp_elementwise_input {
    const amp_tensor *tensor;
    const void *constant;
    amp_dtype compute; /* f32, f64, i64, c128 or bool */
} amp_elementwise_input;

typedef struct amp_elementwise {
    amp_dense_function *function;
    void *context;
    amp_dtype out_compute; /* what the function writes */
    int inputs;
    amp_elementwise_input in[AMP_ELEMENTWISE_INPUTS];
    int64_t cost; /* simple operations for one element; decides how many threads the work is worth */
} amp_elementwise;

/* Computes every element of `out`; the inputs broadcast to its shape. */
void amp_elementwise_run(const amp_elementwise *work, amp_tensor *out);

/* Runs `function` over the values, all loaded as `compute`, into `out`, which it writes as `out_compute`. */
void amp_operands_run(const amp_operand *values, int count, amp_dtype compute, amp_dtype out_compute,
                      amp_dense_function *function, void *context, int64_t cost, amp_tensor *out);

#endif /* AMP_CPU_ELEMENTWISE_H */
