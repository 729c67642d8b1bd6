// Views share their base's storage and show the right elements; what cannot be a view says so.
#include "amp_test.h"

using namespace amp_test;

namespace {

class Views : public Test {
  protected:
    amp_tensor *base() { // 0 … 23 as [2, 3, 4]
        return op("view", {op("arange", {24}, {{"dtype", AMP_F32}}), AMP_DIMS(2, 3, 4)});
    }
};

Shape shape_of(const amp_tensor *t) {
    return Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t));
}

// `view` shows these values of `of`, and writes through it are seen there.
void expect_view(amp_tensor *view, amp_tensor *of, const Shape &shape, const std::vector<double> &values) {
    ASSERT_NE(view, nullptr) << amp_last_error();
    EXPECT_EQ(shape_of(view), shape);
    EXPECT_EQ(numbers_of(view), values);
    if (values.empty()) return;
    const uint64_t version = amp_tensor_version(of);
    float *first = static_cast<float *>(amp_data_mut(view));
    const float before = *first;
    *first = 99;
    const std::vector<double> seen = numbers_of(of);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 99.0), 1) << "not the same memory";
    EXPECT_GT(amp_tensor_version(of), version);
    *first = before;
}

TEST_F(Views, Shapes) {
    amp_tensor *x = base();
    const std::vector<double> all = numbers_of(x);
    expect_view(op("view", {x, AMP_DIMS(6, 4)}), x, {6, 4}, all);
    expect_view(op("view", {x, AMP_DIMS(4, -1)}), x, {4, 6}, all);
    expect_view(op("reshape", {x, AMP_DIMS(24)}), x, {24}, all);
    expect_view(op("flatten", {x}), x, {24}, all);
    expect_view(op("flatten", {x, 1}), x, {2, 12}, all);
    expect_view(op("flatten", {x, 0, 1}), x, {6, 4}, all);
    expect_view(op("unsqueeze", {x, 1}), x, {2, 1, 3, 4}, all);
    expect_view(op("unsqueeze", {x, -1}), x, {2, 3, 4, 1}, all);
    amp_tensor *ones = op("view", {x, AMP_DIMS(1, 24, 1)});
    expect_view(op("squeeze", {ones}), x, {24}, all);
    expect_view(op("squeeze", {ones, 0}), x, {24, 1}, all);
    expect_view(op("squeeze", {ones, AMP_DIMS(0, 1, -1)}), x, {24}, all);
}

TEST_F(Views, OrderOfDimensions) {
    amp_tensor *x = op("view", {op("arange", {6}, {{"dtype", AMP_F32}}), AMP_DIMS(1, 2, 3)});
    expect_view(op("permute", {x, AMP_DIMS(2, 0, 1)}), x, {3, 1, 2}, {0, 3, 1, 4, 2, 5});
    expect_view(op("permute", {x, AMP_DIMS(-1, 1, 0)}), x, {3, 2, 1}, {0, 3, 1, 4, 2, 5});
    expect_view(op("transpose", {x, 1, -1}), x, {1, 3, 2}, {0, 3, 1, 4, 2, 5});
    expect_view(op("t", {op("select", {x, 0, 0})}), x, {3, 2}, {0, 3, 1, 4, 2, 5});
    expect_view(op("t", {op("flatten", {x})}), x, {6}, {0, 1, 2, 3, 4, 5});
}

TEST_F(Views, Parts) {
    amp_tensor *x = base();
    expect_view(op("select", {x, 1, 2}), x, {2, 4}, {8, 9, 10, 11, 20, 21, 22, 23});
    expect_view(op("select", {x, -1, -1}), x, {2, 3}, {3, 7, 11, 15, 19, 23});
    expect_view(op("narrow", {x, 2, 1, 2}), x, {2, 3, 2}, {1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22});
    expect_view(op("narrow", {x, 0, -1, 1}), x, {1, 3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
    expect_view(op("slice", {x, 2, 0, 4, 3}), x, {2, 3, 2}, {0, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23});
    expect_view(op("slice", {x, 2, -1, 100}), x, {2, 3, 1}, {3, 7, 11, 15, 19, 23});
    expect_view(op("slice", {x, 1, 2, 1}), x, {2, 0, 4}, {});
    expect_view(op("diagonal", {op("select", {x, 0, 0})}), x, {3}, {0, 5, 10});
    expect_view(op("diagonal", {op("select", {x, 0, 0}), 2}), x, {2}, {2, 7});
    expect_view(op("unfold", {op("select", {op("select", {x, 0, 0}), 0, 1}), 0, 2, 2}), x, {2, 2}, {4, 5, 6, 7});
}

TEST_F(Views, NarrowTakesItsStartFromATensor) {
    amp_tensor *x = op("reshape", {op("arange", {12.0}), AMP_DIMS(3, 4)});
    for (amp_dtype dtype : {AMP_I64, AMP_I32, AMP_I8, AMP_U8}) {
        const amp_tensor *part = op("narrow", {x, 1, tensor(dtype, {}, {2}), 2});
        ASSERT_NE(part, nullptr) << amp_last_error();
        EXPECT_EQ(numbers_of(part), (std::vector<double>{2, 3, 6, 7, 10, 11}));
        EXPECT_EQ(static_cast<const char *>(amp_data(part)), static_cast<const char *>(amp_data(x)) + 8);
    }
    EXPECT_EQ(numbers_of(op("narrow", {x, 0, tensor(AMP_I64, {}, {-1}), 1})), (std::vector<double>{8, 9, 10, 11}));
    for (amp_tensor *start : {tensor(AMP_F32, {}, {1}), tensor(AMP_BOOL, {}, {1}), tensor(AMP_I64, {1}, {1})}) {
        EXPECT_EQ(op("narrow", {x, 0, start, 1}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"narrow: 'start' is", "expected a 0-dim tensor of integers"}));
    }
    EXPECT_EQ(op("narrow", {x, 0, tensor(AMP_I64, {}, {3}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'start' 3 and 'length' 1 do not fit dimension 0"}));
}

TEST_F(Views, ExpandRepeatsWithoutCopying) {
    amp_tensor *x = tensor(AMP_F32, {2, 1}, {5, 7});
    amp_tensor *y = op("expand", {x, AMP_DIMS(3, -1, 2)});
    EXPECT_EQ(shape_of(y), (Shape{3, 2, 2}));
    EXPECT_EQ(numbers_of(y), (std::vector<double>{5, 5, 7, 7, 5, 5, 7, 7, 5, 5, 7, 7}));
    EXPECT_EQ(amp_data(y), amp_data(x));
    EXPECT_EQ(op("add_", {y, 1.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_", "share memory"}));
}

TEST_F(Views, Lists) {
    amp_tensor *x = base();
    std::vector<amp_tensor *> parts;
    ASSERT_EQ(call("chunk", {x, 2, 2}, {}, &parts), AMP_OK);
    ASSERT_EQ(parts.size(), 2u);
    expect_view(parts[1], x, {2, 3, 2}, {2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23});
    ASSERT_EQ(call("split", {x, 3, 2}, {}, &parts), AMP_OK);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(shape_of(parts[1]), (Shape{2, 3, 1}));
    ASSERT_EQ(call("split", {x, AMP_DIMS(1, 0, 2), 1}, {}, &parts), AMP_OK);
    ASSERT_EQ(parts.size(), 3u);
    EXPECT_EQ(shape_of(parts[1]), (Shape{2, 0, 4}));
    expect_view(parts[2], x, {2, 2, 4}, {4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23});
    ASSERT_EQ(call("unbind", {x, -1}, {}, &parts), AMP_OK);
    ASSERT_EQ(parts.size(), 4u);
    expect_view(parts[3], x, {2, 3}, {3, 7, 11, 15, 19, 23});
    ASSERT_EQ(call("unbind", {op("arange", {40})}, {}, &parts), AMP_OK);
    EXPECT_EQ(parts.size(), 40u);
}

TEST_F(Views, ReshapeCopiesWhereStridesDoNotAllowAView) {
    amp_tensor *x = op("transpose", {base(), 0, 2}); // [4, 3, 2]
    const std::vector<double> values = numbers_of(x);
    amp_tensor *y = op("reshape", {x, AMP_DIMS(12, 2)});
    EXPECT_EQ(numbers_of(y), values);
    EXPECT_NE(amp_data(y), amp_data(x));
    EXPECT_EQ(op("view", {x, AMP_DIMS(12, 2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view", "[4, 3, 2]", "[1, 4, 12]", "[12, 2]", "reshape"}));
    EXPECT_EQ(amp_data(op("view", {x, AMP_DIMS(2, 2, 3, 2)})), amp_data(x)) << "splitting a dimension needs no copy";
    EXPECT_EQ(numbers_of(op("view", {x, AMP_DIMS(2, 2, 3, 1, 2)})), values);
}

TEST_F(Views, OfEmptyAndZeroDimensionalTensors) {
    amp_tensor *number = tensor(AMP_F32, {}, {4});
    EXPECT_EQ(numbers_of(op("view", {number, AMP_DIMS(1, 1)})), (std::vector<double>{4}));
    EXPECT_EQ(shape_of(op("flatten", {number})), (Shape{1}));
    EXPECT_EQ(shape_of(op("transpose", {number, 0, -1})), Shape{});
    EXPECT_EQ(shape_of(op("reshape", {tensor(AMP_F32, {0, 3}), AMP_DIMS(3, 0, 5)})), (Shape{3, 0, 5}));
    EXPECT_EQ(op("select", {number, 0, 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"select", "no dimension"}));
}

TEST_F(Views, OutliveTheirBase) {
    amp_tensor *kept = nullptr;
    {
        const Scope inner;
        kept = amp_keep(op("select", {base(), 0, 1}));
    }
    EXPECT_EQ(numbers_of(kept)[0], 12);
    amp_release(kept);
}

TEST_F(Views, BadInputIsToldWhatIsWrong) {
    amp_tensor *x = base();
    struct {
        const char *name;
        std::vector<Value> values;
        std::vector<std::string> words;
    } const cases[] = {
        {"view", {x, AMP_DIMS(5, 5)}, {"view", "[5, 5]", "24"}},
        {"view", {x, AMP_DIMS(-1, -1)}, {"view", "[-1, -1]"}},
        {"view", {x, AMP_DIMS(-1, 7)}, {"view", "[-1, 7]"}},
        {"view", {x, AMP_DIMS(-2, -12)}, {"view", "[-2, -12]"}},
        {"view", {x, AMP_DIMS(INT64_C(1) << 62, 4)}, {"view"}},
        {"reshape", {tensor(AMP_F32, {0}), AMP_DIMS(-1, 0)}, {"reshape", "-1"}},
        {"permute", {x, AMP_DIMS(0, 1)}, {"permute", "2", "3"}},
        {"permute", {x, AMP_DIMS(0, 1, 1)}, {"permute", "1", "twice"}},
        {"transpose", {x, 0, 3}, {"transpose", "dim1", "3"}},
        {"t", {x}, {"t:", "[2, 3, 4]"}},
        {"squeeze", {x, 5}, {"squeeze", "5"}},
        {"unsqueeze", {x, 4}, {"unsqueeze", "4"}},
        {"unsqueeze", {op("view", {x, AMP_DIMS(1, 1, 1, 1, 1, 2, 3, 4)}), 0}, {"unsqueeze", "9", "8"}},
        {"flatten", {x, 2, 1}, {"flatten", "2", "1"}},
        {"expand", {x, AMP_DIMS(2, 6, 4)}, {"expand", "[2, 3, 4]", "[2, 6, 4]"}},
        {"expand", {x, AMP_DIMS(3, 4)}, {"expand"}},
        {"expand", {tensor(AMP_F32, {1}), AMP_DIMS(INT64_C(1) << 62, 4)}, {"expand"}},
        {"select", {x, 1, 3}, {"select", "3", "dimension 1"}},
        {"narrow", {x, 1, 2, 2}, {"narrow", "start", "length"}},
        {"slice", {x, 0, 0, 2, 0}, {"slice", "step"}},
        {"diagonal", {x, 0, 1, 1}, {"diagonal", "dim1", "dim2"}},
        {"chunk", {x, 0}, {"chunk", "chunks"}},
        {"split", {x, 0}, {"split", "0"}},
        {"split", {x, AMP_DIMS(1, 2), 0}, {"split", "[1, 2]"}},
        {"unbind", {x, 3}, {"unbind", "3"}},
    };
    for (const auto &c : cases) {
        std::vector<amp_tensor *> outputs;
        EXPECT_NE(call(c.name, c.values, {}, &outputs), AMP_OK) << c.name;
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, c.words)) << c.name;
    }
}

} // namespace
