// linalg_lu and its kin, linalg_solve_triangular, powers and exponentials of matrices, pseudo-inverses, linalg_norm.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class MatrixFunctions : public Test {};

Shape shape_of(const amp_tensor *t) {
    return t ? Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t)) : Shape{-1};
}

amp_tensor *adjoint(amp_tensor *t) {
    amp_tensor *turned = op("clone", {op("transpose", {t, -2, -1})});
    if (amp_dtype_is_complex(amp_tensor_dtype(t))) op("neg_", {op("imag", {turned})});
    return turned;
}

// The same numbers, complex ones by their parts.
void expect_same(amp_tensor *got, amp_tensor *want, double tolerance) {
    ASSERT_NE(got, nullptr) << amp_last_error();
    ASSERT_NE(want, nullptr) << amp_last_error();
    EXPECT_EQ(shape_of(got), shape_of(want));
    if (amp_dtype_is_complex(amp_tensor_dtype(got))) {
        got = op("view_as_real", {got});
        want = op("view_as_real", {want});
    }
    expect_near(got, numbers_of(want), tolerance);
}

amp_tensor *matrices(amp_dtype dtype, const Shape &shape, uint64_t seed) {
    if (!amp_dtype_is_complex(dtype)) return random_tensor(dtype, shape, seed);
    Shape parts = shape;
    parts.push_back(2);
    return op("view_as_complex", {random_tensor(dtype == AMP_C64 ? AMP_F32 : AMP_F64, parts, seed)});
}

double tolerance_of(amp_dtype dtype) {
    return dtype == AMP_F32 || dtype == AMP_C64 ? 2e-5 : 1e-13;
}

TEST_F(MatrixFunctions, FactorsMultiplyToTheMatrix) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_C64, AMP_C128}) {
        for (const Shape &shape : {Shape{2, 3, 5}, Shape{4, 4}, Shape{5, 2}, Shape{1, 1}}) {
            amp_tensor *a = matrices(dtype, shape, 3);
            std::vector<amp_tensor *> plu(3, nullptr);
            ASSERT_EQ(call("linalg_lu", {a}, {}, &plu), AMP_OK) << amp_last_error();
            expect_same(op("matmul", {plu[0], op("matmul", {plu[1], plu[2]})}), a, tolerance_of(dtype));
        }
    }
    std::vector<amp_tensor *> plain(3, nullptr);
    amp_tensor *a = tensor(AMP_F64, {2, 2}, {4, 3, 6, 3});
    ASSERT_EQ(call("linalg_lu", {a}, {{"pivot", false}}, &plain), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_tensor_numel(plain[0]), 0);
    EXPECT_EQ(numbers_of(plain[1]), (Numbers{1, 0, 1.5, 1}));
    EXPECT_EQ(numbers_of(plain[2]), (Numbers{4, 3, 0, -1.5}));
    ASSERT_EQ(call("linalg_lu", {tensor(AMP_F32, {2, 0, 3})}, {}, &plain), AMP_OK) << amp_last_error();
    EXPECT_EQ(shape_of(plain[0]), (Shape{2, 0, 0}));
    EXPECT_EQ(shape_of(plain[2]), (Shape{2, 0, 3}));
    ASSERT_EQ(call("linalg_lu", {tensor(AMP_F32, {3, 0})}, {}, &plain), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_of(plain[0]), (Numbers{1, 0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST_F(MatrixFunctions, FactorsSolveFromBothSides) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_C64, AMP_C128}) {
        amp_tensor *a = matrices(dtype, {2, 4, 4}, 5), *x = matrices(dtype, {4, 3}, 6);
        const auto lu = both("linalg_lu_factor", {a});
        for (bool adjoint_too : {false, true}) {
            amp_tensor *left = adjoint_too ? adjoint(a) : a;
            expect_same(op("linalg_lu_solve", {lu[0], lu[1], op("matmul", {left, x})}, {{"adjoint", adjoint_too}}),
                        op("expand", {x, AMP_DIMS(2, 4, 3)}), 20 * tolerance_of(dtype));
            amp_tensor *row = op("transpose", {x, 0, 1});
            expect_same(op("linalg_lu_solve", {lu[0], lu[1], op("matmul", {row, left})},
                           {{"adjoint", adjoint_too}, {"left", false}}),
                        op("expand", {row, AMP_DIMS(2, 3, 4)}), 20 * tolerance_of(dtype));
        }
    }
    amp_tensor *singular = tensor(AMP_F32, {2, 2}, {1, 2, 2, 4});
    EXPECT_EQ(op("linalg_lu_factor", {singular}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_lu_factor", "'A'", "singular"}));
    amp_tensor *b = tensor(AMP_F32, {2, 1}), *pivots = tensor(AMP_I32, {2}, {1, 3});
    EXPECT_EQ(op("linalg_lu_solve", {singular, pivots, b}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_lu_solve", "'pivots'", "3"}));
    EXPECT_EQ(op("linalg_lu_solve", {singular, pivots, b}, {{"left", false}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_lu_solve", "'B'", "'LU'"}));
}

TEST_F(MatrixFunctions, TrianglesSolveFromBothSides) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_C128}) {
        for (bool upper : {false, true}) {
            amp_tensor *a = op("add", {matrices(dtype, {3, 3}, 7), op("diag", {tensor(dtype, {3}, {3})})});
            amp_tensor *triangle = op(upper ? "triu" : "tril", {a}), *x = matrices(dtype, {3, 2}, 8);
            amp_tensor *row = op("transpose", {x, 0, 1});
            expect_same(op("linalg_solve_triangular", {a, op("matmul", {triangle, x})}, {{"upper", upper}}), x,
                        tolerance_of(dtype));
            expect_same(op("linalg_solve_triangular",
                           {op("transpose", {op("contiguous", {op("t", {a})}), 0, 1}), op("matmul", {row, triangle})},
                           {{"upper", upper}, {"left", false}}),
                        row, tolerance_of(dtype));
        }
    }
    amp_tensor *a = tensor(AMP_F32, {2, 2}, {9, 2, 3, 9}), *b = tensor(AMP_F32, {2, 1}, {4, 1});
    EXPECT_EQ(numbers_of(op("linalg_solve_triangular", {a, b}, {{"upper", true}, {"unitriangular", true}})),
              (Numbers{2, 1}));
    EXPECT_EQ(op("linalg_solve_triangular", {a, tensor(AMP_F32, {3, 1})}, {{"upper", true}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_solve_triangular", "'B'", "[3, 1]", "rows"}));
    EXPECT_EQ(op("linalg_solve_triangular", {a, b}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_solve_triangular", "upper"}));
}

TEST_F(MatrixFunctions, Powers) {
    amp_tensor *a = tensor(AMP_F64, {2, 2}, {1, 1, 1, 0});
    EXPECT_EQ(numbers_of(op("matrix_power", {a, 10})), (Numbers{89, 55, 55, 34}));
    EXPECT_EQ(numbers_of(op("linalg_matrix_power", {a, 1})), numbers_of(a));
    EXPECT_EQ(numbers_of(op("matrix_power", {tensor(AMP_I64, {2, 2}, {1, 1, 1, 0}), 13})),
              (Numbers{377, 233, 233, 144}));
    expect_near(op("matrix_power", {a, -3}), {-1, 2, 2, -3}, 1e-14);
    EXPECT_EQ(numbers_of(op("matrix_power", {tensor(AMP_BF16, {2, 2, 2}), 0})), (Numbers{1, 0, 0, 1, 1, 0, 0, 1}));
    EXPECT_EQ(shape_of(op("matrix_power", {tensor(AMP_F32, {0, 0}), 5})), (Shape{0, 0}));
    EXPECT_EQ(op("matrix_power", {tensor(AMP_F32, {2, 3}), 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"matrix_power", "square", "[2, 3]"}));
    EXPECT_EQ(op("matrix_power", {tensor(AMP_F64, {2, 2}), -1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"matrix_power", "singular"}));
    Region region;
    EXPECT_EQ(amp_tensor_dtype(op("matrix_power", {tensor(AMP_F32, {2, 2}), 2})), AMP_BF16) << "its products are cast";
}

TEST_F(MatrixFunctions, Exponentials) {
    for (double x : {0.0, 1.0, -20.0, 300.0}) {
        expect_near(op("matrix_exp", {tensor(AMP_F64, {1, 1}, {x})}), {std::exp(x)}, 1e-12);
    }
    // A turn, a shift, and a matrix that its neighbour in the batch does not disturb.
    amp_tensor *a = tensor(AMP_F64, {3, 2, 2}, {0, -50, 50, 0, 0, 3, 0, 0, 1e-9, 0, 0, -1e-9});
    const double c = std::cos(50.0), s = std::sin(50.0);
    expect_near(op("matrix_exp", {a}), {c, -s, s, c, 1, 3, 0, 1, std::exp(1e-9), 0, 0, std::exp(-1e-9)}, 1e-13);
    EXPECT_EQ(numbers_of(op("matrix_exp", {a}))[8], std::exp(1e-9));
    amp_tensor *m = matrices(AMP_C64, {2, 5, 5}, 9), *inverse = op("linalg_matrix_exp", {op("neg", {m})});
    amp_tensor *product = op("matmul", {op("matrix_exp", {m}), inverse});
    expect_same(product, op("expand", {op("diag", {tensor(AMP_C64, {5})}), AMP_DIMS(2, 5, 5)}), 1e-5);
    EXPECT_EQ(amp_tensor_dtype(op("matrix_exp", {tensor(AMP_BF16, {2, 2})})), AMP_BF16);
    EXPECT_EQ(shape_of(op("matrix_exp", {tensor(AMP_F32, {2, 0, 0})})), (Shape{2, 0, 0}));
    EXPECT_EQ(numbers_of(op("matrix_exp", {tensor(AMP_F64, {1, 1}, {-1e300})})), (Numbers{0}));
    EXPECT_TRUE(std::isnan(numbers_of(op("matrix_exp", {tensor(AMP_F64, {1, 1}, {NAN})}))[0]));
    EXPECT_EQ(op("matrix_exp", {tensor(AMP_I64, {2, 2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"matrix_exp", "i64"}));
    EXPECT_EQ(op("matrix_exp", {tensor(AMP_F32, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"matrix_exp", "square"}));
}

TEST_F(MatrixFunctions, PseudoInverses) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_C64, AMP_C128}) {
        amp_tensor *a = matrices(dtype, {2, 4, 3}, 10), *p = op("linalg_pinv", {a});
        expect_same(op("matmul", {op("matmul", {a, p}), a}), a, 10 * tolerance_of(dtype));
        amp_tensor *h = op("matmul", {a, adjoint(a)}), *q = op("linalg_pinv", {h}, {{"hermitian", true}});
        expect_same(op("matmul", {op("matmul", {h, q}), h}), h, 50 * tolerance_of(dtype));
        amp_tensor *b = matrices(dtype, {5, 3}, 11), *low = op("matmul", {a, op("transpose", {b, 0, 1})});
        expect_same(op("linalg_pinv", {}, {{"a", a}, {"b", b}}), op("linalg_pinv", {low}), 100 * tolerance_of(dtype));
    }
    amp_tensor *d = op("diag", {tensor(AMP_F64, {3}, {4, 2, 1})});
    expect_near(op("linalg_pinv", {d}, {{"atol", 1.5}}), {0.25, 0, 0, 0, 0.5, 0, 0, 0, 0}, 1e-15);
    expect_near(op("linalg_pinv", {d}, {{"rtol", 0.5}}), {0.25, 0, 0, 0, 0, 0, 0, 0, 0}, 1e-15);
    expect_near(op("linalg_pinv", {op("stack", {std::vector<amp_tensor *>{d, d}})},
                   {{"rtol", tensor(AMP_F64, {2}, {0.3, 0.6})}}),
                {0.25, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.25, 0, 0, 0, 0, 0, 0, 0, 0}, 1e-15);
    EXPECT_EQ(shape_of(op("linalg_pinv", {tensor(AMP_F32, {2, 0, 3})})), (Shape{2, 3, 0}));
    EXPECT_EQ(op("linalg_pinv", {tensor(AMP_F32, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_pinv", "[3]"}));
    EXPECT_EQ(op("linalg_pinv", {tensor(AMP_F32, {2, 3})}, {{"hermitian", true}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_pinv", "square"}));
    EXPECT_EQ(op("linalg_pinv", {tensor(AMP_BF16, {2, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"linalg_pinv", "bf16"}));
}

TEST_F(MatrixFunctions, PowersOfElements) {
    amp_tensor *x = tensor(AMP_I64, {3}, {2, 3, -1});
    EXPECT_EQ(numbers_of(op("linalg_vander", {x})), (Numbers{1, 2, 4, 1, 3, 9, 1, -1, 1}));
    EXPECT_EQ(numbers_of(op("linalg_vander", {x}, {{"N", 2}})), (Numbers{1, 2, 1, 3, 1, -1}));
    EXPECT_EQ(shape_of(op("linalg_vander", {tensor(AMP_F32, {2, 3})}, {{"N", 4}})), (Shape{2, 3, 4}));
    EXPECT_EQ(shape_of(op("linalg_vander", {tensor(AMP_F32, {0})})), (Shape{0, 0}));
    EXPECT_EQ(op("linalg_vander", {x}, {{"N", 1}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_vander", "'N'", "1"}));
}

TEST_F(MatrixFunctions, NormsOfVectorsOrMatrices) {
    amp_tensor *m = tensor(AMP_F64, {2, 2}, {3, 0, 4, 5}), *v = tensor(AMP_F64, {3}, {3, -4, 0});
    expect_near(op("linalg_norm", {m}), {std::sqrt(50.0)}, 1e-14);
    EXPECT_EQ(numbers_of(op("linalg_norm", {m, 1})), (Numbers{7}));
    expect_near(op("linalg_norm", {m, 2}), {std::sqrt(45.0)}, 1e-14);
    expect_near(op("linalg_norm", {m, "nuc"}), {std::sqrt(45.0) + std::sqrt(5.0)}, 1e-14);
    EXPECT_EQ(numbers_of(op("linalg_norm", {m, 1, 1})), (Numbers{3, 9}));
    EXPECT_EQ(numbers_of(op("linalg_norm", {v})), (Numbers{5}));
    EXPECT_EQ(numbers_of(op("linalg_norm", {v, INFINITY})), (Numbers{4}));
    EXPECT_EQ(shape_of(op("linalg_norm", {op("unsqueeze", {m, 0}), "fro", AMP_DIMS(0, 1), true})), (Shape{1, 1, 2}));
    amp_tensor *deep = op("unsqueeze", {m, 0});
    expect_near(op("linalg_norm", {deep}), {std::sqrt(50.0)}, 1e-14);
    EXPECT_EQ(op("linalg_norm", {deep, 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_norm", "'dim'"}));
    EXPECT_EQ(op("linalg_norm", {v, "fro"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_norm", "'dim'"}));
    EXPECT_EQ(op("linalg_norm", {deep, 2, AMP_DIMS(0, 1, 2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_norm", "3 dimensions"}));
}

} // namespace
