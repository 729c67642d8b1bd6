/* amp/user.h as a C program writes it. */
#include "user_in_c.h"

amp_tensor *half_product(amp_tensor *x, amp_tensor *y) {
    amp_half_function(&x, &y);
    return amp_mul(x, y);
}

amp_tensor *float_product(amp_tensor *x, amp_tensor *y) {
    amp_float_function(&x, &y);
    return amp_mul(x, y);
}

amp_tensor *promoted_second(amp_tensor *x, amp_tensor *y) {
    amp_promote_function(&x, &y);
    return y ? amp_clone(y) : NULL;
}

static amp_status twice_cpu(amp_call *call, const void *args) {
    const twice_args *a = args;
    const amp_dtype dtype = amp_tensor_dtype(a->input);
    if (dtype != AMP_F32 && dtype != AMP_BF16) {
        return amp_call_fail(call, AMP_ERROR_DTYPE, "input is %s; expected f32 or bf16", amp_tensor_text(a->input));
    }
    amp_call_set_kernel(call, "twice");
    if (a->by_ops) return amp_call_return(call, 0, amp_mul_scalar(a->input, amp_float(a->factor.value)));
    amp_tensor *x = amp_contiguous(amp_to(a->input, AMP_F32));
    amp_tensor *y = amp_call_output(call, 0, AMP_F32, amp_tensor_rank(a->input), amp_tensor_shape(a->input));
    if (!x || !y) return amp_last_status();
    const float *from = amp_data(x);
    float *to = amp_data_mut(y);
    for (int64_t i = 0; i < amp_tensor_numel(y); i++) to[i] = (float)a->factor.value * from[i];
    return AMP_OK;
}

const amp_op *define_twice(const char *schema, const char *policy) {
    return amp_define_op(schema, .doc = "input times factor.", .args_size = sizeof(twice_args),
                         .cpu = {policy, twice_cpu}, .in_place = true, .out = true, .elementwise = true);
}
