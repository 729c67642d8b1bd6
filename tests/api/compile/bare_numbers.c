/* Numbers without a mark of presence, one by one (BARE, from 1): compilers must say so. By tests/api/check_ops.sh. */
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
#endif
    return y;
}
