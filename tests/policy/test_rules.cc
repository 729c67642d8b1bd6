// Rules: a text that says which ops, and which places of a model, a region leaves in f32; and what is wrong with one.
#include <cstdio>
#include <functional>

#include "amp_test.h"

using namespace amp_test;

namespace {

class Rules : public Test {
  protected:
    amp_autocast_rules *parse(const std::string &lines) {
        const std::string text = "amp-policy 1\n" + lines;
        amp_autocast_rules_release(rules_);
        rules_ = amp_autocast_rules_parse(text.c_str(), "rules");
        EXPECT_NE(rules_, nullptr) << amp_last_error();
        return rules_;
    }
    // The dtypes of a linear and of a softmax behind it, in a region with the rules.
    std::string dtypes(const std::string &lines) {
        amp_autocast_args args = region_args();
        args.rules = parse(lines);
        const Region region(args);
        amp_tensor *y = nullptr, *p = nullptr;
        amp_label("layer") {
            amp_label("product") y = op("linear", {x, w});
            amp_label("weights") p = op("softmax", {y, -1});
        }
        return std::string(amp_dtype_name(amp_tensor_dtype(y))) + " " + amp_dtype_name(amp_tensor_dtype(p));
    }
    void TearDown() override {
        amp_autocast_rules_release(rules_);
        Test::TearDown();
    }
    amp_tensor *x = random_tensor(AMP_F32, {3, 6}, 1), *w = random_tensor(AMP_F32, {8, 6}, 2);

  private:
    amp_autocast_rules *rules_ = nullptr;
};

::testing::AssertionResult refused(const std::string &text, const std::vector<std::string> &words) {
    amp_autocast_rules *rules = amp_autocast_rules_parse(text.c_str(), "file");
    if (rules) {
        amp_autocast_rules_release(rules);
        return ::testing::AssertionFailure() << "taken: " << text;
    }
    return failed_with(AMP_ERROR_INVALID, words);
}

} // namespace

TEST_F(Rules, OfOps) {
    EXPECT_EQ(dtypes(""), "bf16 bf16");
    EXPECT_EQ(dtypes("f32 linear"), "f32 f32");
    EXPECT_EQ(dtypes("f32\tsoftmax  # for once\r\n"), "bf16 f32");
    EXPECT_EQ(dtypes("keep linear\nlower softmax"), "f32 bf16");
    EXPECT_EQ(dtypes("f32 linear\nlower linear\n"), "bf16 bf16") << "the last holds";
    EXPECT_EQ(dtypes("# f32 linear\n\n   \n"), "bf16 bf16");
}

TEST_F(Rules, OfPlaces) {
    EXPECT_EQ(dtypes("f32 node \"layer/product\""), "f32 f32");
    EXPECT_EQ(dtypes("f32 node \"layer/weights\" # that one"), "bf16 f32");
    EXPECT_EQ(dtypes("f32 node \"layer\""), "f32 f32") << "all that is inside";
    EXPECT_EQ(dtypes("f32 node \"layer/pro\""), "bf16 bf16") << "names are whole";
    EXPECT_EQ(dtypes("lower linear\nf32 node \"layer/product\""), "f32 f32") << "places go over ops";
    EXPECT_EQ(dtypes("f32 node \"a \\\" quote \\\\\""), "bf16 bf16");
}

TEST_F(Rules, PlacesThatNothingIsCalledAt) {
    EXPECT_EQ(amp_autocast_rules_unmet(parse("f32 linear")), nullptr);
    amp_autocast_args args = region_args();
    args.rules = parse("f32 node \"layer\"\nf32 node \"layer/product\"\nf32 node \"lyer\"");
    EXPECT_STREQ(amp_autocast_rules_unmet(args.rules), "layer");
    const Region region(args);
    amp_label("layer/product")(void) op("linear", {x, w});
    EXPECT_STREQ(amp_autocast_rules_unmet(args.rules), "lyer");
    EXPECT_EQ(amp_autocast_rules_unmet(nullptr), nullptr);
}

TEST_F(Rules, GoOverOverridesAndEndWithTheRegion) {
    EXPECT_EQ(amp_autocast_override("linear", AMP_DEVICE_CPU, AMP_OVERRIDE_CLEAR), AMP_OK);
    EXPECT_EQ(dtypes("lower linear"), "bf16 bf16");
    EXPECT_EQ(amp_autocast_override("linear", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    const Region region;
    EXPECT_EQ(amp_tensor_dtype(op("linear", {x, w})), AMP_BF16);
}

TEST_F(Rules, HoldInRegionsInsideAndWhereTheStateIsCarried) {
    amp_autocast_args args = region_args();
    args.rules = parse("f32 linear");
    const Region outer(args), inner;
    EXPECT_EQ(amp_tensor_dtype(op("linear", {x, w})), AMP_F32);
    const char *reason = nullptr;
    EXPECT_EQ(amp_autocast_dtype_for("linear", AMP_DEVICE_CPU, &reason), AMP_F32);
    const amp_autocast_state state = amp_autocast_capture();
    EXPECT_EQ(amp_autocast_restore(&state), AMP_OK);
    EXPECT_EQ(amp_tensor_dtype(op("linear", {x, w})), AMP_F32);
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
    amp_autocast_state wrong = state;
    wrong.device[AMP_DEVICE_CPU].rules = 1 << 30;
    EXPECT_NE(amp_autocast_restore(&wrong), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"rules", "released"}));
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
}

TEST_F(Rules, WhatIsNoRule) {
    EXPECT_TRUE(refused("", {"file:1", "amp-policy 1"}));
    EXPECT_TRUE(refused("# nothing\n\n", {"file:3", "amp-policy 1"}));
    EXPECT_TRUE(refused("f32 linear", {"file:1", "amp-policy 1", "'f32'"}));
    EXPECT_TRUE(refused("amp-policy 2", {"file:1", "version '2'", "version 1"}));
    EXPECT_TRUE(refused("amp-policy 1 f32", {"file:1"}));
    EXPECT_TRUE(refused("amp-policy 1\n\nbf16 linear", {"file:3", "f32, lower or keep", "'bf16'"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32", {"file:2", "an op", "node"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32 layer_nrom", {"file:2", "layer_nrom", "did you mean 'layer_norm'"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32 linear softmax", {"file:2", "end of the line", "'softmax'"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32 node", {"file:2", "quotes"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32 node conv1", {"file:2", "quotes", "'conv1'"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32 node \"conv1", {"file:2", "a quote at the end"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32 node \"\"", {"file:2", "a node's name"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32 node \"a\" \"b\"", {"file:2", "end of the line"}));
    EXPECT_TRUE(refused("amp-policy 1\nlower node \"a\"", {"file:2", "only 'f32'"}));
    EXPECT_TRUE(refused("amp-policy 1\nf32 " + std::string(100000, 'x'), {"file:2"}));
}

TEST_F(Rules, Files) {
    const std::string path = testing::TempDir() + "amp_rules.txt";
    EXPECT_EQ(amp_autocast_rules_load((path + ".none").c_str()), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_IO, {"cannot read", "amp_rules.txt.none"}));
    EXPECT_EQ(amp_autocast_rules_load("/"), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_IO, {"/"}));
    EXPECT_EQ(amp_autocast_rules_load(nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"NULL"}));
    std::FILE *file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    std::fwrite("amp-policy 1\nf32 li\0near", 1, 23, file);
    std::fclose(file);
    EXPECT_EQ(amp_autocast_rules_load(path.c_str()), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_IO, {"zero byte"}));
    file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    std::fputs("amp-policy 1\nf32 linear\n", file);
    std::fclose(file);
    amp_autocast_rules *rules = amp_autocast_rules_load(path.c_str());
    ASSERT_NE(rules, nullptr) << amp_last_error();
    amp_autocast_rules_release(rules);
    std::remove(path.c_str());
}
