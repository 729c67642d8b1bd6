/* The op macros as a user writes them. Only compiled, by tests/api/check_ops.sh, with every warning an error. */
#include "amp/amp.h"

amp_tensor *nested(amp_tensor *x, amp_tensor *w, amp_tensor *b);
amp_tensor *options(amp_tensor *x, amp_tensor *w, amp_tensor *b);
amp_tensor *forms(amp_tensor *x, amp_tensor *y);
amp_tensor *lists(amp_tensor *x, amp_tensor *y);
amp_tensor *named(amp_tensor *x, bool lower);

amp_tensor *nested(amp_tensor *x, amp_tensor *w, amp_tensor *b) {
    amp_tensor *h = amp_relu(amp_conv2d(x, w, NULL, .stride = AMP_DIMS(2), .padding = AMP_DIMS(1)));
    h = amp_add(amp_add(amp_add(h, x), amp_mul_scalar(x, amp_float(0.5))), b, .alpha = amp_int(0));
    return amp_linear(amp_flatten(h, 1), amp_t(w), b);
}

amp_tensor *options(amp_tensor *x, amp_tensor *w, amp_tensor *b) {
    const amp_dims none = AMP_NO_DIMS;
    amp_tensor *y = amp_layer_norm(x, AMP_DIMS(4, 384), w, b, .eps = AMP_SET(0));
    y = amp_conv2d(y, w, b, AMP_DIMS(2, 2), .dilation = AMP_DIMS(1, 2), .groups = AMP_SET(0));
    y = amp_conv2d_padding(y, w, .padding = "same");
    y = amp_softmax(amp_gelu(y, .approximate = "tanh"), -1, AMP_F32);
    y = amp_clamp(y, .max = amp_float(6.0));
    y = amp_scaled_dot_product_attention(y, y, y, .is_causal = true, .scale = AMP_SET(0.125));
    y = amp_sum(y, .dim = none, .keepdim = true);
    y = amp_max_pool2d(y, AMP_DIMS(3), .ceil_mode = true);
    return amp_zeros_like(y, .dtype = AMP_BF16);
}

amp_tensor *forms(amp_tensor *x, amp_tensor *y) {
    amp_tensor *indices = NULL, *r = NULL;
    amp_tensor *values = amp_sort(x, .descending = true, .indices = &indices);
    amp_tensor *q = amp_linalg_qr(values, .R = &r);
    if (!amp_add_(x, y, .alpha = amp_float(2.0)) || !amp_add_scalar_(x, amp_int(1)) || !indices) return r;
    if (!amp_sort_out(values, indices, x, .descending = true) || !amp_linalg_qr_out(q, r, values, "complete")) return r;
    if (!amp_t_(q) || !amp_unsqueeze_(r, 0) || !amp_zeros_out(y, AMP_DIMS(2, 3))) return r;
    return amp_mm_out(y, q, amp_permute(x, AMP_DIMS(1, 0)));
}

amp_tensor *lists(amp_tensor *x, amp_tensor *y) {
    amp_tensor_list parts = amp_split(amp_cat(AMP_LIST(x, amp_neg(y), x), .dim = -1), AMP_DIMS(2));
    amp_tensor *joined = amp_stack(parts, 1);
    if (parts.count == 0) joined = amp_full(AMP_DIMS(2, 3), amp_float(0.0), .dtype = AMP_F32);
    return amp_einsum("ij,jk->ik", AMP_LIST(joined, amp_arange(amp_int(6))));
}

/* Required numbers by name, and declarations whose end is the block's. */
amp_tensor *named(amp_tensor *x, bool lower) {
    amp_scope_here();
    amp_autocast_here(AMP_DEVICE_CPU, .enabled = AMP_SET(lower), .dtype = AMP_F16);
    for (int i = 0; i < 3; i++) {
        amp_scope_here();
        amp_autocast_here(AMP_DEVICE_CPU);
        amp_autocast_here(AMP_DEVICE_CUDA);
        if (amp_topk(x, .k = i, .largest = AMP_SET(false))) break;
    }
    return amp_keep(amp_softmax(amp_narrow(x, .dim = 1, .start = 0, .length = 2), .dim = -1, .dtype = AMP_F32));
}
