// Random ops on the device: the CPU's bits, from the CUDA generators.
#include "cuda_test.h"

using namespace amp_test;

namespace {

class CudaRandom : public CudaTest {
  protected:
    struct Call {
        const char *op;
        std::vector<Value> values;
        std::vector<Named> named;
        bool placed; // it is told the device
    };

    static std::vector<double> from(amp_tensor *t) {
        return t ? numbers_of(op("to", {t, AMP_DEVICE_CPU})) : std::vector<double>();
    }

    // The same call on both devices from the same seed.
    static void expect_same(const Call &on_cpu, const Call &on_device) {
        SCOPED_TRACE(on_cpu.op);
        Scope scope;
        std::vector<Named> named = on_device.named;
        if (on_device.placed) named.push_back({"device", AMP_DEVICE_CUDA});
        amp_manual_seed(11);
        amp_tensor *want = op(on_cpu.op, on_cpu.values, on_cpu.named);
        ASSERT_NE(want, nullptr) << amp_last_error();
        amp_tensor *got = op(on_device.op, on_device.values, named);
        ASSERT_NE(got, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_device(got), AMP_DEVICE_CUDA);
        EXPECT_EQ(amp_tensor_dtype(got), amp_tensor_dtype(want));
        EXPECT_EQ(from(got), numbers_of(want));
    }
};

} // namespace

// Of lengths that end within a group of words, and at its end.
TEST_F(CudaRandom, FactoriesGiveTheBitsOfTheCpu) {
    for (int64_t n : {0, 1, 17, 64, 1000, 20011}) {
        const amp_dims size = AMP_DIMS(n);
        for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_F16, AMP_BF16, AMP_C64, AMP_C128}) {
            for (const char *name : {"rand", "randn"}) {
                expect_same({name, {size, dtype}, {}, false}, {name, {size, dtype}, {}, true});
            }
        }
        for (int64_t high : {int64_t(2), int64_t(1000), int64_t(1) << 40}) {
            expect_same({"randint", {-high, high, size}, {}, false}, {"randint", {-high, high, size}, {}, true});
        }
        for (amp_dtype dtype : {AMP_I32, AMP_U8, AMP_BOOL, AMP_F32, AMP_BF16}) {
            expect_same({"randint", {2, size, dtype}, {}, false}, {"randint", {2, size, dtype}, {}, true});
        }
        expect_same({"randperm", {n}, {}, false}, {"randperm", {n}, {}, true});
    }
}

TEST_F(CudaRandom, OpsOnTensorsGiveTheBitsOfTheCpu) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_F16, AMP_BF16}) {
        amp_tensor *x = op("rand", {AMP_DIMS(30, 7, 5), dtype}), *there = sent(x);
        for (const char *name :
             {"dropout", "feature_dropout", "alpha_dropout", "bernoulli", "rand_like", "randn_like"}) {
            expect_same({name, {x}, {}, false}, {name, {there}, {}, false});
        }
        for (const char *name : {"uniform", "normal"}) {
            expect_same({name, {x, -1, 2}, {}, false}, {name, {there, -1, 2}, {}, false});
        }
        expect_same({"bernoulli", {x, 0.25}, {}, false}, {"bernoulli", {there, 0.25}, {}, false});
        expect_same({"bernoulli", {op("zeros_like", {x}), op("select", {x, 0, 3})}, {}, false},
                    {"bernoulli", {op("zeros_like", {there}), op("select", {there, 0, 3})}, {}, false});
        amp_tensor *turned = op("transpose", {x, 0, 2}), *turned_there = op("transpose", {there, 0, 2});
        expect_same({"dropout_", {turned}, {}, false}, {"dropout_", {turned_there}, {}, false});
        expect_same({"normal_", {turned}, {}, false}, {"normal_", {turned_there}, {}, false});
    }
}

// Sums and logarithms may differ in their last bits; indices hardly ever do.
TEST_F(CudaRandom, MultinomialDrawsAlike) {
    amp_tensor *weights = op("rand", {AMP_DIMS(5, 40)});
    for (const bool replacement : {false, true}) {
        expect_same({"multinomial", {weights, 20, replacement}, {}, false},
                    {"multinomial", {sent(weights), 20, replacement}, {}, false});
    }
    EXPECT_EQ(op("multinomial", {sent(tensor(AMP_F32, {3}, {1, -1, 2})), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"multinomial", "the least weight is -1"}));
    EXPECT_EQ(op("bernoulli", {sent(tensor(AMP_F32, {3}, {1, 2, 0}))}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"bernoulli", "from 0 to 2"}));
}

TEST_F(CudaRandom, GeneratorsAreTheDevices) {
    amp_generator *g = amp_generator_create(AMP_DEVICE_CUDA), *cpu = amp_generator_create(AMP_DEVICE_CPU);
    const std::vector<Named> here = {{"device", AMP_DEVICE_CUDA}, {"generator", g}};
    const std::vector<double> first = from(op("rand", {AMP_DIMS(70)}, here)),
                              second = from(op("rand", {AMP_DIMS(70)}, here));
    EXPECT_EQ(first, numbers_of(op("rand", {AMP_DIMS(70)}, {{"generator", cpu}})));
    EXPECT_EQ(second, numbers_of(op("rand", {AMP_DIMS(70)}, {{"generator", cpu}})));
    EXPECT_EQ(op("rand", {AMP_DIMS(2)}, {{"device", AMP_DEVICE_CUDA}, {"generator", cpu}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"rand", "'generator' is for cpu, the op runs on cuda"}));
    amp_generator_destroy(g);
    amp_generator_destroy(cpu);
}
