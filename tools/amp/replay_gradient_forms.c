/* Ops on gradients. */
#include "replay_gradient_forms.h"

#include "amp/amp.h"

static amp_tensor *conjugated(amp_tensor *t) {
    const float signs[] = {1, -1};
    const int64_t two[] = {2};
    if (!amp_dtype_is_complex(amp_tensor_dtype(t))) return t;
    return amp_view_as_complex(amp_mul(amp_view_as_real(t), amp_from_data(signs, AMP_F32, 1, two)));
}

amp_tensor *replay_symmetrized(amp_tensor *gradient) {
    return amp_mul_scalar(amp_add(gradient, conjugated(amp_transpose(gradient, -2, -1))), amp_float(0.5));
}

amp_tensor *replay_triangle(amp_tensor *gradient, bool is_upper) {
    return is_upper ? amp_triu(gradient) : amp_tril(gradient);
}

amp_tensor *replay_projected(amp_tensor *gradient, amp_tensor *log_probs) {
    amp_tensor *sum = amp_sum(gradient, .dim = AMP_DIMS(-1), .keepdim = true);
    return amp_sub(gradient, amp_mul(amp_exp(log_probs), sum));
}

amp_tensor *replay_absolute(amp_tensor *tensor) {
    return amp_abs(tensor);
}

amp_tensor *replay_ones_like(amp_tensor *tensor) {
    return amp_ones_like(tensor);
}

amp_tensor *replay_zeros_like(amp_tensor *tensor) {
    return amp_zeros_like(tensor);
}

bool replay_is_zero(amp_tensor *tensor) {
    return !tensor || amp_item(amp_sum(amp_abs(tensor))) == 0;
}
