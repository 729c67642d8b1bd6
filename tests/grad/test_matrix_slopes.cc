// Gradients of linear algebra and Fourier transforms that no recorded case reaches (shapes, options, complex numbers), against
// differences of the ops' own results, once and twice; and what has no gradient.
#include "amp_test.h"

#include <cmath>
#include <functional>

using namespace amp_test;

namespace {

using Tensors = std::vector<amp_tensor *>;
using Function = std::function<Tensors(const Tensors &)>;

// Numbers in f64, or of (…, 2) as complex ones.
struct Input {
    Shape shape;
    bool is_complex;
};

amp_tensor *complex_of(amp_tensor *t) {
    return op("view_as_complex", {t});
}
amp_tensor *conjugate(amp_tensor *t) {
    if (amp_tensor_dtype(t) != AMP_C128) return t;
    return complex_of(op("mul", {op("view_as_real", {t}), tensor(AMP_F64, {2}, {1, -1})}));
}
amp_tensor *adjoint(amp_tensor *t) {
    return conjugate(op("transpose", {t, -2, -1}));
}
amp_tensor *hermitian(amp_tensor *t) {
    return op("add", {t, adjoint(t)});
}
amp_tensor *definite(amp_tensor *t) {
    const int64_t n = amp_tensor_size(t, -1);
    return op("add", {op("matmul", {t, adjoint(t)}), op("diag_embed", {tensor(AMP_F64, {n})})});
}
amp_tensor *absolute(amp_tensor *t) {
    return op("abs", {t});
}
// Far from singular.
amp_tensor *firm(amp_tensor *t) {
    const int64_t n = amp_tensor_size(t, -1);
    return op("add", {t, op("diag_embed", {tensor(AMP_F64, {n}, {2, -2.5, 3, 3.5})})});
}

Tensors results(const std::string &name, const std::vector<Value> &values, int count,
                const std::vector<Named> &named = {}) {
    Tensors outputs(size_t(count), nullptr);
    EXPECT_EQ(call(name, values, named, &outputs), AMP_OK) << amp_last_error();
    return outputs;
}

class MatrixSlopes : public Test {
  protected:
    // Σ of all results, each element with a factor of its own.
    static amp_tensor *weighed(const Tensors &outputs) {
        amp_tensor *sum = nullptr;
        uint64_t seed = 90;
        for (amp_tensor *t : outputs) {
            if (!t || !amp_tensor_requires_grad(t)) continue;
            if (amp_tensor_dtype(t) == AMP_C128) t = op("view_as_real", {t});
            Shape shape;
            for (int d = 0; d < amp_tensor_rank(t); d++) shape.push_back(amp_tensor_size(t, d));
            amp_tensor *part = op("sum", {op("mul", {t, random_tensor(AMP_F64, shape, seed++)})});
            sum = sum ? op("add", {sum, part}) : part;
        }
        return sum;
    }
    static Tensors leaves_of(const std::vector<Shape> &shapes, const std::vector<std::vector<double>> &numbers) {
        Tensors leaves;
        for (size_t i = 0; i < shapes.size(); i++) {
            leaves.push_back(tensor(AMP_F64, shapes[i], numbers[i]));
            EXPECT_EQ(amp_tensor_set_requires_grad(leaves.back(), true), AMP_OK);
        }
        return leaves;
    }
    static Tensors gradients(amp_tensor *loss, const Tensors &leaves, bool create) {
        amp_grad_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {&loss, 1, nullptr};
        args.inputs = {leaves.data(), int64_t(leaves.size()), nullptr};
        args.create_graph = create;
        args.allow_unused = create;
        const amp_tensor_list list = amp_grad_call(&args);
        EXPECT_EQ(list.count, int64_t(leaves.size())) << amp_last_error();
        return {list.items, list.items + list.count};
    }
    static void compare(const Function &f, const std::vector<Shape> &shapes, double tolerance, bool may_be_constant) {
        std::vector<std::vector<double>> numbers;
        for (size_t i = 0; i < shapes.size(); i++)
            numbers.push_back(numbers_of(random_tensor(AMP_F64, shapes[i], 7 + i)));
        const Tensors leaves = leaves_of(shapes, numbers);
        amp_tensor *loss = weighed(f(leaves));
        if (!loss && may_be_constant) return;
        ASSERT_NE(loss, nullptr) << amp_last_error();
        const Tensors got = gradients(loss, leaves, false);
        ASSERT_EQ(got.size(), leaves.size());
        for (size_t i = 0; i < shapes.size(); i++) {
            std::vector<double> want;
            for (double &x : numbers[i]) {
                const double step = 1e-5, at = x;
                double ends[2];
                for (int k = 0; k < 2; k++) {
                    Scope scope;
                    x = at + (k ? step : -step);
                    ends[k] = numbers_of(weighed(f(leaves_of(shapes, numbers))))[0];
                }
                x = at;
                want.push_back((ends[1] - ends[0]) / (2 * step));
            }
            SCOPED_TRACE("input " + std::to_string(i));
            expect_near(got[i], want, tolerance);
        }
    }
    // The gradient, and that of the gradient.
    static void check(const std::string &what, const std::vector<Input> &inputs, const Function &f) {
        SCOPED_TRACE(what);
        std::vector<Shape> shapes;
        for (const Input &input : inputs) {
            shapes.push_back(input.shape);
            if (input.is_complex) shapes.back().push_back(2);
        }
        const Function seen = [&](const Tensors &leaves) {
            Tensors given;
            for (size_t i = 0; i < leaves.size(); i++)
                given.push_back(inputs[i].is_complex ? complex_of(leaves[i]) : leaves[i]);
            return f(given);
        };
        compare(seen, shapes, 1e-7, false);
        if (HasFailure()) return;
        const Function slope = [&](const Tensors &leaves) { return gradients(weighed(seen(leaves)), leaves, true); };
        compare(slope, shapes, 2e-6, true);
    }
    static void refuse(amp_tensor *loss, amp_tensor *x, const std::vector<std::string> &words) {
        amp_grad_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {&loss, 1, nullptr};
        args.inputs = {&x, 1, nullptr};
        EXPECT_EQ(amp_grad_call(&args).count, 0);
        EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, words));
    }
    // Real numbers, and complex ones.
    static void check_both(const std::string &what, const std::vector<Shape> &shapes, const Function &f) {
        for (bool is_complex : {false, true}) {
            std::vector<Input> inputs;
            for (const Shape &shape : shapes) inputs.push_back({shape, is_complex});
            check(what + (is_complex ? ", complex" : ", real"), inputs, f);
        }
    }
};

TEST_F(MatrixSlopes, OfFactors) {
    for (bool upper : {false, true}) {
        check_both("cholesky", {{2, 3, 3}}, [=](const Tensors &x) {
            return Tensors{op("linalg_cholesky", {definite(x[0])}, {{"upper", upper}})};
        });
        check_both("cholesky_inverse", {{3, 3}}, [=](const Tensors &x) {
            amp_tensor *l = op("linalg_cholesky", {definite(x[0])}, {{"upper", upper}});
            return Tensors{op("cholesky_inverse", {l, upper})};
        });
        check_both("cholesky_solve", {{3, 3}, {2, 3, 2}}, [=](const Tensors &x) {
            amp_tensor *l = op("linalg_cholesky", {definite(x[0])}, {{"upper", upper}});
            return Tensors{op("cholesky_solve", {x[1], l, upper})};
        });
    }
    for (const Shape &shape : {Shape{3, 3}, Shape{2, 4, 2}, Shape{2, 2, 4}}) {
        check_both("linalg_lu", {shape}, [](const Tensors &x) {
            const Tensors r = results("linalg_lu", {x[0]}, 3);
            return Tensors{r[1], r[2]};
        });
        check_both("linalg_lu_factor", {shape},
                   [](const Tensors &x) { return Tensors{both("linalg_lu_factor", {x[0]})[0]}; });
        check_both("linalg_qr", {shape}, [](const Tensors &x) { return both("linalg_qr", {x[0]}); });
    }
    check_both("linalg_lu without pivots", {{3, 3}}, [](const Tensors &x) {
        const Tensors r = results("linalg_lu", {firm(x[0])}, 3, {{"pivot", false}});
        return Tensors{r[1], r[2]};
    });
    check_both("householder", {{2, 4, 3}, {2, 2}}, [](const Tensors &x) {
        return Tensors{op("linalg_householder_product", {x[0], x[1]})};
    });
    for (bool left : {false, true}) {
        for (bool transpose : {false, true}) {
            check_both("ormqr", {{3, 2}, {2}, {3, 3}}, [=](const Tensors &x) {
                return Tensors{op("ormqr", {x[0], x[1], x[2], left, transpose})};
            });
        }
    }
}

TEST_F(MatrixSlopes, OfEquations) {
    for (bool left : {false, true}) {
        check_both("solve", {{2, 3, 3}, {3, 3}}, [=](const Tensors &x) {
            return Tensors{op("linalg_solve", {firm(x[0]), x[1]}, {{"left", left}})};
        });
        for (bool flag : {false, true}) {
            check_both("lu_solve", {{3, 3}, {2, 3, 3}}, [=](const Tensors &x) {
                const Tensors lu = both("linalg_lu_factor", {x[0]});
                return Tensors{op("linalg_lu_solve", {lu[0], lu[1], x[1]}, {{"left", left}, {"adjoint", flag}})};
            });
            check_both("solve_triangular", {{3, 3}, {2, 3, 3}}, [=](const Tensors &x) {
                const std::vector<Named> named = {{"upper", flag}, {"left", left}, {"unitriangular", !left}};
                return Tensors{op("linalg_solve_triangular", {firm(x[0]), x[1]}, named)};
            });
            check_both("triangular_solve", {{3, 2}, {2, 3, 3}}, [=](const Tensors &x) {
                return both("triangular_solve", {x[0], firm(x[1]), left, flag, left != flag});
            });
        }
    }
    check_both("vector", {{3, 3}, {3}}, [](const Tensors &x) {
        return Tensors{op("linalg_solve", {firm(x[0]), x[1]})};
    });
    check_both("tensorsolve", {{2, 4, 2}, {2, 2}}, [](const Tensors &x) {
        return Tensors{op("linalg_tensorsolve", {x[0], x[1]}, {{"dims", AMP_DIMS(1)}})};
    });
    check_both("tensorinv", {{4, 2, 2}}, [](const Tensors &x) { return Tensors{op("linalg_tensorinv", {x[0], 1})}; });
    for (const Shape &shape : {Shape{3, 3}, Shape{2, 4, 2}, Shape{2, 2, 4}}) {
        check_both("pinv", {shape}, [](const Tensors &x) { return Tensors{op("linalg_pinv", {x[0]})}; });
        Shape b = shape;
        b.back() = 2;
        check_both("lstsq", {shape, b}, [](const Tensors &x) {
            const Tensors r = results("linalg_lstsq", {x[0], x[1]}, 4, {{"driver", "gels"}});
            return Tensors{r[0], r[1]};
        });
    }
    check_both("pinv of low rank", {{3, 2}, {4, 2}}, [](const Tensors &x) {
        return Tensors{op("linalg_pinv.singular", {x[0], x[1]})};
    });
    check_both("pinv, hermitian", {{3, 3}}, [](const Tensors &x) {
        return Tensors{op("linalg_pinv", {hermitian(x[0])}, {{"hermitian", true}})};
    });
}

TEST_F(MatrixSlopes, OfFunctions) {
    for (const char *name : {"linalg_det", "logdet", "matrix_exp"}) {
        check_both(name, {{2, 3, 3}}, [=](const Tensors &x) { return Tensors{op(name, {definite(x[0])})}; });
    }
    check_both("slogdet", {{2, 3, 3}}, [](const Tensors &x) { return both("linalg_slogdet", {x[0]}); });
    for (int n : {-2, 0, 1, 3}) {
        check_both("power " + std::to_string(n), {{3, 3}}, [=](const Tensors &x) {
            return Tensors{op("linalg_matrix_power", {firm(x[0]), n})};
        });
    }
    check_both("vander", {{3}}, [](const Tensors &x) { return Tensors{op("linalg_vander", {x[0]})}; });
    for (double p : {1.0, -1.0, 2.0, -2.0, double(INFINITY), double(-INFINITY)}) {
        check_both("norm " + std::to_string(p), {{2, 3, 2}}, [=](const Tensors &x) {
            return Tensors{op("linalg_matrix_norm", {x[0], p, AMP_DIMS(2, 0)}),
                           op("linalg_norm", {x[0], p, AMP_DIMS(0, 1)})};
        });
        check_both("condition " + std::to_string(p), {{3, 3}}, [=](const Tensors &x) {
            return Tensors{op("linalg_cond", {x[0], p})};
        });
    }
    for (const char *word : {"fro", "nuc"}) {
        check_both(word, {{2, 3, 3}}, [=](const Tensors &x) {
            return Tensors{op("linalg_matrix_norm.str", {x[0], word}, {{"keepdim", true}}),
                           op("linalg_norm.str", {x[0], word, AMP_DIMS(1, 0)}), op("linalg_cond.str", {x[0], word})};
        });
    }
}

TEST_F(MatrixSlopes, OfSpectra) {
    for (const Shape &shape : {Shape{3, 3}, Shape{2, 4, 2}, Shape{2, 2, 4}}) {
        for (bool full : {false, true}) {
            check_both("svd", {shape}, [=](const Tensors &x) {
                const int64_t k = std::min(amp_tensor_size(x[0], -1), amp_tensor_size(x[0], -2));
                const Tensors r = results("linalg_svd", {x[0], full}, 3);
                return Tensors{absolute(op("narrow", {r[0], -1, 0, k})), r[1],
                               absolute(op("narrow", {r[2], -2, 0, k}))};
            });
        }
        check_both("svd, together", {shape}, [](const Tensors &x) {
            const Tensors r = results("svd", {x[0]}, 3);
            return Tensors{op("matmul", {r[0], adjoint(r[2])}), r[1]};
        });
        check_both("svd, values", {shape}, [](const Tensors &x) {
            return Tensors{results("svd", {x[0], true, false}, 3)[1], op("linalg_svdvals", {x[0]})};
        });
    }
    check_both("eigh", {{2, 3, 3}}, [](const Tensors &x) {
        const Tensors r = both("linalg_eigh", {hermitian(x[0]), "U"});
        return Tensors{r[0], absolute(r[1]), op("linalg_eigvalsh", {hermitian(x[0])})};
    });
    for (bool vectors : {false, true}) {
        check_both("symeig", {{3, 3}}, [=](const Tensors &x) {
            const Tensors r = both("symeig", {hermitian(x[0]), vectors});
            return Tensors{r[0], vectors ? absolute(r[1]) : nullptr};
        });
    }
    check_both("eig", {{2, 3, 3}}, [](const Tensors &x) {
        const Tensors r = both("linalg_eig", {firm(x[0])});
        return Tensors{r[0], absolute(r[1]), op("linalg_eigvals", {firm(x[0])})};
    });
}

TEST_F(MatrixSlopes, OfEigenvaluesAsPairs) {
    check_both("eig", {{3, 3}}, [](const Tensors &x) { return Tensors{op("eig", {firm(x[0])})}; });
    check("eig, vectors", {{{3, 3}, true}}, [](const Tensors &x) {
        const Tensors r = both("eig", {firm(x[0]), true});
        return Tensors{r[0], absolute(r[1])};
    });
    amp_tensor *x = random_tensor(AMP_F64, {3, 3}, 3);
    ASSERT_EQ(amp_tensor_set_requires_grad(x, true), AMP_OK);
    refuse(op("sum", {both("eig", {x, true})[1]}), x, {"eig", "packed", "linalg_eig"});
}

TEST_F(MatrixSlopes, OfTransforms) {
    for (const char *norm : {"backward", "forward", "ortho"}) {
        for (int n : {3, 4, 7, 8}) {
            const std::vector<Named> one = {{"n", n}, {"norm", norm}, {"dim", 0}};
            const std::vector<Named> two = {{"s", AMP_DIMS(3, n)}, {"dim", AMP_DIMS(2, 0)}, {"norm", norm}};
            for (const char *name : {"fft_fft", "fft_ifft"}) {
                check_both(name, {{5, 2}}, [=](const Tensors &x) { return Tensors{op(name, {x[0]}, one)}; });
            }
            for (const char *name : {"fft_rfft", "fft_ihfft"})
                check(name, {{{5, 2}, false}}, [=](const Tensors &x) { return Tensors{op(name, {x[0]}, one)}; });
            for (const char *name : {"fft_irfft", "fft_hfft"})
                check_both(name, {{4, 2}}, [=](const Tensors &x) { return Tensors{op(name, {x[0]}, one)}; });
            for (const char *name : {"fft_rfftn", "fft_ihfft2"})
                check(name, {{{5, 2, 2}, false}}, [=](const Tensors &x) { return Tensors{op(name, {x[0]}, two)}; });
            for (const char *name : {"fft_irfftn", "fft_hfftn", "fft_fftn", "fft_ifft2"})
                check(name, {{{4, 1, 2}, true}}, [=](const Tensors &x) { return Tensors{op(name, {x[0]}, two)}; });
        }
    }
    check_both("shifts", {{3, 4}}, [](const Tensors &x) {
        return Tensors{op("fft_fftshift", {x[0]}), op("fft_ifftshift", {x[0]}, {{"dim", AMP_DIMS(0)}})};
    });
    for (bool onesided : {false, true}) {
        check("stft", {{{2, 12}, false}, {{4}, false}}, [=](const Tensors &x) {
            const std::vector<Named> named = {{"hop_length", 3},      {"win_length", 4},
                                              {"window", x[1]},       {"normalized", true},
                                              {"onesided", onesided}, {"return_complex", onesided}};
            return Tensors{op("stft", {x[0], 6}, named)};
        });
    }
}

TEST_F(MatrixSlopes, OfASingularDeterminantAreTheCofactors) {
    amp_tensor *x = tensor(AMP_F64, {2, 2}, {1, 2, 2, 4});
    ASSERT_EQ(amp_tensor_set_requires_grad(x, true), AMP_OK);
    expect_near(gradients(op("linalg_det", {x}), {x}, false)[0], {4, -2, -2, 1}, 1e-12);
}

TEST_F(MatrixSlopes, OfEmptyMatricesAreEmpty) {
    for (const char *name : {"linalg_inv", "linalg_det", "matrix_exp", "linalg_cholesky"}) {
        amp_tensor *x = tensor(AMP_F64, {0, 0}, {});
        ASSERT_EQ(amp_tensor_set_requires_grad(x, true), AMP_OK);
        const Tensors got = gradients(op("sum", {op(name, {x})}), {x}, false);
        ASSERT_EQ(got.size(), 1u) << name;
        EXPECT_TRUE(numbers_of(got[0]).empty()) << name;
    }
}

// The error of the gradient of LU in f32: over its norm, and the geometric mean over 64 matrices.
double error_of_factors(int64_t n, bool left, bool adjoint) {
    amp_tensor *diagonal = op("diag_embed", {op("full", {AMP_DIMS(n), std::max(4.0, double(n) / 2)})});
    amp_tensor *matrices = op("mul", {random_tensor(AMP_F32, {64, n, n}, 5), 2.0});
    const Tensors lu = both("linalg_lu_factor", {op("add", {matrices, diagonal})});
    const Shape shape = left ? Shape{64, n, 5} : Shape{64, 5, n};
    std::vector<double> of[2];
    for (const bool is_wide : {false, true}) {
        const amp_dtype dtype = is_wide ? AMP_F64 : AMP_F32;
        amp_tensor *x = op("clone", {op("to", {lu[0], dtype})});
        EXPECT_EQ(amp_tensor_set_requires_grad(x, true), AMP_OK);
        amp_tensor *b = op("to", {random_tensor(AMP_F32, shape, 6), dtype});
        amp_tensor *y = op("linalg_lu_solve", {x, lu[1], b}, {{"left", left}, {"adjoint", adjoint}});
        amp_backward_args args = {};
        args.struct_size = sizeof args;
        args.loss = y;
        args.gradient = op("to", {random_tensor(AMP_F32, shape, 7), dtype});
        EXPECT_EQ(amp_backward_call(&args), AMP_OK) << amp_last_error();
        of[is_wide] = numbers_of(amp_tensor_grad(x));
        amp_tensor_zero_grad(x);
    }
    double logarithms = 0;
    for (size_t m = 0; m < 64; m++) {
        double error = 0, norm = 0;
        for (size_t i = m * size_t(n * n); i < (m + 1) * size_t(n * n); i++) {
            error += (of[0][i] - of[1][i]) * (of[0][i] - of[1][i]);
            norm += of[1][i] * of[1][i];
        }
        logarithms += 0.5 * std::log(error / norm) / 64;
    }
    return std::exp(logarithms);
}

// PyTorch's errors on such matrices are 1.1e-7 where A^H x = b, and up to 1.8e-7 where A x = b.
TEST_F(MatrixSlopes, OfFactorsThatSolveLoseNoDigits) {
    for (const int64_t n : {8, 24}) {
        for (const bool left : {true, false}) {
            EXPECT_LT(error_of_factors(n, left, left), 0.9e-7) << n << left;
            EXPECT_LT(error_of_factors(n, left, !left), 1.5e-7) << n << left;
        }
    }
}

// As PyTorch has it: only what a gradient leads through requires one.
TEST_F(MatrixSlopes, DoNotLeadThroughConstants) {
    const std::vector<Named> gelsd = {{"driver", "gelsd"}};
    amp_tensor *x = random_tensor(AMP_F64, {5, 3}, 3), *classes = op("zeros", {AMP_DIMS(5, 3)}, {{"dtype", AMP_I64}});
    ASSERT_EQ(amp_tensor_set_requires_grad(x, true), AMP_OK);
    const struct {
        Tensors results;
        std::vector<bool> require;
    } cases[] = {
        {results("linalg_lstsq", {x, random_tensor(AMP_F64, {5, 2}, 4)}, 4, gelsd), {true, true, false, false}},
        {results("linalg_lu", {x}, 3), {false, true, true}},
        {results("multilabel_margin_loss_forward", {x, classes}, 2), {true, false}},
    };
    for (const auto &c : cases) {
        for (size_t i = 0; i < c.require.size(); i++)
            EXPECT_EQ(amp_tensor_requires_grad(c.results[i]), c.require[i]) << i;
    }
}

TEST_F(MatrixSlopes, AreRefusedWhereQIsNotUnique) {
    for (const char *mode : {"complete", "r"}) {
        amp_tensor *x = random_tensor(AMP_F64, {4, 2}, 3);
        ASSERT_EQ(amp_tensor_set_requires_grad(x, true), AMP_OK);
        amp_tensor *loss = op("sum", {both("linalg_qr", {x, mode})[1]});
        refuse(loss, x, {"linalg_qr", mode, "reduced"});
    }
}

} // namespace
