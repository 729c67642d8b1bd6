// trapezoid, nansum, nanmean, cov, corrcoef, losses made of other ops, pooling of lines, Hermitian transforms.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class Statistics : public Test {
  protected:
    const double inf = INFINITY, nan = NAN;
};

Shape shape_of(const amp_tensor *t) {
    return t ? Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t)) : Shape{-1};
}

TEST_F(Statistics, Integrals) {
    amp_tensor *y = tensor(AMP_F64, {2, 3}, {1, 2, 4, 0, 6, 0});
    EXPECT_EQ(numbers_of(op("trapezoid", {y, tensor(AMP_F64, {3}, {0, 1, 3})})), (Numbers{7.5, 9}));
    EXPECT_EQ(numbers_of(op("trapezoid", {y, tensor(AMP_F64, {2, 3}, {0, 1, 3, 0, 2, 4})})), (Numbers{7.5, 12}));
    EXPECT_EQ(numbers_of(op("trapezoid", {y, tensor(AMP_F64, {2}, {0, 2})}, {{"dim", 0}})), (Numbers{1, 8, 4}));
    EXPECT_EQ(numbers_of(op("trapezoid", {y}, {{"dx", 0.5}})), (Numbers{2.25, 3}));
    EXPECT_EQ(numbers_of(op("trapezoid", {tensor(AMP_I64, {3}, {1, 2, 4})}, {{"dx", 1}})), (Numbers{4.5}));
    EXPECT_EQ(numbers_of(op("trapezoid", {tensor(AMP_F32, {2, 0})}, {{"dx", 1}})), (Numbers{0, 0}));
    EXPECT_EQ(op("trapezoid", {y, tensor(AMP_F64, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"trapezoid", "[2]", "dimension 1"}));
    EXPECT_EQ(op("trapezoid", {tensor(AMP_BOOL, {2})}, {{"dx", 1}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"trapezoid", "bool"}));
}

TEST_F(Statistics, SumsAndMeansWithoutNaN) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16}) {
        amp_tensor *x = tensor(dtype, {2, 3}, {1, nan, 5, nan, nan, nan});
        EXPECT_EQ(numbers_of(op("nansum", {x})), (Numbers{6}));
        EXPECT_EQ(numbers_of(op("nansum", {x, 1})), (Numbers{6, 0}));
        EXPECT_EQ(amp_tensor_dtype(op("nansum", {x})), dtype);
        EXPECT_EQ(numbers_of(op("nanmean", {x})), (Numbers{3}));
        expect_near(op("nanmean", {x, 1}, {{"keepdim", true}}), {3, nan}, 0);
        EXPECT_EQ(amp_tensor_dtype(op("nanmean", {x})), dtype);
    }
    EXPECT_EQ(numbers_of(op("nansum", {tensor(AMP_U8, {3}, {200, 100, 1})})), (Numbers{301}));
    EXPECT_EQ(amp_tensor_dtype(op("nansum", {tensor(AMP_BF16, {3})}, {{"dtype", AMP_F32}})), AMP_F32);
    EXPECT_EQ(numbers_of(op("nansum", {tensor(AMP_F32, {0})})), (Numbers{0}));
    EXPECT_EQ(op("nanmean", {tensor(AMP_I64, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"nanmean", "i64"}));
    EXPECT_EQ(op("nansum", {tensor(AMP_C64, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"nansum", "c64"}));
}

TEST_F(Statistics, Covariances) { // the numbers are numpy's
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_I64}) {
        amp_tensor *x = tensor(dtype, {2, 3}, {1, 2, 4, 3, 1, 0});
        const double a = 7.0 / 3, b = -13.0 / 6;
        expect_near(op("cov", {x}), {a, b, b, a}, 1e-6);
        expect_near(op("cov", {x}, {{"correction", 0}}), {a * 2 / 3, b * 2 / 3, b * 2 / 3, a * 2 / 3}, 1e-6);
        amp_tensor *f = tensor(AMP_I64, {3}, {1, 2, 1}), *w = tensor(AMP_F64, {3}, {0.5, 1, 2});
        expect_near(op("cov", {x}, {{"fweights", f}, {"aweights", w}}), {13.0 / 7, -9.5 / 7, -9.5 / 7, 8.5 / 7}, 1e-6);
        expect_near(op("corrcoef", {x}), {1, b / a, b / a, 1}, 1e-6);
    }
    expect_near(op("cov", {tensor(AMP_F32, {3}, {1, 2, 3})}), {1}, 1e-6);
    expect_near(op("corrcoef", {tensor(AMP_F32, {3}, {1, 2, 3})}), {1}, 0);
    EXPECT_EQ(amp_tensor_dtype(op("cov", {tensor(AMP_BF16, {2, 3}, {1, 2, 4})})), AMP_BF16);
    amp_tensor *z = op("view_as_complex", {tensor(AMP_F64, {2, 3, 2}, {1, 1, 2, 0, 3, -1, 0, 0, 0, 1, 2, 0})});
    expect_near(op("view_as_real", {op("cov", {z})}), {2, 0, 1, -1, 1, 1, 5.0 / 3, 0}, 1e-15);
    const double r = 0.547722557505166113;
    expect_near(op("view_as_real", {op("corrcoef", {z})}), {1, 0, r, -r, r, r, 1, 0}, 1e-15);
}

TEST_F(Statistics, BadObservationsAreToldWhatIsWrong) {
    amp_tensor *x = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("cov", {tensor(AMP_F32, {1, 2, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cov", "[1, 2, 3]"}));
    EXPECT_EQ(op("corrcoef", {tensor(AMP_BOOL, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"corrcoef", "bool"}));
    EXPECT_EQ(op("cov", {x}, {{"fweights", tensor(AMP_F32, {3})}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"cov", "fweights", "integers"}));
    EXPECT_EQ(op("cov", {x}, {{"fweights", tensor(AMP_I64, {2})}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cov", "fweights", "3 integers"}));
    EXPECT_EQ(op("cov", {x}, {{"aweights", tensor(AMP_F32, {3}, {1, -1, 1})}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cov", "aweights", "-1"}));
    EXPECT_EQ(op("cov", {x}, {{"fweights", tensor(AMP_I64, {3}, {0})}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cov", "sum up to 0"}));
}

// As in PyTorch, which composes them, autocast looks at their products and logarithms.
TEST_F(Statistics, ARegionReachesTheOpsInside) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 4, 3, 1, 0});
    Region region;
    EXPECT_EQ(amp_tensor_dtype(op("cov", {x})), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(op("max_unpool1d", {tensor(AMP_BF16, {1, 1}), tensor(AMP_I64, {1, 1}, {0}), 2})),
              AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("gaussian_nll_loss", {x, x, op("exp", {x})})), AMP_F32);
}

TEST_F(Statistics, GaussianLikelihood) {
    amp_tensor *x = tensor(AMP_F64, {2, 2}, {1, 2, 3, 4}), *t = tensor(AMP_F64, {2, 2}, {1, 1, 5, 4});
    amp_tensor *rows = tensor(AMP_F64, {2}, {1, 4});
    const Numbers each = {0, 0.5, 0.5 * (std::log(4.0) + 1), 0.5 * std::log(4.0)};
    expect_near(op("gaussian_nll_loss", {x, t, rows}, {{"reduction", "none"}}), each, 1e-15);
    expect_near(op("gaussian_nll_loss", {x, t, op("unsqueeze", {rows, 1})}, {{"reduction", "sum"}}),
                {each[0] + each[1] + each[2] + each[3]}, 1e-15);
    expect_near(op("gaussian_nll_loss", {x, x, tensor(AMP_F64, {2, 2}, {0}), true}, {{"eps", 1.0}}),
                {0.5 * std::log(2 * M_PI)}, 1e-15);
    EXPECT_EQ(op("gaussian_nll_loss", {x, t, tensor(AMP_F64, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gaussian_nll_loss", "var", "[3]"}));
    EXPECT_EQ(op("gaussian_nll_loss", {x, t, tensor(AMP_F64, {2}, {-1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gaussian_nll_loss", "var", "-1"}));
    EXPECT_EQ(op("gaussian_nll_loss", {x, t, rows}, {{"reduction", "batchmean"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gaussian_nll_loss", "reduction"}));
}

TEST_F(Statistics, SoftMarginsOfManyLabels) {
    amp_tensor *x = random_tensor(AMP_F64, {3, 4}, 1), *t = tensor(AMP_F64, {3, 4}, {1, 0, 0, 1, 1});
    amp_tensor *w = tensor(AMP_F64, {4}, {1, 2, 0.5, 1});
    const std::vector<double> want =
        numbers_of(op("mean", {op("binary_cross_entropy_with_logits", {x, t, w}, {{"reduction", "none"}}), 1}));
    expect_near(op("multilabel_soft_margin_loss", {x, t, w}, {{"reduction", "none"}}), want, 1e-14);
    expect_near(op("multilabel_soft_margin_loss", {x, t, w}), {(want[0] + want[1] + want[2]) / 3}, 1e-14);
    EXPECT_EQ(op("multilabel_soft_margin_loss", {tensor(AMP_F32, {}), t}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"multilabel_soft_margin_loss", "classes"}));
}

TEST_F(Statistics, LinesArePooledAndPutBack) {
    amp_tensor *x = tensor(AMP_F32, {2, 5}, {1, 5, 2, 4, 3, 9, 8, 7, 6, 0});
    auto r = both("adaptive_max_pool1d", {x, 2, true});
    EXPECT_EQ(numbers_of(r[0]), (Numbers{5, 4, 9, 7}));
    EXPECT_EQ(numbers_of(r[1]), (Numbers{1, 3, 0, 2}));
    EXPECT_EQ(shape_of(op("adaptive_max_pool1d", {op("unsqueeze", {x, 0}), 3})), (Shape{1, 2, 3}));
    r = both("max_pool1d", {op("narrow", {x, 1, 0, 4}), 2}, {{"return_indices", true}});
    EXPECT_EQ(numbers_of(op("max_unpool1d", {r[0], r[1], 2})), (Numbers{0, 5, 0, 4, 9, 0, 7, 0}));
    EXPECT_EQ(shape_of(op("max_unpool1d", {r[0], r[1], 2}, {{"output_size", AMP_DIMS(5)}})), (Shape{2, 5}));
    EXPECT_EQ(op("adaptive_max_pool1d", {tensor(AMP_F32, {5}), 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"adaptive_max_pool1d", "[5]", "channels"}));
    EXPECT_EQ(op("max_unpool1d", {r[0], tensor(AMP_I64, {2, 3}), 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"max_unpool1d", "same shape"}));
    EXPECT_EQ(op("max_unpool1d", {tensor(AMP_I64, {2, 2}), r[1], 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"max_unpool1d", "i64"}));
}

TEST_F(Statistics, HermitianTransforms) {
    amp_tensor *x = random_tensor(AMP_F64, {2, 3, 4}, 5);
    const std::vector<double> all = numbers_of(x);
    amp_tensor *half = op("fft_ihfft2", {x});
    EXPECT_EQ(shape_of(half), (Shape{2, 3, 3}));
    expect_near(op("fft_hfft2", {half}, {{"s", AMP_DIMS(3, 4)}}), all, 1e-14);
    amp_tensor *spectrum = op("fft_rfft2", {x}, {{"norm", "forward"}}); // its conjugate
    expect_near(op("real", {half}), numbers_of(op("real", {spectrum})), 1e-14);
    expect_near(op("imag", {half}), numbers_of(op("neg", {op("imag", {spectrum})})), 1e-14);
    amp_tensor *orthogonal = op("fft_ihfftn", {x}, {{"norm", "ortho"}});
    expect_near(op("fft_hfftn", {orthogonal}, {{"s", AMP_DIMS(2, 3, 4)}, {"norm", "ortho"}}), all, 1e-14);
    amp_tensor *line = op("fft_hfftn", {half}, {{"dim", AMP_DIMS(1)}});
    expect_near(line, numbers_of(op("fft_hfft", {half}, {{"dim", 1}})), 1e-14);
    EXPECT_EQ(op("fft_hfft2", {tensor(AMP_BF16, {3, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"fft_hfft2", "bf16"}));
    EXPECT_EQ(op("fft_ihfft2", {half}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"fft_ihfft2", "c128"}));
}

TEST_F(Statistics, ShiftedFrequencies) {
    amp_tensor *x = op("view", {op("arange", {6}, {{"dtype", AMP_F32}}), AMP_DIMS(2, 3)});
    EXPECT_EQ(numbers_of(op("fft_fftshift", {x})), (Numbers{5, 3, 4, 2, 0, 1}));
    EXPECT_EQ(numbers_of(op("fft_fftshift", {x, 1})), (Numbers{2, 0, 1, 5, 3, 4}));
    EXPECT_EQ(numbers_of(op("fft_ifftshift", {op("fft_fftshift", {x})})), numbers_of(x));
    EXPECT_EQ(numbers_of(op("fft_fftshift", {tensor(AMP_F32, {}, {3})})), (Numbers{3}));
    EXPECT_EQ(shape_of(op("fft_fftshift", {tensor(AMP_F32, {0, 2})})), (Shape{0, 2}));
}

} // namespace
