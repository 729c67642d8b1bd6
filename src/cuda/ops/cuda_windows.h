/* Resampling, pooling and padding on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_WINDOWS_H
#define AMP_CUDA_WINDOWS_H

#include "cpu/plane/pooling.h"
#include "cpu/plane/resample.h"

/* As amp_spatial_gather, amp_resample and amp_pool_average. */
amp_status amp_cuda_spatial_gather(amp_call *call, const amp_spatial *s, amp_tensor *input,
                                   const int64_t *const tables[AMP_SPATIAL_DIMS]);
amp_status amp_cuda_resample(amp_call *call, const amp_spatial *s, amp_tensor *input,
                             const amp_taps taps[AMP_SPATIAL_DIMS]);
amp_status amp_cuda_pool_average(amp_call *call, const amp_pool *p, amp_tensor *input, bool count_padding,
                                 const int64_t *divisor);
/* Maxima into output 0 and, if asked for, where they are into output 1. */
amp_status amp_cuda_pool_maximum(amp_call *call, const amp_pool *p, amp_tensor *input, bool return_indices);

/* Elements of the input where `indices` say, in a result of zeros. */
amp_status amp_cuda_unpool(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *indices);

/* The input at the places of `grid`, whose arguments have been checked: modes and borders in PyTorch's numbers. */
typedef struct amp_cuda_sampling {
    amp_tensor *input, *grid;
    int64_t mode, border;
    bool align;
} amp_cuda_sampling;
amp_status amp_cuda_sample_grid(amp_call *call, const amp_spatial *s, const amp_cuda_sampling *r);

/* fractional_max_pool, whose arguments have been checked. */
amp_status amp_cuda_pool_fractional(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *samples,
                                    const int64_t kernel[AMP_SPATIAL_DIMS], bool with_places);

#endif /* AMP_CUDA_WINDOWS_H */
