// The kernels of pooling and resampling: every row of every family against plain loops, at every length around the vectors'
// ends, in arrays that end where readable memory ends.
#include "amp_test.h"
#include "guard.h"

extern "C" {
#include "cpu/registry/kernels.h"
}

namespace {

// The rows of a family that this machine runs.
std::vector<const amp_kernel *> rows_of(amp_kernel_family family) {
    std::vector<const amp_kernel *> rows;
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *kernel = amp_kernel_at(i);
        if (kernel->family == family && amp_kernel_usable(kernel, nullptr)) rows.push_back(kernel);
    }
    EXPECT_FALSE(rows.empty());
    return rows;
}

// Floats that end at the guard page.
class Floats {
  public:
    explicit Floats(size_t count, unsigned seed = 0) : buffer_(count * sizeof(float)), count_(count) {
        for (size_t i = 0; i < count; i++)
            data()[i] = float(int((i * 2654435761u + seed * 40503u) >> 7 & 1023) - 512) / 64;
    }
    float *data() {
        return reinterpret_cast<float *>(buffer_.data());
    }
    float &operator[](size_t i) {
        return data()[i];
    }
    size_t size() const {
        return count_;
    }

  private:
    GuardedBuffer buffer_;
    size_t count_;
};

constexpr size_t kLines = 5;
const std::vector<size_t> kLengths = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129};

struct Lines {
    explicit Lines(size_t n) {
        for (unsigned k = 0; k < kLines; k++) {
            floats.push_back(std::make_unique<Floats>(n, k + 1));
            pointers.push_back(floats.back()->data());
        }
    }
    std::vector<std::unique_ptr<Floats>> floats;
    std::vector<const float *> pointers;
};

// Lines of any dtype for the maxima, in arrays that end where readable memory ends.
struct TypedLines {
    TypedLines(amp_dtype type, size_t n) : dtype(type), out(n * amp_dtype_size(type)), length(n) {
        const Lines numbers(n);
        for (size_t k = 0; k < kLines; k++) {
            lines.push_back(std::make_unique<GuardedBuffer>(n * amp_dtype_size(type)));
            pointers.push_back(lines.back()->data());
            for (size_t i = 0; i < n; i++) set(k, i, numbers.pointers[k][i]);
        }
    }
    void set(size_t k, size_t i, float x) {
        const bool nan = std::isnan(x);
        const uint16_t bf16 = nan ? 0xffc1 : amp_test::to_bf16(x), f16 = nan ? 0xfe01 : amp_test::to_f16(double(x));
        const void *from = dtype == AMP_F32 ? static_cast<const void *>(&x) : dtype == AMP_BF16 ? &bf16 : &f16;
        memcpy(lines[k]->data() + i * amp_dtype_size(dtype), from, amp_dtype_size(dtype));
    }
    double at(size_t k, size_t i) const {
        return amp_test::number_at(dtype, pointers[k], int64_t(i));
    }
    double result(size_t i) {
        return amp_test::number_at(dtype, out.data(), int64_t(i));
    }
    amp_dtype dtype;
    GuardedBuffer out;
    size_t length;
    std::vector<std::unique_ptr<GuardedBuffer>> lines;
    std::vector<const void *> pointers;
};

} // namespace

TEST(Lines, CombineAndSum) {
    for (const amp_kernel_family family : {AMP_KERNEL_COMBINE_LINES, AMP_KERNEL_SUM_LINES}) {
        for (const amp_kernel *kernel : rows_of(family)) {
            SCOPED_TRACE(kernel->name);
            for (const size_t n : kLengths) {
                for (size_t count = 1; count <= kLines; count++) {
                    Lines in(n);
                    Floats out(n), weights(count, 9);
                    weights[0] = 3.0F;
                    reinterpret_cast<amp_lines_function *>(kernel->function)(
                        out.data(), in.pointers.data(), weights.data(), int64_t(count), int64_t(n));
                    for (size_t i = 0; i < n; i++) {
                        double want = 0;
                        for (size_t k = 0; k < count; k++) {
                            want +=
                                double(in.pointers[k][i]) * (family == AMP_KERNEL_SUM_LINES ? 1 : double(weights[k]));
                        }
                        if (family == AMP_KERNEL_SUM_LINES) want /= 3;
                        ASSERT_NEAR(double(out[i]), want, 1e-4) << n << " elements, " << count << " lines, at " << i;
                    }
                }
            }
        }
    }
}

TEST(Lines, MaximumSeesNanInItsColumnOnly) {
    for (const amp_kernel *kernel : rows_of(AMP_KERNEL_MAX_LINES)) {
        SCOPED_TRACE(kernel->name);
        for (const size_t n : kLengths) {
            for (size_t nan_line = 0; nan_line < kLines; nan_line++) {
                TypedLines in(kernel->in, n);
                for (size_t i = 0; i < n; i += 3) in.set(nan_line, i, NAN);
                reinterpret_cast<amp_max_lines_function *>(kernel->function)(in.out.data(), in.pointers.data(), kLines,
                                                                             int64_t(n));
                for (size_t i = 0; i < n; i++) {
                    double want = -INFINITY;
                    for (size_t k = 0; k < kLines; k++) want = std::max(want, in.at(k, i));
                    if (i % 3 == 0) {
                        ASSERT_TRUE(std::isnan(in.result(i))) << i;
                    } else {
                        ASSERT_EQ(in.result(i), want) << i;
                    }
                }
            }
        }
    }
}

TEST(Lines, ArgmaxIsTheFirstOfEqualOnesAndTheLastNan) {
    for (const amp_kernel *kernel : rows_of(AMP_KERNEL_ARGMAX_LINES)) {
        SCOPED_TRACE(kernel->name);
        const auto argmax = reinterpret_cast<amp_argmax_lines_function *>(kernel->function);
        for (const size_t n : kLengths) {
            TypedLines in(kernel->in, n);
            Floats which(n);
            for (size_t i = 0; i < n; i++) {
                for (size_t k = 0; k < kLines; k++) {
                    const bool equal = i % 4 == 0, nan = i % 4 == 1 && (k == 1 || k == 3), least = i % 4 == 2;
                    if (equal) in.set(k, i, k >= 2 ? 7.0F : 1.0F);
                    if (nan) in.set(k, i, NAN);
                    if (least) in.set(k, i, -INFINITY);
                }
            }
            argmax(in.out.data(), which.data(), in.pointers.data(), kLines, int64_t(n));
            for (size_t i = 0; i < n; i++) {
                size_t want = 0;
                for (size_t k = 1; k < kLines; k++) {
                    if (in.at(k, i) > in.at(want, i)) want = k;
                }
                const size_t expected[] = {2, 3, 0, want};
                ASSERT_EQ(which[i], float(expected[i % 4])) << i;
                if (i % 4 != 1) {
                    ASSERT_EQ(in.result(i), in.at(expected[i % 4], i)) << i;
                } else {
                    ASSERT_TRUE(std::isnan(in.result(i))) << i;
                }
            }
        }
    }
}

TEST(Lines, GatherReadsZeroWhereAnIndexIsNegative) {
    for (const amp_kernel *kernel : rows_of(AMP_KERNEL_GATHER_TAPS)) {
        SCOPED_TRACE(kernel->name);
        const auto gather = reinterpret_cast<amp_gather_taps_function *>(kernel->function);
        for (const size_t n : kLengths) {
            for (const size_t count : {1, 2, 4}) {
                Floats in(37), out(n), weights(n * count, 3);
                in[0] = INFINITY; // what an index of -1 must not read
                GuardedBuffer index_memory(n * count * sizeof(int32_t));
                auto *index = reinterpret_cast<int32_t *>(index_memory.data());
                for (size_t i = 0; i < n * count; i++) index[i] = i % 5 ? int32_t(1 + i * 7 % 36) : -1 - int32_t(i);
                gather(out.data(), in.data(), index, weights.data(), int64_t(count), int64_t(n));
                for (size_t i = 0; i < n; i++) {
                    double want = 0;
                    for (size_t k = 0; k < count; k++) {
                        const int32_t at = index[k * n + i];
                        want += at < 0 ? 0 : double(in[size_t(at)]) * double(weights[k * n + i]);
                    }
                    ASSERT_NEAR(double(out[i]), want, 1e-4) << n << " elements, " << count << " taps, at " << i;
                }
            }
        }
    }
}
