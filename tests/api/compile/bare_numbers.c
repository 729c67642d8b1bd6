/* Calls that are errors, one by one (BARE, from 1): numbers without a mark of presence, from 12 on required numbers
 * left out, from 16 on numbers in the place of tensors. By tests/api/check_ops.sh, without a warning switched on. */
#include "amp/amp.h"

amp_tensor *bare(amp_tensor *x, bool flag);

amp_tensor *bare(amp_tensor *x, bool flag) {
    amp_tensor *y = NULL;
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(flag)) y = x;
#if BARE == 1
    amp_autocast(AMP_DEVICE_CPU, .enabled = false) y = x;
#elif BARE == 2
    amp_autocast(AMP_DEVICE_CPU, .enabled = flag) y = x;
#elif BARE == 3
    y = amp_leaky_relu(x, .negative_slope = 0);
#elif BARE == 4
    y = amp_leaky_relu(x, .negative_slope = 0.5);
#elif BARE == 5
    y = amp_add(x, x, .alpha = 0);
#elif BARE == 6
    y = amp_sum(x, .dim = 1);
#elif BARE == 7
    y = amp_conv2d(x, x, .groups = 2);
#elif BARE == 8
    y = amp_sum(x, 1);
#elif BARE == 9
    y = amp_relu(amp_conv2d(amp_add(x, x), x, NULL, .padding = 1));
#elif BARE == 10
    y = amp_relu(amp_add(amp_sum(x, 1), x));
#elif BARE == 11
    amp_autocast_here(AMP_DEVICE_CPU, .enabled = flag);
#elif BARE == 12
    y = amp_softmax(x);
#elif BARE == 13
    y = amp_add(amp_relu(amp_topk(x)), x);
#elif BARE == 14
    y = amp_narrow(x, 0, 1);
#elif BARE == 15
    y = amp_cumsum_out(y, x);
#elif BARE == 16
    y = amp_add(x, 2);
#elif BARE == 17
    y = amp_linear(x, 5);
#endif
    return y;
}
