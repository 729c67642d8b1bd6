/* amp run: inputs that nobody gave. */
#include "amp/amp.h"
#include "run.h"

static amp_dims dims_of(const run_input *input) {
    amp_dims dims = {.count = input->rank, .set = AMP_PRESENT};
    for (int d = 0; d < input->rank; d++) dims.values[d] = input->shape[d];
    return dims;
}

/* The largest integer of a type of which all below it fit. */
static int64_t most_of(amp_dtype dtype) {
    const size_t bits = 8 * amp_dtype_size(dtype) - (dtype != AMP_U8);
    return bits >= 63 ? INT64_MAX : (int64_t)1 << bits;
}

static amp_tensor *normal(amp_dims dims, amp_dtype dtype) {
    amp_tensor *x = amp_randn(dims, .dtype = amp_dtype_is_complex(dtype) ? dtype : AMP_F32);
    if (dtype == AMP_F32 || amp_dtype_is_complex(dtype)) return x;
    amp_tensor *y = amp_to(x, dtype);
    amp_release(x);
    return y;
}

int run_random_make(run_input *input) {
    const amp_dtype dtype = input->wanted->dtype == AMP_DTYPE_NONE ? AMP_F32 : input->wanted->dtype;
    const amp_dims dims = dims_of(input);
    if (amp_dtype_is_floating(dtype) || amp_dtype_is_complex(dtype)) {
        input->tensor = normal(dims, dtype);
    } else {
        if (dtype != AMP_BOOL && input->high > most_of(dtype)) input->high = most_of(dtype);
        input->tensor = amp_randint(input->high, dims, .dtype = dtype);
    }
    return input->tensor ? AMP_EXIT_OK : run_fail_amp();
}
