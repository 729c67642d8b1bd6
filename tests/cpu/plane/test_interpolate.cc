// interpolate and the upsample_* rows: factors and scales of each dimension, what PyTorch gives for them, bad input;
// lists of real numbers as arguments in general.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class Interpolate : public Test {
  protected:
    // i^1.5, in rows of `width`.
    static amp_tensor *powers(const std::vector<int64_t> &shape) {
        int64_t count = 1;
        for (const int64_t extent : shape) count *= extent;
        Numbers numbers;
        for (int64_t i = 0; i < count; i++) numbers.push_back(std::pow(double(i), 1.5));
        return tensor(AMP_F64, shape, numbers);
    }

    static void expect_numbers(amp_tensor *t, const Numbers &expected) {
        ASSERT_NE(t, nullptr) << amp_last_error();
        const Numbers got = numbers_of(t);
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], expected[i], 2e-5) << "element " << i;
    }

    amp_tensor *image = powers({1, 1, 4, 4});
    const Named factors = {"scale_factor", AMP_FLOATS(0.7, 1.6)};
};

// Numbers below are PyTorch 2.13's for the same calls.

TEST_F(Interpolate, HasAFactorForEachDimension) {
    expect_numbers(op("interpolate", {image}, {factors}),
                   {0.0, 0.0, 1.0, 1.0, 2.828427, 5.196152, 8.0, 8.0, 11.18034, 11.18034, 14.696939, 18.52026});
    expect_numbers(op("interpolate", {image}, {factors, {"mode", "bilinear"}}),
                   {1.7142859, 2.3561928, 3.3183877, 4.6872492, 6.2090669, 7.883841, 17.4033394, 19.1300564, 21.6143532,
                    24.2566738, 26.9809036, 29.7870388});
    expect_numbers(op("interpolate", {image}, {factors, {"mode", "bicubic"}}),
                   {0.9977268, 1.5491295, 2.6636665, 3.7882876, 5.6280184, 7.1206274, 15.6673203, 17.4132595, 20.399395,
                    22.7468319, 26.074379, 28.5772839});
    expect_numbers(op("interpolate", {image}, {factors, {"mode", "area"}}),
                   {4.0, 5.045085, 6.0901699, 8.7626829, 10.3104439, 11.8582058, 32.0983162, 34.51722, 36.9360809,
                    42.0029907, 44.6459007, 47.2888107});
}

TEST_F(Interpolate, RecomputedFactorsAreThoseOfTheSizes) {
    const Named recomputed = {"recompute_scale_factor", true}, mode = {"mode", "bilinear"};
    const Numbers expected = {4.0,        5.045085,   6.5355887,  8.3172636,  10.3104439, 11.8582058,
                              32.0983162, 34.5172005, 37.7805672, 41.1585045, 44.6459007, 47.2888107};
    expect_numbers(op("interpolate", {image}, {factors, recomputed, mode}), expected);
    expect_numbers(op("interpolate", {image, AMP_DIMS(2, 6)}, {mode}), expected);
}

TEST_F(Interpolate, OneFactorStandsForAll) {
    const Numbers expected = numbers_of(op("interpolate", {image}, {{"scale_factor", AMP_FLOATS(1.5, 1.5)}}));
    EXPECT_EQ(numbers_of(op("interpolate", {image}, {{"scale_factor", 1.5}})), expected);
    EXPECT_EQ(numbers_of(op("interpolate", {image}, {{"scale_factor", AMP_FLOATS(1.5)}})), expected);
    amp_interpolate_args args{};
    args.input = image;
    args.scale_factor = AMP_FLOATS(1.5);
    EXPECT_EQ(numbers_of(amp_interpolate_call(&args)), expected);
}

TEST_F(Interpolate, ShrinksWithWideFilters) {
    const Named half = {"scale_factor", AMP_FLOATS(0.5, 1.6)}, smooth = {"antialias", true};
    expect_numbers(op("interpolate", {image}, {half, smooth, {"mode", "bilinear"}}),
                   {6.6610599, 7.7181597, 9.261734, 11.106185, 13.0745373, 15.16679, 28.6557007, 30.6686325, 33.5595284,
                    36.587925, 39.688652, 42.8617095});
    expect_numbers(op("interpolate", {image}, {half, smooth, {"mode", "lanczos"}}),
                   {3.8836033, 4.6577973, 6.3864045, 7.9178071, 10.2273788, 12.0301151, 30.5876179, 32.4067688,
                    36.1689301, 39.1048126, 42.9994926, 46.0007248});
    EXPECT_EQ(op("interpolate", {image}, {half, {"mode", "lanczos"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"interpolate", "lanczos", "'antialias'"}));
}

TEST_F(Interpolate, HalvesOfBytesAreRoundedUpAsInPyTorch) {
    std::vector<double> numbers;
    for (int i = 0; i < 12; i++) numbers.push_back(i);
    amp_tensor *x = tensor(AMP_U8, {1, 1, 3, 4}, numbers); // 0.5, 2.5, 4.5 …
    EXPECT_EQ(numbers_of(op("upsample_bilinear2d", {x, AMP_DIMS(3, 2), false})),
              (std::vector<double>{1, 3, 5, 7, 9, 11}));
}

TEST_F(Interpolate, UpsampleTakesSizesAndScales) {
    const Named high = {"scales_h", 0.7}, wide = {"scales_w", 1.6};
    expect_numbers(op("upsample_bilinear2d", {image, AMP_DIMS(2, 5), false}, {high, wide}),
                   {1.7142859, 2.3561928, 3.3183877, 4.6872492, 6.2090669, 17.4033394, 19.1300564, 21.6143532,
                    24.2566738, 26.9809036});
    expect_numbers(op("upsample_nearest2d", {image, AMP_DIMS(2, 5)}, {wide}),
                   {0.0, 0.0, 1.0, 1.0, 2.828427, 22.6274167, 22.6274167, 27.0, 27.0, 31.622776});
    expect_numbers(op("upsample_nearest_exact2d", {image, AMP_DIMS(2, 5)}, {high}),
                   {0.0, 1.0, 2.828427, 2.828427, 5.196152, 22.6274167, 27.0, 31.622776, 31.622776, 36.482872});
    expect_numbers(op("upsample_bicubic2d", {image, AMP_DIMS(2, 3), true}, {high, wide}),
                   {0.0, 1.7859893, 5.196152, 41.5692177, 49.5893784, 58.0947495});
    expect_numbers(op("upsample_bilinear2d_aa", {image, AMP_DIMS(2, 3), false}, {high, wide}),
                   {2.7692308, 3.5369265, 4.6747637, 17.3696442, 19.0852184, 21.553772});
    amp_tensor *line = powers({1, 1, 16}), *cube = powers({1, 1, 2, 2, 2});
    expect_numbers(op("upsample_linear1d", {line, AMP_DIMS(5), false}, {{"scales", 0.3}}),
                   {1.3047378, 9.5901699, 21.9428883, 37.3305931, 55.238975});
    expect_numbers(op("upsample_nearest1d", {line, AMP_DIMS(5)}, {{"scales", 0.3}}),
                   {0.0, 5.1961522, 14.6969385, 31.622776, 46.8721657});
    expect_numbers(op("upsample_trilinear3d", {cube, AMP_DIMS(3, 2, 2), false}, {{"scales_d", 1.7}, {"scales_w", 0.9}}),
                   {0.0, 1.0, 2.8284271, 5.1961522, 3.0588238, 4.8924832, 7.3663878, 10.2906647, 7.7647066, 10.8809185,
                    14.3478661, 18.1283760});
}

TEST_F(Interpolate, ScalesThatAreNotPositiveAreAsAbsent) {
    const Numbers expected = numbers_of(op("upsample_bilinear2d", {image, AMP_DIMS(2, 3), false}));
    EXPECT_EQ(numbers_of(op("upsample_bilinear2d", {image, AMP_DIMS(2, 3), false}, {{"scales_h", -1.0}})), expected);
    EXPECT_EQ(numbers_of(op("upsample_bilinear2d", {image, AMP_DIMS(2, 3), false}, {{"scales_w", NAN}})), expected);
}

TEST_F(Interpolate, BadArgumentsAreNamed) {
    EXPECT_EQ(op("interpolate", {image}, {{"scale_factor", AMP_FLOATS(1, 2, 3)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"interpolate", "'scale_factor' has 3 values", "expected 2"}));
    EXPECT_EQ(op("interpolate", {image}, {{"scale_factor", AMP_FLOATS(1.0, -2.0)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"interpolate", "'scale_factor' -2"}));
    EXPECT_EQ(op("interpolate", {image, AMP_DIMS(2)}, {factors}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"interpolate", "both of 'size' and 'scale_factor'"}));
    EXPECT_EQ(op("interpolate", {image, AMP_DIMS(2)}, {{"recompute_scale_factor", true}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"interpolate", "'recompute_scale_factor'"}));
    EXPECT_EQ(op("upsample_nearest2d", {image}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"upsample_nearest2d", "'output_size' is missing"}));
    EXPECT_EQ(op("upsample_nearest3d", {image, AMP_DIMS(2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"upsample_nearest3d", "(N, C, D, H, W)"}));
}

// ---- Lists of real numbers ---------------------------------------------------------------------------------------

class Floats : public Interpolate {};

TEST_F(Floats, TakeIntegersAndRefuseWords) {
    EXPECT_EQ(numbers_of(op("interpolate", {image}, {{"scale_factor", AMP_DIMS(2, 1)}})),
              numbers_of(op("interpolate", {image}, {{"scale_factor", AMP_FLOATS(2.0, 1.0)}})));
    EXPECT_EQ(op("interpolate", {image}, {{"scale_factor", "double"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'scale_factor' must be real numbers", "a string"}));
    EXPECT_EQ(op("interpolate", {image}, {{"size", AMP_FLOATS(2.0, 1.0)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'size' must be integers", "a list of real numbers"}));
}

TEST_F(Floats, ThatAreTooManyOrBareAreRefused) {
    amp_interpolate_args args{};
    args.input = image;
    args.scale_factor = AMP_FLOATS(1, 2, 3, 4, 5, 6, 7, 8, 9);
    EXPECT_EQ(amp_interpolate_call(&args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'scale_factor' has 9 values", "at most 8"}));
    args.scale_factor = {};
    args.scale_factor.values[0] = 2.0;
    EXPECT_EQ(amp_interpolate_call(&args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'scale_factor' is a bare number", "AMP_FLOATS"}));
}

// ---- The same in ops of a program --------------------------------------------------------------------------------

struct stretch_args {
    size_t struct_size;
    amp_tensor *input;
    amp_floats factors, more;
};

amp_status stretch(amp_call *call, const void *given) {
    const auto *args = static_cast<const stretch_args *>(given);
    amp_tensor *out = amp_call_output(call, 0, AMP_F64, 0, nullptr);
    if (!out) return amp_last_status();
    const double sum = args->factors.values[0] + 10 * args->factors.values[1] + 100 * args->more.values[0];
    *static_cast<double *>(amp_data_mut(out)) = sum + 1000 * args->factors.count + 10000 * args->more.count;
    return AMP_OK;
}

TEST_F(Floats, AreArgumentsOfAProgramsOps) {
    amp_op_definition d{};
    d.schema = "stretch_by(Tensor input, float[2] factors=1.5, float[]? more=None) -> Tensor";
    d.args_size = sizeof(stretch_args);
    d.cpu = {nullptr, stretch};
    ASSERT_NE(amp_define_op_call(&d), nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(op("stretch_by", {image})), (Numbers{2016.5}));
    EXPECT_EQ(numbers_of(op("stretch_by", {image, 2})), (Numbers{2022}));
    EXPECT_EQ(numbers_of(op("stretch_by", {image, AMP_FLOATS(0.5, 2), AMP_FLOATS(3)})), (Numbers{12320.5}));
    EXPECT_EQ(op("stretch_by", {image, AMP_FLOATS(1, 2, 3)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'factors' has 3 values", "expected 2, or one for all"}));
}

} // namespace
