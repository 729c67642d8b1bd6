#include "amp_test.h"

namespace amp_test {

amp_status call(const std::string &name, const std::vector<Value> &values, const std::vector<Named> &named,
                std::vector<amp_tensor *> *outputs) {
    std::vector<amp_argument> arguments;
    for (const Value &value : values) arguments.push_back({nullptr, value.v});
    for (const Named &n : named) arguments.push_back({n.name, n.value.v});
    amp_tensor *results[64] = {};
    int count = 0;
    const amp_status status = amp_call_op(name.c_str(), arguments.data(), int(arguments.size()), results, 64, &count);
    if (outputs) outputs->assign(results, results + count);
    return status;
}

amp_tensor *op(const std::string &name, const std::vector<Value> &values, const std::vector<Named> &named) {
    std::vector<amp_tensor *> outputs;
    return call(name, values, named, &outputs) == AMP_OK && !outputs.empty() ? outputs[0] : nullptr;
}

std::vector<amp_tensor *> both(const std::string &name, const std::vector<Value> &values,
                               const std::vector<Named> &named) {
    std::vector<amp_tensor *> outputs;
    EXPECT_EQ(call(name, values, named, &outputs), AMP_OK) << amp_last_error();
    outputs.resize(2);
    return outputs;
}

double from_f16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
    return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t to_f16(double value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return sign | 0x7e00;
    const double magnitude = std::fabs(value);
    if (magnitude >= 65520) return sign | 0x7c00;
    const int exponent = magnitude < std::ldexp(1, -14) ? -14 : std::ilogb(magnitude);
    const double steps = std::nearbyint(std::ldexp(magnitude, 10 - exponent)); // 1024 … 2048, less for denormals
    return uint16_t(sign | (unsigned((exponent + 14) * 1024) + unsigned(steps)));
}

void append_number(std::vector<char> *bytes, amp_dtype dtype, double value) {
    switch (dtype) {
    case AMP_F64: append(bytes, value); break;
    case AMP_F32: append(bytes, float(value)); break;
    case AMP_F16: append(bytes, to_f16(value)); break;
    case AMP_BF16: append(bytes, to_bf16(float(value))); break;
    case AMP_I64: append(bytes, int64_t(value)); break;
    case AMP_I32: append(bytes, int32_t(value)); break;
    case AMP_I16: append(bytes, int16_t(value)); break;
    case AMP_I8: append(bytes, int8_t(value)); break;
    case AMP_U8: append(bytes, uint8_t(value)); break;
    case AMP_BOOL: append(bytes, uint8_t(value != 0)); break;
    case AMP_C64: append(bytes, float(value)), append(bytes, 0.0F); break;
    case AMP_C128: append(bytes, value), append(bytes, 0.0); break;
    default: FAIL() << "no dtype " << int(dtype);
    }
}

double number_at(amp_dtype dtype, const void *data, int64_t index) {
    switch (dtype) {
    case AMP_F64: return static_cast<const double *>(data)[index];
    case AMP_F32: return double(static_cast<const float *>(data)[index]);
    case AMP_F16: return from_f16(static_cast<const uint16_t *>(data)[index]);
    case AMP_BF16: return double(from_bf16(static_cast<const uint16_t *>(data)[index]));
    case AMP_I64: return double(static_cast<const int64_t *>(data)[index]);
    case AMP_I32: return static_cast<const int32_t *>(data)[index];
    case AMP_I16: return static_cast<const int16_t *>(data)[index];
    case AMP_I8: return static_cast<const int8_t *>(data)[index];
    case AMP_U8:
    case AMP_BOOL: return static_cast<const uint8_t *>(data)[index];
    case AMP_C64: return double(static_cast<const float *>(data)[2 * index]);
    case AMP_C128: return static_cast<const double *>(data)[2 * index];
    default: ADD_FAILURE() << "no dtype " << int(dtype); return 0;
    }
}

int64_t elements_of(const Shape &shape) {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
}

amp_tensor *tensor(amp_dtype dtype, const Shape &shape, const std::vector<double> &numbers) {
    std::vector<char> bytes;
    for (int64_t i = 0; i < elements_of(shape); i++) {
        append_number(&bytes, dtype, numbers[size_t(i) % numbers.size()]);
    }
    return amp_from_data(bytes.data(), dtype, int(shape.size()), shape.data());
}

amp_tensor *random_tensor(amp_dtype dtype, const Shape &shape, uint64_t seed) {
    std::vector<double> numbers;
    for (int64_t i = 0; i <= elements_of(shape); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        numbers.push_back(double(int64_t(seed) >> 11) / double(1LL << 52));
    }
    return tensor(dtype, shape, numbers);
}

std::vector<double> numbers_of(const amp_tensor *t) {
    std::vector<double> numbers;
    const void *data = amp_data(t);
    if (!t) return numbers;
    const int rank = amp_tensor_rank(t);
    for (int64_t i = 0; i < amp_tensor_numel(t); i++) {
        int64_t offset = 0, rest = i;
        for (int d = rank - 1; d >= 0; d--) {
            offset += rest % amp_tensor_shape(t)[d] * amp_tensor_strides(t)[d];
            rest /= amp_tensor_shape(t)[d];
        }
        numbers.push_back(number_at(amp_tensor_dtype(t), data, offset));
    }
    return numbers;
}

void expect_near(const amp_tensor *got, const std::vector<double> &want, double tolerance) {
    ASSERT_NE(got, nullptr) << amp_last_error();
    const std::vector<double> g = numbers_of(got);
    ASSERT_EQ(g.size(), want.size());
    for (size_t i = 0; i < g.size(); i++) {
        if (g[i] == want[i] || (std::isnan(g[i]) && std::isnan(want[i]))) continue;
        ASSERT_NEAR(g[i], want[i], tolerance * std::max(1.0, std::fabs(want[i]))) << "element " << i;
    }
}

amp_autocast_args region_args(amp_device device, amp_dtype dtype) {
    amp_autocast_args args = {};
    args.struct_size = sizeof args;
    args.device = device;
    args.dtype = dtype;
    return args;
}

::testing::AssertionResult failed_with(amp_status status, const std::vector<std::string> &words) {
    const std::string error = amp_last_error();
    const amp_status got = amp_last_status();
    amp_clear_error();
    if (got != status) {
        return ::testing::AssertionFailure()
               << "status is " << amp_status_name(got) << ", not " << amp_status_name(status) << ": " << error;
    }
    for (const std::string &word : words) {
        if (error.find(word) == std::string::npos) {
            return ::testing::AssertionFailure() << "'" << word << "' is not in: " << error;
        }
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult no_error() {
    if (amp_last_status() == AMP_OK) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << amp_last_error();
}

} // namespace amp_test
