// What every test of the library through its API shares: a scope around each test that must end with no tensor alive,
// tensors from plain numbers, and calls of ops by name, short enough to read.
#ifndef AMP_TESTS_AMP_TEST_H
#define AMP_TESTS_AMP_TEST_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "amp/amp.h"

namespace amp_test {

using Shape = std::vector<int64_t>;

// One value of a call: whatever an op takes.
struct Value {
    Value(amp_tensor *t) {
        v.kind = AMP_VALUE_TENSOR;
        v.as.tensor = t;
    }
    Value(std::nullptr_t) {
        v.kind = AMP_VALUE_NONE;
    }
    Value(double number) {
        set(amp_float(number));
    }
    Value(int number) {
        set(amp_int(number));
    }
    Value(int64_t number) {
        set(amp_int(number));
    }
    Value(bool truth) {
        set(amp_bool(truth));
    }
    Value(amp_scalar number) {
        set(number);
    }
    Value(amp_dims dims) {
        v.kind = AMP_VALUE_DIMS;
        v.as.dims = dims;
    }
    Value(amp_floats floats) {
        v.kind = AMP_VALUE_FLOATS;
        v.as.floats = floats;
    }
    Value(amp_dtype dtype) {
        v.kind = AMP_VALUE_DTYPE;
        v.as.dtype = dtype;
    }
    Value(amp_generator *generator) {
        v.kind = AMP_VALUE_GENERATOR;
        v.as.generator = generator;
    }
    Value(const char *string) {
        v.kind = AMP_VALUE_STRING;
        v.as.string = string;
    }
    // The tensors live in the caller's vector until the call has returned.
    Value(const std::vector<amp_tensor *> &list) {
        v.kind = AMP_VALUE_TENSOR_LIST;
        v.as.list = {list.data(), int64_t(list.size()), nullptr};
    }
    void set(amp_scalar number) {
        v.kind = AMP_VALUE_SCALAR;
        v.as.scalar = number;
    }
    amp_value v = {};
};

struct Named {
    const char *name;
    Value value;
};

inline amp_status call(const std::string &name, const std::vector<Value> &values, const std::vector<Named> &named,
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

// The first result of an op: op("add", {a, b}), op("layer_norm", {x, AMP_DIMS(8)}, {{"eps", 0.0}}).
inline amp_tensor *op(const std::string &name, const std::vector<Value> &values, const std::vector<Named> &named = {}) {
    std::vector<amp_tensor *> outputs;
    return call(name, values, named, &outputs) == AMP_OK && !outputs.empty() ? outputs[0] : nullptr;
}

// Both results of an op that has two.
inline std::vector<amp_tensor *> both(const std::string &name, const std::vector<Value> &values,
                                      const std::vector<Named> &named = {}) {
    std::vector<amp_tensor *> outputs;
    EXPECT_EQ(call(name, values, named, &outputs), AMP_OK) << amp_last_error();
    outputs.resize(2);
    return outputs;
}

// ---- Numbers in and out, by code of the tests' own --------------------------------------------------------------
inline float from_bf16(uint16_t bits) {
    const uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

inline uint16_t to_bf16(float value) { // no NaN
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline double from_f16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
    return bits & 0x8000 ? -magnitude : magnitude;
}

inline uint16_t to_f16(double value) { // to nearest, ties to even
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return sign | 0x7e00;
    const double magnitude = std::fabs(value);
    if (magnitude >= 65520) return sign | 0x7c00;
    const int exponent = magnitude < std::ldexp(1, -14) ? -14 : std::ilogb(magnitude);
    const double steps = std::nearbyint(std::ldexp(magnitude, 10 - exponent)); // 1024 … 2048, less for denormals
    return uint16_t(sign | (unsigned((exponent + 14) * 1024) + unsigned(steps)));
}

template <class T>
void append(std::vector<char> *bytes, T value) {
    const char *p = reinterpret_cast<const char *>(&value);
    bytes->insert(bytes->end(), p, p + sizeof value);
}

inline void append_number(std::vector<char> *bytes, amp_dtype dtype, double value) {
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

inline double number_at(amp_dtype dtype, const void *data, int64_t index) {
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

inline int64_t elements_of(const Shape &shape) {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
}

// A tensor of these numbers, repeated until the shape is full.
inline amp_tensor *tensor(amp_dtype dtype, const Shape &shape, const std::vector<double> &numbers = {1.0}) {
    std::vector<char> bytes;
    for (int64_t i = 0; i < elements_of(shape); i++) {
        append_number(&bytes, dtype, numbers[size_t(i) % numbers.size()]);
    }
    return amp_from_data(bytes.data(), dtype, int(shape.size()), shape.data());
}

// Numbers in [-1, 1), the same on every machine.
inline amp_tensor *random_tensor(amp_dtype dtype, const Shape &shape, uint64_t seed) {
    std::vector<double> numbers;
    for (int64_t i = 0; i <= elements_of(shape); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        numbers.push_back(double(int64_t(seed) >> 11) / double(1LL << 52));
    }
    return tensor(dtype, shape, numbers);
}

inline std::vector<double> numbers_of(const amp_tensor *t) {
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

// Within the tolerance, of 1 or of what is wanted; infinities and NaN in their places.
inline void expect_near(const amp_tensor *got, const std::vector<double> &want, double tolerance) {
    ASSERT_NE(got, nullptr) << amp_last_error();
    const std::vector<double> g = numbers_of(got);
    ASSERT_EQ(g.size(), want.size());
    for (size_t i = 0; i < g.size(); i++) {
        if (g[i] == want[i] || (std::isnan(g[i]) && std::isnan(want[i]))) continue;
        ASSERT_NEAR(g[i], want[i], tolerance * std::max(1.0, std::fabs(want[i]))) << "element " << i;
    }
}

// ---- Regions and scopes as C++ objects --------------------------------------------------------------------------
struct Scope {
    Scope() {
        EXPECT_EQ(amp_scope_enter(), amp_last_status());
    }
    ~Scope() {
        (void)amp_scope_exit();
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;
};

inline amp_autocast_args region_args(amp_device device = AMP_DEVICE_CPU, amp_dtype dtype = AMP_DTYPE_NONE) {
    amp_autocast_args args = {};
    args.struct_size = sizeof args;
    args.device = device;
    args.dtype = dtype;
    return args;
}

struct Region {
    explicit Region(const amp_autocast_args &args) : device(args.device), status(amp_autocast_enter(&args)) {}
    explicit Region(amp_device d = AMP_DEVICE_CPU, amp_dtype dtype = AMP_DTYPE_NONE) : Region(region_args(d, dtype)) {}
    ~Region() {
        (void)amp_autocast_exit(device);
    }
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;
    amp_device device;
    amp_status status;
};

// ---- Expectations -----------------------------------------------------------------------------------------------

// The thread's error has this status and says each of these; then it is forgotten.
inline ::testing::AssertionResult failed_with(amp_status status, const std::vector<std::string> &words) {
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

inline ::testing::AssertionResult no_error() {
    if (amp_last_status() == AMP_OK) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << amp_last_error();
}

// A scope around each test, opened before the members of a derived fixture are made; nothing may be left behind.
class Test : public testing::Test {
  protected:
    Test() {
        amp_clear_error();
        live_before_ = amp_memory_statistics().live_tensors;
        EXPECT_EQ(amp_scope_enter(), AMP_OK) << amp_last_error();
    }

    void TearDown() override {
        EXPECT_TRUE(no_error());
        amp_clear_error();
        EXPECT_EQ(amp_scope_exit(), AMP_OK) << amp_last_error();
        EXPECT_EQ(amp_autocast_nesting(), 0);
        EXPECT_EQ(amp_memory_statistics().live_tensors, live_before_) << "tensors outlive their scope";
        amp_cast_cache_clear();
    }

  private:
    size_t live_before_ = 0;
};

} // namespace amp_test

#endif // AMP_TESTS_AMP_TEST_H
