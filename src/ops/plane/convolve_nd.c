#include "ops/plane/convolve_nd.h"

amp_tensor *amp_convolve_nd(int axes, amp_tensor *x, amp_tensor *w, amp_dims stride, amp_dims padding,
                            amp_dims dilation, int64_t groups) {
    const amp_opt_int sets = AMP_SET(groups);
    if (axes == 1) return amp_conv1d(x, w, .stride = stride, .padding = padding, .dilation = dilation, .groups = sets);
    if (axes == 2) return amp_conv2d(x, w, .stride = stride, .padding = padding, .dilation = dilation, .groups = sets);
    return amp_conv3d(x, w, .stride = stride, .padding = padding, .dilation = dilation, .groups = sets);
}

amp_tensor *amp_convolve_transposed_nd(int axes, amp_tensor *x, amp_tensor *w, amp_dims stride, amp_dims padding,
                                       amp_dims output_padding, amp_dims dilation, int64_t groups) {
    const amp_opt_int sets = AMP_SET(groups);
    if (axes == 1)
        return amp_conv_transpose1d(x, w, .stride = stride, .padding = padding, .output_padding = output_padding,
                                    .dilation = dilation, .groups = sets);
    if (axes == 2)
        return amp_conv_transpose2d(x, w, .stride = stride, .padding = padding, .output_padding = output_padding,
                                    .dilation = dilation, .groups = sets);
    return amp_conv_transpose3d(x, w, .stride = stride, .padding = padding, .output_padding = output_padding,
                                .dilation = dilation, .groups = sets);
}
