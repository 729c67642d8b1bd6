// Channels-last images stay channels-last from op to op, as in PyTorch, and the numbers are those of plain ones.
#include "layouts.h"

using namespace amp_test;

namespace {

class Layout : public Test {};

struct Row {
    std::string op;
    std::vector<Value> more; // after the image
    std::vector<Named> named;
};

// Ops whose result is channels-last where their first argument is. `other` is an image of the same shape, of five
// channels.
std::vector<Row> rows(amp_dtype dtype, amp_tensor *other) {
    Shape one_each(size_t(amp_tensor_rank(other)), 1);
    one_each[0] = amp_tensor_size(other, 0);
    one_each[1] = 5;
    amp_tensor *channel = random_tensor(dtype, {5}, 3), *gate = random_tensor(dtype, one_each, 4);
    amp_tensor *positive = op("add", {op("abs", {channel}), 0.5}), *mask = op("gt", {other, 0.0});
    return {{"neg", {}, {}},
            {"relu", {}, {}},
            {"sigmoid", {}, {}},
            {"gelu", {}, {}},
            {"leaky_relu", {0.1}, {}},
            {"hardtanh", {-0.5, 0.5}, {}},
            {"hardswish", {}, {}},
            {"round", {}, {{"decimals", 2}}},
            {"isnan", {}, {}},
            {"logical_not", {}, {}},
            {"clamp", {-0.25, 0.25}, {}},
            {"add", {other}, {}},
            {"prelu", {channel}, {}},
            {"add", {2.5}, {}},
            {"add", {other}, {{"alpha", 3}}},
            {"sub", {gate}, {}},
            {"mul", {gate}, {}},
            {"div", {op("add", {op("abs", {gate}), 1.0})}, {}},
            {"pow", {2}, {}},
            {"maximum", {other}, {}},
            {"gt", {other}, {}},
            {"lerp", {other, 0.25}, {}},
            {"addcmul", {other, gate}, {}},
            {"masked_fill", {mask, -1.0}, {}},
            {"to", {dtype == AMP_F32 ? AMP_BF16 : AMP_F32}, {}},
            {"clone", {}, {}},
            {"zeros_like", {}, {}},
            {"full_like", {1.5}, {}},
            {"fill", {1.5}, {}},
            {"cat", {1}, {}},
            {"batch_norm", {channel, positive, channel, channel, false, 0.1, 1e-5}, {}},
            {"batch_norm_pointwise", {channel, positive, channel, channel, 1e-5, "relu"}, {}},
            {"constant_pad_nd", {AMP_DIMS(1, 1, 2, 0), 0.5}, {}}};
}

amp_tensor *run(const Row &row, amp_tensor *image) {
    const std::vector<amp_tensor *> twice = {image, image};
    std::vector<Value> values = {row.op == "cat" ? Value(twice) : Value(image)};
    values.insert(values.end(), row.more.begin(), row.more.end());
    amp_tensor *t = op(row.op, values, row.named);
    EXPECT_NE(t, nullptr) << amp_last_error();
    return t;
}

void expect_kept(const Shape &shape) {
    for (const amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16}) {
        amp_tensor *image = random_tensor(dtype, shape, 1), *other = random_tensor(dtype, shape, 2);
        amp_tensor *last = channels_last(image);
        for (const Row &row : rows(dtype, other)) {
            if (row.op.rfind("batch_norm", 0) == 0 && dtype == AMP_F64) continue; // by rows, into a plain result
            SCOPED_TRACE(row.op + ", " + amp_dtype_name(dtype));
            amp_tensor *kept = run(row, last), *plain = run(row, image);
            ASSERT_TRUE(kept && plain);
            EXPECT_TRUE(is_channels_last(kept));
            EXPECT_TRUE(amp_tensor_is_contiguous(plain));
            EXPECT_EQ(numbers_of(kept), numbers_of(plain));
        }
    }
}

} // namespace

TEST_F(Layout, ElementwiseOpsKeepChannelsLast) {
    expect_kept({2, 5, 6, 7});
    expect_kept({1, 5, 1, 7});
}

TEST_F(Layout, VolumesToo) {
    expect_kept({2, 5, 3, 4, 7});
}

TEST_F(Layout, LinesToo) {
    expect_kept({2, 5, 7});
    expect_kept({1, 5, 40});
    for (const amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *lines = random_tensor(dtype, {2, 5, 40}, 1), *weight = random_tensor(dtype, {6, 5, 3}, 2);
        amp_tensor *up = random_tensor(dtype, {5, 6, 4}, 3), *last = channels_last(lines);
        amp_tensor *kept = op("conv1d", {last, weight, nullptr, AMP_DIMS(1), AMP_DIMS(1)});
        amp_tensor *raised = op("conv_transpose1d", {last, up, nullptr, AMP_DIMS(2), AMP_DIMS(1)});
        ASSERT_TRUE(kept && raised) << amp_last_error();
        EXPECT_TRUE(is_channels_last(kept) && is_channels_last(raised));
        EXPECT_EQ(numbers_of(kept), numbers_of(op("conv1d", {lines, weight, nullptr, AMP_DIMS(1), AMP_DIMS(1)})));
        EXPECT_EQ(numbers_of(raised),
                  numbers_of(op("conv_transpose1d", {lines, up, nullptr, AMP_DIMS(2), AMP_DIMS(1)})));
        EXPECT_EQ(numbers_of(op("max_pool1d", {last, AMP_DIMS(3)})),
                  numbers_of(op("max_pool1d", {lines, AMP_DIMS(3)})));
    }
}

TEST_F(Layout, TheFirstWholeOperandDecides) {
    amp_tensor *plain = random_tensor(AMP_F32, {2, 5, 6, 7}, 1), *last = channels_last(plain);
    amp_tensor *gate = random_tensor(AMP_F32, {2, 5, 1, 1}, 2);
    EXPECT_TRUE(is_channels_last(op("mul", {last, plain})));
    EXPECT_TRUE(amp_tensor_is_contiguous(op("mul", {plain, last})));
    EXPECT_TRUE(is_channels_last(op("mul", {gate, last})));
    EXPECT_TRUE(is_channels_last(op("where", {op("gt", {gate, 0.0}), last, plain})));
}

TEST_F(Layout, OtherOrdersBecomeContiguous) {
    amp_tensor *t = random_tensor(AMP_F32, {4, 5}, 1), *image = random_tensor(AMP_F32, {2, 5, 6, 7}, 2);
    EXPECT_TRUE(amp_tensor_is_contiguous(op("relu", {op("transpose", {t, 0, 1})})));
    EXPECT_TRUE(amp_tensor_is_contiguous(op("relu", {op("transpose", {image, 1, 2})})));
    EXPECT_TRUE(amp_tensor_is_contiguous(op("contiguous", {channels_last(image)})));
}

TEST_F(Layout, OnePixelAndOneChannelArePlain) {
    for (const Shape &shape : {Shape{2, 5, 1, 1}, Shape{2, 1, 6, 7}}) {
        amp_tensor *t = channels_last(random_tensor(AMP_F32, shape, 1));
        EXPECT_TRUE(amp_tensor_is_contiguous(op("relu", {t})));
    }
}

// A target keeps its own layout, whatever the inputs have.
TEST_F(Layout, TargetsKeepTheirOwn) {
    amp_tensor *plain = random_tensor(AMP_F32, {2, 5, 6, 7}, 1), *last = channels_last(plain);
    amp_tensor *target = op("zeros_like", {plain});
    ASSERT_EQ(op("relu_out", {last}, {{"out", target}}), target) << amp_last_error();
    EXPECT_TRUE(amp_tensor_is_contiguous(target));
    EXPECT_EQ(numbers_of(target), numbers_of(op("relu", {plain})));
}

// What autocast converts for an op keeps the layout on the way.
TEST_F(Layout, RegionsKeepItToo) {
    amp_tensor *plain = random_tensor(AMP_F32, {2, 8, 6, 7}, 1), *weight = random_tensor(AMP_F32, {8, 8, 3, 3}, 2);
    amp_autocast(AMP_DEVICE_CPU) {
        amp_tensor *last = op("conv2d", {channels_last(plain), weight, nullptr, AMP_DIMS(1), AMP_DIMS(1)});
        amp_tensor *dense = op("conv2d", {plain, weight, nullptr, AMP_DIMS(1), AMP_DIMS(1)});
        EXPECT_EQ(amp_tensor_dtype(last), AMP_BF16);
        for (const char *name : {"relu", "hardswish", "softplus", "tan"}) { // fall through, and to f32
            amp_tensor *kept = op(name, {last});
            EXPECT_TRUE(is_channels_last(kept)) << name;
            EXPECT_EQ(numbers_of(kept), numbers_of(op(name, {dense}))) << name;
        }
        EXPECT_TRUE(is_channels_last(op("adaptive_avg_pool2d", {last, AMP_DIMS(3, 3)})));
        EXPECT_TRUE(is_channels_last(op("interpolate", {last}, {{"scale_factor", 2.0}, {"mode", "bilinear"}})));
    }
}
