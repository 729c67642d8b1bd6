/* Resampling the other way: what each element of the input gets back from the elements that it was a part of. */
#ifndef AMP_OPS_RESAMPLE_BACK_H
#define AMP_OPS_RESAMPLE_BACK_H

#include "steps/spatial.h"
#include "steps/taps.h"

/* A tensor without elements in the shape of `grad` but for its last `sizes->count` extents: the input whose gradient is
 * wanted. An error if `grad` has not that many dimensions and one or two more. */
amp_status amp_input_of(const amp_call *call, const amp_tensor *grad, const amp_dims *sizes, amp_tensor *input);

/* An error unless the windows make of the input what `grad` is. */
amp_status amp_check_extents(const amp_call *call, const amp_tensor *grad, const amp_spatial *s);

/* The result: `grad` by the taps of the forward pass, `forward` being its geometry. */
amp_status amp_resample_back(amp_call *call, const amp_spatial *forward, amp_tensor *grad,
                             const amp_taps taps[AMP_SPATIAL_DIMS]);

#endif /* AMP_OPS_RESAMPLE_BACK_H */
