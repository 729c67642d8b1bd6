// What a product keeps in registers and tiles outlives what happens around it: products of oneDNN in the same thread,
// signals whose handler spoils every register, forks, threads that come and go. Each gives the same bits.
#include <gtest/gtest.h>
#include <immintrin.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "amp/system.h"
#include "kernel_rows.h"
#include "patience.h"
#include "sanitizers.h"

using namespace kernel_rows;

namespace {

// A product by one kernel, over operands that it only reads.
struct Product {
    static constexpr int64_t M = 50, N = 70, K = 200;
    explicit Product(const amp_kernel *k) : kernel(k), a(M * K), packed(1) {
        std::mt19937 random(5);
        std::uniform_real_distribution<float> value(-1, 1);
        std::vector<float> b(N * K);
        for (float &x : a) x = value(random);
        for (float &x : b) x = value(random);
        if (k->in == AMP_F32) {
            packed.resize(amp_gemm_f32_packed_bytes(N, K) / 64 + 1);
            EXPECT_EQ(AMP_OK, amp_gemm_f32_pack(reinterpret_cast<float *>(packed.data()), b.data(), N, K, K, 1));
        } else {
            packed.resize(amp_gemm_packed_bytes(N, K) / 64 + 1);
            EXPECT_EQ(AMP_OK, amp_gemm_pack(packed.data(), b.data(), AMP_F32, N, K, K, 1));
        }
    }
    std::vector<float> run() const {
        std::vector<float> c(M * N);
        amp_gemm g = {};
        g.m = M, g.n = N, g.k = K, g.batch = 1, g.alpha = 1;
        g.a = a.data(), g.a_dtype = AMP_F32, g.a_row_stride = K, g.a_column_stride = 1, g.b = packed.data();
        g.c = c.data(), g.c_dtype = AMP_F32, g.c_row_stride = N;
        if (reinterpret_cast<amp_gemm_function *>(kernel->function)(&g) != AMP_OK) c.clear();
        return c;
    }

  private:
    struct alignas(64) Line {
        char bytes[64];
    };
    const amp_kernel *kernel;
    std::vector<float> a;
    std::vector<Line> packed;
};

class KernelState : public testing::TestWithParam<int> {
  protected:
    void SetUp() override {
        const amp_kernel *kernel = amp_kernel_at(GetParam());
        if (!amp_isa_usable(kernel->isa)) GTEST_SKIP() << kernel->name << ": " << amp_isa_reason(kernel->isa);
        product = std::make_unique<Product>(kernel);
        want = product->run();
        ASSERT_FALSE(want.empty());
    }
    bool is_same() const {
        return product->run() == want;
    }
    std::unique_ptr<Product> product;
    std::vector<float> want;
};

INSTANTIATE_TEST_SUITE_P(Rows, KernelState, testing::ValuesIn(rows_of(AMP_KERNEL_GEMM)), row_name);

// oneDNN's own bf16 product, on AMX where there is one.
class DnnlProduct {
  public:
    static constexpr int64_t M = 48, N = 64, K = 128;
    DnnlProduct() : a_(M * K), b_(K * N), c_(M * N) {
        for (size_t i = 0; i < a_.size(); i++) a_[i] = uint16_t(0x3f00 + i % 91);
        for (size_t i = 0; i < b_.size(); i++) b_[i] = uint16_t(0xbf00 + i % 57);
        EXPECT_EQ(dnnl_success, dnnl_engine_create(&engine_, dnnl_cpu, 0));
        EXPECT_EQ(dnnl_success, dnnl_stream_create(&stream_, engine_, dnnl_stream_default_flags));
        dnnl_memory_desc_t descs[3];
        const dnnl_dims_t dims[] = {{M, K}, {K, N}, {M, N}};
        for (int i = 0; i < 3; i++)
            dnnl_memory_desc_create_with_tag(&descs[i], 2, dims[i], i < 2 ? dnnl_bf16 : dnnl_f32, dnnl_ab);
        if (dnnl_matmul_primitive_desc_create(&pd_, engine_, descs[0], descs[1], nullptr, descs[2], nullptr) ==
            dnnl_success) {
            const char *name = "";
            dnnl_primitive_desc_query(pd_, dnnl_query_impl_info_str, 0, &name);
            implementation = name;
            EXPECT_EQ(dnnl_success, dnnl_primitive_create(&primitive_, pd_));
            void *const data[] = {a_.data(), b_.data(), c_.data()};
            for (int i = 0; i < 3; i++) dnnl_memory_create(&memory_[i], descs[i], engine_, data[i]);
        }
        for (dnnl_memory_desc_t &desc : descs) dnnl_memory_desc_destroy(desc);
    }
    ~DnnlProduct() {
        for (dnnl_memory_t m : memory_) dnnl_memory_destroy(m);
        dnnl_primitive_destroy(primitive_);
        dnnl_primitive_desc_destroy(pd_);
        dnnl_stream_destroy(stream_);
        dnnl_engine_destroy(engine_);
    }
    std::vector<float> run() {
        const dnnl_exec_arg_t arguments[] = {
            {DNNL_ARG_SRC, memory_[0]}, {DNNL_ARG_WEIGHTS, memory_[1]}, {DNNL_ARG_DST, memory_[2]}};
        std::fill(c_.begin(), c_.end(), -1.0F);
        EXPECT_EQ(dnnl_success, dnnl_primitive_execute(primitive_, stream_, 3, arguments));
        EXPECT_EQ(dnnl_success, dnnl_stream_wait(stream_));
        return c_;
    }
    std::string implementation; // "": it has no bf16 here

  private:
    std::vector<uint16_t> a_, b_;
    std::vector<float> c_;
    dnnl_engine_t engine_ = nullptr;
    dnnl_stream_t stream_ = nullptr;
    dnnl_primitive_desc_t pd_ = nullptr;
    dnnl_primitive_t primitive_ = nullptr;
    dnnl_memory_t memory_[3] = {};
};

TEST_P(KernelState, OutlivesProductsOfOneDnn) {
    DnnlProduct theirs;
    if (theirs.implementation.empty()) GTEST_SKIP() << "oneDNN has no bf16 product for this CPU";
    if (amp_isa_usable(AMP_ISA_AMX)) {
        EXPECT_NE(std::string::npos, theirs.implementation.find("amx")) << theirs.implementation;
    }
    const std::vector<float> first = theirs.run();
    for (int round = 0; round < 10; round++) {
        ASSERT_TRUE(is_same()) << "after " << round << " products of " << theirs.implementation;
        ASSERT_EQ(first, theirs.run()) << "after " << round << " products of ours";
    }
}

// ---- Signals -------------------------------------------------------------------------------------------------------

// Handlers run in any thread.
std::atomic<int> signals{0};
std::atomic<double> waste{1};
bool has_ymm, has_zmm, has_tiles;

__attribute__((target("avx2"))) void spoil_ymm() {
    __asm__ volatile("vcmptrueps %%ymm0, %%ymm0, %%ymm0\n vmovaps %%ymm0, %%ymm1\n vmovaps %%ymm0, %%ymm2\n"
                     "vmovaps %%ymm0, %%ymm3\n vmovaps %%ymm0, %%ymm8\n vmovaps %%ymm0, %%ymm15"
                     :
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm8", "xmm15");
}
__attribute__((target("avx512f"))) void spoil_zmm() {
    __asm__ volatile("vpternlogd $255, %%zmm0, %%zmm0, %%zmm0\n vmovaps %%zmm0, %%zmm4\n vmovaps %%zmm0, %%zmm16\n"
                     "vmovaps %%zmm0, %%zmm24\n vmovaps %%zmm0, %%zmm31\n kxnorw %%k1, %%k1, %%k1"
                     :
                     :
                     : "xmm0", "xmm4", "xmm16", "xmm24", "xmm31", "k1");
}
__attribute__((target("amx-tile"))) void spoil_tiles() {
    _tile_release();
}

void interrupt(int) {
    waste = waste * 1.0000001 + 0.5;
    if (has_ymm) spoil_ymm();
    if (has_zmm) spoil_zmm();
    if (has_tiles) spoil_tiles();
    signals++;
}

void set_timer(int microseconds) {
    const itimerval every = {{0, microseconds}, {0, microseconds}};
    ASSERT_EQ(0, setitimer(ITIMER_REAL, &every, nullptr));
}

TEST_P(KernelState, OutlivesSignals) {
    struct sigaction action = {}, before;
    action.sa_handler = interrupt;
    action.sa_flags = SA_RESTART;
    ASSERT_EQ(0, sigaction(SIGALRM, &action, &before));
    has_ymm = amp_isa_usable(AMP_ISA_AVX2), has_zmm = amp_isa_usable(AMP_ISA_AVX512);
    has_tiles = amp_isa_usable(AMP_ISA_AMX);
    signals = 0;
    set_timer(300);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    bool same = true;
    while (same && signals < 60 && std::chrono::steady_clock::now() < end) same = is_same();
    set_timer(0);
    sigaction(SIGALRM, &before, nullptr);
    EXPECT_TRUE(same) << "after " << signals << " signals";
    EXPECT_GT(signals, 0);
}

// ---- Forks and threads ---------------------------------------------------------------------------------------------

bool is_same_in_a_thread(const Product &product, const std::vector<float> &want) {
    bool same = false;
    std::thread([&] { same = product.run() == want; }).join();
    return same;
}

TEST_P(KernelState, OutlivesForks) {
    if (amp_test::under_tsan) {
        GTEST_SKIP() << "the thread sanitizer does not follow a fork";
    }
    for (int round = 0; round < 3; round++) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            alarm(hang_seconds);
            _exit(is_same() && is_same_in_a_thread(*product, want) && is_same() ? 0 : 1);
        }
        EXPECT_TRUE(is_same()); // beside it
        int status = -1;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
        ASSERT_TRUE(is_same());
    }
}

TEST_P(KernelState, OutlivesThreadsThatComeAndGo) {
    for (int round = 0; round < 6; round++) {
        std::vector<char> same(3, 0);
        std::vector<std::thread> threads;
        for (char &s : same) threads.emplace_back([this, &s] { s = is_same(); });
        ASSERT_TRUE(is_same());
        for (std::thread &t : threads) t.join();
        ASSERT_EQ(std::vector<char>(3, 1), same);
        ASSERT_TRUE(is_same());
    }
}

} // namespace
