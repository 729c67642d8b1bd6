/* f32 products through oneDNN against sums in f64, for every kind of stride. */
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "amp/system.h"
#include "cpu/dnnl/dnnl_cache.h"
#include "cpu/dnnl/dnnl_matmul.h"
#include "cpu/registry/gemm.h"

namespace {

struct Matrix { /* [batch, rows, columns] in memory of its own, strides as asked */
    Matrix(int64_t batch, int64_t rows, int64_t columns, int64_t batch_stride, int64_t row, int64_t column,
           unsigned seed)
        : row_stride(row), column_stride(column), batch_stride(batch_stride) {
        int64_t low = 0, high = 0;
        for (auto [extent, stride] : {std::pair(batch, batch_stride), std::pair(rows, row), std::pair(columns, column)})
            (stride < 0 ? low : high) += (extent - 1) * stride;
        values.resize(static_cast<size_t>(high - low + 1));
        std::mt19937 random(seed);
        std::uniform_real_distribution<float> value(-1, 1);
        for (auto &x : values) x = value(random);
        data = values.data() - low;
    }
    float at(int64_t b, int64_t i, int64_t j) const {
        return data[b * batch_stride + i * row_stride + j * column_stride];
    }

    int64_t row_stride, column_stride, batch_stride;
    std::vector<float> values;
    float *data;
};

amp_dnnl_matmul problem(int64_t batch, int64_t m, int64_t n, int64_t k, const Matrix &a, const Matrix &b,
                        std::vector<float> &c) {
    c.assign(static_cast<size_t>(batch * m * n), 99.0f);
    amp_dnnl_matmul p = {};
    p.m = m, p.n = n, p.k = k, p.batch = batch;
    p.a = a.data, p.a_row_stride = a.row_stride, p.a_column_stride = a.column_stride, p.a_batch_stride = a.batch_stride;
    p.b = b.data, p.b_row_stride = b.row_stride, p.b_column_stride = b.column_stride, p.b_batch_stride = b.batch_stride;
    p.c = c.data(), p.c_row_stride = n, p.c_batch_stride = m * n, p.alpha = 1.0;
    return p;
}

/* |error| ≤ (k + 4) · ε · (Σ|a b| · |alpha| + |beta r| + |bias|) */
void expect_product(const amp_dnnl_matmul &p, const Matrix &a, const Matrix &b, const float *residual = nullptr) {
    const double epsilon = std::numeric_limits<float>::epsilon();
    for (int64_t item = 0; item < p.batch; item++)
        for (int64_t i = 0; i < p.m; i++)
            for (int64_t j = 0; j < p.n; j++) {
                double sum = 0, size = 0;
                for (int64_t k = 0; k < p.k; k++) {
                    const double x = static_cast<double>(a.at(item, i, k)) * b.at(item, k, j);
                    sum += x;
                    size += std::fabs(x);
                }
                sum *= p.alpha, size *= std::fabs(p.alpha);
                if (residual) {
                    const double r = p.beta * residual[item * p.residual_batch_stride + i * p.residual_row_stride +
                                                       j * p.residual_column_stride];
                    sum += r, size += std::fabs(r);
                }
                if (p.bias) sum += p.bias[j], size += std::fabs(p.bias[j]);
                const float got = p.c[item * p.c_batch_stride + i * p.c_row_stride + j];
                ASSERT_NEAR(static_cast<double>(sum), got, static_cast<double>((p.k + 4) * epsilon * size))
                    << item << ", " << i << ", " << j;
            }
}

TEST(DnnlMatmul, ShapesAndStrides) {
    const int64_t shapes[][3] = {{1, 1, 1}, {1, 64, 64}, {7, 1, 5}, {5, 7, 1}, {33, 65, 129}, {1, 100, 1}, {2, 3, 301}};
    for (const auto &shape : shapes)
        for (int kind_a = 0; kind_a < 5; kind_a++)
            for (int kind_b = 0; kind_b < 5; kind_b++) {
                const int64_t m = shape[0], n = shape[1], k = shape[2];
                const int64_t a_strides[][2] = {{k, 1}, {1, m}, {k + 3, 1}, {2 * k, 2}, {-k, 1}};
                const int64_t b_strides[][2] = {{n, 1}, {1, k}, {1, k + 2}, {0, 1}, {-3, -3 * k}};
                Matrix a(1, m, k, 0, a_strides[kind_a][0], a_strides[kind_a][1], 1);
                Matrix b(1, k, n, 0, b_strides[kind_b][0], b_strides[kind_b][1], 2);
                std::vector<float> c;
                const amp_dnnl_matmul p = problem(1, m, n, k, a, b, c);
                ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr)) << amp_last_error();
                expect_product(p, a, b);
                if (HasFatalFailure()) FAIL() << m << "×" << n << "×" << k << ", kinds " << kind_a << kind_b;
            }
}

TEST(DnnlMatmul, BatchesBroadcastAndGather) {
    const int64_t batch = 5, m = 9, n = 17, k = 12;
    for (int64_t a_stride : {m * k, int64_t{0}, -m * k})
        for (int64_t b_stride : {n * k, int64_t{0}, 2 * n * k}) {
            Matrix a(batch, m, k, a_stride, k, 1, 3), b(batch, k, n, b_stride, 1, k, 4);
            std::vector<float> c;
            const amp_dnnl_matmul p = problem(batch, m, n, k, a, b, c);
            ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr)) << amp_last_error();
            expect_product(p, a, b);
            if (HasFatalFailure()) return;
        }
}

TEST(DnnlMatmul, AlphaBetaResidualAndBias) {
    const int64_t batch = 2, m = 9, n = 31, k = 12;
    Matrix a(batch, m, k, m * k, k, 1, 3), b(batch, k, n, k * n, n, 1, 4), r(batch, m, n, m * n, n, 1, 5);
    std::vector<float> c, bias(static_cast<size_t>(n), 0.25f);
    bias[3] = -7.0f;
    for (int kind = 0; kind < 8; kind++) {
        amp_dnnl_matmul p = problem(batch, m, n, k, a, b, c);
        p.alpha = kind & 1 ? 0.5 : 1.0;
        p.bias = kind & 2 ? bias.data() : nullptr;
        const std::vector<float> saved(r.values);
        if (kind & 4) {
            p.beta = -2.0, p.residual = r.data;
            p.residual_row_stride = kind & 1 ? 0 : n, p.residual_column_stride = 1;
            p.residual_batch_stride = kind & 1 ? 0 : m * n;
        }
        ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr)) << amp_last_error();
        expect_product(p, a, b, kind & 4 ? r.data : nullptr);
        if (HasFatalFailure()) FAIL() << kind;
        if (kind & 4 && !(kind & 1)) { /* in place: R is C */
            std::copy(saved.begin(), saved.end(), c.begin());
            p.residual = c.data();
            ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr));
            expect_product(p, a, b, saved.data());
            if (HasFatalFailure()) FAIL() << "in place";
        }
    }
}

TEST(DnnlMatmul, EmptyExtents) {
    float c[4] = {9, 9, 9, 9};
    const float bias[2] = {3, 4};
    amp_dnnl_matmul p = {};
    p.c = c, p.c_row_stride = 2, p.alpha = 1.0, p.m = 2, p.n = 2, p.batch = 1, p.bias = bias;
    ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr));
    for (int i = 0; i < 4; i++) EXPECT_EQ(bias[i % 2], c[i]);
    for (int empty = 0; empty < 3; empty++) {
        p.m = empty != 0, p.n = empty != 1, p.batch = empty != 2, p.k = 3, c[0] = 5;
        ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr));
        EXPECT_EQ(5.0f, c[0]);
    }
}

TEST(DnnlMatmul, PackedWeightsGiveTheSameProducts) {
    for (int64_t n : {1, 5, 64, 200, 600})
        for (int64_t k : {1, 7, 24, 64, 129})
            for (int order = 0; order < 2; order++) {
                Matrix b(1, k, n, 0, order ? n : 1, order ? 1 : k, 6);
                void *packed = aligned_alloc(64, amp_gemm_f32_packed_bytes(n, k));
                ASSERT_EQ(AMP_OK,
                          amp_gemm_f32_pack(static_cast<float *>(packed), b.data, n, k, b.column_stride, b.row_stride));
                for (int kind = 0; kind < 5; kind++) {
                    const int64_t m = kind == 0 ? 1 : kind == 1 ? 40 : 3, batch = kind > 2 ? 4 : 1;
                    Matrix a(batch, m, k, kind == 4 ? 0 : m * k, k, 1, 7);
                    std::vector<float> c;
                    amp_dnnl_matmul p = problem(batch, m, n, k, a, b, c);
                    p.b_batch_stride = 0, p.packed_b = static_cast<const float *>(packed);
                    const char *name = nullptr;
                    ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, &name)) << amp_last_error();
                    EXPECT_EQ(0, std::string(name).find("dnnl:"));
                    expect_product(p, a, b);
                    if (HasFatalFailure()) return;
                }
                free(packed);
            }
}

/* Extents on both sides of where a product is cut, of which rows, columns and matrices are cut. */
TEST(DnnlMatmul, BitsDoNotDependOnTheNumberOfThreads) {
    const int64_t shapes[][4] = {{1, 1, 4096, 1024},  {1, 3, 1111, 2000}, {1, 17, 333, 4097}, {1, 64, 64, 4096},
                                 {1, 200, 333, 517},  {1, 512, 96, 768},  {1, 131, 515, 257}, {1, 700, 70, 300},
                                 {1, 256, 256, 1030}, {3, 100, 90, 400},  {40, 33, 65, 97},   {5, 8, 256, 700}};
    const int threads = amp_get_num_threads();
    for (const auto &[batch, m, n, k] : shapes)
        for (int kind = 0; kind < 8; kind++) {
            const int64_t pitch = kind & 4 ? n + 3 : n;
            Matrix a(batch, m, k, m * k, kind & 1 ? 1 : k, kind & 1 ? m : 1, 1);
            Matrix b(batch, k, n, n * k, kind & 2 ? 1 : n, kind & 2 ? k : 1, 2);
            std::vector<float> c, first;
            for (int count : {1, 2, 3, 8}) {
                ASSERT_EQ(AMP_OK, amp_set_num_threads(count));
                amp_dnnl_matmul p = problem(batch, m, pitch, k, a, b, c);
                p.n = n;
                ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr)) << amp_last_error();
                if (count == 1) first = c;
                ASSERT_EQ(0, memcmp(first.data(), c.data(), c.size() * sizeof(float)))
                    << batch << "×" << m << "×" << n << "×" << k << ", kind " << kind << ", " << count << " threads";
            }
        }
    amp_set_num_threads(threads);
}

TEST(DnnlMatmul, PrimitivesAreKept) {
    Matrix a(1, 11, 13, 0, 13, 1, 1), b(1, 13, 17, 0, 17, 1, 2);
    std::vector<float> c;
    const amp_dnnl_matmul p = problem(1, 11, 17, 13, a, b, c);
    ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr));
    const amp_dnnl_cache_stats before = amp_dnnl_cache_statistics();
    for (int i = 0; i < 10; i++) ASSERT_EQ(AMP_OK, amp_dnnl_matmul_f32(&p, nullptr));
    const amp_dnnl_cache_stats after = amp_dnnl_cache_statistics();
    EXPECT_EQ(before.hits + 10, after.hits);
    EXPECT_EQ(before.misses, after.misses);
}

TEST(DnnlMatmul, ThreadsOfTheCallerShareTheCache) {
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (int t = 0; t < 4; t++)
        threads.emplace_back([t, &wrong] {
            for (int64_t i = 0; i < 60; i++) {
                const int64_t m = 1 + i % 20;
                Matrix a(1, m, 24, 0, 24, 1, 1), b(1, 24, 32, 0, 32, 1, 2);
                std::vector<float> c;
                const amp_dnnl_matmul p = problem(1, m, 32, 24, a, b, c);
                if (amp_dnnl_matmul_f32(&p, nullptr) != AMP_OK) wrong[static_cast<size_t>(t)]++;
                double sum = 0;
                for (int64_t k = 0; k < 24; k++) sum += static_cast<double>(a.at(0, m - 1, k)) * b.at(0, k, 31);
                if (std::fabs(sum - c.back()) > 1e-4) wrong[static_cast<size_t>(t)]++;
            }
        });
    for (auto &t : threads) t.join();
    for (int w : wrong) EXPECT_EQ(0, w);
}

} // namespace
