// softmax, log_softmax, softmin and logsumexp over dimensions that are not the last: values of every instruction set
// against f64, long and short columns, few and many of them; bits that no layout, thread or neighbour changes.
#include <limits>

#include "layouts.h"

extern "C" {
#include "cpu/registry/kernels.h"
}

using namespace amp_test;

namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

class ColumnSoftmax : public Test {
  protected:
    void TearDown() override {
        amp_isa_reload_for_test(nullptr);
        EXPECT_EQ(amp_set_num_threads(threads_), AMP_OK);
        Test::TearDown();
    }
    const int threads_ = amp_get_num_threads();
};

const char *const kNames[] = {"softmax", "log_softmax", "softmin", "logsumexp"};
const char *const kIsas[] = {"ref", "avx2", "avx512", "avx512bf16"};

// Along dimension d, by the definition.
std::vector<double> reference(const std::vector<double> &x, const Shape &shape, size_t d, const std::string &name) {
    int64_t inner = 1;
    for (size_t i = d + 1; i < shape.size(); i++) inner *= shape[i];
    const int64_t n = shape[d], outer = int64_t(x.size()) / n / inner;
    const double sign = name == "softmin" ? -1 : 1;
    std::vector<double> all(x.size()), sums;
    for (int64_t column = 0; column < outer * inner; column++) {
        const int64_t base = column / inner * inner * n + column % inner;
        double max = -kInf, sum = 0;
        for (int64_t i = 0; i < n; i++) max = std::max(max, sign * x[size_t(base + i * inner)]);
        for (int64_t i = 0; i < n; i++) sum += std::exp(sign * x[size_t(base + i * inner)] - max);
        sums.push_back(max + std::log(sum));
        for (int64_t i = 0; i < n; i++) {
            const double logarithm = sign * x[size_t(base + i * inner)] - sums.back();
            all[size_t(base + i * inner)] = name == "log_softmax" ? logarithm : std::exp(logarithm);
        }
    }
    return name == "logsumexp" ? sums : all;
}

amp_tensor *random_columns(amp_dtype dtype, const Shape &shape, uint64_t seed) {
    return op("to", {op("mul", {random_tensor(AMP_F32, shape, seed), 8.0}), dtype});
}

// Few and many rows, below and above what is added, kept and taken by one thread at once; columns around the vectors.
const std::vector<std::pair<Shape, int>> kShapes = {
    {{2, 70}, 0},         {{1, 129}, 0},     {{16, 8}, 0},      {{17, 64}, 0},      {{3, 65, 9}, 1},
    {{64, 3, 67}, 0},     {{65, 3, 67}, 0},  {{2, 200, 31}, 1}, {{2, 5, 3, 16}, 1}, {{2, 5, 3, 16}, 2},
    {{2049, 8}, 0},       {{4097, 8}, 0},    {{4096, 11}, 0},   {{2048, 11}, 0},    {{2, 4100, 9}, 1},
    {{1, 6200, 2, 7}, 1}, {{5, 2, 1030}, 1}, {{4096, 3}, 0},    {{40, 2, 7}, 1},    {{3, 2, 3, 4}, 0},
};

struct Case {
    std::string what;
    const char *name;
    amp_tensor *x;
    int d;
    std::vector<double> want;
    double tolerance;
};

std::vector<Case> every_case() {
    const struct {
        amp_dtype dtype;
        double tolerance;
    } types[] = {{AMP_F64, 1e-14}, {AMP_F32, 1e-6}, {AMP_BF16, 0x1p-8}, {AMP_F16, 0x1p-11}};
    std::vector<Case> cases;
    for (const auto &type : types) {
        for (const auto &[shape, d] : kShapes) {
            amp_tensor *x = random_columns(type.dtype, shape, 1);
            const std::vector<double> numbers = numbers_of(x);
            for (const char *name : kNames) {
                const std::string what =
                    std::string(name) + " " + amp_dtype_name(type.dtype) + " along " + std::to_string(shape[size_t(d)]);
                cases.push_back({what, name, x, d, reference(numbers, shape, size_t(d), name), type.tolerance});
            }
        }
    }
    return cases;
}

TEST_F(ColumnSoftmax, EveryShapeDtypeAndInstructionSet) {
    const std::vector<Case> cases = every_case();
    for (const char *isa : kIsas) {
        amp_isa_reload_for_test(isa);
        for (const Case &c : cases) {
            SCOPED_TRACE(c.what + " up to " + isa);
            amp_tensor *y = op(c.name, {c.x, c.d});
            ASSERT_NE(y, nullptr) << amp_last_error();
            ASSERT_EQ(amp_tensor_dtype(y), amp_tensor_dtype(c.x));
            ASSERT_NO_FATAL_FAILURE(expect_near(y, c.want, c.tolerance));
        }
    }
}

// All bits of a result, with NaN.
std::vector<char> bits_of(amp_tensor *t) {
    t = op("contiguous", {t});
    const char *data = static_cast<const char *>(amp_data(t));
    return {data, data + size_t(amp_tensor_numel(t)) * amp_dtype_size(amp_tensor_dtype(t))};
}

TEST_F(ColumnSoftmax, ThreadsDoNotChangeABit) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16}) {
        for (const auto &[shape, d] : std::vector<std::pair<Shape, int>>{
                 {{2, 100003}, 0}, {{70, 33, 40}, 1}, {{20000, 8}, 0}, {{9000, 70}, 0}, {{300, 50, 11}, 1}}) {
            amp_tensor *x = random_columns(dtype, shape, 2);
            for (const char *name : kNames) {
                ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
                const std::vector<char> one = bits_of(op(name, {x, d}));
                for (int threads : {2, 3}) {
                    ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
                    EXPECT_EQ(bits_of(op(name, {x, d})), one) << name << " " << amp_dtype_name(dtype) << " " << threads;
                }
            }
        }
    }
}

TEST_F(ColumnSoftmax, LayoutsDoNotChangeABit) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16}) {
        for (const Shape &shape : {Shape{3, 21, 5, 7}, Shape{2, 2100, 3, 5}, Shape{1, 4200, 3, 5}}) {
            amp_tensor *x = random_columns(dtype, shape, 3);
            amp_tensor *turned = op("transpose", {op("contiguous", {op("transpose", {x, 0, 3})}), 0, 3});
            for (const char *name : kNames) {
                for (int d : {0, 1, 2}) {
                    const std::vector<char> want = bits_of(op(name, {x, d}));
                    for (amp_tensor *layout : {channels_last(x), spread(x), turned})
                        EXPECT_EQ(bits_of(op(name, {layout, d})), want) << name << " along " << d;
                }
            }
            const std::vector<char> want = bits_of(op("logsumexp", {x, AMP_DIMS(0, 1)}));
            for (amp_tensor *layout : {channels_last(x), spread(x), turned})
                EXPECT_EQ(bits_of(op("logsumexp", {layout, AMP_DIMS(0, 1)})), want);
        }
    }
}

// Rows that overlap by as much as a block of columns is wide, and dimensions without a stride.
TEST_F(ColumnSoftmax, RowsMayOverlap) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16}) {
        amp_tensor *x = random_columns(dtype, {5000 * 16 + 1024}, 7);
        amp_tensor *once = random_columns(dtype, {3, 1, 5, 7}, 8);
        amp_tensor *few = op("narrow", {op("unfold", {x, 0, 1536, 768}), 0, 0, 20});
        for (amp_tensor *t : {few, op("unfold", {x, 0, 32, 16})}) {
            ASSERT_NE(t, nullptr) << amp_last_error();
            for (const char *name : kNames)
                EXPECT_EQ(bits_of(op(name, {t, 0})), bits_of(op(name, {op("contiguous", {t}), 0}))) << name;
        }
        amp_tensor *wide = op("expand", {once, AMP_DIMS(3, 21, 5, 7)});
        for (const char *name : kNames)
            for (int d : {0, 1, 2})
                EXPECT_EQ(bits_of(op(name, {wide, d})), bits_of(op(name, {op("contiguous", {wide}), d}))) << name;
    }
}

// Column c of a matrix gives what it gives alone among others.
TEST_F(ColumnSoftmax, NeighboursDoNotChangeABit) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_columns(dtype, {37, 100}, 4);
        for (const char *name : {"softmax", "log_softmax"}) {
            const std::vector<double> whole = numbers_of(op(name, {x, 0}));
            for (int first : {1, 35, 63}) {
                const std::vector<double> part = numbers_of(op(name, {op("narrow", {x, 1, first, 37}), 0}));
                for (size_t r = 0; r < 37; r++)
                    for (size_t c = 0; c < 37; c++) ASSERT_EQ(part[r * 37 + c], whole[r * 100 + size_t(first) + c]);
            }
        }
    }
}

TEST_F(ColumnSoftmax, WritesThroughStridesAndInPlace) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16}) {
        for (const Shape &shape : {Shape{9, 70}, Shape{2100, 10}}) {
            amp_tensor *x = random_columns(dtype, shape, 5);
            for (const char *name : {"softmax", "log_softmax", "logsumexp"}) {
                amp_tensor *want = op(name, {x, 0}), *out = spread(want);
                ASSERT_NE(op("mul_", {out, 0}), nullptr);
                ASSERT_NE(op(std::string(name) + "_out", {x, 0}, {{"out", out}}), nullptr) << amp_last_error();
                EXPECT_EQ(bits_of(out), bits_of(want)) << name;
            }
            amp_tensor *same = op("clone", {x});
            ASSERT_NE(op("softmax_out", {same, 0}, {{"out", same}}), nullptr) << amp_last_error();
            EXPECT_EQ(bits_of(same), bits_of(op("softmax", {x, 0})));
        }
    }
}

// Column 0 is of −∞ alone, 1 has one, 2 has ∞, 3 NaN, 4 both, 5 large numbers, the rest are ones.
void set_specials(std::vector<double> *x, size_t rows, size_t columns) {
    const size_t r = rows / 2;
    for (size_t i = 0; i < rows; i++) (*x)[i * columns] = -kInf, (*x)[i * columns + 5] = 60000;
    (*x)[r * columns + 1] = -kInf;
    (*x)[r * columns + 2] = (*x)[r * columns + 4] = kInf;
    (*x)[r * columns + 3] = (*x)[columns + 4] = kNan;
}

void expect_specials(amp_tensor *x, size_t rows, size_t columns) {
    const std::vector<double> soft = numbers_of(op("softmax", {x, 0}));
    const std::vector<double> logarithm = numbers_of(op("log_softmax", {x, 0}));
    for (size_t i = 0; i < soft.size(); i++) {
        const size_t c = i % columns;
        ASSERT_EQ(std::isnan(soft[i]), c == 0 || (c >= 2 && c <= 4)) << i;
        ASSERT_EQ(std::isnan(logarithm[i]), c == 0 || (c >= 2 && c <= 4)) << i;
    }
    ASSERT_EQ(soft[rows / 2 * columns + 1], 0);
    const std::vector<double> sums = numbers_of(op("logsumexp", {x, 0}));
    EXPECT_EQ(sums[0], -kInf);
    EXPECT_NEAR(sums[1], 1 + std::log(double(rows - 1)), 0.04);
    EXPECT_EQ(sums[2], kInf);
    EXPECT_TRUE(std::isnan(sums[3]));
    EXPECT_TRUE(std::isnan(sums[4]));
    EXPECT_TRUE(std::isfinite(sums[5]));
    EXPECT_NEAR(sums[65], 1 + std::log(double(rows)), 0.04);
}

TEST_F(ColumnSoftmax, InfinitiesAndNanStayInTheirColumn) {
    const size_t columns = 66;
    for (const size_t rows : {2, 20, 130, 4500}) {
        std::vector<double> numbers(rows * columns, 1.0);
        set_specials(&numbers, rows, columns);
        amp_tensor *x = tensor(AMP_F32, {int64_t(rows), int64_t(columns)}, numbers);
        for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16}) {
            amp_tensor *narrow = op("to", {x, dtype});
            for (const char *isa : kIsas) {
                SCOPED_TRACE(std::to_string(rows) + " rows of " + amp_dtype_name(dtype) + " up to " + isa);
                amp_isa_reload_for_test(isa);
                ASSERT_NO_FATAL_FAILURE(expect_specials(narrow, rows, columns));
            }
        }
    }
}

TEST_F(ColumnSoftmax, OfNothing) {
    EXPECT_EQ(amp_tensor_numel(op("softmax", {tensor(AMP_F32, {0, 64}), 0})), 0);
    EXPECT_EQ(amp_tensor_numel(op("log_softmax", {tensor(AMP_BF16, {3, 0, 64}), 0})), 0);
    EXPECT_EQ(amp_tensor_numel(op("softmax", {tensor(AMP_F32, {3, 4, 0}), 1})), 0);
    EXPECT_EQ(numbers_of(op("logsumexp", {tensor(AMP_F32, {0, 9}), 0})), std::vector<double>(9, -kInf));
    EXPECT_EQ(amp_tensor_numel(op("logsumexp", {tensor(AMP_F32, {0, 3, 9}), 1})), 0);
}

TEST_F(ColumnSoftmax, DtypeConvertsOnTheWay) {
    amp_tensor *x = random_columns(AMP_BF16, {5, 70}, 6);
    for (const char *name : {"softmax", "log_softmax"}) {
        amp_tensor *y = op(name, {x, 0}, {{"dtype", AMP_F32}});
        ASSERT_EQ(amp_tensor_dtype(y), AMP_F32);
        expect_near(y, reference(numbers_of(x), {5, 70}, 0, name), 1e-6);
    }
    amp_tensor *whole = tensor(AMP_I64, {2, 9}, {1, 1});
    EXPECT_EQ(numbers_of(op("softmax", {whole, 0}, {{"dtype", AMP_F32}})), std::vector<double>(18, 0.5));
}

} // namespace
