// Convolutions by oneDNN: their bits follow from the layer, not from what ran before or on how many threads; forks; which
// layers the rule gives to it.
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "amp_test.h"
#include "dnnl_use.h"
#include "machine/isa.h"
#include "patience.h"
#include "sanitizers.h"

using namespace amp_test;

namespace {
std::atomic<bool> make_fails{false}, run_fails{false};

template <class Function>
Function *next(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}
} // namespace

// In the place of oneDNN's own: fail where a test says so.
extern "C" dnnl_status_t dnnl_primitive_create(dnnl_primitive_t *made, const_dnnl_primitive_desc_t description) {
    static const auto create = next<decltype(dnnl_primitive_create)>("dnnl_primitive_create");
    return make_fails ? dnnl_runtime_error : create(made, description);
}

extern "C" dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                                const dnnl_exec_arg_t *list) {
    static const auto execute = next<decltype(dnnl_primitive_execute)>("dnnl_primitive_execute");
    return run_fails ? dnnl_runtime_error : execute(primitive, stream, count, list);
}

namespace {

struct Layer {
    int64_t in, out, height, width, kernel, stride, batch = 1, groups = 1;

    int64_t extent(int64_t size) const {
        return (size + 2 * (kernel / 2) - kernel) / stride + 1;
    }
    std::string name() const {
        std::string s;
        for (int64_t number : {in, out, height, width, kernel, stride, batch, groups})
            s += std::to_string(number) + " ";
        return s;
    }
};

amp_tensor *values(const Shape &shape, uint32_t seed) {
    const int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    std::vector<float> v(size_t(n), 0.0f);
    for (float &x : v) {
        seed = seed * 1664525u + 1013904223u;
        x = float(int32_t(seed)) * 0x1p-31f;
    }
    return op("to", {amp_from_data(v.data(), AMP_F32, int(shape.size()), shape.data())}, {{"dtype", AMP_BF16}});
}

std::vector<double> convolve(const Layer &l) {
    const Scope scope;
    amp_tensor *x = op("permute", {values({l.batch, l.height, l.width, l.in}, 1), AMP_DIMS(0, 3, 1, 2)});
    amp_tensor *w = values({l.out, l.in / l.groups, l.kernel, l.kernel}, 2), *b = values({l.out}, 3);
    return numbers_of(op("conv2d", {x, w, b},
                         {{"padding", AMP_DIMS(l.kernel / 2)}, {"stride", AMP_DIMS(l.stride)}, {"groups", l.groups}}));
}

const Layer odd = {4000, 100, 5, 5, 3, 1};
// Cut by output channels, by pixels, by images, and not at all.
const std::vector<Layer> layers = {odd,
                                   {2048, 513, 5, 5, 1, 2},
                                   {512, 513, 7, 7, 3, 1},
                                   {300, 300, 3, 9, 3, 2},
                                   {24, 144, 40, 50, 1, 1},
                                   {50, 97, 23, 31, 1, 1, 3},
                                   {3, 32, 90, 91, 3, 2, 3},
                                   {16, 48, 50, 40, 3, 1, 2},
                                   {96, 96, 60, 41, 3, 2, 2, 96}};

class ConvDnnl : public Test {
  protected:
    void TearDown() override {
        EXPECT_EQ(amp_set_num_threads(threads_), AMP_OK);
        Test::TearDown();
    }
    const DnnlUse use_{AMP_DNNL_ALWAYS};
    const int threads_ = amp_get_num_threads();
};

// By a process that has computed nothing else.
std::vector<double> convolve_alone(const Layer &l) {
    int ends[2], status = -1;
    std::vector<double> y;
    const size_t bytes = size_t(l.batch * l.out * l.extent(l.height) * l.extent(l.width)) * sizeof(double);
    if (pipe(ends) != 0) return y;
    const pid_t child = fork();
    if (child == 0) {
        const std::vector<double> computed = convolve(l);
        const char *from = reinterpret_cast<const char *>(computed.data());
        size_t done = 0;
        for (ssize_t n = 1; n > 0 && done < bytes; done += size_t(n > 0 ? n : 0))
            n = write(ends[1], from + done, bytes - done);
        _exit(done != bytes);
    }
    close(ends[1]);
    std::vector<char> got;
    char block[4096];
    for (ssize_t n; child > 0 && (n = read(ends[0], block, sizeof block)) > 0;) got.insert(got.end(), block, block + n);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || got.size() != bytes) return y;
    y.resize(bytes / sizeof(double));
    memcpy(y.data(), got.data(), bytes);
    return y;
}

// Neither on the number of threads, nor on what ran before.
TEST_F(ConvDnnl, BitsFollowFromTheLayerAlone) {
    std::vector<std::vector<double>> alone;
    ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
    for (const Layer &l : layers) // the thread sanitizer does not follow a fork
        alone.push_back(amp_test::under_tsan ? convolve(l) : convolve_alone(l));
    for (int threads = 1; threads <= 4; threads++) {
        ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
        for (size_t i = 0; i < layers.size(); i++) {
            const size_t k = (i * (threads % 2 ? 2 : 4) + size_t(threads)) % layers.size(); // all, in some order
            ASSERT_FALSE(alone[k].empty());
            EXPECT_EQ(convolve(layers[k]), alone[k]) << layers[k].name() << " on " << threads;
        }
    }
}

TEST_F(ConvDnnl, BitsAreTheSameAfterMoreShapesThanAreKept) {
    if (amp_test::under_tsan) {
        GTEST_SKIP() << "one thread";
    }
    ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
    const std::vector<double> expected = convolve(odd);
    ASSERT_FALSE(expected.empty());
    for (int64_t i = 0; i < 300; i++) ASSERT_FALSE(convolve({300, 300, 1 + i % 20, 1 + i / 20, 3, 1}).empty());
    EXPECT_EQ(convolve(odd), expected);
}

TEST_F(ConvDnnl, AForkWhileItMakesPrimitivesIsSafe) {
    if (amp_test::under_tsan || amp_test::under_asan) {
        GTEST_SKIP() << "the sanitizers do not survive a fork beside other threads";
    }
    ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
    std::atomic<bool> done{false};
    std::thread maker([&] {
        for (int64_t i = 0; !done; i++) convolve({300, 300, 1 + i % 20, 20 + i / 20 % 5, 3, 1});
    });
    int failed = 0;
    for (int i = 0; i < 40; i++) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            alarm(hang_seconds);
            _exit(convolve({300, 300, 3, 3, 3, 1}).empty());
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        failed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    done = true;
    maker.join();
    EXPECT_EQ(failed, 0);
}

std::string report_of(const Layer &l) {
    amp_explain_reset();
    amp_explain_begin();
    (void)convolve(l);
    amp_explain_end();
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    const std::string text = report ? report : "";
    amp_explain_free(report);
    return text;
}

bool is_theirs(const Layer &l) {
    return report_of(l).find("dnnl:") != std::string::npos;
}

TEST_F(ConvDnnl, TheRuleGoesByTheLayersExtents) {
    if (amp_isa_best() < AMP_ISA_AVX512BF16) GTEST_SKIP() << "the CPU has no AVX512_BF16: nothing to choose from";
    for (const Layer &l : layers) EXPECT_TRUE(is_theirs(l)) << l.name();
    const DnnlUse rule(AMP_DNNL_BY_RULE);
    const Layer theirs[] = {{24, 144, 40, 50, 1, 1}, // few channels in
                            {3, 32, 120, 121, 3, 2}, // few channels, windows
                            {8, 64, 60, 60, 7, 2},   // few channels, large windows
                            {192, 42, 40, 40, 1, 1}, // few channels out
                            {512, 512, 7, 7, 3, 1},  // small images under much weight
                            {1024, 1024, 14, 14, 1, 2}};
    const Layer ours[] = {{128, 144, 40, 50, 1, 1},      {3, 64, 60, 60, 7, 2}, {256, 256, 14, 14, 3, 1},
                          {96, 96, 60, 41, 3, 2, 2, 96}, {24, 144, 4, 4, 1, 1}, {960, 320, 7, 7, 1, 1}};
    for (const Layer &l : theirs) EXPECT_TRUE(is_theirs(l)) << l.name();
    for (const Layer &l : ours) EXPECT_FALSE(is_theirs(l)) << l.name();
    const DnnlUse never(AMP_DNNL_NEVER);
    for (const Layer &l : theirs) EXPECT_FALSE(is_theirs(l)) << l.name();
}

// Its failure is no failure of the op: our kernel computes the layer, and oneDNN is asked again the next time.
TEST_F(ConvDnnl, WhereItFailsOurKernelRuns) {
    if (amp_isa_best() < AMP_ISA_AVX512BF16) GTEST_SKIP() << "the CPU has no AVX512_BF16: oneDNN is not asked";
    const Layer l = {40, 72, 45, 50, 1, 1};
    amp_dnnl_use_for_test(AMP_DNNL_NEVER);
    const std::vector<double> ours = convolve(l);
    amp_dnnl_use_for_test(AMP_DNNL_ALWAYS);
    for (std::atomic<bool> *fails : {&make_fails, &run_fails}) {
        *fails = true;
        EXPECT_FALSE(is_theirs(l));
        EXPECT_EQ(convolve(l), ours);
        *fails = false;
        EXPECT_EQ(amp_last_status(), AMP_OK) << amp_last_error();
        EXPECT_TRUE(is_theirs(l));
    }
}

} // namespace
