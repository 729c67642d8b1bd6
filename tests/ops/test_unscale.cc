// Gradients are unscaled in place and looked through for what is not finite, on the CPU and on the tests' CUDA.
#include <cmath>

#include "cuda_test.h"

using namespace amp_test;

namespace {

using Tensors = std::vector<amp_tensor *>;

amp_tensor *number(double x) {
    return tensor(AMP_F32, {1}, {x});
}
amp_status unscale(const Tensors &grads, amp_tensor *found, amp_tensor *factor) {
    amp_foreach_non_finite_check_and_unscale_args args = {};
    args.struct_size = sizeof args;
    args.grads = {grads.data(), int64_t(grads.size()), nullptr};
    args.found_inf = found;
    args.inv_scale = factor;
    return amp_foreach_non_finite_check_and_unscale_call(&args) ? AMP_OK : amp_last_status();
}
const amp_dtype dtypes[] = {AMP_F16, AMP_BF16, AMP_F32, AMP_F64};

class Unscale : public Test {
  protected:
    static std::string error() {
        const std::string text = amp_last_error();
        amp_clear_error();
        return text;
    }
};

TEST_F(Unscale, MultipliesEveryGradientAndLeavesTheFlagWhereAllIsFinite) {
    amp_tensor *found = number(0);
    for (double factor : {1.0, 0.25, 1 / 3.0}) {
        for (amp_dtype dtype : dtypes) {
            amp_tensor *x = random_tensor(dtype, {7, 33}, 1), *none = random_tensor(dtype, {0, 3}, 1);
            amp_tensor *turned = op("transpose", {random_tensor(dtype, {5, 40}, 2), 0, 1});
            amp_tensor *every = op("slice", {random_tensor(dtype, {40}, 3), 0, 1, 40, 3});
            Tensors want;
            const double rounded = double(float(factor));
            for (amp_tensor *t : {x, none, turned, every}) {
                want.push_back(op("to", {op("mul", {op("to", {t, AMP_F64}), amp_float(rounded)}), dtype}));
            }
            ASSERT_EQ(unscale({x, none, turned, every}, found, number(factor)), AMP_OK) << amp_last_error();
            const amp_tensor *got[] = {x, none, turned, every};
            for (size_t i = 0; i < want.size(); i++) EXPECT_EQ(numbers_of(got[i]), numbers_of(want[i])) << i;
        }
    }
    EXPECT_EQ(numbers_of(found), std::vector<double>{0});
    found = number(1); // of a call before
    EXPECT_EQ(unscale({random_tensor(AMP_F32, {3}, 1)}, found, number(2)), AMP_OK);
    EXPECT_EQ(unscale({}, found, number(2)), AMP_OK);
    EXPECT_EQ(numbers_of(found), std::vector<double>{1});
}

TEST_F(Unscale, FindsWhatIsNotFiniteAtAnyPlace) {
    for (amp_dtype dtype : dtypes) {
        for (double bad : {double(INFINITY), -double(INFINITY), double(NAN)}) {
            for (int64_t at : {0, 7, 8, 99, 100}) {
                std::vector<double> values(101, 1.5);
                values[size_t(at)] = bad;
                amp_tensor *found = number(0), *t = tensor(dtype, {101}, values), *fine = tensor(dtype, {3}, {1, 2, 3});
                ASSERT_EQ(unscale({fine, t, tensor(dtype, {1}, {4})}, found, number(0.5)), AMP_OK);
                EXPECT_EQ(numbers_of(found), std::vector<double>{1})
                    << amp_dtype_name(dtype) << " " << bad << " at " << at;
            }
        }
    }
    // What the product only makes infinite was a finite gradient.
    amp_tensor *found = number(0);
    ASSERT_EQ(unscale({tensor(AMP_F16, {1}, {60000})}, found, number(4)), AMP_OK);
    EXPECT_EQ(numbers_of(found), std::vector<double>{0});
}

TEST_F(Unscale, WritesAreSeen) {
    amp_tensor *x = random_tensor(AMP_F32, {4}, 1), *found = number(0);
    const uint64_t before = amp_tensor_version(x), flag = amp_tensor_version(found);
    ASSERT_EQ(unscale({x}, found, number(0.5)), AMP_OK);
    EXPECT_GT(amp_tensor_version(x), before);
    EXPECT_GT(amp_tensor_version(found), flag);
}

TEST_F(Unscale, BadInputIsASentenceAndChangesNothing) {
    amp_tensor *x = tensor(AMP_F32, {2}, {1, 2}), *found = number(0), *half = number(0.5);
    amp_tensor *integers = tensor(AMP_I32, {2}, {1, 2});
    EXPECT_EQ(unscale({x, integers}, found, half), AMP_ERROR_DTYPE);
    EXPECT_EQ(error(),
              "foreach_non_finite_check_and_unscale: a tensor of 'grads' is [2] i32; expected a floating dtype");
    EXPECT_EQ(unscale({x, nullptr}, found, half), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "foreach_non_finite_check_and_unscale: tensor 1 of the argument 'grads' is missing");
    EXPECT_EQ(unscale({x}, x, half), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "foreach_non_finite_check_and_unscale: 'found_inf' is [2] f32; expected one f32 element");
    EXPECT_EQ(unscale({x}, found, tensor(AMP_F64, {1}, {1})), AMP_ERROR_DTYPE);
    EXPECT_EQ(error(), "foreach_non_finite_check_and_unscale: 'inv_scale' is [1] f64; expected one f32 element");
    amp_tensor *wide = op("expand", {tensor(AMP_F32, {1}, {1}), AMP_DIMS(3)});
    EXPECT_EQ(unscale({x, wide}, found, half), AMP_ERROR_INVALID);
    EXPECT_NE(error().find("share memory"), std::string::npos);
    EXPECT_EQ(numbers_of(x), (std::vector<double>{1, 2}));
}

// ---- CUDA -----------------------------------------------------------------------------------------------------------

class CudaUnscale : public CudaTest {};

TEST_F(CudaUnscale, AgreesWithTheCpuInOneLaunchAndWithoutWaiting) {
    Tensors host, there;
    for (int i = 0; i < 100; i++) { // more than one launch takes
        const amp_dtype dtype = dtypes[i % 4];
        host.push_back(random_tensor(dtype, {i == 50 ? 50000 : i}, uint64_t(i)));
        there.push_back(sent(host.back()));
    }
    amp_tensor *flag = sent(number(0)), *factor = sent(number(1 / 3.0)), *host_flag = number(0);
    const amp_cuda_counts start = amp_cuda_counters();
    ASSERT_EQ(unscale(there, flag, factor), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_cuda_counters().launches, start.launches + 2);
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations);
    EXPECT_EQ(amp_cuda_counters().downloads, start.downloads);
    ASSERT_EQ(unscale(host, host_flag, number(1 / 3.0)), AMP_OK);
    for (size_t i = 0; i < host.size(); i++) EXPECT_EQ(numbers_of(fetched(there[i])), numbers_of(host[i])) << i;
    EXPECT_EQ(values(flag), std::vector<float>{0});
}

TEST_F(CudaUnscale, FindsWhatIsNotFiniteInDenseStridedAndUnalignedGradients) {
    for (amp_dtype dtype : dtypes) {
        for (int layout = 0; layout < 3; layout++) {
            amp_tensor *t = sent(random_tensor(dtype, {11, 13}, 1)), *before = op("clone", {t});
            amp_tensor *view = layout == 0   ? t
                               : layout == 1 ? op("transpose", {t, 0, 1})
                                             : op("slice", {op("view", {t, AMP_DIMS(143)}), 0, 1, 143, 1});
            amp_tensor *flag = sent(number(0));
            ASSERT_EQ(unscale({view}, flag, sent(number(1))), AMP_OK) << amp_last_error();
            EXPECT_EQ(values(t), values(before));
            EXPECT_EQ(values(flag), std::vector<float>{0});
            op("fill_", {op("select", {op("view", {t, AMP_DIMS(143)}), 0, 77}), amp_float(NAN)});
            ASSERT_EQ(unscale({view}, flag, sent(number(1))), AMP_OK) << amp_last_error();
            EXPECT_EQ(values(flag), std::vector<float>{1});
        }
    }
}

TEST_F(CudaUnscale, RefusesTensorsOfSeveralDevices) {
    amp_tensor *x = random_tensor(AMP_F32, {2}, 1), *flag = sent(number(0));
    EXPECT_EQ(unscale({x}, flag, sent(number(1))), AMP_ERROR_DEVICE);
    EXPECT_TRUE(contains(error(), "'grads' is on cpu, another argument on cuda"));
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    amp_tensor *other = sent(x);
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    EXPECT_EQ(unscale({other}, flag, sent(number(1))), AMP_ERROR_DEVICE);
    EXPECT_TRUE(contains(error(), "'found_inf' is on CUDA device 0, another argument on 1"));
}

// There they are made of ops, tensor by tensor.
TEST_F(CudaUnscale, NormsAndClippingAreThoseOfTheCpu) {
    Tensors host, there;
    for (int i = 0; i < 8; i++) {
        host.push_back(random_tensor(dtypes[i % 4], {i == 5 ? 50000 : 3 * i, 2}, uint64_t(i)));
        there.push_back(sent(host.back()));
    }
    const auto norms = [](const Tensors &grads) {
        amp_foreach_norm_args args = {};
        args.struct_size = sizeof args;
        args.grads = {grads.data(), int64_t(grads.size()), nullptr};
        args.ord = 2;
        return amp_foreach_norm_call(&args);
    };
    const auto clip = [](const Tensors &grads) {
        amp_foreach_clip_args args = {};
        args.struct_size = sizeof args;
        args.grads = {grads.data(), int64_t(grads.size()), nullptr};
        args.factor = 0.75;
        args.limit = 0.5;
        return amp_foreach_clip_call(&args);
    };
    const std::vector<double> want = numbers_of(norms(host)), got = numbers_of(fetched(norms(there)));
    ASSERT_EQ(got.size(), want.size()) << amp_last_error();
    for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(got[i], want[i], 1e-6 * want[i]) << i;
    ASSERT_TRUE(clip(host) && clip(there)) << amp_last_error();
    for (size_t i = 0; i < host.size(); i++) EXPECT_EQ(numbers_of(fetched(there[i])), numbers_of(host[i])) << i;
}

} // namespace
