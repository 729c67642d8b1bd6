// A list of parameters on two devices and on the CPU: clipped, unscaled and stepped as on the CPU alone, each device's in calls of
// its own, as PyTorch groups what its foreach functions take.
#include <cmath>

#include "amp/grad.h"
#include "amp/grad_scaler.h"
#include "amp/optimizer.h"
#include "cuda_test.h"

using namespace amp_test;

namespace {

// Parameters and gradients; the same numbers, wherever they are put.
class List {
  public:
    List(const std::vector<int> &places, amp_dtype dtype) : places_(places), chosen_(amp_cuda_get_device()) {
        for (size_t i = 0; i < places.size(); i++) {
            const Shape shape = {int64_t(3 * i + 1), 5};
            amp_tensor *t = on(places[i], random_tensor(dtype, shape, i));
            EXPECT_NE(amp_parameters_add(parameters, ("p" + std::to_string(i)).c_str(), t), nullptr)
                << amp_last_error();
            EXPECT_EQ(amp_tensor_set_grad(t, on(places[i], random_tensor(dtype, shape, 100 + i))), AMP_OK);
        }
    }
    ~List() {
        amp_parameters_destroy(parameters);
    }
    List(const List &) = delete;
    List &operator=(const List &) = delete;

    // A device of CUDA's, or -1: the CPU.
    amp_tensor *on(int place, amp_tensor *t) const {
        if (place < 0) return t;
        EXPECT_EQ(amp_cuda_set_device(place), AMP_OK);
        amp_tensor *there = op("to", {t, AMP_DEVICE_CUDA});
        EXPECT_EQ(amp_cuda_set_device(chosen_), AMP_OK);
        return there;
    }
    amp_tensor *at(size_t i) const {
        return amp_parameters_at(parameters, int64_t(i));
    }
    amp_tensor *gradient(size_t i) const {
        return amp_tensor_grad(at(i));
    }
    // Where it was, and what the other list has.
    void expect_agree(const List &other, double tolerance) const {
        EXPECT_EQ(amp_cuda_get_device(), chosen_);
        for (size_t i = 0; i < places_.size(); i++) {
            SCOPED_TRACE(i);
            for (const auto &[mine, others] : {std::pair{at(i), other.at(i)}, {gradient(i), other.gradient(i)}}) {
                ASSERT_NE(mine, nullptr);
                ASSERT_EQ(amp_tensor_device(mine), places_[i] < 0 ? AMP_DEVICE_CPU : AMP_DEVICE_CUDA);
                if (places_[i] >= 0) {
                    EXPECT_EQ(amp_cuda_device_of(mine), places_[i]);
                }
                const std::vector<double> got = numbers_of(op("to", {mine, AMP_DEVICE_CPU})), want = numbers_of(others);
                ASSERT_EQ(got.size(), want.size());
                for (size_t k = 0; k < got.size(); k++) ASSERT_NEAR(got[k], want[k], tolerance) << k;
            }
        }
    }

    amp_parameters *parameters = amp_parameters_create();

  private:
    std::vector<int> places_;
    int chosen_;
};

class CudaDevices : public CudaTest {
  protected:
    void TearDown() override {
        if (fake) {
            EXPECT_EQ(amp_cuda_set_device(0), AMP_OK);
        }
        CudaTest::TearDown();
    }
    static double clip(const List &list, double max_norm, double order) {
        amp_clip_grad_norm_args args = {};
        args.struct_size = sizeof args;
        args.parameters = list.parameters;
        args.max_norm = max_norm;
        args.norm_type = amp_opt_float(order);
        return amp_clip_grad_norm_call(&args);
    }
    static amp_optimizer *optimizer_of(const List &list, amp_optimizer_kind kind, int choices = 0) {
        amp_optimizer_args args = {};
        args.struct_size = sizeof args;
        args.parameters = list.parameters;
        args.lr = amp_opt_float(0.1);
        const bool averages = kind == AMP_ADAM || kind == AMP_ADAMW;
        if (choices & 1) {
            args.weight_decay = amp_opt_float(0.01);
            args.maximize = amp_opt_bool(true);
            args.master_weights = true;
        }
        if (choices & 2 && (kind == AMP_SGD || kind == AMP_RMSPROP)) args.momentum = amp_opt_float(0.9);
        if (choices & 2 && averages) args.amsgrad = amp_opt_bool(true);
        if (choices & 4 && kind == AMP_RMSPROP) args.centered = amp_opt_bool(true);
        if (choices == 6 && kind == AMP_SGD) args.nesterov = amp_opt_bool(true);
        return amp_optimizer_create(kind, &args);
    }
    static amp_grad_scaler *scaler_on(amp_device device) {
        amp_grad_scaler_args args = {};
        args.struct_size = sizeof args;
        args.device = device;
        args.init_scale = amp_opt_float(8);
        return amp_grad_scaler_create_call(&args);
    }
    static void fill_one(amp_tensor *t, double value) {
        ASSERT_NE(op("fill_", {op("select", {t, 0, 0}), amp_float(value)}), nullptr) << amp_last_error();
    }
};

const std::vector<int> spread = {1, 0, -1, 1, 0, 0, 1, -1}, on_devices = {1, 0, 1, 1, 0, 0, 1, 0}, on_host(8, -1);

TEST_F(CudaDevices, OneListIsClippedByItsNormOnSeveral) {
    for (int chosen : {0, 1, 2}) {
        for (double order : {2.0, 1.0, double(INFINITY)}) {
            SCOPED_TRACE(order);
            const Scope scope;
            ASSERT_EQ(amp_cuda_set_device(chosen), AMP_OK);
            const List there(spread, AMP_F32), here(on_host, AMP_F32);
            const double want = clip(here, 0.5, order);
            EXPECT_NEAR(clip(there, 0.5, order), want, 1e-6 * want) << amp_last_error();
            there.expect_agree(here, 1e-6);
            EXPECT_NEAR(clip(there, 1e9, order), 0.5, 1e-5) << amp_last_error();
        }
    }
}

TEST_F(CudaDevices, OneListIsClippedByValueOnSeveral) {
    const List there(spread, AMP_F32), here(on_host, AMP_F32);
    ASSERT_EQ(amp_clip_grad_value(here.parameters, 0.25), AMP_OK);
    ASSERT_EQ(amp_clip_grad_value(there.parameters, 0.25), AMP_OK) << amp_last_error();
    there.expect_agree(here, 0);
}

// All formulas, with each choice of theirs.
TEST_F(CudaDevices, OneOptimizerStepsOnSeveral) {
    for (int kind = AMP_SGD; kind <= AMP_ADAMAX; kind++) {
        for (int choices = 0; choices < 8; choices++) {
            for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16}) {
                SCOPED_TRACE(std::to_string(kind) + " " + std::to_string(choices) + " " + amp_dtype_name(dtype));
                const Scope scope;
                const List there(spread, dtype), here(on_host, dtype);
                amp_optimizer *o = optimizer_of(there, amp_optimizer_kind(kind), choices),
                              *want = optimizer_of(here, amp_optimizer_kind(kind), choices);
                ASSERT_TRUE(o && want) << amp_last_error();
                for (int step = 0; step < 3; step++) {
                    ASSERT_EQ(amp_optimizer_step(want), AMP_OK) << amp_last_error();
                    ASSERT_EQ(amp_optimizer_step(o), AMP_OK) << amp_last_error();
                }
                there.expect_agree(here, 1e-6);
                amp_optimizer_destroy(o);
                amp_optimizer_destroy(want);
            }
        }
    }
}

// What one device finds skips the step on all of them, whichever it is.
TEST_F(CudaDevices, OneScalerUnscalesAndSkipsOnSeveral) {
    for (int chosen : {0, 1, 2}) {
        for (int wrong : {-1, 0, 1, 6, 7}) { // which gradient is not finite
            SCOPED_TRACE(std::to_string(chosen) + " " + std::to_string(wrong));
            const Scope scope;
            ASSERT_EQ(amp_cuda_set_device(chosen), AMP_OK);
            const List there(on_devices, AMP_F32), here(on_host, AMP_F32);
            amp_optimizer *o = optimizer_of(there, AMP_SGD), *want = optimizer_of(here, AMP_SGD);
            amp_grad_scaler *s = scaler_on(AMP_DEVICE_CUDA), *host = scaler_on(AMP_DEVICE_CPU);
            ASSERT_TRUE(o && want && s && host) << amp_last_error();
            if (wrong >= 0) {
                fill_one(there.gradient(size_t(wrong)), INFINITY);
                fill_one(here.gradient(size_t(wrong)), INFINITY);
            }
            ASSERT_NE(amp_grad_scaler_scale(s, sent(op("ones", {AMP_DIMS(1)}))), nullptr);
            ASSERT_NE(amp_grad_scaler_scale(host, op("ones", {AMP_DIMS(1)})), nullptr);
            EXPECT_EQ(amp_grad_scaler_unscale(host, want), AMP_OK);
            EXPECT_EQ(amp_grad_scaler_unscale(s, o), AMP_OK) << amp_last_error();
            if (wrong < 0) {
                const double norm = clip(here, 0.01, 2);
                EXPECT_NEAR(clip(there, 0.01, 2), norm, 1e-6 * norm);
                there.expect_agree(here, 1e-7);
            }
            const amp_step_result result = wrong < 0 ? AMP_STEPPED : AMP_SKIPPED;
            EXPECT_EQ(amp_grad_scaler_step(host, want), result);
            EXPECT_EQ(amp_grad_scaler_step(s, o), result) << amp_last_error();
            EXPECT_EQ(amp_grad_scaler_update(s), AMP_OK) << amp_last_error();
            EXPECT_EQ(amp_grad_scaler_get_scale(s), wrong < 0 ? 8 : 4);
            if (wrong < 0) there.expect_agree(here, 1e-6);
            amp_grad_scaler_destroy(s);
            amp_grad_scaler_destroy(host);
            amp_optimizer_destroy(o);
            amp_optimizer_destroy(want);
        }
    }
}

} // namespace
