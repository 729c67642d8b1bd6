/* An outside program in C11: block macros, op macros, one check at the end. */
#include <amp/amp.h>
#include <stdio.h>

int main(void) {
    if (amp_version() != AMP_VERSION) {
        fprintf(stderr, "the headers are %d, the library is %d\n", AMP_VERSION, amp_version());
        return 1;
    }
    double sum = 0.0;
    amp_dtype dtype = AMP_DTYPE_NONE;
    amp_scope {
        amp_tensor *x = amp_full(AMP_DIMS(3, 4), amp_float(0.5)), *w = amp_full(AMP_DIMS(2, 4), amp_float(2.0)),
                   *y = NULL;
        amp_autocast(AMP_DEVICE_CPU) {
            y = amp_linear(x, w);
        }
        dtype = amp_tensor_dtype(y);
        sum = amp_item(amp_sum(y));
    }
    if (amp_last_status() != AMP_OK) {
        fprintf(stderr, "%s\n", amp_last_error());
        return 1;
    }
    printf("libamp %s: %s, %g\n", amp_version_string(), amp_dtype_name(dtype), sum);
    return dtype == AMP_BF16 && sum == 24.0 ? 0 : 1;
}
