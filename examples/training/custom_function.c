/* "Autocast and custom autograd functions" of PyTorch's AMP examples: a product with a backward of its own, which runs
 * in the region that its forward ran in; and a function that must have f32, wherever it is called. */
#include <amp/amp.h>
#include <math.h>
#include <stdio.h>

static amp_status mm_forward(amp_custom_call *call, amp_tensor *const *in, amp_tensor **out) {
    amp_custom_save(call, in[0]);
    amp_custom_save(call, in[1]);
    out[0] = amp_mm(in[0], in[1]);
    return amp_last_status();
}

static amp_status mm_backward(amp_custom_call *call, amp_tensor *const *gradients, amp_tensor **given) {
    amp_tensor *a = amp_custom_saved(call, 0), *b = amp_custom_saved(call, 1);
    if (amp_custom_wants(call, 0)) given[0] = amp_mm(gradients[0], amp_t(b));
    if (amp_custom_wants(call, 1)) given[1] = amp_mm(amp_t(a), gradients[0]);
    return amp_last_status();
}

/* custom_fwd and custom_bwd */
static const amp_custom_function mm = AMP_CUSTOM("my_mm", mm_forward, mm_backward, .inputs = 2, .outputs = 1);

/* The logarithm of the sum of squares, whose squares would be too large for f16. */
static amp_status energy_forward(amp_custom_call *call, amp_tensor *const *in, amp_tensor **out) {
    amp_tensor *sum = amp_sum(amp_mul(in[0], in[0]));
    amp_custom_save(call, in[0]);
    amp_custom_save(call, sum);
    out[0] = amp_log(sum);
    return amp_last_status();
}

static amp_status energy_backward(amp_custom_call *call, amp_tensor *const *gradients, amp_tensor **given) {
    amp_tensor *x = amp_custom_saved(call, 0), *sum = amp_custom_saved(call, 1);
    given[0] = amp_mul(amp_div(amp_mul_scalar(x, amp_int(2)), sum), gradients[0]);
    return amp_last_status();
}

/* custom_fwd(cast_inputs=torch.float32) */
static const amp_custom_function energy =
    AMP_CUSTOM("my_energy", energy_forward, energy_backward, .inputs = 1, .outputs = 1, .cast_inputs = AMP_F32);

int main(void) {
    amp_scope_here();
    amp_tensor *w = amp_full(AMP_DIMS(64, 64), amp_float(0.125)), *x = amp_full(AMP_DIMS(8, 64), amp_float(100));
    amp_tensor *y = NULL, *loss = NULL;
    amp_tensor_set_requires_grad(w, true);
    amp_autocast(AMP_DEVICE_CPU, .dtype = AMP_F16) {
        amp_custom_apply(&mm, NULL, (amp_tensor *[]){x, w}, &y);
        amp_custom_apply(&energy, NULL, &y, &loss);
    }
    amp_backward(loss);
    const char *names[] = {amp_dtype_name(amp_tensor_dtype(y)), amp_dtype_name(amp_tensor_dtype(loss))};
    const double value = amp_item(loss), slope = amp_item(amp_sum(amp_tensor_grad(w)));
    printf("my_mm gives %s, my_energy %s: %.4f, and the weights' gradients sum to %.3f\n", names[0], names[1], value,
           slope);
    if (amp_last_status() != AMP_OK) fprintf(stderr, "custom_function: %s\n", amp_last_error());
    return !(fabs(value - log(512 * 800.0 * 800.0)) < 1e-3 && fabs(slope - 2 / 0.125) < 0.05);
}
