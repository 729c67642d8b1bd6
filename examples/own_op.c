/* A program's own op, with its own kernel and policy, and a C function whose arguments are cast: amp/user.h. */
#include <amp/amp.h>
#include <math.h>
#include <stdio.h>

/* input * sigmoid(beta * input) * gate, for f32. The struct follows from the schema: a default that is not 0 makes an
 * option with a mark of presence. */
typedef struct swiglu_args {
    size_t struct_size;
    amp_tensor *input, *gate;
    amp_opt_float beta;
} swiglu_args;
static const char schema[] = "swiglu(Tensor input, Tensor gate, *, float beta=1.0) -> Tensor";

static amp_status swiglu_cpu(amp_call *call, const void *args) {
    const swiglu_args *a = args;
    if (amp_tensor_dtype(a->input) != AMP_F32 || amp_tensor_dtype(a->gate) != AMP_F32 ||
        amp_tensor_numel(a->input) != amp_tensor_numel(a->gate)) {
        return amp_call_fail(call, AMP_ERROR_DTYPE, "input is %s, gate is %s; expected two f32 tensors of one shape",
                             amp_tensor_text(a->input), amp_tensor_text(a->gate));
    }
    amp_tensor *x = amp_contiguous(a->input), *g = amp_contiguous(a->gate); /* inputs may be strided */
    amp_tensor *y = amp_call_output(call, 0, AMP_F32, amp_tensor_rank(a->input), amp_tensor_shape(a->input));
    if (!x || !g || !y) return amp_last_status();
    const float *from = amp_data(x), *gate = amp_data(g), beta = (float)a->beta.value;
    float *to = amp_data_mut(y);
    for (int64_t i = 0; i < amp_tensor_numel(y); i++) to[i] = from[i] / (1 + expf(-beta * from[i])) * gate[i];
    amp_call_set_kernel(call, "swiglu_f32");
    return AMP_OK;
}

/* Runs in the region's dtype whatever it is given, as apex.amp's @half_function does. */
static amp_tensor *project(amp_tensor *x, amp_tensor *up, amp_tensor *down) {
    amp_half_function(&x, &up, &down);
    return amp_mul(amp_linear(x, up), amp_linear(x, down));
}

int main(void) {
    const amp_op *swiglu =
        amp_define_op(schema, .doc = "Gated linear unit with swish.", .args_size = sizeof(swiglu_args),
                      .cpu = {"fp32", swiglu_cpu}, .cuda = {"fp32", NULL});
    amp_scope_here();
    amp_tensor *x = amp_arange(amp_float(8)), *w = amp_full(AMP_DIMS(4, 8), amp_float(0.1));
    {
        amp_autocast_here(AMP_DEVICE_CPU);
        amp_tensor *h = amp_linear(x, w); /* bf16 */
        amp_tensor *y = amp_call_defined(swiglu, &(const swiglu_args){sizeof(swiglu_args), h, h, AMP_SET(2)});
        const char *why;
        const amp_dtype runs_in = amp_autocast_dtype_for("swiglu", AMP_DEVICE_CPU, &why);
        printf("%s, for %s\n", amp_dtype_name(runs_in), why);
        printf("swiglu gives %s, project %s\n", amp_dtype_name(amp_tensor_dtype(y)),
               amp_dtype_name(amp_tensor_dtype(project(x, w, w))));
    }
    if (amp_last_status() != AMP_OK) fprintf(stderr, "%s\n", amp_last_error());
    return amp_last_status() != AMP_OK;
}
