// An outside program in C++17: enter and exit functions, argument structs.
#include <amp/amp.h>
#include <cstdio>

static amp_tensor *linear(amp_tensor *input, amp_tensor *weight) {
    amp_linear_args args{};
    args.struct_size = sizeof args;
    args.input = input;
    args.weight = weight;
    return amp_linear_call(&args);
}

int main() {
    const float ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t x_shape[] = {1, 4}, w_shape[] = {3, 4};
    amp_dtype dtype = AMP_DTYPE_NONE;
    amp_scope {
        amp_tensor *x = amp_from_data(ones, AMP_F32, 2, x_shape), *w = amp_from_data(ones, AMP_F32, 2, w_shape);
        amp_autocast_args region{};
        region.struct_size = sizeof region;
        region.device = AMP_DEVICE_CPU;
        amp_autocast_enter(&region);
        dtype = amp_tensor_dtype(linear(x, w));
        amp_autocast_exit(AMP_DEVICE_CPU);
    }
    if (amp_last_status() != AMP_OK) {
        std::fprintf(stderr, "%s\n", amp_last_error());
        return 1;
    }
    std::printf("libamp %s: %s\n", amp_version_string(), amp_dtype_name(dtype));
    return dtype == AMP_BF16 ? 0 : 1;
}
