/* Packing for products: every kernel that this machine runs, bit for bit; whole matrices of every layout. */
#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.h>

#include <random>
#include <vector>

#include "amp/system.h"
#include "gemm_packs.h"
#include "guard.h"
#include "kernel_rows.h"

using namespace gemm_packs;
using namespace kernel_rows;

namespace {

class GemmPack : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rows, GemmPack, testing::ValuesIn(rows_of(AMP_KERNEL_GEMM_PACK)), row_name);

TEST_P(GemmPack, BlocksHoldPairsOfKAndZeroPadding) {
    const amp_kernel *kernel = amp_kernel_at(GetParam());
    if (!amp_isa_usable(kernel->isa)) GTEST_SKIP() << kernel->name << ": " << amp_isa_reason(kernel->isa);
    auto pack = reinterpret_cast<amp_gemm_pack_function *>(kernel->function);
    std::mt19937 random(6);
    for (int columns : {1, 15, 16, 17, 31, 32})
        for (int ks : {1, 2, 16, 31, 32})
            for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16})
                for (int order = 0; order < 3; order++) {
                    const int64_t stride_n = order == 0 ? ks : order == 1 ? 1 : 2 * ks + 3;
                    const int64_t stride_k = order == 0 ? 1 : order == 1 ? columns : 2;
                    const size_t count = static_cast<size_t>((columns - 1) * stride_n + (ks - 1) * stride_k + 1);
                    const size_t size = dtype == AMP_F32 ? 4 : 2;
                    const bool at_end = (columns + ks + order) % 2 == 0;
                    EnclosedBuffer source(count * size, at_end), block(2048, at_end);
                    for (size_t i = 0; i < count * size; i++) source.as<uint8_t>()[i] = static_cast<uint8_t>(random());
                    pack(block.as<uint16_t>(), source.as<void>(), dtype, columns, ks, stride_n, stride_k);
                    for (int k = 0; k < 32; k++)
                        for (int n = 0; n < 32; n++) {
                            const size_t i = static_cast<size_t>(n * stride_n + k * stride_k);
                            uint16_t want = 0;
                            if (n < columns && k < ks)
                                want = dtype == AMP_F32    ? round_bf16(source.as<float>()[i])
                                       : dtype == AMP_BF16 ? source.as<uint16_t>()[i]
                                                           : round_bf16(amp_f32_from_f16(source.as<uint16_t>()[i]));
                            ASSERT_EQ(want, block.as<uint16_t>()[k / 2 * 64 + n * 2 + k % 2])
                                << columns << "×" << ks << " " << amp_dtype_name(dtype) << " order " << order;
                        }
                }
}

TEST(GemmPack, SizesThatOverflowAreZero) {
    EXPECT_EQ(0u, amp_gemm_packed_bytes(0, 5));
    EXPECT_EQ(0u, amp_gemm_packed_bytes(5, 0));
    EXPECT_EQ(2048u, amp_gemm_packed_bytes(1, 1));
    EXPECT_EQ(2u * 3 * 2048, amp_gemm_packed_bytes(33, 65));
    EXPECT_EQ(0u, amp_gemm_packed_bytes(INT64_MAX, INT64_MAX));
}

class GemmPackOf : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, GemmPackOf,
                         testing::Values(Shape{0, 530, 777}, Shape{0, 33, 8500}, Shape{0, 8500, 33}));

// All are of more bytes than L2 is taken to hold; two have rows of several pieces.
TEST_P(GemmPackOf, BothOrdersAndAnyThreadsGiveTheSameBytes) {
    const int64_t n = GetParam().n, k = GetParam().k;
    std::vector<float> b(static_cast<size_t>(n * k)), t(b.size());
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-1.0f, 1.0f);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++)
            t[static_cast<size_t>(j * n + i)] = b[static_cast<size_t>(i * k + j)] = value(random);
    GuardedBuffer one(amp_gemm_packed_bytes(n, k), 64), two(amp_gemm_packed_bytes(n, k), 64);
    ASSERT_EQ(AMP_OK, amp_gemm_pack(one.as<void>(), b.data(), AMP_F32, n, k, k, 1));
    const int before = amp_get_num_threads();
    for (int threads : {1, 2, 3}) {
        amp_set_num_threads(threads);
        ASSERT_EQ(AMP_OK, amp_gemm_pack(two.as<void>(), t.data(), AMP_F32, n, k, 1, n));
        EXPECT_EQ(0, memcmp(one.as<void>(), two.as<void>(), amp_gemm_packed_bytes(n, k))) << threads;
    }
    amp_set_num_threads(before);
}

// As in a file, where a matrix begins at any byte.
TEST(GemmPack, SourcesAtAnyAddress) {
    const int64_t n = 163, k = 75, apart = 3; // of elements, where neither rows nor columns lie together
    std::vector<float> wide(static_cast<size_t>(n * k * apart));
    std::vector<uint16_t> narrow(wide.size());
    std::mt19937 random(2);
    std::uniform_real_distribution<float> value(-1.0f, 1.0f);
    for (size_t i = 0; i < wide.size(); i++) narrow[i] = round_bf16(wide[i] = value(random));
    const struct {
        amp_dtype dtype;
        const void *data;
        size_t bytes;
    } sources[] = {{AMP_F32, wide.data(), wide.size() * 4}, {AMP_BF16, narrow.data(), narrow.size() * 2}};
    const int64_t strides[][2] = {{k, 1}, {1, n}, {k * apart, apart}};
    for (const auto &source : sources) {
        std::vector<char> elsewhere(source.bytes + 1);
        memcpy(elsewhere.data() + 1, source.data, source.bytes);
        for (const auto &stride : strides) {
            for (amp_dtype to : {AMP_BF16, AMP_F32}) {
                if (to == AMP_F32 && source.dtype != AMP_F32) continue;
                GuardedBuffer want(packed_bytes(to, n, k), 64), got(packed_bytes(to, n, k), 64);
                const auto packs = [&](GuardedBuffer &packed, const void *from) {
                    return to == AMP_F32
                               ? amp_gemm_f32_pack(packed.as<float>(), from, n, k, stride[0], stride[1])
                               : amp_gemm_pack(packed.as<void>(), from, source.dtype, n, k, stride[0], stride[1]);
                };
                ASSERT_EQ(AMP_OK, packs(want, source.data));
                ASSERT_EQ(AMP_OK, packs(got, elsewhere.data() + 1));
                EXPECT_EQ(0, memcmp(want.as<void>(), got.as<void>(), packed_bytes(to, n, k)))
                    << amp_dtype_name(source.dtype) << " to " << amp_dtype_name(to) << ", strides " << stride[0] << ", "
                    << stride[1];
            }
        }
    }
}

TEST(GemmPack, WholeMatricesStayBetweenGuardPages) {
    for (amp_dtype in : {AMP_BF16, AMP_F32})
        for (Shape s : {Shape{0, 1, 1}, Shape{0, 31, 33}, Shape{0, 32, 64}, Shape{0, 65, 47}})
            for (int choice = 0; choice < 4; choice++) {
                const bool at_end = choice & 1, transposed = choice & 2;
                const int64_t count = s.n * s.k, stride_n = transposed ? 1 : s.k, stride_k = transposed ? s.n : 1;
                const size_t bytes = packed_bytes(in, s.n, s.k);
                std::vector<float> plain(static_cast<size_t>(count));
                EnclosedBuffer b(plain.size() * 4, at_end), ours(bytes, at_end);
                GuardedBuffer want(bytes, 64);
                for (int64_t i = 0; i < count; i++)
                    b.as<float>()[i] = plain[static_cast<size_t>(i)] = 0.01f * static_cast<float>(i % 197);
                pack(in, want.as<void>(), plain.data(), s.n, s.k, stride_n, stride_k);
                pack(in, ours.as<void>(), b.as<float>(), s.n, s.k, stride_n, stride_k);
                ASSERT_EQ(0, memcmp(want.as<void>(), ours.as<void>(), bytes)) << s.n << ", " << s.k;
            }
}

/* oneDNN can read our packed weights, and we its: the bytes agree. */
TEST(GemmPack, BytesAreThoseOfOneDnnsBA16a32b2a) {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    ASSERT_EQ(dnnl_success, dnnl_engine_create(&engine, dnnl_cpu, 0));
    ASSERT_EQ(dnnl_success, dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    for (int64_t n : {32, 33, 96, 130})
        for (int64_t k : {32, 64, 31, 200}) {
            std::mt19937 random(static_cast<unsigned>(n * k));
            std::uniform_real_distribution<float> value(-1.0f, 1.0f);
            std::vector<float> b(static_cast<size_t>(n * k));
            for (auto &x : b) x = value(random);
            const dnnl_dims_t dims = {k, n}, strides = {1, k};
            dnnl_memory_desc_t plain, blocked;
            ASSERT_EQ(dnnl_success, dnnl_memory_desc_create_with_strides(&plain, 2, dims, dnnl_f32, strides));
            ASSERT_EQ(dnnl_success, dnnl_memory_desc_create_with_tag(&blocked, 2, dims, dnnl_bf16, dnnl_BA16a32b2a));
            GuardedBuffer theirs(dnnl_memory_desc_get_size(blocked), 64), ours(amp_gemm_packed_bytes(n, k), 64);
            ASSERT_EQ(amp_gemm_packed_bytes(n, k), dnnl_memory_desc_get_size(blocked));
            dnnl_primitive_desc_t descriptor;
            dnnl_primitive_t reorder;
            dnnl_memory_t from, to;
            ASSERT_EQ(dnnl_success,
                      dnnl_reorder_primitive_desc_create(&descriptor, plain, engine, blocked, engine, nullptr));
            ASSERT_EQ(dnnl_success, dnnl_primitive_create(&reorder, descriptor));
            ASSERT_EQ(dnnl_success, dnnl_memory_create(&from, plain, engine, b.data()));
            ASSERT_EQ(dnnl_success, dnnl_memory_create(&to, blocked, engine, theirs.as<void>()));
            const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
            ASSERT_EQ(dnnl_success, dnnl_primitive_execute(reorder, stream, 2, arguments));
            ASSERT_EQ(dnnl_success, dnnl_stream_wait(stream));
            ASSERT_EQ(AMP_OK, amp_gemm_pack(ours.as<void>(), b.data(), AMP_F32, n, k, k, 1));
            EXPECT_EQ(0, memcmp(ours.as<void>(), theirs.as<void>(), amp_gemm_packed_bytes(n, k))) << n << ", " << k;
            dnnl_memory_destroy(from);
            dnnl_memory_destroy(to);
            dnnl_primitive_destroy(reorder);
            dnnl_primitive_desc_destroy(descriptor);
            dnnl_memory_desc_destroy(plain);
            dnnl_memory_desc_destroy(blocked);
        }
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
}

} // namespace
