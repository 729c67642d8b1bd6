// Tensors from numbers, fills, clone, contiguous and to.
#include "amp_test.h"

using namespace amp_test;

namespace {

class Factories : public Test {};

TEST_F(Factories, DefaultDtypesFollowTheNumbers) {
    EXPECT_EQ(amp_tensor_dtype(op("zeros", {AMP_DIMS(2)})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("full", {AMP_DIMS(2), 1})), AMP_I64);
    EXPECT_EQ(amp_tensor_dtype(op("full", {AMP_DIMS(2), 1.0})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("full", {AMP_DIMS(2), true})), AMP_BOOL);
    EXPECT_EQ(amp_tensor_dtype(op("full", {AMP_DIMS(2), amp_complex(1, 2)})), AMP_C64);
    EXPECT_EQ(amp_tensor_dtype(op("arange", {3})), AMP_I64);
    EXPECT_EQ(amp_tensor_dtype(op("arange", {3.0})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("ones_like", {tensor(AMP_BF16, {1})})), AMP_BF16);
}

TEST_F(Factories, EveryDtypeIsFilled) {
    for (int d = AMP_F64; d < AMP_DTYPE_COUNT; d++) {
        const amp_dtype dtype = amp_dtype(d);
        EXPECT_EQ(numbers_of(op("ones", {AMP_DIMS(2, 3)}, {{"dtype", dtype}})), std::vector<double>(6, 1.0));
        EXPECT_EQ(numbers_of(op("zeros_like", {tensor(dtype, {3})})), std::vector<double>(3, 0.0));
        EXPECT_EQ(numbers_of(op("full_like", {tensor(dtype, {2}), 3})),
                  std::vector<double>(2, dtype == AMP_BOOL ? 1 : 3));
    }
    EXPECT_EQ(numbers_of(op("full", {AMP_DIMS(70000), 2.5})), std::vector<double>(70000, 2.5));
    EXPECT_EQ(amp_tensor_rank(op("zeros", {amp_dims AMP_NO_DIMS})), 0);
    EXPECT_EQ(amp_tensor_numel(op("empty", {AMP_DIMS(3, 0)})), 0);
}

TEST_F(Factories, FillWritesThroughStrides) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    ASSERT_NE(op("fill_", {op("select", {x, 1, 1}), 9}), nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(x), (std::vector<double>{1, 9, 3, 4, 9, 6}));
    EXPECT_EQ(numbers_of(op("fill", {x, tensor(AMP_F64, {}, {0.5})})), std::vector<double>(6, 0.5));
}

TEST_F(Factories, ArangeCountsUpAndDown) {
    EXPECT_EQ(numbers_of(op("arange", {2, 5})), (std::vector<double>{2, 3, 4}));
    EXPECT_EQ(numbers_of(op("arange", {5, 0, -2})), (std::vector<double>{5, 3, 1}));
    EXPECT_EQ(numbers_of(op("arange", {0.0, 1.0, 0.25}, {{"dtype", AMP_BF16}})),
              (std::vector<double>{0, 0.25, 0.5, 0.75}));
    EXPECT_EQ(amp_tensor_numel(op("arange", {0})), 0);
    const int64_t big = INT64_C(1) << 60;
    EXPECT_EQ(*static_cast<const int64_t *>(amp_data(op("arange", {big + 1, big + 3}))), big + 1);
}

TEST_F(Factories, CloneContiguousAndTo) {
    amp_tensor *x = op("transpose", {tensor(AMP_F32, {2, 2}, {1, 2, 3, 4}), 0, 1});
    const std::vector<double> values = {1, 3, 2, 4};
    amp_tensor *clone = op("clone", {x}), *dense = op("contiguous", {x});
    EXPECT_NE(amp_data(clone), amp_data(x));
    EXPECT_EQ(numbers_of(clone), values);
    EXPECT_EQ(numbers_of(dense), values);
    EXPECT_TRUE(amp_tensor_is_contiguous(dense));
    EXPECT_EQ(amp_data(op("contiguous", {dense})), amp_data(dense)) << "already contiguous";
    EXPECT_EQ(amp_data(op("to", {x, AMP_F32})), amp_data(x)) << "already of that dtype";
    EXPECT_NE(amp_data(op("to", {x, AMP_F32}, {{"copy", true}})), amp_data(x));
    EXPECT_EQ(numbers_of(op("to", {x, AMP_I8})), values);
    EXPECT_EQ(numbers_of(op("to", {tensor(AMP_F32, {2}, {1 + 0x1p-9, 1 + 0x1p-7 + 0x1p-8}), AMP_BF16})),
              (std::vector<double>{1, 1 + 0x1p-6}));
}

TEST_F(Factories, BadInputIsToldWhatIsWrong) {
    EXPECT_EQ(op("zeros", {AMP_DIMS(2, -1)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"zeros", "-1"}));
    EXPECT_EQ(op("ones", {AMP_DIMS(INT64_C(1) << 62, 8)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ones"}));
    EXPECT_EQ(op("full", {AMP_DIMS(2), amp_complex(1, 2)}, {{"dtype", AMP_F32}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"full", "complex", "f32"}));
    EXPECT_EQ(op("arange", {0, 5, 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"arange", "steps of 0"}));
    EXPECT_EQ(op("arange", {0, 5, -1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"arange", "steps of -1"}));
    EXPECT_EQ(op("arange", {double(NAN)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"arange"}));
    EXPECT_EQ(op("fill", {tensor(AMP_F32, {2}), tensor(AMP_F32, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fill", "value", "0-dim"}));
}

} // namespace

TEST_F(Factories, ANumberThatTheDtypeCannotHoldIsRefused) {
    const auto refuses = [](amp_tensor *made, const std::vector<std::string> &words) {
        EXPECT_EQ(made, nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, words));
    };
    refuses(op("full", {AMP_DIMS(2), 1e30}, {{"dtype", AMP_I32}}),
            {"full", "'fill_value' is 1e+30", "i32 cannot hold"});
    refuses(op("full", {AMP_DIMS(2), 70000}, {{"dtype", AMP_I16}}), {"70000", "i16"});
    refuses(op("full", {AMP_DIMS(2), double(NAN)}, {{"dtype", AMP_I64}}), {"nan", "i64"});
    refuses(op("full", {AMP_DIMS(2), 1e5}, {{"dtype", AMP_F16}}), {"f16"});
    amp_tensor *bytes = tensor(AMP_U8, {2}, {1, 2}), *mask = tensor(AMP_BOOL, {2}, {1, 0});
    refuses(op("masked_fill", {bytes, mask, 300}), {"masked_fill", "'value' is 300", "u8"});
    refuses(op("clamp", {bytes}, {{"min", 300}}), {"clamp", "'min' is 300", "u8"});
    refuses(op("constant_pad_nd", {bytes, AMP_DIMS(1, 1), 999}), {"constant_pad_nd", "999"});
    refuses(op("masked_fill", {tensor(AMP_F16, {2}), mask, -1e9}), {"masked_fill", "-1e+09", "f16"});
    EXPECT_EQ(numbers_of(op("full", {AMP_DIMS(1), -1}, {{"dtype", AMP_U8}})), (std::vector<double>{255}));
    EXPECT_EQ(numbers_of(op("full", {AMP_DIMS(1), -double(INFINITY)}, {{"dtype", AMP_BF16}})),
              (std::vector<double>{-INFINITY}));
    EXPECT_EQ(numbers_of(op("full", {AMP_DIMS(1), 2.9}, {{"dtype", AMP_I8}})), (std::vector<double>{2}));
    EXPECT_EQ(numbers_of(op("full", {AMP_DIMS(1), 300}, {{"dtype", AMP_BOOL}})), (std::vector<double>{1}));
}
