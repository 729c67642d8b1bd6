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

amp_status call(const std::string &name, const std::vector<Value> &values, const std::vector<Named> &named,
                std::vector<amp_tensor *> *outputs);

// The first result of an op: op("add", {a, b}), op("layer_norm", {x, AMP_DIMS(8)}, {{"eps", 0.0}}).
amp_tensor *op(const std::string &name, const std::vector<Value> &values, const std::vector<Named> &named = {});

// Both results of an op that has two.
std::vector<amp_tensor *> both(const std::string &name, const std::vector<Value> &values,
                               const std::vector<Named> &named = {});

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

double from_f16(uint16_t bits);

uint16_t to_f16(double value); // to nearest, ties to even

template <class T>
void append(std::vector<char> *bytes, T value) {
    const char *p = reinterpret_cast<const char *>(&value);
    bytes->insert(bytes->end(), p, p + sizeof value);
}

void append_number(std::vector<char> *bytes, amp_dtype dtype, double value);

double number_at(amp_dtype dtype, const void *data, int64_t index);

int64_t elements_of(const Shape &shape);

// A tensor of these numbers, repeated until the shape is full.
amp_tensor *tensor(amp_dtype dtype, const Shape &shape, const std::vector<double> &numbers = {1.0});

// Numbers in [-1, 1), the same on every machine.
amp_tensor *random_tensor(amp_dtype dtype, const Shape &shape, uint64_t seed);

std::vector<double> numbers_of(const amp_tensor *t);

// Within the tolerance, of 1 or of what is wanted; infinities and NaN in their places.
void expect_near(const amp_tensor *got, const std::vector<double> &want, double tolerance);

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

amp_autocast_args region_args(amp_device device = AMP_DEVICE_CPU, amp_dtype dtype = AMP_DTYPE_NONE);

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
::testing::AssertionResult failed_with(amp_status status, const std::vector<std::string> &words);

::testing::AssertionResult no_error();

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
