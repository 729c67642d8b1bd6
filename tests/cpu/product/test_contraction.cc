// einsum, tensordot and products of vectors: what the recorded cases do not say. Whole numbers, exact in every dtype.
#include <gtest/gtest.h>

#include "amp_test.h"

using namespace amp_test;

namespace {

struct Contraction : amp_test::Test {
    using Tensors = std::vector<amp_tensor *>;
    amp_tensor *einsum(const char *equation, const Tensors &tensors) {
        return op("einsum", {equation, tensors});
    }
    bool refused(const char *equation, const Tensors &tensors, const char *why) {
        EXPECT_EQ(einsum(equation, tensors), nullptr) << equation;
        return failed_with(AMP_ERROR_INVALID, {"einsum", why});
    }
};

using Numbers = std::vector<double>;

} // namespace

TEST_F(Contraction, EinsumOfOneTensorSumsPermutesAndTakesDiagonals) {
    for (const amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16, AMP_I64}) {
        amp_tensor *x = tensor(dtype, {2, 3}, {1, 2, 3, 4, 5, 6}), *s = tensor(dtype, {2, 2}, {1, 2, 3, 4});
        EXPECT_EQ(numbers_of(einsum("ij->ji", {x})), (Numbers{1, 4, 2, 5, 3, 6}));
        EXPECT_EQ(numbers_of(einsum("ba", {x})), (Numbers{1, 4, 2, 5, 3, 6})); // alphabetical without an arrow
        EXPECT_EQ(numbers_of(einsum("ij->", {x})), (Numbers{21}));
        EXPECT_EQ(numbers_of(einsum(" i j -> j ", {x})), (Numbers{5, 7, 9}));
        EXPECT_EQ(numbers_of(einsum("ii", {s})), (Numbers{5}));
        EXPECT_EQ(numbers_of(einsum("ii->i", {s})), (Numbers{1, 4}));
        EXPECT_EQ(numbers_of(einsum("...", {x})), (Numbers{1, 2, 3, 4, 5, 6}));
        EXPECT_EQ(numbers_of(einsum("...j->...", {x})), (Numbers{6, 15}));
        EXPECT_EQ(numbers_of(einsum("i...->", {x})), (Numbers{21}));
        ASSERT_TRUE(no_error());
    }
}

TEST_F(Contraction, EinsumOfTwo) {
    for (const amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16, AMP_I64, AMP_C64}) {
        amp_tensor *a = tensor(dtype, {2, 3}, {1, 2, 3, 4, 5, 6}), *b = tensor(dtype, {3, 2}, {1, 0, 2, 1, 0, 3});
        amp_tensor *v = tensor(dtype, {3}, {1, -1, 2}), *one = tensor(dtype, {1}, {3});
        EXPECT_EQ(numbers_of(einsum("ij,jk", {a, b})), (Numbers{5, 11, 14, 23}));
        EXPECT_EQ(numbers_of(einsum("ij,jk->ki", {a, b})), (Numbers{5, 14, 11, 23}));
        EXPECT_EQ(numbers_of(einsum("ij,j->i", {a, v})), (Numbers{5, 11}));
        EXPECT_EQ(numbers_of(einsum("j,ij->i", {v, a})), (Numbers{5, 11}));
        EXPECT_EQ(numbers_of(einsum("ij,ij->", {a, a})), (Numbers{91}));
        EXPECT_EQ(numbers_of(einsum("ij,ij->i", {a, a})), (Numbers{14, 77}));
        EXPECT_EQ(numbers_of(einsum("ij,ji->ij", {a, b})), (Numbers{1, 4, 0, 0, 5, 18}));
        EXPECT_EQ(numbers_of(einsum("i,j->ij", {v, v})), (Numbers{1, -1, 2, -1, 1, -2, 2, -2, 4}));
        EXPECT_EQ(numbers_of(einsum("ij,j->i", {a, one})), (Numbers{18, 45})); // an extent of 1 is broadcast
        EXPECT_EQ(numbers_of(einsum("...j,j...->...", {a, v})), (Numbers{5, 11}));
        ASSERT_TRUE(no_error());
    }
}

TEST_F(Contraction, EinsumOfThreeDoesNotDependOnTheOrderOfTheTensors) {
    amp_tensor *a = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}),
               *b = tensor(AMP_F32, {3, 4}, {1, 2, -1, 0, 3, 1, 2, 2}),
               *c = tensor(AMP_F32, {4, 2}, {2, 1, 0, 1, 1, -1, 3, 2});
    const Numbers expected = numbers_of(op("mm", {op("mm", {a, b}), c}));
    EXPECT_EQ(numbers_of(einsum("ij,jk,kl->il", {a, b, c})), expected);
    EXPECT_EQ(numbers_of(einsum("kl,ij,jk->il", {c, a, b})), expected);
}

TEST_F(Contraction, EinsumWithNothingToSumIsZero) {
    amp_tensor *a = tensor(AMP_F32, {2, 0}), *b = tensor(AMP_F32, {0, 3});
    EXPECT_EQ(numbers_of(einsum("ij,jk", {a, b})), Numbers(6, 0.0));
    EXPECT_EQ(numbers_of(einsum("ij->i", {a})), Numbers(2, 0.0));
    EXPECT_EQ(numbers_of(einsum("ij,jk->ijk", {a, b})), Numbers{});
}

TEST_F(Contraction, MalformedEquationsAreRefused) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}), *y = tensor(AMP_F32, {4, 3});
    EXPECT_TRUE(refused("ij,jk", {x}, "has subscripts for 2 tensors, but 'tensors' has 1"));
    EXPECT_TRUE(refused("ij", {x, x}, "has subscripts for 1 tensors, but 'tensors' has 2"));
    EXPECT_TRUE(refused("ijk", {x}, "names 3 dimensions of tensor 0, which is [2, 3]"));
    EXPECT_TRUE(refused("i", {x}, "names 1 dimensions of tensor 0"));
    EXPECT_TRUE(refused("ijklmnopq", {x}, "names more than 8 dimensions of one tensor"));
    EXPECT_TRUE(refused("i1", {x}, "has a '1' at position 1"));
    EXPECT_TRUE(refused("i.", {x}, "has a '.' that is not part of '...'"));
    EXPECT_TRUE(refused("...i...", {x}, "has '...' twice"));
    EXPECT_TRUE(refused("ij-", {x}, "has a '-' that is not part of '->'"));
    EXPECT_TRUE(refused("ij->i->j", {x}, "after '->'"));
    EXPECT_TRUE(refused("ij->i,j", {x}, "has a ',' after '->'"));
    EXPECT_TRUE(refused("ij->ii", {x}, "has 'i' twice in the result"));
    EXPECT_TRUE(refused("ij->k", {x}, "has 'k' in the result only"));
    EXPECT_TRUE(refused("ii", {x}, "repeats 'i' for tensor 0"));
    EXPECT_TRUE(refused("ij,ij", {x, y}, "gives 'i' the extent 2, but tensor 1 is [4, 3]"));
    EXPECT_TRUE(refused("...,...", {x, y}, "'...' dimensions that do not broadcast"));
    amp_tensor *wide = tensor(AMP_F32, {1, 1, 1, 1, 2});
    EXPECT_TRUE(refused("abcde,fghij->abcdefghij", {wide, wide}, "more than 8 dimensions"));
}

TEST_F(Contraction, MixedDtypesAreRefused) {
    amp_tensor *x = tensor(AMP_F32, {2}), *y = tensor(AMP_F64, {2});
    EXPECT_EQ(einsum("i,i", {x, y}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"einsum", "f32", "f64"}));
    EXPECT_EQ(op("dot", {x, y}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"dot", "f32", "f64"}));
    EXPECT_EQ(op("tensordot", {x, y, AMP_DIMS(1)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"tensordot", "f32", "f64"}));
}

TEST_F(Contraction, TensordotPairsDimensionsByNumberOrName) {
    amp_tensor *a = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}), *b = tensor(AMP_F32, {3, 2}, {1, 0, 2, 1, 0, 3});
    EXPECT_EQ(numbers_of(op("tensordot", {a, b, AMP_DIMS(1)})), (Numbers{5, 11, 14, 23}));
    EXPECT_EQ(numbers_of(op("tensordot", {a, b, AMP_DIMS(-1, 0)})), (Numbers{5, 11, 14, 23}));
    EXPECT_EQ(numbers_of(op("tensordot", {a, b, AMP_DIMS(0, 1, 1, 0)})), (Numbers{28}));
    EXPECT_EQ(amp_tensor_rank(op("tensordot", {a, b, AMP_DIMS(0)})), 4);
    EXPECT_EQ(op("tensordot", {a, b, AMP_DIMS(2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tensordot", "[2, 3]", "[3, 2]", "must be equal"}));
    EXPECT_EQ(op("tensordot", {a, b, AMP_DIMS(3)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tensordot", "'dims'"}));
    EXPECT_EQ(op("tensordot", {a, b, AMP_DIMS(0, 0, 1, 0)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tensordot", "twice"}));
}

TEST_F(Contraction, DotIsTheSameForAnyNumberOfThreads) {
    std::vector<double> numbers;
    for (int i = 0; i < 200001; i++) numbers.push_back((i * 7919 % 1000) / 999.0);
    for (const amp_dtype dtype : {AMP_F32, AMP_F64}) {
        amp_tensor *x = tensor(dtype, {200001}, numbers);
        const int before = amp_get_num_threads();
        ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
        const Numbers alone = numbers_of(op("dot", {x, x}));
        ASSERT_EQ(amp_set_num_threads(3), AMP_OK);
        EXPECT_EQ(numbers_of(op("dot", {x, x})), alone);
        ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
        double sum = 0;
        for (double v : numbers_of(x)) sum += v * v;
        EXPECT_NEAR(alone[0], sum, sum * 1e-7);
    }
}

TEST_F(Contraction, DotOfNothingIsZero) {
    for (const amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_I32, AMP_C64}) {
        amp_tensor *x = tensor(dtype, {0});
        EXPECT_EQ(numbers_of(op("dot", {x, x})), Numbers{0});
    }
}

// Both ways of dots.c, and both sides: rows that are dense, and columns.
TEST_F(Contraction, MatrixTimesVectorInAnyLayout) {
    for (const amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_I32}) {
        for (const int64_t m : {1, 17, 530}) {
            for (const int64_t k : {1, 63, 130, 2100}) {
                Numbers a, x;
                for (int64_t i = 0; i < m * k; i++) a.push_back(double(i * 7 % 5 - 2));
                for (int64_t i = 0; i < k; i++) x.push_back(i % 97 == 0 ? double(i % 3 - 1) : 0); // sums stay exact
                amp_tensor *dense = tensor(dtype, {m, k}, a), *v = tensor(dtype, {k}, x);
                amp_tensor *turned = op("t", {op("contiguous", {op("t", {dense})})});
                Numbers expected(size_t(m), 0.0);
                for (size_t i = 0; i < size_t(m * k); i++) expected[i / size_t(k)] += a[i] * x[i % size_t(k)];
                for (amp_tensor *matrix : {dense, turned}) {
                    EXPECT_EQ(numbers_of(op("matmul", {matrix, v})), expected) << amp_last_error();
                    EXPECT_EQ(numbers_of(op("matmul", {v, op("t", {matrix})})), expected);
                    EXPECT_EQ(numbers_of(einsum("ij,j->i", {matrix, v})), expected);
                }
                if (dtype == AMP_F32 || dtype == AMP_F64) {
                    amp_tensor *added =
                        op("addmv", {tensor(dtype, {m}, {3}), op("mul", {dense, 1}), v}, {{"alpha", 2}});
                    for (double &y : expected) y = 2 * y + 3;
                    EXPECT_EQ(numbers_of(added), expected);
                }
            }
        }
    }
}

TEST_F(Contraction, OuterProductsKeepTheSignOfZero) {
    amp_tensor *v = tensor(AMP_F32, {2}, {0, -1}), *w = tensor(AMP_F32, {3}, {-1, 1, 0});
    const Numbers y = numbers_of(op("outer", {v, w}));
    EXPECT_EQ(y, (Numbers{0, 0, 0, 1, -1, 0}));
    EXPECT_TRUE(std::signbit(y[0]) && !std::signbit(y[1]) && std::signbit(y[5]));
    amp_tensor *m = tensor(AMP_F32, {3}, {1, 2, 3});
    EXPECT_EQ(numbers_of(op("addr", {m, v, w})), (Numbers{1, 2, 3, 2, 1, 3}));
    EXPECT_EQ(numbers_of(op("addr", {op("expand", {m, AMP_DIMS(2, 3)}), v, w}, {{"alpha", 2}})),
              (Numbers{1, 2, 3, 3, 0, 3}));
    EXPECT_EQ(numbers_of(op("addr", {m, v, w}, {{"beta", 2}})), (Numbers{2, 4, 6, 3, 3, 6}));
}

TEST_F(Contraction, TheFirstOperandOfVdotAndVecdotIsConjugated) {
    const double i_and_2[] = {0, 1, 2, 0}, values[] = {3, 0, 0, 1};
    const int64_t two = 2;
    amp_tensor *x = amp_from_data(i_and_2, AMP_C128, 1, &two), *y = amp_from_data(values, AMP_C128, 1, &two);
    for (const char *name : {"vdot", "linalg_vecdot", "dot"}) {
        amp_tensor *z = op(name, {x, y});
        ASSERT_NE(z, nullptr) << amp_last_error();
        const double *parts = static_cast<const double *>(amp_data(z));
        EXPECT_EQ(parts[0], 0);
        EXPECT_EQ(parts[1], std::string(name) == "dot" ? 5 : -1) << name;
    }
}

TEST_F(Contraction, VecdotBroadcastsAndTakesAnyDimension) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}), *y = tensor(AMP_F32, {3}, {1, 0, -1});
    EXPECT_EQ(numbers_of(op("linalg_vecdot", {x, y})), (Numbers{-2, -2}));
    EXPECT_EQ(numbers_of(op("linalg_vecdot", {x, x}, {{"dim", 0}})), (Numbers{17, 29, 45}));
    EXPECT_EQ(op("linalg_vecdot", {x, x}, {{"dim", 2}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_vecdot", "'dim' is 2"}));
    amp_tensor *whole = tensor(AMP_I64, {2});
    EXPECT_EQ(op("linalg_vecdot", {whole, whole}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"linalg_vecdot", "floating or complex"}));
}

TEST_F(Contraction, BetaOfZeroDoesNotLookAtTheInput) {
    amp_tensor *m = tensor(AMP_F32, {2, 2}, {NAN, NAN, NAN, NAN}), *v = tensor(AMP_F32, {2}, {1, 2});
    amp_tensor *bad = tensor(AMP_F32, {2}, {NAN, NAN}), *unit = tensor(AMP_F32, {2, 2}, {1, 0, 0, 1});
    EXPECT_EQ(numbers_of(op("addr", {m, v, v}, {{"beta", 0}})), (Numbers{1, 2, 2, 4}));
    EXPECT_EQ(numbers_of(op("addmv", {bad, unit, v}, {{"beta", 0}})), (Numbers{1, 2}));
}

TEST_F(Contraction, OuterPromotesAndMvRefusesWrongShapes) {
    amp_tensor *v = tensor(AMP_F32, {2}, {1, 2}), *whole = tensor(AMP_I64, {3}, {1, 2, 3});
    amp_tensor *product = op("outer", {v, whole});
    EXPECT_EQ(amp_tensor_dtype(product), AMP_F32);
    EXPECT_EQ(numbers_of(product), (Numbers{1, 2, 3, 2, 4, 6}));
    amp_tensor *m = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("mv", {m, v}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mv", "'input' is [2, 3]", "'vec' is [2]", "inner extents 3 and 2"}));
    EXPECT_EQ(op("addr", {m, v, v}), nullptr);
    EXPECT_TRUE(
        failed_with(AMP_ERROR_INVALID, {"addr", "'input' is [2, 3]", "does not broadcast to the result [2, 2]"}));
}

TEST_F(Contraction, MultiDotTakesVectorsAtItsEnds) {
    amp_tensor *v = tensor(AMP_F32, {2}, {1, 2}), *m = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    EXPECT_EQ(numbers_of(op("linalg_multi_dot", {Tensors{v, m, v}})), (Numbers{27}));
    EXPECT_EQ(amp_tensor_rank(op("linalg_multi_dot", {Tensors{v, m, m, v}})), 0);
    EXPECT_EQ(op("linalg_multi_dot", {Tensors{m, v, m}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_multi_dot", "tensor 1", "expected a matrix"}));
    EXPECT_EQ(op("linalg_multi_dot", {Tensors{m}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_multi_dot", "at least two"}));
}

TEST_F(Contraction, ChainMatmulTakesItsListByTwoNames) {
    amp_tensor *m = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    const Numbers cube = {37, 54, 81, 118};
    for (const char *name : {"matrices", "tensors"}) {
        EXPECT_EQ(numbers_of(op("chain_matmul", {}, {{name, Tensors{m, m, m}}})), cube) << name;
    }
    EXPECT_EQ(op("chain_matmul", {Tensors{m}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"chain_matmul", "'matrices' has 1", "at least two"}));
}

TEST_F(Contraction, AMatrixInAWeightPositionIsPackedOnce) {
    const Region region;
    amp_tensor *m = tensor(AMP_BF16, {64, 64}, {1, 2, 3}), *v = tensor(AMP_BF16, {64}, {1, -1});
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    const Numbers first = numbers_of(op("mv", {m, v}));
    for (int i = 0; i < 4; i++) EXPECT_EQ(numbers_of(op("mv", {m, v})), first);
    EXPECT_EQ(amp_cast_cache_statistics().misses - before.misses, 1u);
}

TEST_F(Contraction, ActivationIsAppliedBeforeTheRounding) {
    amp_tensor *bias = tensor(AMP_F32, {2}, {0.5, -0.5}), *m = tensor(AMP_F32, {2, 2}, {1, 0, 0, -2});
    for (const amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16}) {
        amp_tensor *b = op("to", {bias}, {{"dtype", dtype}}), *x = op("to", {m}, {{"dtype", dtype}});
        EXPECT_EQ(numbers_of(op("addmm_activation", {b, x, x})), (Numbers{1.5, 0, 0.5, 3.5})) << amp_last_error();
        const Numbers gelu = numbers_of(op("addmm_activation", {b, x, x}, {{"use_gelu", true}}));
        EXPECT_NEAR(gelu[0], 1.3998, 0.008);
        EXPECT_NEAR(gelu[1], -0.1543, 0.001);
    }
}
