// What the report advises, and where it is silent because it is not sure.
#include <jansson.h>

#include <string>
#include <vector>

#include "explain_report.h"

using namespace amp_test;

static std::vector<std::string> advice() {
    const Report r;
    std::vector<std::string> kinds;
    size_t i = 0;
    json_t *item = nullptr;
    json_array_foreach(json_object_get(r.root(), "advice"), i, item) kinds.push_back(Report::text(item, "kind"));
    return kinds;
}

using Kinds = std::vector<std::string>;

TEST_F(Explain, ImagesThatAreLaidOutAnewAreNamed) {
    amp_tensor *image = tensor(AMP_F32, {2, 3, 6, 6}), *weight = tensor(AMP_F32, {4, 3, 3, 3});
    amp_tensor *last = amp_channels_last(image);
    amp_explain_reset();
    op("conv2d", {last, weight});
    op("conv2d", {tensor(AMP_F32, {2, 3, 1, 1}), tensor(AMP_F32, {4, 3, 1, 1})});
    op("conv2d", {tensor(AMP_F32, {2, 1, 6, 6}), tensor(AMP_F32, {4, 1, 3, 3})});
    EXPECT_EQ(advice(), Kinds{}) << "one pixel or one channel lies as it must";
    op("conv2d", {image, weight});
    EXPECT_EQ(advice(), Kinds{"channels_last"});
    EXPECT_NE(report(AMP_EXPLAIN_TABLE).find("amp_channels_last"), std::string::npos);
}

TEST_F(Explain, AnActivationThatAloneReadsAProductIsNamed) {
    for (int i = 0; i < 3; i++) {
        Scope scope;
        op("gelu", {op("linear", {x_, w_})});
    }
    EXPECT_EQ(advice(), Kinds{"fuse"});
    json_t *follower = nullptr;
    const Report r;
    follower = json_object_get(r.row("linear"), "follower");
    EXPECT_EQ(Report::text(follower, "op"), "gelu");
    EXPECT_EQ(Report::number(follower, "calls"), 3);
    EXPECT_NE(report(AMP_EXPLAIN_TABLE).find("amp_linear_pointwise(…, .attr = \"gelu\")"), std::string::npos)
        << report(AMP_EXPLAIN_TABLE);
}

TEST_F(Explain, AnActivationInPlaceIsNamedToo) {
    Scope scope;
    op("relu_", {op("linear", {x_, w_})});
    EXPECT_EQ(advice(), Kinds{"fuse"});
}

TEST_F(Explain, AProductThatOthersReadIsNotFused) {
    const auto once = [&](auto &&read) {
        amp_explain_reset();
        {
            Scope scope;
            amp_tensor *y = op("linear", {x_, w_});
            read(y);
        }
        return advice();
    };
    EXPECT_EQ(once([](amp_tensor *y) { op("add", {op("gelu", {y}), y}); }), Kinds{});
    EXPECT_EQ(once([](amp_tensor *y) { op("gelu", {op("view", {y, AMP_DIMS(-1)})}); }), Kinds{});
    EXPECT_EQ(once([](amp_tensor *y) { op("softplus", {y}); }), Kinds{}) << "no activation that can be fused";
    EXPECT_EQ(once([](amp_tensor *y) { (void)y; }), Kinds{});
    EXPECT_EQ(once([](amp_tensor *y) { op("relu", {y}); }), Kinds{"fuse"});
    {
        Region region;
        const auto read_through_a_cast = [](amp_tensor *y) { op("relu", {y}), op("cumsum", {y, 0}); };
        EXPECT_EQ(once(read_through_a_cast), Kinds{});
    }
    amp_explain_reset();
    amp_tensor *kept = op("linear", {x_, w_});
    op("relu", {kept});
    EXPECT_EQ(advice(), Kinds{}) << "it lives: others may read it yet";
}

// docs/benchmarks.md, "An activation fused or apart".
TEST_F(Explain, FusingIsAdvisedOnlyWhereItIsSure) {
    const auto of = [](const char *maker, const char *activation, const Shape &input, const Shape &weight) {
        amp_tensor *x = tensor(AMP_F32, input), *w = tensor(AMP_F32, weight);
        amp_explain_reset();
        {
            Scope scope;
            op(activation, {op(maker, {x, w})});
        }
        return advice();
    };
    EXPECT_EQ(of("conv2d", "relu", {1, 1, 6, 6}, {16, 1, 3, 3}), Kinds{"fuse"});
    EXPECT_EQ(of("conv2d", "relu", {1, 1, 6, 6}, {8, 1, 3, 3}), Kinds{});
    EXPECT_EQ(of("conv2d", "gelu", {1, 1, 6, 6}, {64, 1, 3, 3}), Kinds{});
    EXPECT_EQ(of("conv_transpose2d", "relu", {1, 1, 6, 6}, {1, 16, 3, 3}), Kinds{});
    EXPECT_EQ(of("linear", "gelu", {2, 16, 4}, {64, 4}), Kinds{"fuse"}) << "2,048 results";
    EXPECT_EQ(of("linear", "gelu", {3, 16, 4}, {64, 4}), Kinds{});
    EXPECT_EQ(of("linear", "relu", {3, 16, 4}, {64, 4}), Kinds{"fuse"});
}

TEST_F(Explain, AdviceNamesTheShapes) {
    for (int64_t rows = 1; rows <= 3; rows++) {
        Scope scope;
        op("relu", {op("linear", {tensor(AMP_F32, {rows, 3}), w_})});
    }
    const Report r;
    json_t *item = json_array_get(json_object_get(r.root(), "advice"), 0);
    EXPECT_EQ(json_array_size(json_object_get(item, "inputs")), 3u);
    EXPECT_EQ(Report::number(item, "calls"), 3);
    const std::string table = report(AMP_EXPLAIN_TABLE), of = "\n  linear of f32[";
    EXPECT_NE(table.find(of), std::string::npos) << table;
    EXPECT_NE(table.find(", 3], f32[4, 3] and of 2 other shapes, 3 calls,"), std::string::npos) << table;
}

TEST_F(Explain, HalfPrecisionWithoutKernelsIsNamed) {
    amp_tensor *x = tensor(AMP_F16, {2, 3}), *w = tensor(AMP_F16, {4, 3});
    op("add", {x, x});
    EXPECT_EQ(advice(), Kinds{});
    op("linear", {x, w});
    EXPECT_EQ(advice(), Kinds{"f16"});
}
