// Results against references. Elements are decoded here, by code that shares nothing with the library's kernels.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>

#include "amp/error.h"
#include "replay.h"

namespace replay {

using Number = std::complex<double>;

static double from_f16(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const double mantissa = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

template <class T>
static T load(const void *at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

static double from_bf16(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    return static_cast<double>(load<float>(&wide));
}

static Number decode(amp_dtype dtype, const unsigned char *at) {
    switch (dtype) {
    case AMP_F64: return load<double>(at);
    case AMP_F32: return static_cast<double>(load<float>(at));
    case AMP_F16: return from_f16(load<uint16_t>(at));
    case AMP_BF16: return from_bf16(load<uint16_t>(at));
    case AMP_I64: return static_cast<double>(load<int64_t>(at));
    case AMP_I32: return load<int32_t>(at);
    case AMP_I16: return load<int16_t>(at);
    case AMP_I8: return load<int8_t>(at);
    case AMP_U8:
    case AMP_BOOL: return load<uint8_t>(at);
    case AMP_C64: return {static_cast<double>(load<float>(at)), static_cast<double>(load<float>(at + 4))};
    case AMP_C128: return {load<double>(at), load<double>(at + 8)};
    default: return NAN;
    }
}

static std::string print(Number value, amp_dtype dtype) {
    char text[96];
    if (amp_dtype_is_complex(dtype)) {
        std::snprintf(text, sizeof text, "%.9g%+.9gi", value.real(), value.imag());
    } else {
        std::snprintf(text, sizeof text, "%.9g", value.real());
    }
    return text;
}

static std::string describe(amp_dtype dtype, const std::vector<int64_t> &shape) {
    std::string text = std::string(amp_dtype_name(dtype)) + " [";
    for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

static std::vector<int64_t> shape_of(const amp_tensor *tensor) {
    const int64_t *shape = amp_tensor_shape(tensor);
    return {shape, shape + amp_tensor_rank(tensor)};
}

// The error of one part of a number; NaN if one is NaN or infinite where the other is not.
static double part_error(double expected, double got) {
    if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : NAN;
    if (std::isinf(expected) || std::isinf(got)) return expected == got ? 0 : NAN;
    return std::fabs(got - expected);
}

static double error_of(Number expected, Number got) {
    return std::hypot(part_error(expected.real(), got.real()), part_error(expected.imag(), got.imag()));
}

// What compares element by element needs to know.
struct Rule {
    bool exact;
    double atol, rtol;
    bool rounded; // the reference of an f64 tensor is stored as f32: it is off by half a unit in the last place itself

    double allowed(Number expected) const {
        const double size = std::abs(expected);
        if (exact || !std::isfinite(size)) return exact ? 0 : atol;
        return atol + rtol * size + (rounded && size > 0 ? std::ldexp(1.0, std::max(std::ilogb(size), -126) - 24) : 0);
    }
    // NaN: it can never be right.
    double share(Number expected, double error) const {
        if (std::isnan(error)) return NAN;
        return error == 0 ? 0 : allowed(expected) > 0 ? error / allowed(expected) : INFINITY;
    }
};

struct Mismatches {
    int64_t count = 0;
    double worst = 0;
    std::string text; // of the worst one

    void add(const std::vector<int64_t> &index, amp_dtype dtype, Number expected, Number got, double error,
             double share, const Rule &rule) {
        const double rank = std::isnan(share) ? INFINITY : share;
        if (count++ > 0 && rank <= worst) return;
        worst = rank;
        text = "at [";
        for (size_t d = 0; d < index.size(); d++) text += (d ? ", " : "") + std::to_string(index[d]);
        char sizes[80];
        std::snprintf(sizes, sizeof sizes, ": off by %.3g, allowed %.3g", error, rule.allowed(expected));
        text += "] expected " + print(expected, dtype) + ", got " + print(got, dtype) + sizes;
    }
};

// `reference` is dense, of `reference_dtype`, in the order of got's elements.
static Comparison compare_elements(const unsigned char *reference, amp_dtype reference_dtype, const amp_tensor *got,
                                   const Rule &rule) {
    const amp_dtype dtype = amp_tensor_dtype(got);
    const auto size = static_cast<int64_t>(amp_dtype_size(dtype));
    const std::vector<int64_t> shape = shape_of(got);
    const int64_t *strides = amp_tensor_strides(got), count = amp_tensor_numel(got);
    const auto *at = static_cast<const unsigned char *>(amp_data(got));
    std::vector<int64_t> index(shape.size());
    Comparison result;
    Mismatches wrong;
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *place = reference + static_cast<size_t>(i) * amp_dtype_size(reference_dtype);
        const Number expected = decode(reference_dtype, place), value = decode(dtype, at);
        double error = error_of(expected, value);
        // integers beyond 2^53 are compared as they are
        if (rule.exact && reference_dtype == dtype && error == 0 && !std::isnan(expected.real()) && dtype == AMP_I64 &&
            load<int64_t>(place) != load<int64_t>(at)) {
            error = 1;
        }
        const double share = rule.share(expected, error);
        if (!(share <= 1)) wrong.add(index, dtype, expected, value, error, share, rule);
        const double magnitude = std::abs(expected);
        if (std::isfinite(magnitude) && magnitude > result.largest) result.largest = magnitude;
        if (share > result.share) result.share = share;
        if (error > result.error) result.error = error;
        if (std::isfinite(magnitude)) result.rms += error * error / static_cast<double>(count);
        for (size_t d = shape.size(); d-- > 0;) {
            at += strides[d] * size;
            if (++index[d] < shape[d]) break;
            at -= shape[d] * strides[d] * size;
            index[d] = 0;
        }
    }
    result.rms = std::sqrt(result.rms);
    if (wrong.count > 0) {
        result.problem =
            wrong.text + " (" + std::to_string(wrong.count) + " of " + std::to_string(count) + " elements are wrong)";
    }
    return result;
}

double ErrorRatio::mean() const {
    return outputs ? std::exp(log_sum / outputs) : -1;
}

// Half a unit in the last place of `value`; 0 for dtypes that the ratio leaves out.
static double half_unit(amp_dtype dtype, double value) {
    const int digits = dtype == AMP_F32 || dtype == AMP_C64 ? 24 : dtype == AMP_F16 ? 11 : dtype == AMP_BF16 ? 8 : 0;
    const int least = dtype == AMP_F16 ? -14 : -126;
    if (digits == 0) return 0;
    return std::ldexp(1.0, (value > 0 ? std::max(std::ilogb(value), least) : least) - digits);
}

static ErrorRatio ratio_of(amp_dtype dtype, double largest, double error, double torch_error) {
    const double least = half_unit(dtype, largest);
    if (least == 0 || torch_error < 0 || !std::isfinite(error) || !std::isfinite(torch_error)) return {};
    return {std::log(std::max(error, least) / std::max(torch_error, least)), 1};
}

ErrorRatio rms_ratio_of(amp_dtype dtype, const Comparison &c) {
    return ratio_of(dtype, c.largest, c.rms, c.torch_rms);
}

static double optional_number(const json_t *object, const char *field, double absent) {
    return json_object_get(object, field) ? json_number_value(require(object, field, JSON_REAL)) : absent;
}

static Comparison compare_stored(const CaseFile &file, const json_t *expected, const amp_tensor *got, bool exact) {
    const amp_dtype dtype = amp_tensor_dtype(got);
    const std::string key = text_field(expected, "tensor");
    const amp_tensor *reference = amp_safetensors_get(file.tensors.get(), key.c_str());
    if (!reference) {
        const std::string message = amp_last_error();
        amp_clear_error();
        throw Malformed(message);
    }
    const int64_t parts = amp_dtype_is_complex(dtype) ? 2 : 1;
    if (amp_tensor_numel(reference) != amp_tensor_numel(got) * parts) {
        throw Malformed("tensor '" + key + "' has another number of elements than the case says");
    }
    const amp_dtype stored = amp_tensor_dtype(reference);
    const bool rounded = stored == AMP_F32 && (dtype == AMP_F64 || dtype == AMP_C128);
    const Rule rule = {exact, optional_number(expected, "atol", 0), optional_number(expected, "rtol", 0), rounded};
    Comparison result = compare_elements(static_cast<const unsigned char *>(amp_data(reference)),
                                         parts == 1          ? stored
                                         : stored == AMP_F64 ? AMP_C128
                                                             : AMP_C64,
                                         got, rule);
    result.torch_error = optional_number(expected, "torch_error", -1);
    result.torch_rms = optional_number(expected, "torch_rms", -1);
    return result;
}

Comparison compare_output(const CaseFile &file, const json_t *expected, const amp_tensor *got) {
    const amp_dtype dtype = dtype_field(expected, "dtype");
    const std::vector<int64_t> shape = shape_field(expected);
    const std::string how = json_object_get(expected, "compare") ? text_field(expected, "compare") : "close";
    if (how != "close" && how != "exact" && how != "dtype_and_shape") {
        throw Malformed("'compare' is '" + how + "', expected close, exact or dtype_and_shape");
    }
    Comparison result;
    if (!got) {
        result.problem = "there is no such output";
    } else if (amp_tensor_dtype(got) != dtype || shape_of(got) != shape) {
        result.problem =
            "expected " + describe(dtype, shape) + ", got " + describe(amp_tensor_dtype(got), shape_of(got));
    } else if (how != "dtype_and_shape" && amp_tensor_numel(got) > 0) {
        result = compare_stored(file, expected, got, how == "exact");
        if (how == "close") result.ratio = ratio_of(dtype, result.largest, result.error, result.torch_error);
    }
    return result;
}

Comparison compare_after(const CaseFile &file, const json_t *expected, const amp_tensor *got) {
    return compare_stored(file, expected, got, false);
}

} // namespace replay
