// Epilogues of convolutions, and what they should give by f64.
#ifndef AMP_TESTS_CONV_EPILOGUES_H
#define AMP_TESTS_CONV_EPILOGUES_H

#include "conv_cases.h"

namespace amp_test {

struct Activation {
    const char *attr, *algorithm;
    amp_floats numbers;

    double of(double x) const {
        const std::string name = attr;
        if (name == "relu") return x < 0 ? 0 : x;
        if (name == "gelu" && !strcmp(algorithm, "none")) return 0.5 * x * std::erfc(-x * M_SQRT1_2);
        if (name == "gelu") return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        if (name == "swish") return x / (1 + std::exp(-x));
        if (name == "tanh") return std::tanh(x);
        if (name == "sigmoid") return 1 / (1 + std::exp(-x));
        if (name == "hardswish") return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
        if (name == "leaky_relu") return x < 0 ? x * numbers.values[0] : x;
        if (name == "hardtanh") return std::min(std::max(x, numbers.values[0]), numbers.values[1]);
        return x;
    }
};

inline const Activation activations[] = {
    {"none", "none", {}},
    {"relu", "none", {}},
    {"gelu", "none", {}},
    {"gelu", "tanh", {}},
    {"swish", "none", {}},
    {"tanh", "none", {}},
    {"sigmoid", "none", {}},
    {"hardswish", "none", {}},
    {"leaky_relu", "none", AMP_FLOATS(0.25)},
    {"hardtanh", "none", AMP_FLOATS(-0.5, 0.75)},
};

struct Operands {
    amp_tensor *x, *w, *bias, *scale, *other; // NULL: none
    amp_tensor *shift, *residual;             // of convolution_pointwise alone
    amp_dtype dtype;
};

inline amp_tensor *run(const Config &c, const Operands &o, const Activation &a) {
    std::vector<Named> named = {{"stride", dims(c.stride)}, {"padding", dims(c.pad)}, {"dilation", dims(c.dilation)},
                                {"groups", c.groups},       {"attr", a.attr},         {"algorithm", a.algorithm}};
    if (o.bias) named.push_back({"bias", o.bias});
    if (o.scale) named.push_back({"scale", o.scale});
    if (o.shift) named.push_back({"shift", o.shift});
    if (o.residual) named.push_back({"residual", o.residual});
    if (o.dtype != AMP_DTYPE_NONE) named.push_back({"dtype", o.dtype});
    if (a.numbers.count > 0) named.push_back({"scalars", a.numbers});
    if (c.transposed) {
        named.push_back({"output_padding", dims(c.output_padding)});
        return op("convolution_transpose_pointwise", {o.x, o.w}, named);
    }
    if (o.other) return op("convolution_pointwise.binary", {o.x, o.other, o.w}, named);
    return op("convolution_pointwise", {o.x, o.w}, named);
}

inline Expected sums_of(const Config &c, const Operands &o) {
    return reference(c, numbers_of(o.x), numbers_of(o.w), {});
}

// act(scale · sum + bias + shift + other) of the tensors' own values.
inline Expected finished(Expected y, const Config &c, const Operands &o, const Activation &a) {
    const size_t channels = size_t(c.groups * c.out_channels);
    const std::vector<double> none(channels, 0), ones(channels, 1), zeros(y.values.size(), 0);
    const std::vector<double> bias = o.bias ? numbers_of(o.bias) : none, scale = o.scale ? numbers_of(o.scale) : ones;
    const std::vector<double> shift = o.shift ? numbers_of(o.shift) : none;
    const std::vector<double> other = o.other ? numbers_of(o.other) : o.residual ? numbers_of(o.residual) : zeros;
    const size_t pixels = y.values.size() / channels / size_t(c.batch);
    for (size_t i = 0; i < y.values.size(); i++) {
        const size_t channel = i / pixels % channels;
        const double added = std::fabs(bias[channel]) + std::fabs(shift[channel]) + std::fabs(other[i]);
        y.values[i] = a.of(y.values[i] * scale[channel] + bias[channel] + shift[channel] + other[i]);
        // No activation is steeper than 1.2; its own error is a few units of what it makes of a sum.
        y.magnitudes[i] = 1.2 * (y.magnitudes[i] * std::fabs(scale[channel]) + added) + 2 * std::fabs(y.values[i]);
    }
    return y;
}

inline Expected expected(const Config &c, const Operands &o, const Activation &a) {
    return finished(sums_of(c, o), c, o, a);
}

} // namespace amp_test

#endif // AMP_TESTS_CONV_EPILOGUES_H
