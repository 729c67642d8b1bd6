/* What products and convolutions do to their sums on the device, where the library that made them took nothing
 * along. */
#ifndef AMP_CUDA_EPILOGUE_H
#define AMP_CUDA_EPILOGUE_H

#include "call/call.h"
#include "steps/epilogue.h"

/* All broadcast to the result; NULL: none. */
typedef struct amp_cuda_sums {
    amp_tensor *sums; /* of f32 or f64 where the result must be rounded once */
    amp_tensor *scale, *bias, *residual;
    const amp_epilogue *epilogue;
} amp_cuda_sums;

/* y = act(scale · sums + bias + residual), computed in the compute type of y. The sums may be y. */
amp_status amp_cuda_finish_sums(amp_call *call, const amp_cuda_sums *s, amp_tensor *y);

/* y = relu(x), of one shape and dtype. x may be y. Of what is rounded already: that it is once. */
amp_status amp_cuda_relu(amp_call *call, amp_tensor *x, amp_tensor *y);

#endif /* AMP_CUDA_EPILOGUE_H */
