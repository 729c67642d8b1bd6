// Gradients of what moves, indexes and drops elements, where no recorded case reaches: random places, pieces that overlap, refusals.
#include "amp_test.h"

using namespace amp_test;

namespace {

class GradientsOfMoves : public Test {
  protected:
    static amp_tensor *leaf(const Shape &shape, const std::vector<double> &numbers, amp_dtype dtype = AMP_F32) {
        amp_tensor *t = tensor(dtype, shape, numbers);
        EXPECT_EQ(amp_tensor_set_requires_grad(t, true), AMP_OK) << amp_last_error();
        return t;
    }
    static amp_status back(amp_tensor *output, amp_tensor *gradient = nullptr) {
        amp_backward_args args = {};
        args.struct_size = sizeof args;
        args.loss = output;
        args.gradient = gradient;
        return amp_backward_call(&args);
    }
    // Of ones, the gradient of x · mask is the mask, which is what the op made of ones.
    static void expect_same_mask(const char *name, const Shape &shape) {
        amp_manual_seed(5);
        amp_tensor *x = leaf(shape, {1.0});
        amp_tensor *y = op(name, {x}, {{"p", 0.4}});
        EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
        EXPECT_EQ(numbers_of(amp_tensor_grad(x)), numbers_of(y)) << name;
    }
};

TEST_F(GradientsOfMoves, DropoutDropsAgainWhatItDropped) {
    expect_same_mask("dropout", {9, 33});
    expect_same_mask("feature_dropout", {5, 7, 3, 3});
}

TEST_F(GradientsOfMoves, DropoutThatKeepsAllPassesTheGradientOn) {
    amp_tensor *x = leaf({2}, {1, 2});
    EXPECT_EQ(back(op("sum", {op("dropout", {x}, {{"p", 0.0}})})), AMP_OK) << amp_last_error();
    EXPECT_EQ(back(op("sum", {op("dropout", {x}, {{"p", 0.5}, {"training", false}})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {2, 2}, 0);
}

TEST_F(GradientsOfMoves, ScatterThatMultipliesSaysWhatToCall) {
    amp_tensor *x = leaf({2}, {1, 2}), *index = tensor(AMP_I64, {1}, {1}), *src = tensor(AMP_F32, {1}, {3});
    amp_tensor *y = op("scatter", {x}, {{"dim", 0}, {"index", index}, {"src", src}, {"reduce", "multiply"}});
    (void)back(op("sum", {y}));
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"scatter", "multiply", "scatter_reduce"}));
}

TEST_F(GradientsOfMoves, PiecesThatOverlapAreAdded) {
    amp_tensor *x = leaf({4}, {1, 2, 3, 4});
    std::vector<amp_tensor *> pieces;
    ASSERT_EQ(call("tensor_split", {x, AMP_DIMS(3, 1)}, {}, &pieces), AMP_OK) << amp_last_error();
    ASSERT_EQ(pieces.size(), 3u);
    EXPECT_EQ(back(op("add", {op("sum", {pieces[0]}), op("sum", {pieces[2]})})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {1, 2, 2, 1}, 0);
}

TEST_F(GradientsOfMoves, ASliceThatIsWrittenChangesItsPlacesOnly) {
    amp_tensor *x = leaf({4}, {1, 2, 3, 4}), *y = op("mul", {x, 1.0});
    amp_tensor *part = op("slice", {y, 0}, {{"start", 0}, {"end", 4}, {"step", 2}});
    ASSERT_NE(op("mul_", {part, 3.0}), nullptr) << amp_last_error();
    EXPECT_EQ(back(op("sum", {y})), AMP_OK) << amp_last_error();
    expect_near(amp_tensor_grad(x), {3, 1, 3, 1}, 0);
}

TEST_F(GradientsOfMoves, RowsOfATableAreAddedInEveryDtype) {
    amp_tensor *index = tensor(AMP_I64, {5}, {2, 0, 2, 1, 2});
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16, AMP_C64}) {
        amp_tensor *rows = tensor(dtype, {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
        amp_tensor *table = op("embedding_dense_backward", {rows, index, 4, 1, false});
        ASSERT_NE(table, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(table), dtype);
        expect_near(dtype == AMP_C64 ? op("real", {table}) : table, {3, 4, 0, 0, 15, 18, 0, 0}, 0);
    }
    amp_tensor *rows = tensor(AMP_F32, {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    expect_near(op("embedding_dense_backward", {rows, index, 3, -1, true}), {3, 4, 7, 8, 5, 6}, 1e-6);
    EXPECT_EQ(op("embedding_dense_backward", {rows, index, 2, -1, false}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_dense_backward", "2", "rows 0 to 1"}));
}

TEST_F(GradientsOfMoves, GradientsOfAnotherShapeThanTheViewAreRefused) {
    amp_tensor *t = tensor(AMP_F32, {3});
    EXPECT_EQ(op("slice_backward", {t, AMP_DIMS(5), 0, 0, 2, 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"slice_backward", "grad_output", "[3] f32", "[2]"}));
    EXPECT_EQ(op("diagonal_backward", {t, AMP_DIMS(2, 2), 0, 0, 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"diagonal_backward", "grad_output"}));
    EXPECT_EQ(op("unfold_backward", {t, AMP_DIMS(4), 0, 2, 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"unfold_backward", "grad_in"}));
}

} // namespace
