// The table of kernels and the table of choices, by the clock: no row is slower than the reference that it displaces,
// and no answer than the other way, oneDNN's above all. Times are of the thread, in turns, and tried again where noise
// may have spoken; the tests skip where code is not what users get: without optimisation, and under sanitizers.
#include "amp_test.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <type_traits>

#include "choices_file.h"

extern "C" {
#include "core/build.h"
#include "cpu/dnnl/dnnl_matmul.h"
#include "machine/isa.h"
#include "cpu/registry/kernels.h"
}

using namespace amp_test;

namespace {

const char *reason_to_skip() {
#ifdef AMP_BUILD_SANITIZED
    return "a sanitizer is on: it slows kernels, not all alike";
#elif !defined(__OPTIMIZE__)
    return "the build is not optimised";
#else
    return nullptr;
#endif
}

enum { COUNT = 4096, LINES = 4, TURNS = 9, TRIES = 6 };
constexpr double margin = 1.1; // of noise

double seconds() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

template <class Run>
double time_of(const Run &run, int repeats) {
    const double start = seconds();
    for (int i = 0; i < repeats; i++) run();
    return seconds() - start;
}

// How long `a` takes, in times of `b`: the median of turns, which are long enough for the clock.
template <class A, class B>
double ratio_of(const A &a, const B &b) {
    a(), b();
    int repeats = 1;
    while (repeats < 1 << 12 && time_of(b, repeats) < 1e-4) repeats *= 2;
    std::vector<double> ratios;
    for (int i = 0; i < TURNS; i++) {
        const double first = i % 2 ? 0 : time_of(b, repeats), mine = time_of(a, repeats);
        ratios.push_back(mine / (i % 2 ? time_of(b, repeats) : first));
    }
    std::nth_element(ratios.begin(), ratios.begin() + TURNS / 2, ratios.end());
    return ratios[TURNS / 2];
}

template <class A, class B>
void expect_not_slower(const std::string &what, const A &a, const B &b) {
    double best = 1e9;
    for (int i = 0; i < TRIES && best > margin; i++) best = std::min(best, ratio_of(a, b));
    EXPECT_LE(best, margin) << what << " takes so many times as long";
}

// ---- Rows of vectors: one way to call each type of function ---------------------------------------------------------

struct Data {
    // Of the row's dtypes, the first lines between 0.1 and 0.9, where every function is defined.
    explicit Data(const amp_kernel *k) : in(6 * LINES * COUNT), wide(4 * LINES * COUNT, 0.5), index(LINES * COUNT) {
        for (size_t i = 0; i < in.size(); i++) {
            const float unit = 0.1f + 0.8f * float(i * 2654435761u % 65536) / 65536;
            const float x = i < 6 * COUNT ? unit : 4 * unit; // Stirling: nothing to do below 1
            if (k->in == AMP_BF16)
                reinterpret_cast<uint16_t *>(in.data())[i] = to_bf16(x);
            else if (k->in == AMP_F16)
                reinterpret_cast<uint16_t *>(in.data())[i] = uint16_t(0x3000 + i % 1024);
            else
                in[i] = x;
        }
        for (size_t i = 0; i < index.size(); i++) index[i] = int32_t(i * 40503u % COUNT);
        for (int i = 0; i < LINES; i++) lines[i] = in.data() + i * COUNT;
    }
    float *at(int line) {
        return in.data() + line * COUNT;
    }
    std::vector<float> in;
    std::vector<double> wide;
    std::vector<int32_t> index;
    const float *lines[LINES];
    std::vector<float> out = std::vector<float>(4 * COUNT);
};

void run(amp_unary_function *f, Data &d) { // and of conversions and rows
    f(d.out.data(), d.at(0), COUNT);
}
void run(amp_unary_with_function *f, Data &d) {
    f(d.out.data(), d.at(0), COUNT, 0.2f, 0.7f);
}
void run(amp_binary_function *f, Data &d) {
    f(d.out.data(), d.at(0), d.at(1), COUNT, 0.5f);
}
void run(amp_ternary_function *f, Data &d) {
    f(d.out.data(), d.at(0), d.at(1), d.at(2), COUNT, 0.5f);
}
void run(amp_compare_function *f, Data &d) {
    f(reinterpret_cast<uint8_t *>(d.out.data()), d.at(0), d.at(1), COUNT, 0.5f);
}
void run(amp_reduce_function *f, Data &d) {
    d.wide[0] = f(d.at(0), COUNT);
}
void run(amp_centred_function *f, Data &d) {
    f(d.wide.data(), d.at(0), COUNT, 0.5f);
}
void run(amp_dot_function *f, Data &d) {
    d.wide[0] = f(d.at(0), d.at(1), COUNT);
}
void run(amp_accumulate_function *f, Data &d) {
    f(d.wide.data(), d.at(0), COUNT);
}
void run(amp_norm_function *f, Data &d) {
    f(d.out.data(), d.at(0), d.at(1), d.at(2), COUNT, 1e-5);
}
void run(amp_columns_function *f, Data &d) {
    std::fill_n(d.wide.begin(), COUNT, 1.0); // products and magnitudes stay what they are
    f(d.wide.data(), d.at(0), COUNT * 4, LINES, COUNT);
}
void run(amp_moments_function *f, Data &d) {
    amp_moments m = {};
    f(&m, d.at(0), COUNT);
    d.wide[0] = m.mean;
}
void run(amp_column_sums_function *f, Data &d) {
    f(d.wide.data(), d.wide.data() + COUNT, d.at(0), COUNT);
}
void run(amp_standardize_function *f, Data &d) {
    f(d.out.data(), d.at(0), d.at(1), d.at(2), d.at(3), COUNT);
}
void run(amp_gates_function *f, Data &d) {
    f(d.out.data(), d.out.data() + COUNT, d.at(0), d.at(4), COUNT, COUNT);
}
void run(amp_loss_function *f, Data &d) {
    f(d.out.data(), d.at(6), d.at(7), d.at(8), COUNT, 0.5f);
}
void run(amp_distance_function *f, Data &d) {
    f(d.out.data(), d.at(4), d.at(0), COUNT, LINES, COUNT);
}
void run(amp_lines_function *f, Data &d) {
    f(d.out.data(), d.lines, d.at(4), LINES, COUNT);
}
void run(amp_argmax_lines_function *f, Data &d) {
    f(d.out.data(), d.out.data() + COUNT, d.lines, LINES, COUNT);
}
void run(amp_gather_taps_function *f, Data &d) {
    f(d.out.data(), d.at(5), d.index.data(), d.at(0), LINES, COUNT);
}

void run(amp_gemm_pack_function *f, Data &d) {
    f(reinterpret_cast<uint16_t *>(d.wide.data() + (64 - reinterpret_cast<uintptr_t>(d.wide.data()) % 64) / 8), d.at(0),
      AMP_F32, 32, 32, 32, 1);
}

// A product that one thread computes, 64 × 128 × 64; B is at the data's 64-byte boundary and so are its blocks' values.
void run(amp_gemm_function *f, Data &d) {
    float *const b = d.at(4) + (64 - reinterpret_cast<uintptr_t>(d.at(4)) % 64) / 4;
    amp_gemm g = {};
    g.m = 64, g.n = 128, g.k = 64, g.batch = 1, g.alpha = 1;
    g.a = d.at(0), g.a_dtype = AMP_F32, g.a_row_stride = g.k, g.a_column_stride = 1;
    g.b = b;
    g.c = d.wide.data(), g.c_dtype = AMP_F32, g.c_row_stride = g.n;
    EXPECT_EQ(f(&g), AMP_OK);
}

using Caller = void (*)(const amp_kernel *kernel, Data &d);

// Of what an op prepares for them: timed as ops.
template <class Function>
constexpr bool is_of_an_op =
    std::is_same_v<Function, amp_depthwise_function> || std::is_same_v<Function, amp_attention_function> ||
    std::is_same_v<Function, amp_attention_part_function> || std::is_same_v<Function, amp_fft_function>;

template <class Function>
constexpr Caller caller_of() {
    if constexpr (is_of_an_op<Function>)
        return nullptr;
    else
        return [](const amp_kernel *k, Data &d) { run(reinterpret_cast<Function *>(k->function), d); };
}

const Caller callers[] = {
#define AMP_KERNEL_FAMILY(name, type, self_test) caller_of<type>(),
#define AMP_KERNEL(family, in, out, isa, function, requirement, predicate)
#include "cpu/registry/kernels.def"
};

const amp_kernel *reference_of(const amp_kernel *kernel) {
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *k = amp_kernel_at(i);
        if (k->family == kernel->family && k->in == kernel->in && k->out == kernel->out && k->isa == AMP_ISA_REF)
            return k;
    }
    return nullptr;
}

class ChoiceTable : public Test {
  protected:
    void SetUp() override {
        Test::SetUp();
        amp_set_num_threads(1);
    }
    void TearDown() override {
        amp_isa_reload_for_test(nullptr);
        amp_set_num_threads(threads_);
        Test::TearDown();
    }
    const int threads_ = amp_get_num_threads();
};

} // namespace

TEST_F(ChoiceTable, NoRowIsSlowerThanItsReference) {
    if (reason_to_skip()) GTEST_SKIP() << reason_to_skip();
    int timed = 0;
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *k = amp_kernel_at(i), *reference = reference_of(k);
        ASSERT_NE(reference, nullptr) << k->name;
        if (k == reference || !callers[k->family] || !amp_kernel_usable(k, nullptr)) continue;
        Data d(k);
        const auto mine = [&] { callers[k->family](k, d); };
        expect_not_slower(k->name, mine, [&] { callers[k->family](reference, d); });
        timed++;
    }
    EXPECT_TRUE(timed > 100 || amp_isa_best() == AMP_ISA_REF) << timed;
}

// Families whose rows work on what an op prepares: the op with all rows, and with the reference alone.
TEST_F(ChoiceTable, NoOpIsSlowerThanByReference) {
    if (reason_to_skip()) GTEST_SKIP() << reason_to_skip();
    amp_tensor *wave = random_tensor(AMP_F32, {8, 1024}, 1);
    for (const amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *image = random_tensor(dtype, {1, 32, 24, 24}, 2), *window = random_tensor(dtype, {32, 1, 3, 3}, 3);
        amp_tensor *many = random_tensor(dtype, {1, 2, 64, 64}, 4), *one = random_tensor(dtype, {1, 2, 1, 64}, 5);
        amp_tensor *keys = random_tensor(dtype, {1, 2, 256, 64}, 6);
        const std::pair<const char *, std::function<amp_tensor *()>> ops[] = {
            {"a depthwise convolution",
             [&] {
                 return op("conv2d", {image, window}, {{"padding", AMP_DIMS(1, 1)}, {"groups", 32}});
             }},
            {"attention",
             [&] {
                 return op("scaled_dot_product_attention", {many, many, many});
             }},
            {"attention of one row",
             [&] {
                 return op("scaled_dot_product_attention", {one, keys, keys});
             }},
            {"a Fourier transform", [&] { return op("fft_fft", {wave}); }},
        };
        for (const auto &[what, run_op] : ops) {
            const auto once = [&, run = run_op] {
                Scope scope;
                ASSERT_NE(run(), nullptr) << amp_last_error();
            };
            double best = 1e9;
            for (int i = 0; i < TRIES && best > margin; i++) {
                std::vector<double> ratios;
                for (int turn = 0; turn < 5; turn++) {
                    double times[2];
                    for (const bool by_reference : {true, false}) {
                        amp_isa_reload_for_test(by_reference ? "ref" : nullptr);
                        once(); // self-tests
                        times[by_reference] = time_of(once, 4);
                    }
                    ratios.push_back(times[0] / times[1]);
                }
                std::nth_element(ratios.begin(), ratios.begin() + 2, ratios.end());
                best = std::min(best, ratios[2]);
            }
            EXPECT_LE(best, margin) << what << " in " << amp_dtype_name(dtype) << " takes so many times as long";
        }
    }
}

// What is recorded for kinds of products and convolutions as they are met: each answer is the faster of its row. The
// rule says 3 %.
TEST_F(ChoiceTable, EachKindGoesToWhatItsRecordedRowSaysIsFaster) {
    if (amp_isa_best() == AMP_ISA_REF) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    ChoicesFile file;
    for (const Shape &s : {Shape{4, 512, 1024}, Shape{100, 150, 130}, Shape{200, 512, 300}, Shape{256, 256, 256}}) {
        amp_tensor *w = random_tensor(AMP_F32, {s[1], s[2]}, 1);
        ASSERT_EQ(amp_tensor_mark_parameter(w), AMP_OK);
        ASSERT_NE(op("linear", {random_tensor(AMP_F32, {s[0], s[2]}, 2), w}), nullptr) << amp_last_error();
    }
    for (const int64_t channels : {16, 64}) {
        amp_tensor *w = random_tensor(AMP_BF16, {channels, channels, 3, 3}, 3);
        ASSERT_EQ(amp_tensor_mark_parameter(w), AMP_OK);
        amp_tensor *x = op("permute", {random_tensor(AMP_BF16, {1, 28, 28, channels}, 4), AMP_DIMS(0, 3, 1, 2)});
        ASSERT_NE(op("conv2d", {x, w}), nullptr) << amp_last_error();
    }
    for (const bool again : {false, true}) { // as measured, and as read from the file
        amp_choice_report r = {};
        int kinds = 0;
        if (again) amp_choices_forget_for_test();
        for (; amp_choice_explain_kind(kinds, &r); kinds++) {
            const double taken = r.answer ? r.yes_rate : r.no_rate, other = r.answer ? r.no_rate : r.yes_rate;
            EXPECT_GE(taken, 0.97 * other) << r.name;
            EXPECT_EQ(r.origin, again ? AMP_CHOICE_FROM_FILE : AMP_CHOICE_MEASURED) << r.name;
        }
        EXPECT_GE(kinds, 4);
    }
}

// Few rows with packed weights are one slice to oneDNN, and one thread's: they are ours, and nothing is measured.
TEST_F(ChoiceTable, WhatOneDnnWouldNotShareAmongThreadsIsOurs) {
    if (amp_isa_best() == AMP_ISA_REF) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    ChoicesFile file;
    (void)amp_choose(AMP_CHOICE_GEMM_F32); // measures
    const amp_dnnl_cache_stats before = amp_dnnl_cache_statistics();
    for (const Shape &s : {Shape{8, 512, 1024}, Shape{16, 512, 512}, Shape{32, 1536, 384}}) {
        amp_tensor *w = random_tensor(AMP_F32, {s[1], s[2]}, 1);
        ASSERT_EQ(amp_tensor_mark_parameter(w), AMP_OK);
        ASSERT_NE(op("linear", {random_tensor(AMP_F32, {s[0], s[2]}, 2), w}), nullptr) << amp_last_error();
    }
    const amp_dnnl_cache_stats after = amp_dnnl_cache_statistics();
    EXPECT_EQ(after.hits + after.misses, before.hits + before.misses) << "oneDNN was asked";
    amp_choice_report r = {};
    EXPECT_FALSE(amp_choice_explain_kind(0, &r)) << r.name;
}

// … and the record is right: what was chosen is not slower than oneDNN when both run again.
TEST_F(ChoiceTable, NoProductIsSlowerThanByOneDnn) {
    if (reason_to_skip()) GTEST_SKIP() << reason_to_skip();
    if (amp_isa_best() == AMP_ISA_REF) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    ChoicesFile file;
    for (const Shape &s : {Shape{2, 600, 1024}, Shape{16, 512, 512}, Shape{100, 150, 130}, Shape{200, 256, 300}}) {
        amp_tensor *x = random_tensor(AMP_F32, {s[0], s[2]}, 1), *w = random_tensor(AMP_F32, {s[1], s[2]}, 2);
        ASSERT_EQ(amp_tensor_mark_parameter(w), AMP_OK);
        amp_tensor *y = op("linear", {x, w});
        ASSERT_NE(y, nullptr) << amp_last_error();
        amp_dnnl_matmul d = {};
        d.m = s[0], d.n = s[1], d.k = s[2], d.batch = 1, d.alpha = 1;
        std::vector<float> c(size_t(d.m * d.n));
        void *packed = aligned_alloc(64, amp_gemm_f32_packed_bytes(d.n, d.k));
        const float *b = static_cast<const float *>(amp_data(w));
        ASSERT_EQ(amp_gemm_f32_pack(static_cast<float *>(packed), b, d.n, d.k, d.k, 1), AMP_OK);
        d.a = static_cast<const float *>(amp_data(x)), d.a_row_stride = d.k, d.a_column_stride = 1;
        d.b = b, d.b_row_stride = 1, d.b_column_stride = d.k, d.packed_b = static_cast<const float *>(packed);
        d.c = c.data(), d.c_row_stride = d.n;
        const auto ours = [&] {
            Scope scope;
            (void)op("linear", {x, w});
        };
        expect_not_slower("linear " + std::to_string(d.m) + "×" + std::to_string(d.n) + "×" + std::to_string(d.k), ours,
                          [&] { (void)amp_dnnl_matmul_f32(&d, nullptr); });
        free(packed);
    }
}
