// Attention's kernels, each row of the registry that this CPU runs, called as they are: against f64 within the bounds
// that their files state, between guard pages and NaN, with denormals, empty extents and packed keys used again.
#include <cfloat>
#include <random>

#include "amp_test.h"
#include "guard.h"
#include "instruction_models.h"
#include "kernel_rows.h"

using namespace amp_test;
using namespace kernel_rows;

namespace {

// A matrix whose rows lie apart: NaN and infinities between them and on one side, unreadable pages around.
class Matrix {
  public:
    Matrix(amp_dtype dtype, int64_t rows, int64_t columns, int64_t gap, bool at_end)
        : dtype_(dtype), rows_(rows), columns_(columns), step_(std::max<int64_t>(1, columns + gap)),
          count_(BESIDE + (rows > 0 ? (rows - 1) * step_ + columns : 0)),
          memory_(size_t(count_) * amp_dtype_size(dtype), at_end) {
        data_ = memory_.as<char>() + (at_end ? BESIDE * int64_t(amp_dtype_size(dtype)) : 0);
        for (int64_t i = 0; i < count_; i++) put(i, i % 3 ? double(NAN) : double(INFINITY));
    }
    void set(int64_t row, int64_t column, double x) {
        put(row * step_ + column + (data_ - memory_.as<char>()) / int64_t(amp_dtype_size(dtype_)), x);
    }
    double at(int64_t row, int64_t column) const {
        return number_at(dtype_, data_, row * step_ + column);
    }
    template <class Next>
    void fill(Next next) {
        for (int64_t i = 0; i < rows_; i++)
            for (int64_t j = 0; j < columns_; j++) set(i, j, next());
    }
    bool is_untouched_outside() {
        const int64_t first = (data_ - memory_.as<char>()) / int64_t(amp_dtype_size(dtype_));
        for (int64_t i = 0; i < count_; i++) {
            const int64_t at = i - first;
            if (at >= 0 && at / step_ < rows_ && at % step_ < columns_) continue;
            const double x = number_at(dtype_, memory_.as<char>(), i);
            if (i % 3 ? !std::isnan(x) : !std::isinf(x)) return false;
        }
        return true;
    }
    template <class T>
    T *as() {
        return reinterpret_cast<T *>(data_);
    }
    int64_t step() const {
        return step_;
    }

  private:
    static constexpr int64_t BESIDE = 96;
    void put(int64_t i, double x) {
        if (dtype_ == AMP_F32)
            memory_.as<float>()[i] = float(x);
        else
            memory_.as<uint16_t>()[i] = std::isnan(x) ? 0x7fc0 : to_bf16(float(x));
    }
    amp_dtype dtype_;
    int64_t rows_, columns_, step_, count_;
    EnclosedBuffer memory_;
    char *data_;
};

enum Mask { NONE, FULL, ONE_ROW, ONE_COLUMN };

struct Problem {
    int64_t rows, keys, depth, width;
    bool causal = false;
    int64_t first_row = 0;
    Mask mask = NONE;
};

std::string describe(const Problem &p) {
    return "L " + std::to_string(p.rows) + ", S " + std::to_string(p.keys) + ", D " + std::to_string(p.depth) + ", E " +
           std::to_string(p.width) + (p.causal ? ", causal" : "") + ", mask " + std::to_string(p.mask);
}

size_t whole_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// What one query row should find among the keys.
struct Expected {
    double max = -INFINITY, sum = 0, slack = 0; // slack: relative error of a weight
    std::vector<double> weights;
};

// A head in memory of its own. Numbers from `low` to `high`, or what the test sets.
struct Head {
    Head(const amp_kernel &kernel, const Problem &problem, bool at_end)
        : p(problem), narrow(kernel.in == AMP_BF16), q(kernel.in, p.rows, p.depth, 5, at_end),
          k(kernel.in, p.keys, p.depth, 3, at_end), v(kernel.in, p.keys, p.width, 7, at_end),
          mask(AMP_F32, p.mask == ONE_ROW ? 1 : p.rows, p.mask == ONE_COLUMN ? 1 : p.keys, 2, at_end),
          out(kernel.in, p.rows, p.width, 9, at_end),
          packed(whole_lines(amp_attention_packed_bytes(p.keys, p.depth, p.width)), at_end) {
        std::mt19937 random(uint32_t(p.rows * 7919 + p.keys * 31 + p.depth));
        auto next = [&] { return (double(random() >> 8) / 16777216 - 0.5) * 4; };
        q.fill(next), k.fill(next), v.fill(next);
        mask.fill([&] { return random() % 5 ? next() : double(-INFINITY); });
        if (p.mask == FULL && p.rows > 1)
            for (int64_t j = 0; j < p.keys; j++) mask.set(p.rows - 1, j, -INFINITY); // a row without a key
        // what an earlier head left there is NaN
        memset(packed.as<char>(), 0xff, whole_lines(amp_attention_packed_bytes(p.keys, p.depth, p.width)));
    }
    amp_attention_head head() {
        amp_attention_head h = {};
        h.q = q.as<void>(), h.k = k.as<void>(), h.v = v.as<void>(), h.out = out.as<void>();
        h.q_step = q.step(), h.k_step = k.step(), h.v_step = v.step(), h.out_step = out.step();
        h.rows = p.rows, h.keys = p.keys, h.depth = p.depth, h.width = p.width;
        h.scale = 0.3F, h.causal = p.causal, h.first_row = p.first_row;
        if (p.mask != NONE) h.mask = mask.as<float>();
        h.mask_row_step = p.mask == ONE_ROW ? 0 : mask.step(), h.mask_key_step = p.mask == ONE_COLUMN ? 0 : 1;
        return h;
    }
    void run(const amp_kernel &kernel, bool reuse = false) {
        const amp_attention_head h = head();
        reinterpret_cast<amp_attention_function *>(kernel.function)(&h, packed.as<void>(), reuse);
    }
    Expected expected(int64_t row, int64_t first, int64_t keys) const {
        Expected e;
        double largest = 0;
        for (int64_t j = first; j < first + keys; j++) {
            double s = 0, magnitude = 0;
            for (int64_t d = 0; d < p.depth; d++) {
                const double x = q.at(row, d) * k.at(j, d);
                s += x, magnitude += std::fabs(x);
            }
            const double m = p.mask == NONE ? 0 : mask.at(p.mask == ONE_ROW ? 0 : row, p.mask == ONE_COLUMN ? 0 : j);
            s = p.causal && j > p.first_row + row ? -INFINITY : double(0.3F) * s + m;
            if (s > -INFINITY) largest = std::max(largest, double(p.depth + 3) * 0.3 * magnitude + 6 * std::fabs(s));
            e.weights.push_back(s);
            e.max = std::max(e.max, s);
        }
        for (double &x : e.weights) e.sum += x = e.max == -INFINITY ? 0 : std::exp(x - e.max);
        e.slack = largest * 0x1p-23 + 0x1p-20;
        return e;
    }

    Problem p;
    bool narrow;
    Matrix q, k, v, mask, out;
    EnclosedBuffer packed;
};

struct Sum {
    double value = 0, magnitude = 0;
};

Sum weighted(const Head &x, const Expected &e, int64_t first, int64_t column) {
    Sum s;
    for (size_t j = 0; j < e.weights.size(); j++) {
        const double y = e.weights[j] * x.v.at(first + int64_t(j), column);
        s.value += y, s.magnitude += std::fabs(y);
    }
    return s;
}

// Scores, weights and sums in f32; in bf16 the weights are rounded before they meet the values, and so is the result.
void expect_f64(Head &x) {
    const double sums = double(x.p.keys + 16) * 0x1p-23, rounding = x.narrow ? 0x1p-8 + 0x1p-17 : 0;
    for (int64_t i = 0; i < x.p.rows; i++) {
        const Expected e = x.expected(i, 0, x.p.keys);
        for (int64_t c = 0; c < x.p.width; c++) {
            const Sum s = weighted(x, e, 0, c);
            const double want = e.sum == 0 ? 0 : s.value / e.sum, size = e.sum == 0 ? 0 : s.magnitude / e.sum;
            const double bound = size * (2 * e.slack + sums + rounding) + (x.narrow ? std::fabs(want) * 0x1.02p-8 : 0);
            ASSERT_NEAR(x.out.at(i, c), want, bound + 0x1p-125) << describe(x.p) << ": " << i << ", " << c;
        }
    }
    ASSERT_TRUE(x.out.is_untouched_outside()) << describe(x.p);
}

const amp_kernel *usable(int row) {
    const amp_kernel *kernel = amp_kernel_at(row);
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_isa_usable(kernel->isa)) return nullptr;
    EXPECT_TRUE(amp_kernel_usable(kernel, reason)) << kernel->name << ": " << reason;
    return kernel;
}

class KernelTest : public testing::TestWithParam<int> {
  protected:
    void SetUp() override {
        kernel = usable(GetParam());
        if (!kernel) GTEST_SKIP() << amp_isa_reason(amp_kernel_at(GetParam())->isa);
    }
    // With a depth that the kernel takes.
    Problem suited(Problem p) const {
        amp_attention_head h = {};
        for (h.depth = p.depth; kernel->predicate && !kernel->predicate(&h);) h.depth++;
        p.depth = h.depth;
        return p;
    }
    const amp_kernel *kernel;
};

// Around the sizes of tiles and blocks: 4, 6, 16 and 32 rows, 16, 32, 64 and 256 keys, 8, 16, 32 and 64 columns.
const std::vector<int64_t> some_rows = {1, 3, 4, 5, 7, 15, 16, 17, 31, 32, 33};
const std::vector<int64_t> some_keys = {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 257};
const std::vector<int64_t> some_depths = {1, 2, 7, 8, 9, 16, 33, 34, 64};
const std::vector<int64_t> some_widths = {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65};

Problem mixed(size_t i, size_t j) {
    Problem p = {some_rows[i % some_rows.size()], some_keys[j % some_keys.size()],
                 some_depths[(3 * i + 2 * j) % some_depths.size()], some_widths[(2 * i + 5 * j) % some_widths.size()]};
    p.mask = Mask((i + j) % 4);
    p.causal = p.mask == NONE && j % 2 == 0;
    p.first_row = i % 3 == 0 ? 4 : 0;
    return p;
}

class AttentionKernel : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Rows, AttentionKernel, testing::ValuesIn(rows_of(AMP_KERNEL_ATTENTION)), row_name);

TEST_P(AttentionKernel, MatchesF64BetweenGuardPagesAndNan) {
    for (size_t i = 0; i < some_rows.size(); i++)
        for (size_t j = 0; j < some_keys.size(); j++) {
            Head x(*kernel, suited(mixed(i, j)), (i + j) % 2 != 0);
            x.run(*kernel);
            ASSERT_NO_FATAL_FAILURE(expect_f64(x));
        }
}

// Two tiles of rows, several blocks of keys, and more columns than registers.
TEST_P(AttentionKernel, ManyRowsKeysAndColumnsMatchF64) {
    for (bool at_end : {false, true})
        for (Problem p : {Problem{49, 300, 64, 130}, Problem{70, 513, 34, 20, true}, Problem{33, 290, 32, 48}}) {
            Head x(*kernel, suited(p), at_end);
            x.run(*kernel);
            ASSERT_NO_FATAL_FAILURE(expect_f64(x));
        }
}

// Of a running maximum that grows slowly, in leaps, up to where e^(old − new) is nothing, or not at all.
TEST_P(AttentionKernel, ScoresThatRiseMatchF64) {
    for (double leap : {0.0, 0.25, 3.0, 12.0, 90.0, 400.0})
        for (bool causal : {false, true}) {
            Head x(*kernel, suited({17, 600, 32, 20, causal, 590}), causal);
            double score = -5;
            for (int64_t j = 0; j < x.p.keys; j++, score += j % 50 == 33 ? leap : leap / 100)
                for (int64_t d = 0; d < x.p.depth; d++) x.k.set(j, d, d ? x.k.at(j, d) / 8 : score);
            for (int64_t i = 0; i < x.p.rows; i++) x.q.set(i, 0, i % 4 == 3 ? -1 : 1.5);
            x.run(*kernel);
            ASSERT_NO_FATAL_FAILURE(expect_f64(x)) << leap;
        }
}

TEST_P(AttentionKernel, NegativeScaleIsANegativeQuery) {
    Head x(*kernel, suited({9, 200, 32, 20}), false);
    amp_attention_head h = x.head();
    h.scale = -0.3F;
    reinterpret_cast<amp_attention_function *>(kernel->function)(&h, x.packed.as<void>(), false);
    for (int64_t i = 0; i < x.p.rows; i++)
        for (int64_t d = 0; d < x.p.depth; d++) x.q.set(i, d, -x.q.at(i, d));
    ASSERT_NO_FATAL_FAILURE(expect_f64(x));
}

// What many models take for −inf.
TEST_P(AttentionKernel, TheLowestNumberInAMaskHidesAKeyAmongOthers) {
    const Problem p = suited({9, 300, 32, 20, false, 0, FULL});
    Head lowest(*kernel, p, false), hidden(*kernel, p, false);
    for (int64_t i = 0; i < p.rows; i++)
        for (int64_t j = 0; j < p.keys; j++) {
            lowest.mask.set(i, j, j < 70 + 20 * i || i == 8 ? double(-FLT_MAX) : 0.5);
            hidden.mask.set(i, j, i == 8 ? 0.0 : j < 70 + 20 * i ? double(-INFINITY) : 0.5);
        }
    for (int64_t d = 0; d < p.depth; d++) hidden.q.set(8, d, 0.0);
    lowest.run(*kernel), hidden.run(*kernel);
    for (int64_t i = 0; i < p.rows; i++) // the last: of nothing but such, all count alike
        for (int64_t c = 0; c < p.width; c++) ASSERT_EQ(lowest.out.at(i, c), hidden.out.at(i, c)) << i << ", " << c;
}

// Large scores of either sign over values near the ends of bf16: what the weights are relative to must not cost a
// result.
TEST_P(AttentionKernel, ScoresAndValuesFarFromOne) {
    for (const double score : {-80.0, -26.0, -13.0, 0.0, 13.0, 26.0, 80.0}) {
        for (const double value : {0x1p-100, 0x1p-60, 1.0, 0x1p60, 0x1p90, 0x1p120}) {
            for (const bool causal : {false, true}) {
                Head x(*kernel, suited({7, 200, 32, 37, causal, 150, NONE}), false);
                std::mt19937 random(4);
                const auto near = [&](double middle) { return middle * (1 + double(random() % 16) / 64); };
                const double each = std::sqrt(std::fabs(score) / 0.3 / 32);
                x.q.fill([&] { return near(each); });
                x.k.fill([&] { return near(score < 0 ? -each : each); });
                x.v.fill([&] { return near(value); });
                x.run(*kernel);
                ASSERT_NO_FATAL_FAILURE(expect_f64(x)) << "score " << score << ", value " << value;
            }
        }
    }
}

TEST_P(AttentionKernel, DenormalsCountOrAreZero) {
    const double tiny[] = {0x1p-127, -0x1p-130, 0x1p-126, -0x1p-128, 0.0, -0.0, 1.0, 0x1p-64, -0.5};
    std::mt19937 random(3);
    for (size_t most : {6u, 9u}) { // of denormals alone, and among others
        Head x(*kernel, suited({19, 70, 32, 33, false, 0, FULL}), false);
        auto next = [&] { return tiny[random() % most]; };
        x.q.fill(next), x.k.fill(next), x.v.fill(next);
        x.run(*kernel);
        ASSERT_NO_FATAL_FAILURE(expect_f64(x));
    }
}

TEST_P(AttentionKernel, NanAndInfinityStayInTheirRowAndColumn) {
    const Problem p = suited({35, 387, 32, 37});
    Head clean(*kernel, p, true);
    clean.run(*kernel);
    for (double bad : {double(NAN), double(INFINITY)}) {
        Head x(*kernel, p, true);
        x.q.set(18, 5, NAN);
        x.v.set(66, 36, bad);
        x.run(*kernel);
        for (int64_t i = 0; i < p.rows; i++)
            for (int64_t c = 0; c < p.width; c++) {
                if (i == 18)
                    ASSERT_TRUE(std::isnan(x.out.at(i, c))) << c;
                else if (c == 36)
                    ASSERT_FALSE(std::isfinite(x.out.at(i, c))) << i;
                else
                    ASSERT_EQ(clean.out.at(i, c), x.out.at(i, c)) << i << ", " << c;
            }
    }
}

TEST_P(AttentionKernel, PackedKeysServeOtherQueries) {
    const Problem p = suited({21, 90, 32, 40});
    Head first(*kernel, p, false), second(*kernel, p, false);
    first.run(*kernel);
    first.q.fill([] { return 0.25; }), second.q.fill([] { return 0.25; });
    first.run(*kernel, true);
    second.run(*kernel);
    for (int64_t i = 0; i < p.rows; i++)
        for (int64_t c = 0; c < p.width; c++) ASSERT_EQ(first.out.at(i, c), second.out.at(i, c));
}

TEST_P(AttentionKernel, EmptyExtents) {
    for (Problem p : {Problem{0, 5, 32, 8}, Problem{3, 0, 32, 8}, Problem{3, 5, 0, 8}, Problem{3, 5, 32, 0},
                      Problem{0, 0, 0, 0}, Problem{3, 0, 32, 8, true}}) {
        Head x(*kernel, p, false);
        x.run(*kernel);
        ASSERT_NO_FATAL_FAILURE(expect_f64(x));
    }
}

// ---- A part of the keys -------------------------------------------------------------------------------------------

class AttentionPartKernel : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Rows, AttentionPartKernel, testing::ValuesIn(rows_of(AMP_KERNEL_ATTENTION_PART)), row_name);

void expect_part(const amp_kernel &kernel, Head &x, int64_t first, int64_t keys, bool at_end) {
    Matrix state(AMP_F32, x.p.rows, 2, 0, at_end), sums(AMP_F32, x.p.rows, x.p.width, 0, at_end);
    const amp_attention_head h = x.head();
    reinterpret_cast<amp_attention_part_function *>(kernel.function)(&h, first, keys, state.as<amp_attention_state>(),
                                                                     sums.as<float>());
    for (int64_t i = 0; i < x.p.rows; i++) {
        const Expected e = x.expected(i, first, keys);
        const double bound = 2 * e.slack + double(keys + 16) * 0x1p-23;
        if (e.max == -INFINITY)
            ASSERT_EQ(state.at(i, 0), e.max) << describe(x.p);
        else
            ASSERT_NEAR(state.at(i, 0), e.max, e.slack) << describe(x.p);
        ASSERT_NEAR(state.at(i, 1), e.sum, bound * e.sum) << describe(x.p);
        for (int64_t c = 0; c < x.p.width; c++) {
            const Sum s = weighted(x, e, first, c);
            ASSERT_NEAR(sums.at(i, c), s.value, bound * s.magnitude + 0x1p-125)
                << describe(x.p) << ": " << i << ", " << c;
        }
    }
    ASSERT_TRUE(state.is_untouched_outside() && sums.is_untouched_outside() && x.out.is_untouched_outside());
}

TEST_P(AttentionPartKernel, MatchesF64BetweenGuardPagesAndNan) {
    for (size_t i = 0; i < some_rows.size(); i++)
        for (size_t j = 0; j < some_keys.size(); j++) {
            const bool at_end = (i + j) % 2 != 0;
            Head x(*kernel, mixed(i, j), at_end);
            const int64_t first = int64_t(i % 3) % x.p.keys;
            ASSERT_NO_FATAL_FAILURE(
                expect_part(*kernel, x, first, x.p.keys - first - int64_t(j % 2) * (x.p.keys - first > 3), at_end));
        }
}

TEST_P(AttentionPartKernel, ManyKeysAndColumnsMatchF64) {
    for (bool at_end : {false, true})
        for (Problem p : {Problem{6, 530, 64, 290}, Problem{3, 300, 144, 144, true, 290}}) {
            Head x(*kernel, p, at_end);
            ASSERT_NO_FATAL_FAILURE(expect_part(*kernel, x, 5, p.keys - 5, at_end));
        }
}

TEST_P(AttentionPartKernel, DenormalsCountOrAreZero) {
    const double tiny[] = {0x1p-127, -0x1p-130, 0x1p-126, -0x1p-128, 0.0, -0.0, 1.0, 0x1p-64, -0.5};
    std::mt19937 random(3);
    for (size_t most : {6u, 9u}) {
        Head x(*kernel, {7, 70, 33, 33, false, 0, FULL}, false);
        auto next = [&] { return tiny[random() % most]; };
        x.q.fill(next), x.k.fill(next), x.v.fill(next);
        ASSERT_NO_FATAL_FAILURE(expect_part(*kernel, x, 0, 70, false));
    }
}

TEST_P(AttentionPartKernel, NanAndInfinityStayInTheirRowAndColumn) {
    for (double bad : {double(NAN), double(INFINITY)}) {
        Head x(*kernel, {7, 67, 32, 37}, true);
        x.q.set(4, 5, NAN);
        x.v.set(66, 36, bad);
        Matrix state(AMP_F32, 7, 2, 0, true), sums(AMP_F32, 7, 37, 0, true);
        const amp_attention_head h = x.head();
        reinterpret_cast<amp_attention_part_function *>(kernel->function)(&h, 0, 67, state.as<amp_attention_state>(),
                                                                          sums.as<float>());
        for (int64_t i = 0; i < 7; i++) {
            ASSERT_EQ(std::isnan(state.at(i, 1)), i == 4);
            for (int64_t c = 0; c < 37; c++)
                ASSERT_EQ(std::isfinite(sums.at(i, c)), i != 4 && c != 36) << i << ", " << c;
        }
    }
}

TEST_P(AttentionPartKernel, EmptyExtents) {
    for (Problem p : {Problem{0, 5, 32, 8}, Problem{3, 0, 32, 8}, Problem{3, 5, 0, 8}, Problem{3, 5, 32, 0}}) {
        Head x(*kernel, p, false);
        ASSERT_NO_FATAL_FAILURE(expect_part(*kernel, x, 0, p.keys, false));
    }
}

// ---- Bit by bit -----------------------------------------------------------------------------------------------------

// The kernels of attention_body.h and attention_part_body.h in scalars: what order they compute in, and where they
// round.
struct Model {
    Model(const amp_kernel &kernel, const Head &x, int64_t row)
        : x(x), row(row), part(kernel.family == AMP_KERNEL_ATTENTION_PART) {
        lanes = kernel.isa == AMP_ISA_AVX512 ? 16 : kernel.isa == AMP_ISA_AVX2 ? 8 : 1;
        sums.assign(size_t(x.p.width), 0.0F);
    }
    // The lanes as the kernels fold them.
    float fold(std::vector<float> v) const {
        for (int n = lanes / 2; n > 0; n /= 2)
            for (int i = 0; i < n; i++) v[size_t(i)] += v[size_t(i + n)];
        return v[0];
    }
    float score(int64_t key) const {
        if (x.p.causal && key > x.p.first_row + row) return -INFINITY;
        std::vector<float> sum(size_t(lanes), 0.0F);
        for (int64_t d = 0; d < x.p.depth; d++) {
            float &s = sum[part ? size_t(d % lanes) : 0];
            s = std::fmaf(float(x.q.at(row, d)), float(x.k.at(key, d)), s);
        }
        const float scaled = (part ? fold(sum) : sum[0]) * 0.3F;
        return x.p.mask == NONE
                   ? scaled
                   : scaled + float(x.mask.at(x.p.mask == ONE_ROW ? 0 : row, x.p.mask == ONE_COLUMN ? 0 : key));
    }
    void block(int64_t first, int64_t keys) {
        std::vector<float> s, lane(size_t(lanes), 0.0F);
        float top = max;
        for (int64_t j = 0; j < keys; j++) {
            s.push_back(score(first + j));
            top = std::max(top, s.back());
        }
        if (top == -INFINITY) return;
        const float correction = expf(max - top);
        for (int64_t j = 0; j < keys; j++) {
            float &weight = s[size_t(j)];
            weight -= top;
            amp_exp_f32_ref(&weight, &weight, 1);
            lane[size_t(j % lanes)] += weight;
        }
        sum = sum * correction + fold(lane);
        max = top;
        for (int64_t c = 0; c < x.p.width; c++) {
            float &y = sums[size_t(c)];
            y *= correction;
            for (int64_t j = 0; j < keys; j++) y = std::fmaf(s[size_t(j)], float(x.v.at(first + j, c)), y);
        }
    }
    void run(int64_t first, int64_t keys) {
        for (int64_t at = 0; at < keys; at += AMP_ATTENTION_KEYS)
            block(first + at, std::min<int64_t>(AMP_ATTENTION_KEYS, keys - at));
    }

    const Head &x;
    int64_t row;
    bool part;
    int lanes;
    float max = -INFINITY, sum = 0;
    std::vector<float> sums;
};

class AttentionF32Kernel : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Rows, AttentionF32Kernel, testing::ValuesIn(rows_where([](const amp_kernel &row) {
                             return row.family == AMP_KERNEL_ATTENTION && row.in == AMP_F32;
                         })),
                         row_name);

TEST_P(AttentionF32Kernel, BitsAreThoseOfTheModel) {
    for (size_t i = 0; i < some_rows.size(); i++)
        for (size_t j = 0; j < some_keys.size(); j++) {
            Head x(*kernel, mixed(i, j), false);
            x.run(*kernel);
            for (int64_t row = 0; row < x.p.rows; row++) {
                Model m(*kernel, x, row);
                m.run(0, x.p.keys);
                const float scale = m.sum == 0 ? 0 : 1.0F / m.sum;
                for (int64_t c = 0; c < x.p.width; c++)
                    ASSERT_EQ(m.sums[size_t(c)] * scale, float(x.out.at(row, c)))
                        << describe(x.p) << ": " << row << ", " << c;
            }
        }
}

TEST_P(AttentionPartKernel, BitsAreThoseOfTheModel) {
    for (size_t i = 0; i < some_rows.size(); i++)
        for (size_t j = 0; j < some_keys.size(); j++) {
            Head x(*kernel, mixed(i, j), false);
            const int64_t first = int64_t(i % 3) % x.p.keys, keys = x.p.keys - first;
            Matrix state(AMP_F32, x.p.rows, 2, 0, false), sums(AMP_F32, x.p.rows, x.p.width, 0, false);
            const amp_attention_head h = x.head();
            reinterpret_cast<amp_attention_part_function *>(kernel->function)(
                &h, first, keys, state.as<amp_attention_state>(), sums.as<float>());
            for (int64_t row = 0; row < x.p.rows; row++) {
                Model m(*kernel, x, row);
                m.run(first, keys);
                ASSERT_EQ(m.max, float(state.at(row, 0))) << describe(x.p) << ": " << row;
                ASSERT_EQ(m.sum, float(state.at(row, 1))) << describe(x.p) << ": " << row;
                for (int64_t c = 0; c < x.p.width; c++)
                    ASSERT_EQ(m.sums[size_t(c)], float(sums.at(row, c))) << describe(x.p) << ": " << row << ", " << c;
            }
        }
}

// Σ a[i]·b[i] by the instruction of a bf16 kernel.
float bf16_product(amp_isa isa, std::vector<uint16_t> a, std::vector<uint16_t> b) {
    float sum = 0;
    a.resize((a.size() + 31) / 32 * 32), b.resize(a.size());
    for (size_t i = 0; i < a.size(); i += isa == AMP_ISA_AMX ? 32 : 2)
        sum = isa == AMP_ISA_AMX ? instruction_models::tdpbf16ps(sum, &a[i], &b[i], 2, 16)
                                 : instruction_models::vdpbf16ps(sum, a[i], a[i + 1], b[i], b[i + 1]);
    return sum;
}

// Numbers of many sizes whose sum is zero: what an order of sums leaves of it is rounding.
std::vector<uint16_t> cancelling_numbers(std::mt19937 *random, size_t n) {
    std::vector<uint16_t> x(n);
    for (size_t i = 0; i < n / 2; i++) {
        x[i] = to_bf16(std::ldexp(float(128 + (*random)() % 128), int((*random)() % 24) - 12));
        x[n - 1 - i] = x[i] ^ 0x8000;
    }
    return x;
}

class AttentionBf16Instruction : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Rows, AttentionBf16Instruction, testing::ValuesIn(rows_where([](const amp_kernel &row) {
                             return row.family == AMP_KERNEL_ATTENTION && row.in == AMP_BF16 && row.isa != AMP_ISA_REF;
                         })),
                         row_name);

// Without a query all weights are 1, and a result is the second product alone: of a power of two of keys, so that
// dividing by their number is exact.
TEST_P(AttentionBf16Instruction, ValuesAreSummedByTheModelOfTheInstruction) {
    std::mt19937 random(11);
    for (int64_t keys : {32, 64, 128, 256}) {
        Head x(*kernel, suited({19, keys, 32, 50}), false);
        x.q.fill([] { return 0.0; });
        std::vector<float> want;
        for (int64_t c = 0; c < x.p.width; c++) {
            const std::vector<uint16_t> v = cancelling_numbers(&random, size_t(keys));
            for (int64_t j = 0; j < keys; j++) x.v.set(j, c, from_bf16(v[size_t(j)]));
            want.push_back(bf16_product(kernel->isa, std::vector<uint16_t>(size_t(keys), to_bf16(1)), v) / float(keys));
        }
        x.run(*kernel);
        for (int64_t i = 0; i < x.p.rows; i++)
            for (int64_t c = 0; c < x.p.width; c++)
                ASSERT_EQ(from_bf16(to_bf16(want[size_t(c)])), float(x.out.at(i, c)))
                    << keys << " keys: " << i << ", " << c;
    }
}

// Scores that are nothing but rounding, scaled until a unit of it changes the weights: of two keys, one of value 1.
TEST_P(AttentionBf16Instruction, ScoresAreSummedByTheModelOfTheInstruction) {
    std::mt19937 random(13);
    int different = 0;
    for (int round = 0; round < 50; round++) {
        Head x(*kernel, {3, 2, 64, 5}, false);
        float score[2];
        x.q.fill([] { return 1.0; });
        for (int j = 0; j < 2; j++) {
            const std::vector<uint16_t> k = cancelling_numbers(&random, 64);
            for (int64_t d = 0; d < 64; d++) x.k.set(j, d, from_bf16(k[size_t(d)]));
            score[j] = bf16_product(kernel->isa, std::vector<uint16_t>(64, to_bf16(1)), k);
        }
        x.v.fill([] { return 0.0; });
        for (int64_t c = 0; c < x.p.width; c++) x.v.set(0, c, 1.0);
        const double unit = std::fabs(double(score[0]) - double(score[1]));
        const double scale = unit > 0 ? 1 / unit : 1.0; // weights of 1 and 1/e, whichever way
        amp_attention_head h = x.head();
        h.scale = float(scale);
        reinterpret_cast<amp_attention_function *>(kernel->function)(&h, x.packed.as<void>(), false);
        const double want = 1 / (1 + std::exp(double(h.scale) * (double(score[1]) - double(score[0]))));
        different += unit > 0;
        for (int64_t c = 0; c < x.p.width; c++) ASSERT_NEAR(want, x.out.at(1, c), 0x1p-6) << round << ", " << c;
    }
    EXPECT_GT(different, 25);
}

} // namespace
