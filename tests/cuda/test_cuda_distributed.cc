// Data-parallel training on a GPU, as far as one process sees it: a group of one, memory that ends, places. (Several:
// tests/distributed/ranks/check_gpus.py.)
#include "amp/distributed.h"
#include "amp/grad.h"
#include "cuda_test.h"
#include "internals.h"

using namespace amp_test;

namespace {

class CudaDistributed : public CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        p_ = amp_parameters_create();
    }
    void TearDown() override {
        amp_data_parallel_destroy(ddp_);
        amp_parameters_destroy(p_);
        CudaTest::TearDown();
    }
    amp_tensor *add(const char *name, amp_tensor *t) {
        return amp_parameters_add(p_, name, t);
    }
    amp_data_parallel *make(amp_dtype wire = AMP_F32) {
        amp_data_parallel_args a = {};
        a.struct_size = sizeof a;
        a.parameters = p_;
        a.dtype = wire;
        a.bucket_bytes = AMP_SET(100);
        return ddp_ = amp_data_parallel_create_call(&a);
    }
    static amp_status go_back(amp_tensor *loss, amp_data_parallel *ddp = nullptr) {
        amp_backward_args a = {};
        a.struct_size = sizeof a;
        a.loss = loss;
        return ddp ? amp_data_parallel_backward_call(ddp, &a) : amp_backward_call(&a);
    }
    static std::vector<double> numbers_on(amp_tensor *t) {
        return t ? numbers_of(op("to_device", {t}, {{"device", AMP_DEVICE_CPU}})) : std::vector<double>{-99};
    }
    std::vector<std::vector<double>> gradients() const {
        std::vector<std::vector<double>> all;
        for (int64_t i = 0; i < amp_parameters_count(p_); i++)
            all.push_back(numbers_on(amp_tensor_grad(amp_parameters_at(p_, i))));
        return all;
    }

    amp_parameters *p_ = nullptr;
    amp_data_parallel *ddp_ = nullptr;
};

TEST_F(CudaDistributed, AGroupOfOneHasTheBitsOfPlainBackwards) {
    Scope scope;
    amp_tensor *w = add("w", sent(random_tensor(AMP_F32, {3, 40}, 1)));
    amp_tensor *half = add("half", sent(random_tensor(AMP_BF16, {3}, 2)));
    amp_tensor *wide = add("wide", sent(random_tensor(AMP_F64, {3}, 3)));
    (void)add("unused", sent(random_tensor(AMP_F32, {0, 5}, 4)));
    amp_tensor *x = sent(random_tensor(AMP_F32, {2, 40}, 5));
    const auto loss = [&] {
        amp_tensor *y = op("mul", {op("linear", {x, w, nullptr}), op("to", {half, AMP_F32})});
        return op("sum", {op("tanh", {op("mul", {y, op("to", {wide, AMP_F32})})})});
    };
    EXPECT_EQ(go_back(loss()), AMP_OK) << amp_last_error();
    const auto once = gradients();
    EXPECT_EQ(go_back(loss()), AMP_OK);
    const auto twice = gradients();
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    ASSERT_TRUE(make()) << amp_last_error();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), once);
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(half)), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(wide)), AMP_F64);
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), twice);
}

TEST_F(CudaDistributed, WhereMemoryEndsGradientsStay) {
    Scope scope;
    amp_tensor *w = add("w", sent(random_tensor(AMP_F32, {1536, 1024}, 1)));
    amp_tensor *x = sent(random_tensor(AMP_F32, {1536, 1024}, 2));
    ASSERT_TRUE(make(AMP_BF16)) << amp_last_error();
    EXPECT_EQ(go_back(op("sum", {op("mul", {w, x})}), ddp_), AMP_OK) << amp_last_error();
    const auto before = gradients();
    const size_t limit = fake->memory_limit;
    int failures = 0;
    for (size_t more = 1 << 20;; more += 2 << 20) {
        Scope inner;
        amp_tensor *loss = op("sum", {op("mul", {w, x})});
        fake->memory_limit = fake->block_bytes + more;
        const amp_status status = go_back(loss, ddp_);
        fake->memory_limit = limit;
        if (status == AMP_OK) break;
        EXPECT_EQ(status, AMP_ERROR_MEMORY) << amp_last_error();
        amp_clear_error();
        EXPECT_EQ(gradients(), before) << more;
        if (++failures == 20) break;
    }
    EXPECT_GT(failures, 1);
    EXPECT_LT(failures, 20);
    EXPECT_NE(gradients(), before);
}

TEST_F(CudaDistributed, AllTensorsAreInOnePlace) {
    Scope scope;
    const auto here = [] { return random_tensor(AMP_F32, {2}, 1); };
    (void)add("w", sent(here()));
    (void)add("b", here());
    EXPECT_EQ(make(), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"parameter 'w' is on a GPU, others are on the CPU"}));
    amp_parameters_destroy(p_);
    p_ = amp_parameters_create();
    (void)add("w", sent(here()));
    EXPECT_EQ(amp_cuda_set_device(1), AMP_OK);
    (void)add("b", sent(here()));
    EXPECT_EQ(amp_cuda_set_device(0), AMP_OK);
    EXPECT_EQ(make(), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"parameter 'w' is on CUDA device 0, others are on 1"}));
}

TEST_F(CudaDistributed, TensorsOfTheProgram) {
    Scope scope;
    amp_tensor *t = sent(tensor(AMP_I64, {2}, {3, 4}));
    EXPECT_EQ(amp_distributed_all_reduce(t), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_distributed_broadcast(t, 0), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_on(t), (std::vector<double>{3, 4}));
}

} // namespace
