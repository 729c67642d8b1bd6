// Linear algebra and Fourier transforms on CUDA, by property and against the CPU; CMake runs them again with all
// threads of each block.
#include <cmath>

#include "cuda_test.h"

using namespace amp_test;

namespace {

class CudaLinalg : public CudaTest {
  protected:
    static amp_tensor *identity(int64_t n, amp_dtype dtype) {
        std::vector<double> values(static_cast<size_t>(n * n));
        for (int64_t i = 0; i < n; i++) values[static_cast<size_t>(i * n + i)] = 1;
        return tensor(dtype, {n, n}, values);
    }
    static amp_tensor *symmetric(amp_tensor *x) {
        return op("add", {x, turned(x)});
    }
    static amp_tensor *positive(int64_t n, amp_dtype dtype) {
        amp_tensor *x = random_tensor(dtype, {2, n, n}, 7);
        return op("add", {product(x, turned(x)), identity(n, dtype)});
    }
    static std::vector<amp_tensor *> all(const std::string &name, const std::vector<Value> &values,
                                         const std::vector<Named> &named = {}) {
        std::vector<amp_tensor *> outputs;
        EXPECT_EQ(call(name, values, named, &outputs), AMP_OK) << amp_last_error();
        outputs.resize(4);
        return outputs;
    }
    static std::string told() {
        EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
        return error();
    }
    static double tolerance_of(amp_dtype dtype) {
        return dtype == AMP_F64 ? 1e-10 : 2e-3;
    }
};

TEST_F(CudaLinalg, EquationsAreSolved) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        for (int64_t n : {1, 2, 7, 40}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(n));
            Scope scope;
            const double tolerance = tolerance_of(dtype);
            amp_tensor *a =
                op("add", {random_tensor(dtype, {2, n, n}, 1), op("mul", {identity(n, dtype), amp_float(3)})});
            amp_tensor *b = random_tensor(dtype, {2, n, 3}, 2), *there = sent(a), *right = sent(b);
            expect_agree(op("linalg_solve", {there, right}), op("linalg_solve", {a, b}), tolerance);
            expect_agree(op("linalg_inv", {there}), op("linalg_inv", {a}), tolerance);
            amp_tensor *row = random_tensor(dtype, {3, n}, 3);
            expect_agree(op("linalg_solve", {there, sent(row)}, {{"left", false}}),
                         op("linalg_solve", {a, row}, {{"left", false}}), tolerance);
            for (bool upper : {false, true}) {
                for (bool transpose : {false, true}) {
                    const std::vector<Named> which = {{"upper", upper}, {"transpose", transpose}};
                    expect_agree(op("triangular_solve", {right, there}, which), op("triangular_solve", {b, a}, which),
                                 dtype == AMP_F64 ? 1e-8 : 0.1 * double(n));
                }
                amp_tensor *p = positive(n, dtype), *factor = op("linalg_cholesky", {sent(p)}, {{"upper", upper}});
                expect_agree(factor, op("linalg_cholesky", {p}, {{"upper", upper}}), tolerance);
                expect_agree(op("cholesky_inverse", {factor, upper}), op("linalg_inv", {p}), tolerance);
                expect_agree(op("cholesky_solve", {right, factor, upper}), op("linalg_solve", {p, b}), tolerance);
            }
        }
    }
}

TEST_F(CudaLinalg, OrthogonalFactorsAreThoseOfTheCpu) {
    for (const Shape &shape :
         {Shape{1, 1}, Shape{5, 3}, Shape{3, 5}, Shape{2, 40, 17}, Shape{2, 17, 40}, Shape{3, 0}}) {
        Scope scope;
        amp_tensor *a = random_tensor(AMP_F64, shape, 1), *there = sent(a);
        for (const char *mode : {"reduced", "complete", "r"}) {
            SCOPED_TRACE(mode);
            const std::vector<amp_tensor *> want = both("linalg_qr", {a, mode}), got = both("linalg_qr", {there, mode});
            for (size_t i = 0; i < 2; i++) expect_agree(got[i], want[i], 1e-12);
        }
        const std::vector<amp_tensor *> want = both("geqrf", {a}), got = both("geqrf", {there});
        for (size_t i = 0; i < 2; i++) expect_agree(got[i], want[i], 1e-12);
        const int64_t m = shape[shape.size() - 2], n = shape.back();
        if (m >= n && n > 0)
            expect_agree(op("linalg_householder_product", {got[0], got[1]}),
                         op("linalg_householder_product", {want[0], want[1]}), 1e-12);
        for (bool left : {true, false}) {
            for (bool transpose : {true, false}) {
                Shape other = shape;
                other[shape.size() - (left ? 1 : 2)] = 4;
                other[shape.size() - (left ? 2 : 1)] = m;
                amp_tensor *c = random_tensor(AMP_F64, other, 2);
                expect_agree(op("ormqr", {got[0], got[1], sent(c), left, transpose}),
                             op("ormqr", {want[0], want[1], c, left, transpose}), 1e-12);
            }
        }
    }
}

TEST_F(CudaLinalg, SingularVectorsGiveTheMatrixBack) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        const double tolerance = dtype == AMP_F64 ? 1e-11 : 1e-4;
        for (const Shape &shape :
             {Shape{1, 1}, Shape{2, 3}, Shape{6, 4}, Shape{2, 35, 50}, Shape{50, 35}, Shape{4, 0}}) {
            for (bool full : {false, true}) {
                for (bool deficient : {false, true}) {
                    SCOPED_TRACE(std::to_string(shape[0]) + (full ? " full" : "") + (deficient ? " deficient" : ""));
                    Scope scope;
                    amp_tensor *a = random_tensor(dtype, shape, 1);
                    if (deficient && shape.back() > 1) { // a column twice, and one of zeros
                        op("fill_", {op("narrow", {a, -1, 0, 1}), amp_int(0)});
                        op("add_", {op("narrow", {a, -1, 0, 1}), op("narrow", {a, -1, 1, 1})});
                        op("fill_", {op("narrow", {a, -1, shape.back() - 1, 1}), amp_int(0)});
                    }
                    std::vector<amp_tensor *> f = all("linalg_svd", {sent(a), full});
                    for (int i = 0; i < 3; i++) f[size_t(i)] = fetched(f[size_t(i)]);
                    const int64_t k = std::min(shape[shape.size() - 2], shape.back());
                    amp_tensor *scaled = op("mul", {op("narrow", {f[0], -1, 0, k}), op("unsqueeze", {f[1], -2})});
                    expect_agree(product(scaled, op("narrow", {f[2], -2, 0, k})), a, tolerance);
                    expect_agree(f[1], op("linalg_svdvals", {a}), tolerance);
                    const int64_t wide = full ? shape[shape.size() - 2] : k, high = full ? shape.back() : k;
                    amp_tensor *left = product(turned(f[0]), f[0]), *right = product(f[2], turned(f[2]));
                    if (wide > 0)
                        expect_agree(op("sub", {left, identity(wide, dtype)}), op("zeros_like", {left}), tolerance);
                    if (high > 0)
                        expect_agree(op("sub", {right, identity(high, dtype)}), op("zeros_like", {right}), tolerance);
                }
            }
        }
    }
}

TEST_F(CudaLinalg, WhatIsMadeOfSingularValuesAgreesWithTheCpu) {
    amp_tensor *a = random_tensor(AMP_F64, {3, 9, 6}, 1);
    amp_tensor *low = product(op("narrow", {a, 2, 0, 4}), op("narrow", {turned(a), 1, 0, 4})); // rank 4
    expect_agree(op("pinverse", {sent(a)}), op("pinverse", {a}), 1e-10);
    expect_agree(op("pinverse", {sent(low), 1e-9}), op("pinverse", {low, 1e-9}), 1e-7);
    expect_agree(op("linalg_matrix_rank", {sent(low)}), op("linalg_matrix_rank", {low}), 0);
    expect_agree(op("linalg_cond", {sent(a)}), op("linalg_cond", {a}), 1e-8);
    expect_agree(op("nuclear_norm", {sent(op("select", {a, 0, 0}))}), op("nuclear_norm", {op("select", {a, 0, 0})}),
                 1e-10);
    amp_tensor *square = op("narrow", {a, 1, 0, 6});
    for (double p : {1.0, 2.0, double(-INFINITY)})
        expect_agree(op("linalg_cond", {sent(square), amp_float(p)}), op("linalg_cond", {square, amp_float(p)}), 1e-6);
}

TEST_F(CudaLinalg, EigenvectorsOfSymmetricMatricesGiveThemBack) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        for (int64_t n : {1, 2, 3, 40}) {
            for (const char *side : {"L", "U"}) {
                SCOPED_TRACE(std::to_string(n) + side);
                Scope scope;
                const double tolerance = dtype == AMP_F64 ? 1e-11 : 2e-4;
                amp_tensor *a = symmetric(random_tensor(dtype, {2, n, n}, 1)), *there = sent(a);
                std::vector<amp_tensor *> f = both("linalg_eigh", {there, side});
                for (amp_tensor *&t : f) t = fetched(t);
                expect_agree(product(op("mul", {f[1], op("unsqueeze", {f[0], -2})}), turned(f[1])), a, tolerance);
                expect_agree(op("linalg_eigvalsh", {there, side}), op("linalg_eigvalsh", {a, side}), tolerance);
            }
        }
    }
    amp_tensor *same = op("ones", {AMP_DIMS(9, 9), AMP_F64}); // eight eigenvalues are 0
    expect_agree(op("linalg_eigvalsh", {sent(same)}), op("linalg_eigvalsh", {same}), 1e-13);
}

TEST_F(CudaLinalg, EigenvectorsOfAnyMatrixTurnIntoMultiples) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        for (int64_t n : {1, 2, 3, 8, 33}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(n));
            Scope scope;
            amp_tensor *a = random_tensor(dtype, {2, n, n}, 1);
            std::vector<amp_tensor *> f = both("linalg_eig", {sent(a)});
            for (amp_tensor *&t : f) t = fetched(t);
            amp_tensor *as_complex = op("to", {a, amp_tensor_dtype(f[1])});
            expect_agree(product(as_complex, f[1]), op("mul", {f[1], op("unsqueeze", {f[0], -2})}),
                         dtype == AMP_F64 ? 1e-10 : 1e-3);
            amp_tensor *lengths = op("sum", {op("square", {op("abs", {f[1]})}), AMP_DIMS(-2)});
            expect_agree(lengths, op("ones_like", {lengths}), 1e-5);
            expect_agree(op("sum", {f[0], AMP_DIMS(-1)}), op("sum", {op("linalg_eigvals", {a}), AMP_DIMS(-1)}),
                         dtype == AMP_F64 ? 1e-10 : 1e-3);
        }
    }
    // A turn by a right angle, a Jordan block, and nothing.
    for (const std::vector<double> &values : {std::vector<double>{0, -1, 1, 0}, {2, 1, 0, 2}, {0, 0, 0, 0}}) {
        amp_tensor *a = tensor(AMP_F64, {2, 2}, values);
        std::vector<amp_tensor *> f = both("linalg_eig", {sent(a)});
        for (amp_tensor *&t : f) t = fetched(t);
        expect_agree(product(op("to", {a, AMP_C128}), f[1]), op("mul", {f[1], f[0]}), 1e-7);
    }
}

TEST_F(CudaLinalg, NumbersWhoseSquaresAreNoneAreFactoredToo) {
    for (const Shape &shape : {Shape{2, 2}, Shape{7, 4}, Shape{4, 7}}) {
        for (double scale : {1e-170, 1e-300, 1e200, 1e300}) {
            SCOPED_TRACE(std::to_string(shape[0]) + " " + std::to_string(std::log10(scale)));
            Scope scope;
            const auto back = [&](amp_tensor *t) { return op("mul", {fetched(t), amp_float(1 / scale)}); };
            amp_tensor *one = random_tensor(AMP_F64, shape, 1), *a = op("mul", {one, amp_float(scale)});
            const std::vector<amp_tensor *> want = both("linalg_qr", {one}), got = both("linalg_qr", {sent(a)});
            expect_agree(got[0], want[0], 1e-12);
            expect_agree(back(got[1]), want[1], 1e-12);
            std::vector<amp_tensor *> f = all("linalg_svd", {sent(a), false});
            expect_agree(back(f[1]), op("linalg_svdvals", {one}), 1e-12);
            expect_agree(product(op("mul", {fetched(f[0]), op("unsqueeze", {back(f[1]), -2})}), fetched(f[2])), one,
                         1e-12);
            amp_tensor *b = random_tensor(AMP_F64, {shape[0], 2}, 2), *right = op("mul", {b, amp_float(scale)});
            for (const char *driver : {"gels", "gelsd"}) {
                const std::vector<Named> by = {{"driver", driver}};
                expect_agree(all("linalg_lstsq", {sent(a), sent(right)}, by)[0], all("linalg_lstsq", {one, b}, by)[0],
                             1e-10);
            }
            if (shape[0] != shape[1]) continue;
            f = both("linalg_eigh", {sent(symmetric(a))});
            expect_agree(back(f[0]), op("linalg_eigvalsh", {symmetric(one)}), 1e-12);
            expect_agree(product(op("mul", {fetched(f[1]), op("unsqueeze", {back(f[0]), -2})}), turned(fetched(f[1]))),
                         symmetric(one), 1e-12);
            f = both("linalg_eig", {sent(a)});
            expect_agree(product(op("to", {one, AMP_C128}), fetched(f[1])),
                         op("mul", {fetched(f[1]), op("unsqueeze", {back(f[0]), -2})}), 1e-12);
        }
    }
    // Columns of very different lengths, and what is next to nothing below the diagonal.
    for (const std::vector<double> &values :
         {std::vector<double>{1e200, 1e-200, 3e200, 2e-200}, {1, 2, 1e-170, 3}, {1e-200, 1, 2e-200, 3}}) {
        amp_tensor *a = tensor(AMP_F64, {2, 2}, values), *largest = op("amax", {op("abs", {a}), AMP_DIMS(0), true});
        const std::vector<amp_tensor *> want = both("linalg_qr", {a}), got = both("linalg_qr", {sent(a)});
        expect_agree(got[0], want[0], 1e-15);
        expect_agree(op("div", {fetched(got[1]), largest}), op("div", {want[1], largest}), 1e-15);
    }
}

TEST_F(CudaLinalg, TheOldFormsAgreeWithTheCpu) {
    amp_tensor *a = random_tensor(AMP_F64, {3, 7, 7}, 1), *b = random_tensor(AMP_F64, {3, 7, 2}, 2), *there = sent(a);
    const std::vector<amp_tensor *> want = all("lu_with_info", {a}), got = all("lu_with_info", {there});
    for (size_t i = 0; i < 3; i++) expect_agree(got[i], want[i], 1e-12);
    expect_agree(op("lu_solve", {sent(b), got[0], got[1]}), op("lu_solve", {b, want[0], want[1]}), 1e-10);
    expect_agree(op("matrix_rank", {there}), op("matrix_rank", {a}), 0);
    expect_agree(op("lstsq", {sent(b), there}), op("lstsq", {b, a}), 1e-9);
    expect_agree(op("symeig", {sent(symmetric(a))}), op("symeig", {symmetric(a)}), 1e-11);
}

TEST_F(CudaLinalg, LeastSquaresAgreeWithTheCpu) {
    for (const Shape &shape : {Shape{3, 30, 8}, Shape{3, 8, 30}, Shape{6, 6}}) {
        for (const char *driver : {"gels", "gelsd", "gelss", "gelsy"}) {
            SCOPED_TRACE(driver);
            Shape right = shape;
            right.back() = 2;
            amp_tensor *a = random_tensor(AMP_F64, shape, 1), *b = random_tensor(AMP_F64, right, 2);
            const std::vector<Named> by = {{"driver", driver}};
            const std::vector<amp_tensor *> want = all("linalg_lstsq", {a, b}, by);
            const std::vector<amp_tensor *> got = all("linalg_lstsq", {sent(a), sent(b)}, by);
            expect_agree(got[0], want[0], 1e-9);
            if (driver == std::string("gels")) expect_agree(got[1], want[1], 1e-9);
            expect_agree(got[2], want[2], 0);
            expect_agree(got[3], want[3], 1e-10);
        }
    }
}

TEST_F(CudaLinalg, AMatrixWithoutAnAnswerIsToldOfWhenTheHostWaits) {
    amp_tensor *none = op("zeros", {AMP_DIMS(3, 3), AMP_F32}), *there = sent(none);
    amp_tensor *holes = op("full", {AMP_DIMS(3, 3), amp_float(NAN), AMP_F32});
    const uint64_t waits = amp_cuda_counters().synchronizations;
    for (const char *name : {"linalg_inv", "linalg_cholesky"}) {
        ASSERT_NE(op(name, {there}), nullptr) << amp_last_error();
        EXPECT_TRUE(contains(told(), std::string("a matrix of ") + name));
    }
    ASSERT_NE(op("linalg_svdvals", {sent(holes)}), nullptr) << amp_last_error();
    EXPECT_TRUE(contains(told(), "a matrix of linalg_svdvals"));
    EXPECT_EQ(amp_cuda_counters().synchronizations, waits + 3); // those of told()
    const std::vector<amp_tensor *> ex = both("linalg_inv_ex", {there});
    EXPECT_EQ(amp_cuda_synchronize(), AMP_OK);
    EXPECT_EQ(numbers_of(op("to", {fetched(ex[1]), AMP_F32}))[0], 1);
    amp_tensor *pivots = op("to", {tensor(AMP_F32, {3}, {1, 9, 3}), AMP_I32});
    ASSERT_NE(op("lu_solve", {there, there, sent(pivots)}), nullptr) << amp_last_error();
    EXPECT_TRUE(contains(told(), "an index of lu_solve"));
}

TEST_F(CudaLinalg, TransformsOfAnyDimensionAgreeWithTheCpu) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        const double tolerance = dtype == AMP_F64 ? 1e-10 : 1e-3;
        amp_tensor *x = random_tensor(dtype, {4, 15, 6}, 1),
                   *z = op("view_as_complex", {random_tensor(dtype, {4, 15, 6, 2}, 2)});
        for (int64_t dim : {0, 1, 2}) {
            for (int64_t n : {1, 5, 8, 21}) { // cut and lengthened
                for (const char *norm : {"backward", "forward", "ortho"}) {
                    SCOPED_TRACE(std::to_string(dim) + " " + std::to_string(n) + " " + norm);
                    Scope scope;
                    const std::vector<Named> how = {{"n", n}, {"dim", dim}, {"norm", norm}};
                    for (const char *name : {"fft_fft", "fft_ifft", "fft_irfft", "fft_hfft"})
                        expect_agree(op(name, {sent(z)}, how), op(name, {z}, how), tolerance);
                    for (const char *name : {"fft_fft", "fft_ifft", "fft_rfft", "fft_ihfft"})
                        expect_agree(op(name, {sent(x)}, how), op(name, {x}, how), tolerance);
                }
            }
        }
        for (const char *name : {"fft_fftn", "fft_ifftn", "fft_irfftn", "fft_fft2"})
            expect_agree(op(name, {sent(z)}), op(name, {z}), tolerance);
        expect_agree(op("fft_rfftn", {sent(x)}), op("fft_rfftn", {x}), tolerance);
        amp_tensor *signal = op("reshape", {x, AMP_DIMS(2, 180)});
        const std::vector<Named> frames = {{"hop_length", 7}, {"win_length", 20}, {"return_complex", true}};
        expect_agree(op("stft", {sent(signal), 32}, frames), op("stft", {signal, 32}, frames), tolerance);
    }
}

} // namespace
