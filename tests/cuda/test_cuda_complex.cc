// Products and linear algebra of complex numbers on CUDA, by property and against the CPU; CMake runs the linear
// algebra again with all threads of each block.
#include <cmath>

#include "cuda_test.h"

using namespace amp_test;

namespace {

class CudaComplex : public CudaTest {
  protected:
    static amp_tensor *numbers(amp_dtype dtype, Shape shape, int seed) {
        shape.push_back(2);
        return op("view_as_complex", {random_tensor(dtype == AMP_C64 ? AMP_F32 : AMP_F64, shape, seed)});
    }
    // The same op on both devices.
    static void expect_same(const std::string &name, const std::vector<Value> &here, const std::vector<Named> &named,
                            const std::vector<Value> &there, const std::vector<Named> &named_there, double tolerance) {
        SCOPED_TRACE(name);
        expect_agree(op(name, there, named_there), op(name, here, named), tolerance);
    }
    static void expect_same(const std::string &name, const std::vector<amp_tensor *> &tensors,
                            const std::vector<Named> &named, double tolerance) {
        std::vector<Value> here, there;
        for (amp_tensor *t : tensors) {
            here.push_back(t);
            there.push_back(sent(t));
        }
        expect_same(name, here, named, there, named, tolerance);
    }
    // There is no op for it: the imaginary parts change their sign.
    static amp_tensor *adjoint(amp_tensor *x) {
        x = op("contiguous", {turned(x)});
        return amp_tensor_dtype(x) == AMP_C64 ? conjugated<float>(x) : conjugated<double>(x);
    }
    template <class R>
    static amp_tensor *conjugated(amp_tensor *x) {
        const auto *from = static_cast<const R *>(amp_data(x));
        std::vector<R> parts(from, from + 2 * amp_tensor_numel(x));
        for (size_t i = 1; i < parts.size(); i += 2) parts[i] = -parts[i];
        return amp_from_data(parts.data(), amp_tensor_dtype(x), amp_tensor_rank(x), amp_tensor_shape(x));
    }
    static amp_tensor *hermitian(amp_tensor *x) {
        return op("add", {x, adjoint(x)});
    }
    static amp_tensor *identity(int64_t n, amp_dtype dtype) {
        std::vector<double> values(static_cast<size_t>(n * n));
        for (int64_t i = 0; i < n; i++) values[static_cast<size_t>(i * n + i)] = 1;
        return op("to", {tensor(AMP_F64, {n, n}, values), dtype});
    }
    static amp_tensor *positive(int64_t n, amp_dtype dtype) {
        amp_tensor *x = numbers(dtype, {2, n, n}, 7);
        return op("add", {product(x, adjoint(x)), identity(n, dtype)});
    }
    static std::vector<amp_tensor *> all(const std::string &name, const std::vector<Value> &values,
                                         const std::vector<Named> &named = {}) {
        std::vector<amp_tensor *> outputs;
        EXPECT_EQ(call(name, values, named, &outputs), AMP_OK) << amp_last_error();
        outputs.resize(4);
        return outputs;
    }
    static double tolerance_of(amp_dtype dtype) {
        return dtype == AMP_C128 ? 1e-10 : 2e-3;
    }
};

TEST_F(CudaComplex, ProductsAreThoseOfTheCpu) {
    for (amp_dtype dtype : {AMP_C64, AMP_C128}) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const double tolerance = dtype == AMP_C128 ? 1e-12 : 1e-4;
        amp_tensor *a = numbers(dtype, {3, 5, 7}, 1), *b = numbers(dtype, {3, 7, 4}, 2), *c = numbers(dtype, {4}, 3);
        amp_tensor *a0 = op("select", {a, 0, 0}), *b0 = op("select", {b, 0, 0}), *row = op("select", {a0, 0, 1});
        const std::vector<Named> scaled = {{"beta", amp_complex(0.5, 2)}, {"alpha", amp_complex(-1, 0.25)}};
        expect_same("mm", {a0, b0}, {}, tolerance);
        expect_same("mm", {a0, turned(op("contiguous", {turned(b0)}))}, {}, tolerance);
        expect_same("bmm", {a, b}, {}, tolerance);
        expect_same("matmul", {a, b0}, {}, tolerance);
        expect_same("matmul", {row, b}, {}, tolerance);
        expect_same("addmm", {c, a0, b0}, scaled, tolerance);
        expect_same("addmm", {c, op("narrow", {a0, 1, 0, 0}), op("narrow", {b0, 0, 0, 0})}, scaled, tolerance);
        expect_same("baddbmm", {c, a, b}, scaled, tolerance);
        expect_same("addbmm", {c, a, b}, scaled, tolerance);
        expect_same("mv", {a0, row}, {}, tolerance);
        expect_same("addmv", {op("select", {a0, 1, 0}), a0, row}, scaled, tolerance);
        expect_same("addr", {op("narrow", {a0, 1, 0, 4}), op("select", {a0, 1, 0}), c}, scaled, tolerance);
        expect_same("outer", {row, c}, {}, tolerance);
        for (const char *name : {"dot", "vdot", "linalg_vecdot"})
            expect_same(name, {row, op("select", {b0, 1, 1})}, {}, tolerance); // two: which is conjugated counts
        expect_same("linear", {a, op("narrow", {op("select", {a, 0, 1}), 0, 0, 4}), c}, {}, tolerance);
        expect_agree(op("einsum", {"bij,bjk->ik", std::vector<amp_tensor *>{sent(a), sent(b)}}),
                     op("einsum", {"bij,bjk->ik", std::vector<amp_tensor *>{a, b}}), tolerance);
        expect_agree(op("linalg_multi_dot", {std::vector<amp_tensor *>{sent(a0), sent(b0), sent(turned(b0))}}),
                     op("linalg_multi_dot", {std::vector<amp_tensor *>{a0, b0, turned(b0)}}), tolerance);
        expect_same("abs", {a}, {}, tolerance);
        expect_same("linalg_vector_norm", {a}, {}, tolerance);
        expect_same("linalg_matrix_norm", {a}, {}, tolerance);
    }
}

TEST_F(CudaComplex, ProductsOfIntegersAreRefused) {
    amp_tensor *a = op("to", {counting({3, 3}), AMP_I64}), *there = sent(a);
    for (const char *name : {"mm", "matmul"}) {
        EXPECT_EQ(op(name, {there, there}), nullptr);
        EXPECT_EQ(error(),
                  std::string(name) + ": there are no products of i64 on cuda; expected a floating or complex dtype");
    }
    amp_tensor *row = op("select", {a, 0, 1}); // PyTorch has this one
    expect_same("addr", {a, row, row}, {{"alpha", amp_int(3)}, {"beta", amp_int(2)}}, 0);
    expect_same("addr", {a, row, row}, {{"beta", amp_int(0)}}, 0);
}

TEST_F(CudaComplex, OuterProductsOfIntegersAreAddedToAnyInput) {
    amp_tensor *row = op("to", {counting({3}), AMP_I64}), *input = op("add", {counting({3, 3}), amp_float(0.25)});
    expect_same("addr", {input, row, row}, {{"beta", amp_float(0.5)}}, 0);
    expect_same("addr", {op("to", {input, AMP_C64}), row, row}, {{"beta", amp_complex(0, 2)}}, 0);
    expect_same("addr", {op("to", {input, AMP_BF16}), row, row}, {{"beta", amp_float(0.5)}, {"alpha", 1.5}}, 0);
    expect_same("addr", {op("select", {input, 0, 1}), row, op("to", {row, AMP_F16})}, {{"alpha", 0.1}}, 1e-6);
    expect_same("addr", {op("to", {input, AMP_U8}), row, row}, {{"alpha", amp_int(300)}, {"beta", amp_int(-1)}}, 0);
}

TEST_F(CudaComplex, FactorsOfIntegersAreWhole) {
    amp_tensor *row = sent(op("to", {counting({3}), AMP_I64})), *input = op("outer", {row, row});
    EXPECT_EQ(op("addr", {input, row, row}, {{"alpha", 1.5}}), nullptr);
    EXPECT_EQ(error(), "addr: 'alpha' is 1.5, but the tensors hold integers; expected an integer");
    EXPECT_EQ(op("addr", {input, row, row}, {{"beta", 0.5}}), nullptr);
    EXPECT_EQ(error(), "addr: 'beta' is 0.5, but the tensors hold integers; expected an integer");
}

TEST_F(CudaComplex, AnInputOfAnotherShapeThanTheOuterProductIsRefused) {
    for (amp_dtype dtype : {AMP_I64, AMP_F32}) {
        amp_tensor *row = sent(op("to", {counting({3}), dtype})), *one = op("narrow", {row, 0, 0, 1});
        for (int64_t beta : {0, 1}) {
            amp_tensor *deep = sent(op("to", {counting({2, 3, 3}), dtype}));
            EXPECT_EQ(op("addr", {deep, row, row}, {{"beta", amp_int(beta)}}), nullptr);
            EXPECT_TRUE(contains(error(), "which does not broadcast to the result [3, 3]"));
            amp_tensor *high = sent(op("to", {counting({5, 3}), dtype}));
            EXPECT_EQ(op("addr", {high, one, row}, {{"beta", amp_int(beta)}}), nullptr);
            EXPECT_TRUE(contains(error(), "which does not broadcast to the result [1, 3]"));
        }
    }
}

TEST_F(CudaComplex, OuterProductsOfTruthsAreTruths) {
    amp_tensor *row = tensor(AMP_BOOL, {3}, {0, 1, 1}), *input = tensor(AMP_BOOL, {3, 3}, {1, 0, 0, 0, 0, 0, 0, 0, 1});
    amp_tensor *got = op("addr", {sent(input), sent(row), sent(row)});
    ASSERT_NE(got, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(got), AMP_BOOL);
    EXPECT_EQ(numbers_of(fetched(got)), (std::vector<double>{1, 0, 0, 0, 1, 1, 0, 1, 1}));
}

TEST_F(CudaComplex, EquationsAreSolved) {
    for (amp_dtype dtype : {AMP_C64, AMP_C128}) {
        for (int64_t n : {1, 2, 7, 33}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(n));
            Scope scope;
            const double tolerance = tolerance_of(dtype);
            amp_tensor *a =
                op("add", {numbers(dtype, {2, n, n}, 1), op("mul", {identity(n, dtype), amp_complex(3, 3)})});
            amp_tensor *b = numbers(dtype, {2, n, 3}, 2);
            expect_same("linalg_solve", {a, b}, {}, tolerance);
            expect_same("linalg_inv", {a}, {}, tolerance);
            expect_same("linalg_solve", {a, numbers(dtype, {3, n}, 3)}, {{"left", false}}, tolerance);
            const std::vector<amp_tensor *> want = all("lu_with_info", {a}), got = all("lu_with_info", {sent(a)});
            for (size_t i = 0; i < 3; i++) expect_agree(got[i], want[i], tolerance);
            for (bool turned : {false, true}) {
                expect_agree(op("lu_solve", {sent(b), got[0], got[1], turned}),
                             op("lu_solve", {b, want[0], want[1], turned}), tolerance);
            }
            for (bool upper : {false, true}) {
                for (bool transpose : {false, true}) {
                    expect_same("triangular_solve", {b, a}, {{"upper", upper}, {"transpose", transpose}},
                                dtype == AMP_C128 ? 1e-8 : 0.1);
                }
                amp_tensor *p = positive(n, dtype), *factor = op("linalg_cholesky", {sent(p)}, {{"upper", upper}});
                expect_agree(factor, op("linalg_cholesky", {p}, {{"upper", upper}}), tolerance);
                expect_agree(op("cholesky_inverse", {factor, upper}), op("linalg_inv", {p}), tolerance);
                expect_agree(op("cholesky_solve", {sent(b), factor, upper}), op("linalg_solve", {p, b}), tolerance);
            }
        }
    }
}

TEST_F(CudaComplex, UnitaryFactorsAreThoseOfTheCpu) {
    for (const Shape &shape : {Shape{1, 1}, Shape{5, 3}, Shape{3, 5}, Shape{2, 33, 17}, Shape{2, 17, 33}}) {
        Scope scope;
        amp_tensor *a = numbers(AMP_C128, shape, 1), *there = sent(a);
        for (const char *mode : {"reduced", "complete", "r"}) {
            SCOPED_TRACE(mode);
            const std::vector<amp_tensor *> want = all("linalg_qr", {a, mode}), got = all("linalg_qr", {there, mode});
            for (size_t i = 0; i < 2; i++) expect_agree(got[i], want[i], 1e-12);
        }
        const std::vector<amp_tensor *> want = all("geqrf", {a}), got = all("geqrf", {there});
        for (size_t i = 0; i < 2; i++) expect_agree(got[i], want[i], 1e-12);
        const int64_t m = shape[shape.size() - 2], n = shape.back();
        if (m >= n)
            expect_agree(op("linalg_householder_product", {got[0], got[1]}),
                         op("linalg_householder_product", {want[0], want[1]}), 1e-12);
        for (bool left : {true, false}) {
            for (bool transpose : {true, false}) {
                SCOPED_TRACE(std::to_string(left) + std::to_string(transpose));
                Shape other = shape;
                other[shape.size() - (left ? 1 : 2)] = 4;
                other[shape.size() - (left ? 2 : 1)] = m;
                amp_tensor *c = numbers(AMP_C128, other, 2);
                expect_agree(op("ormqr", {got[0], got[1], sent(c), left, transpose}),
                             op("ormqr", {want[0], want[1], c, left, transpose}), 1e-12);
            }
        }
    }
}

TEST_F(CudaComplex, SingularVectorsGiveTheMatrixBack) {
    for (amp_dtype dtype : {AMP_C64, AMP_C128}) {
        const double tolerance = dtype == AMP_C128 ? 1e-11 : 1e-4;
        for (const Shape &shape : {Shape{1, 1}, Shape{2, 3}, Shape{6, 4}, Shape{2, 20, 33}, Shape{33, 20}}) {
            for (bool full : {false, true}) {
                for (bool deficient : {false, true}) {
                    SCOPED_TRACE(std::to_string(shape[0]) + (full ? " full" : "") + (deficient ? " deficient" : ""));
                    Scope scope;
                    amp_tensor *a = numbers(dtype, shape, 1);
                    if (deficient && shape.back() > 1) op("fill_", {op("narrow", {a, -1, 0, 1}), amp_int(0)});
                    std::vector<amp_tensor *> f = all("linalg_svd", {sent(a), full});
                    for (int i = 0; i < 3; i++) f[size_t(i)] = fetched(f[size_t(i)]);
                    const int64_t k = std::min(shape[shape.size() - 2], shape.back());
                    amp_tensor *scaled = op("mul", {op("narrow", {f[0], -1, 0, k}), op("unsqueeze", {f[1], -2})});
                    expect_agree(product(scaled, op("narrow", {f[2], -2, 0, k})), a, tolerance);
                    expect_agree(f[1], op("linalg_svdvals", {a}), tolerance);
                    const int64_t wide = full ? shape[shape.size() - 2] : k, high = full ? shape.back() : k;
                    amp_tensor *left = product(adjoint(f[0]), f[0]), *right = product(f[2], adjoint(f[2]));
                    expect_agree(op("sub", {left, identity(wide, dtype)}), op("zeros_like", {left}), tolerance);
                    expect_agree(op("sub", {right, identity(high, dtype)}), op("zeros_like", {right}), tolerance);
                }
            }
        }
    }
    amp_tensor *a = numbers(AMP_C128, {3, 9, 6}, 1), *low = op("narrow", {a, 2, 0, 4});
    low = product(low, adjoint(low)); // rank 4
    expect_same("pinverse", {a}, {}, 1e-10);
    expect_same("pinverse", {low}, {{"rcond", 1e-9}}, 1e-7);
    expect_same("linalg_matrix_rank", {low}, {}, 0);
    expect_same("linalg_cond", {a}, {}, 1e-8);
    expect_same("linalg_cond", {op("narrow", {a, 1, 0, 6})}, {{"p", amp_float(1)}}, 1e-6);
    std::vector<amp_tensor *> f = all("svd", {sent(a)});
    for (amp_tensor *&t : f) t = t ? fetched(t) : t;
    expect_agree(product(op("mul", {f[0], op("unsqueeze", {f[1], -2})}), adjoint(f[2])), a, 1e-11);
}

TEST_F(CudaComplex, EigenvectorsOfHermitianMatricesGiveThemBack) {
    for (amp_dtype dtype : {AMP_C64, AMP_C128}) {
        for (int64_t n : {1, 2, 3, 33}) {
            for (const char *side : {"L", "U"}) {
                SCOPED_TRACE(std::to_string(n) + side);
                Scope scope;
                const double tolerance = dtype == AMP_C128 ? 1e-11 : 2e-4;
                amp_tensor *a = hermitian(numbers(dtype, {2, n, n}, 1)), *there = sent(a);
                std::vector<amp_tensor *> f = both("linalg_eigh", {there, side});
                for (amp_tensor *&t : f) t = fetched(t);
                expect_agree(product(op("mul", {f[1], op("unsqueeze", {f[0], -2})}), adjoint(f[1])), a, tolerance);
                expect_agree(op("linalg_eigvalsh", {there, side}), op("linalg_eigvalsh", {a, side}), tolerance);
            }
        }
    }
}

TEST_F(CudaComplex, EigenvectorsOfAnyMatrixTurnIntoMultiples) {
    for (amp_dtype dtype : {AMP_C64, AMP_C128}) {
        for (int64_t n : {1, 2, 3, 8, 33}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(n));
            Scope scope;
            const double tolerance = dtype == AMP_C128 ? 1e-10 : 1e-3;
            amp_tensor *a = numbers(dtype, {2, n, n}, 1);
            std::vector<amp_tensor *> f = both("linalg_eig", {sent(a)});
            for (amp_tensor *&t : f) t = fetched(t);
            expect_agree(product(a, f[1]), op("mul", {f[1], op("unsqueeze", {f[0], -2})}), tolerance);
            amp_tensor *lengths = op("sum", {op("square", {op("abs", {f[1]})}), AMP_DIMS(-2)});
            expect_agree(lengths, op("ones_like", {lengths}), 1e-5);
            expect_agree(op("sum", {f[0], AMP_DIMS(-1)}), op("sum", {op("linalg_eigvals", {a}), AMP_DIMS(-1)}),
                         tolerance);
        }
    }
}

TEST_F(CudaComplex, LeastSquaresAgreeWithTheCpu) {
    for (const Shape &shape : {Shape{3, 20, 8}, Shape{3, 8, 20}, Shape{6, 6}}) {
        for (const char *driver : {"gels", "gelsd", "gelss", "gelsy"}) {
            SCOPED_TRACE(driver);
            Shape right = shape;
            right.back() = 2;
            amp_tensor *a = numbers(AMP_C128, shape, 1), *b = numbers(AMP_C128, right, 2);
            const std::vector<Named> by = {{"driver", driver}};
            const std::vector<amp_tensor *> want = all("linalg_lstsq", {a, b}, by);
            const std::vector<amp_tensor *> got = all("linalg_lstsq", {sent(a), sent(b)}, by);
            expect_agree(got[0], want[0], 1e-9);
            if (driver == std::string("gels")) expect_agree(got[1], want[1], 1e-9);
            expect_agree(got[3], want[3], 1e-10);
        }
        Shape right = shape;
        right.back() = 2;
        amp_tensor *a = numbers(AMP_C128, shape, 1), *b = numbers(AMP_C128, right, 2);
        const std::vector<amp_tensor *> want = all("lstsq", {b, a}), got = all("lstsq", {sent(b), sent(a)});
        for (size_t i = 0; i < 2; i++) expect_agree(got[i], want[i], 1e-9);
    }
}

TEST_F(CudaComplex, AMatrixWithoutAnAnswerIsToldOfWhenTheHostWaits) {
    amp_tensor *none = sent(op("zeros", {AMP_DIMS(3, 3), AMP_C64}));
    ASSERT_NE(op("linalg_inv", {none}), nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
    EXPECT_TRUE(contains(error(), "a matrix of linalg_inv"));
    amp_tensor *holes = op("full", {AMP_DIMS(3, 3), amp_complex(0, NAN), AMP_C64});
    ASSERT_NE(op("linalg_svdvals", {sent(holes)}), nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
    EXPECT_TRUE(contains(error(), "a matrix of linalg_svdvals"));
}

// cuFFT's are 64 on each device; the others' table is the same.
TEST_F(CudaComplex, PlansThatAreGivenUpAreMadeAgain) {
    for (int round = 0; round < 2; round++) {
        for (int64_t n = 1; n < 150; n++) {
            const Scope scope;
            amp_tensor *x = random_tensor(AMP_F64, {n}, uint64_t(n));
            expect_agree(op("fft_rfft", {sent(x)}), op("fft_rfft", {x}), 1e-10);
            if (HasFailure()) return;
        }
    }
}

} // namespace
