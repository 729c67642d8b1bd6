/* The example that the README shows: one model step, in bf16, with an error check at the end. */
#include <amp/amp.h>
#include <stdio.h>

int main(void) {
    amp_scope_here(); /* what is made from here on is released at the end of the block */
    amp_tensor *x = amp_full(AMP_DIMS(8, 256), amp_float(0.5)), *y = NULL;
    amp_tensor *w = amp_full(AMP_DIMS(10, 256), amp_float(0.01)), *bias = amp_arange(amp_float(10));
    {
        amp_autocast_here(AMP_DEVICE_CPU); /* every op from here on picks the type that suits it */
        y = amp_softmax(amp_gelu(amp_linear(x, w, bias)), -1);
    }
    printf("%s %.3f\n", amp_dtype_name(amp_tensor_dtype(y)), amp_item(amp_amax(y))); /* bf16 0.633 */
    if (amp_last_status() != AMP_OK) fprintf(stderr, "%s\n", amp_last_error());
    return amp_last_status() != AMP_OK;
}
