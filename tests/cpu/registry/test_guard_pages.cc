// Kernels of vectors, rows and columns, and conversions: every row of the registry that this CPU runs, every tail
// length, each operand right behind an unreadable page and right before one. Results are those of operands in readable
// memory.
#include <csignal>
#include <cstring>
#include <memory>
#include <random>

#include "amp_test.h"
extern "C" {
#include "cpu/registry/kernels.h"
}
#include "guard.h"

namespace {

enum Place { AMONG_OTHERS, BEHIND_A_PAGE, BEFORE_A_PAGE };

// Hands out operands, each between guard pages of its own, always the same numbers in the same order.
class Operands {
  public:
    void begin(Place place) {
        place_ = place;
        used_ = 0;
        random_.seed(1);
    }
    template <class T = float>
    T *output(int64_t count, size_t size = sizeof(T)) {
        char *at = next(size_t(count) * size);
        memset(at, 0x5a, size_t(count) * size);
        return reinterpret_cast<T *>(at);
    }
    // Numbers of 0.5 to 1.5, in f32, bf16 or f16.
    template <class T = float>
    T *input(int64_t count, amp_dtype dtype = AMP_F32) {
        char *at = next(size_t(count) * amp_dtype_size(dtype));
        for (int64_t i = 0; i < count; i++) {
            const float x = 0.5F + float(random_() >> 8) * 0x1p-24F;
            const uint16_t half = dtype == AMP_F16 ? amp_test::to_f16(x) : amp_test::to_bf16(x);
            if (dtype == AMP_F32)
                memcpy(at + 4 * i, &x, 4);
            else
                memcpy(at + 2 * i, &half, 2);
        }
        return reinterpret_cast<T *>(at);
    }
    // f64 numbers that a kernel adds to.
    double *sums(int64_t count) {
        double *at = output<double>(count);
        for (int64_t i = 0; i < count; i++) at[i] = 0.25 * double(i);
        return at;
    }
    void result(double x) {
        *output<double>(1) = x;
    }
    // All operands.
    std::vector<char> bytes() const {
        std::vector<char> all;
        for (size_t i = 0; i < used_; i++) all.insert(all.end(), spans_[i].at, spans_[i].at + spans_[i].bytes);
        return all;
    }
    // What lies between them and the pages is NaN, and stays so.
    bool is_untouched_outside() {
        for (size_t i = 0; i < used_; i++) {
            const Span &s = spans_[i];
            char *base = slots_[i]->as<char>(), *end = base + CAPACITY;
            for (const char *at = std::max(base, s.at - BESIDE); at < std::min(end, s.at + s.bytes + BESIDE); at++)
                if ((at < s.at || at >= s.at + s.bytes) && *at != char(0xff)) return false;
        }
        return true;
    }

  private:
    static constexpr size_t CAPACITY = 8192, SLOTS = 8, BESIDE = 256; // whole pages
    struct Span {
        char *at;
        size_t bytes;
    };
    char *next(size_t bytes) {
        if (bytes > CAPACITY || used_ == SLOTS) abort();
        if (!slots_[used_]) slots_[used_] = std::make_unique<EnclosedBuffer>(CAPACITY, false);
        char *base = slots_[used_]->as<char>(), *end = base + CAPACITY;
        const size_t before = place_ == BEHIND_A_PAGE ? 0 : CAPACITY - bytes;
        char *at = base + (place_ == AMONG_OTHERS ? before / 2 / 64 * 64 : before);
        memset(std::max(base, at - BESIDE), 0xff,
               size_t(std::min(end, at + bytes + BESIDE) - std::max(base, at - BESIDE)));
        spans_[used_++] = {at, bytes};
        return at;
    }
    Place place_ = AMONG_OTHERS;
    std::mt19937 random_;
    size_t used_ = 0;
    std::unique_ptr<EnclosedBuffer> slots_[SLOTS];
    Span spans_[SLOTS] = {};
};

// ---- One call of n elements, for each type of function -----------------------------------------------------------

void run(amp_unary_function *f, const amp_kernel &k, Operands &m, int64_t n) { // conversions and rows too
    const void *in = m.input(n, k.in);
    f(m.output(n, amp_dtype_size(k.out)), in, n);
}
void run(amp_unary_with_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *in = m.input(n, k.in);
    f(m.output(n, amp_dtype_size(k.out)), in, n, 0.75F, 2.5F);
}
void run(amp_binary_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *a = m.input(n, k.in), *b = m.input(n, k.in);
    f(m.output(n, amp_dtype_size(k.out)), a, b, n, 0.75F);
    if (k.family == AMP_KERNEL_ADD_SCALED) return;
    f(m.output(n, amp_dtype_size(k.out)), nullptr, b, n, 0.75F);
    f(m.output(n, amp_dtype_size(k.out)), a, nullptr, n, 0.75F);
}
void run(amp_ternary_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *a = m.input(n, k.in), *b = m.input(n, k.in), *c = m.input(n, k.in);
    f(m.output(n, amp_dtype_size(k.out)), a, b, c, n, 0.75F);
    if (k.family == AMP_KERNEL_LERP) f(m.output(n, amp_dtype_size(k.out)), a, b, nullptr, n, 0.75F);
}
void run(amp_compare_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *a = m.input(n, k.in), *b = m.input(n, k.in);
    f(m.output<uint8_t>(n), a, b, n, 1);
    f(m.output<uint8_t>(n), a, nullptr, n, 1);
}
void run(amp_reduce_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    m.result(f(m.input(n, k.in), n));
}
void run(amp_centred_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *in = m.input(n, k.in);
    f(m.sums(2), in, n, 0.25F);
}
void run(amp_dot_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const float *a = m.input(n), *b = m.input(n);
    m.result(f(a, b, n));
}
void run(amp_accumulate_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const float *in = m.input(n);
    f(m.sums(n), in, n);
}
void run(amp_norm_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *in = m.input(n, k.in);
    const float *weight = m.input(n), *bias = m.input(n);
    f(m.output(n, amp_dtype_size(k.out)), in, weight, bias, n, 1e-5);
    f(m.output(n, amp_dtype_size(k.out)), in, weight, nullptr, n, 1e-5);
    f(m.output(n, amp_dtype_size(k.out)), in, nullptr, bias, n, 1e-5);
}
void run(amp_columns_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const int64_t rows = 5, step = n + 1; // the last row ends at the page
    const void *in = m.input((rows - 1) * step + n, k.in);
    f(m.sums(n), in, step * int64_t(amp_dtype_size(k.in)), rows, n);
}
void run(amp_softmax_columns_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const int64_t rows = 5, step = n + 1, size = int64_t(amp_dtype_size(k.in));
    const void *in = m.input((rows - 1) * step + n, k.in);
    float *terms = m.output(rows * AMP_SOFTMAX_COLUMNS);
    f(m.output((rows - 1) * step + n, size_t(size)), step * size, in, step * size, rows, n, terms);
}
void run(amp_exponentials_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const int64_t rows = 5, step = n + 1;
    const void *in = m.input((rows - 1) * step + n, k.in);
    float *max = m.output(n);
    double *sum = m.output<double>(n);
    f(max, sum, in, step * int64_t(amp_dtype_size(k.in)), rows, n, true);
    f(max, sum, in, step * int64_t(amp_dtype_size(k.in)), rows, n, false);
}
void run(amp_moments_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const float *in = m.input(n);
    f(reinterpret_cast<amp_moments *>(m.sums(3)), in, n);
}
void run(amp_column_sums_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const float *in = m.input(n);
    double *sum = m.sums(n);
    f(sum, m.sums(n), in, n);
}
void run(amp_standardize_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const int64_t channels = k.family == AMP_KERNEL_STANDARDIZE_ROW ? 1 : n;
    const void *in = m.input(n, k.in);
    const amp_standardize_numbers p = {m.input(channels), m.input(channels), m.input(channels), 0.0F};
    f(m.output(n, amp_dtype_size(k.out)), in, &p, n);
}
void run(amp_slope_sums_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *x = m.input(n, k.in), *d = m.input(n, k.in);
    f(reinterpret_cast<amp_slope_sums *>(m.sums(5)), x, d, n);
}
void run(amp_slope_columns_function *f, const amp_kernel &k, Operands &m, int64_t length) {
    const int64_t rows = 3, n = std::min<int64_t>(length, 250); // the sums of more fill more than a page
    const void *x = m.input(rows * n, k.in), *d = m.input(rows * n, k.in);
    const float *centre = m.input(n);
    f(m.sums(AMP_SLOPE_COLUMN_SUMS * n), n, x, d, centre, rows, n);
}
void run(amp_norm_slope_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const int64_t channels = k.family == AMP_KERNEL_NORM_SLOPE_ROW ? 1 : n;
    const void *x = m.input(n, k.in), *d = m.input(n, k.in);
    const amp_norm_slope_numbers p = {m.input(channels), m.input(channels), m.input(channels), m.input(channels)};
    f(m.output(n, amp_dtype_size(k.out)), x, d, &p, n);
}
void run(amp_norm_row_slope_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *x = m.input(n, k.in), *d = m.input(n, k.in);
    float *const dweight = m.output(n), *const dbias = m.output(n);
    for (int64_t i = 0; i < n; i++) dweight[i] = dbias[i] = 0.25F * float(i);
    const amp_norm_row row = {m.input(n), dweight, dbias, 1e-5, true};
    const amp_norm_row plain = {nullptr, nullptr, nullptr, 1e-5, false};
    f(m.output(n, amp_dtype_size(k.out)), x, d, &row, n);
    f(m.output(n, amp_dtype_size(k.out)), x, d, &plain, n);
}
void run(amp_softmax_slope_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *d = m.input(n, k.in), *y = m.input(n, k.in);
    f(m.output(n, amp_dtype_size(k.out)), d, y, n);
}
void run(amp_respond_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const amp_response r = {1, 0.5, 3};
    const float *x = m.input(n), *in[] = {m.input(n), x};
    f(m.output(n), x, in, 2, &r, n);
}
void run(amp_gates_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const int64_t gates = k.family == AMP_KERNEL_LSTM_GATES ? 4 : 3, stride = n + 1;
    const float *x = m.input((gates - 1) * stride + n), *h = m.input((gates - 1) * stride + n);
    float *state = m.input(n);
    f(m.output(n), state, x, k.family == AMP_KERNEL_LSTM_GATES ? nullptr : h, stride, n);
}
void run(amp_gates_back_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const bool is_gru = k.family == AMP_KERNEL_GRU_GATES_BACK, is_lstm = k.family == AMP_KERNEL_LSTM_GATES_BACK;
    const int64_t gates = is_lstm ? 4 : is_gru ? 3 : 1, stride = n + 1, span = (gates - 1) * stride + n;
    const float *out = m.input(n), *x = m.input(span), *h = is_gru ? m.input(span) : nullptr;
    const float *before = m.input(n), *after = m.input(n);
    float *grad_x = m.input(span), *grad_h = is_gru ? m.input(span) : nullptr, *state = m.input(n);
    const amp_gates_way row = {out, x, h, before, after, grad_x, grad_h, state, stride};
    f(&row, n);
}
void run(amp_loss_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const float *x = m.input(n), *t = m.input(n), *y = m.input(n);
    f(m.output(n), x, t, y, n, 0.75F);
    f(m.output(n), x, t, nullptr, n, 0.75F);
}
void run(amp_slope_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const float numbers[3] = {0.75F, 1.5F, 1.25F}, *d = m.input(n), *x = m.input(n);
    f(m.output(n), d, x, n, numbers);
}
void run(amp_distance_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const int64_t depth = 3, step = n + 1;
    const float *a = m.input(depth), *b = m.input((depth - 1) * step + n);
    f(m.output(n), a, b, step, depth, n);
}
void run(amp_lines_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const float *const in[] = {m.input(n), m.input(n), m.input(n)}, *weights = m.input(3);
    f(m.output(n), in, weights, 3, n);
}
void run(amp_max_lines_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *const in[] = {m.input(n, k.in), m.input(n, k.in), m.input(n, k.in)};
    f(m.output(n, amp_dtype_size(k.out)), in, 3, n);
}
void run(amp_argmax_lines_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const void *const in[] = {m.input(n, k.in), m.input(n, k.in), m.input(n, k.in)};
    void *out = m.output(n, amp_dtype_size(k.out));
    f(out, m.output(n), in, 3, n);
}
void run(amp_gather_taps_function *f, const amp_kernel &, Operands &m, int64_t n) {
    const int64_t count = 3;
    const float *in = m.input(7), *weights = m.input(count * n);
    int32_t *index = m.output<int32_t>(count * n);
    for (int64_t i = 0; i < count * n; i++) index[i] = int32_t(i % 8) - 1; // each element, and none
    f(m.output(n), in, index, weights, count, n);
}
void run(amp_random_function *f, const amp_kernel &, Operands &m, int64_t n) {
    amp_random_place place = {};
    place.seed = 7;
    amp_random_numbers numbers = {};
    numbers.bits = 24;
    numbers.low = -1, numbers.width = 2, numbers.below = 0.75F;
    numbers.mean = 0.5F, numbers.deviation = 2;
    numbers.last = 0x80000000U, numbers.scale = 2;
    const float *in = m.input(n);
    f(m.output(n), in, n, &place, &numbers);
}
void run(amp_update_function *f, const amp_kernel &k, Operands &m, int64_t n) {
    const double numbers[8] = {1, 0.01, 0.999, 0.9, 0.99, 1e-8, 0.01, 1.5};
    const size_t size = amp_dtype_size(k.in);
    amp_update_block b = {};
    b.kind = AMP_UPDATE_ADAM, b.numbers = numbers, b.count = n;
    b.gradient = m.input(n, k.in);
    b.parameter = m.output(n, size);
    for (void *&state : b.states) state = m.output(n, size);
    f(&b);
}
// Families with tests of their own.
bool has_own_test(amp_kernel_family family) {
    return family == AMP_KERNEL_GEMM || family == AMP_KERNEL_GEMM_PACK || family == AMP_KERNEL_DEPTHWISE ||
           family == AMP_KERNEL_ATTENTION || family == AMP_KERNEL_ATTENTION_PART || family == AMP_KERNEL_FFT;
}
void run(amp_gemm_function *, const amp_kernel &, Operands &, int64_t) {}
void run(amp_gemm_pack_function *, const amp_kernel &, Operands &, int64_t) {}
void run(amp_depthwise_function *, const amp_kernel &, Operands &, int64_t) {}
void run(amp_attention_function *, const amp_kernel &, Operands &, int64_t) {}
void run(amp_attention_part_function *, const amp_kernel &, Operands &, int64_t) {}
void run(amp_attention_backward_function *, const amp_kernel &, Operands &, int64_t) {}
void run(amp_fft_function *, const amp_kernel &, Operands &, int64_t) {}

void run(const amp_kernel &kernel, Operands &m, int64_t n) {
    switch (kernel.family) {
#define AMP_KERNEL_FAMILY(name, type, self_test)                                                                       \
    case AMP_KERNEL_##name:                                                                                            \
        return run(reinterpret_cast<type *>(kernel.function), kernel, m, n);
#define AMP_KERNEL(family, in, out, isa, function, requirement, predicate)
#include "cpu/registry/kernels.def"
    default: FAIL() << kernel.name;
    }
}

// ---- The test ------------------------------------------------------------------------------------------------------

class GuardPages : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Isas, GuardPages, testing::Range(0, int(AMP_ISA_AMX)),
                         [](const testing::TestParamInfo<int> &info) {
                             return std::string(amp_isa_name(amp_isa(info.param)));
                         });

void expect_same_everywhere(const amp_kernel &kernel, Operands &m, int64_t n) {
    std::vector<char> want;
    for (Place place : {AMONG_OTHERS, BEHIND_A_PAGE, BEFORE_A_PAGE}) {
        m.begin(place);
        run(kernel, m, n);
        if (place == AMONG_OTHERS) want = m.bytes();
        ASSERT_EQ(want, m.bytes()) << kernel.name << " of " << n << ", place " << int(place);
        ASSERT_TRUE(m.is_untouched_outside()) << kernel.name << " of " << n << ", place " << int(place);
    }
}

// A touch of a page ends the program: it says by which kernel.
const char *running = "";

void tell(int signal_number) {
    signal(signal_number, SIG_DFL);
    (void)!write(STDERR_FILENO, running, strlen(running));
}

TEST_P(GuardPages, AreNotTouchedByKernelsOfVectors) {
    const amp_isa isa = amp_isa(GetParam());
    if (!amp_isa_usable(isa)) GTEST_SKIP() << amp_isa_reason(isa);
    Operands m;
    int count = 0;
    const auto before = signal(SIGSEGV, tell);
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *kernel = amp_kernel_at(i);
        if (kernel->isa != isa || has_own_test(kernel->family)) continue;
        running = kernel->name;
        for (int64_t n = 1; n <= 67; n++) ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(*kernel, m, n));
        for (int64_t n : {127, 128, 129, 255, 257}) ASSERT_NO_FATAL_FAILURE(expect_same_everywhere(*kernel, m, n));
        count++;
    }
    signal(SIGSEGV, before);
    EXPECT_GT(count, 5);
}

} // namespace
