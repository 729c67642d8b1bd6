// amp/amp.hpp: what its functions give is what the C API gives, and every tensor has an owner.
#include "amp/amp.hpp"
#include "amp_test.h"
#include "cxx_exceptions.h"

using namespace amp_test;

namespace {

class Cxx : public Test {
  protected:
    void TearDown() override {
        x_ = w_ = b_ = nullptr;
        Test::TearDown();
    }

    amp::tensor x_ = amp::tensor::share(random_tensor(AMP_F32, {4, 8}, 1)),
                w_ = amp::tensor::share(random_tensor(AMP_F32, {3, 8}, 2)),
                b_ = amp::tensor::share(random_tensor(AMP_F32, {3}, 3));

    static size_t live() {
        return amp_memory_statistics().live_tensors;
    }
};

} // namespace

TEST_F(Cxx, OpsAgreeWithC) {
    EXPECT_EQ(numbers_of(amp::linear(x_, w_, b_).get()), numbers_of(op("linear", {x_.get(), w_.get(), b_.get()})));
    EXPECT_EQ(numbers_of(amp::linear(x_, w_).get()), numbers_of(op("linear", {x_.get(), w_.get()})));
    EXPECT_EQ(numbers_of(amp::softmax(x_, -1).get()), numbers_of(op("softmax", {x_.get(), -1})));
    EXPECT_EQ(numbers_of(amp::cat({x_, x_}, amp::cat_options().with_dim(1)).get()),
              numbers_of(amp::cat({x_, x_}, amp::cat_options().with_dim(-1)).get()));
    const amp::tensor sums = amp::sum(x_, amp::sum_options().with_dim({1}).with_keepdim(true));
    EXPECT_EQ(sums.shape(), (std::vector<int64_t>{4, 1}));
    EXPECT_EQ(numbers_of(sums.get()), numbers_of(op("sum", {x_.get(), AMP_DIMS(1)}, {{"keepdim", true}})));
    EXPECT_TRUE(no_error());
}

TEST_F(Cxx, NumbersKeepTheirCategory) {
    const amp::tensor whole = amp::full({2}, 3), real = amp::full({2}, 3.0), truth = amp::full({2}, true);
    EXPECT_EQ(whole.dtype(), AMP_I64);
    EXPECT_EQ(real.dtype(), AMP_F32);
    EXPECT_EQ(truth.dtype(), AMP_BOOL);
    EXPECT_EQ(amp::add(whole, whole, amp::add_options().with_alpha(2)).dtype(), AMP_I64);
}

TEST_F(Cxx, SeveralResultsAreATupleAndAListIsAVector) {
    const auto [values, indices] = amp::topk(x_, 2);
    EXPECT_EQ(values.shape(), (std::vector<int64_t>{4, 2}));
    EXPECT_EQ(indices.dtype(), AMP_I64);
    const std::vector<amp::tensor> parts = amp::split(x_, 3);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[1].shape(), (std::vector<int64_t>{1, 8}));
    const amp::tensor image = amp::full({1, 1, 4, 4}, 1.0);
    EXPECT_FALSE(std::get<1>(amp::max_pool2d(image, 2)));
    EXPECT_TRUE(std::get<1>(amp::max_pool2d(image, 2, amp::max_pool2d_options().with_return_indices(true))));
}

TEST_F(Cxx, TensorsGoWithTheirOwnersWithOrWithoutScopes) {
    const size_t before = live();
    {
        amp::tensor y = amp::mul(amp::add(x_, x_), x_), z = y;
        EXPECT_EQ(live(), before + 1) << "the sum went with its temporary";
        y = nullptr;
        EXPECT_TRUE(z);
        EXPECT_EQ(live(), before + 1);
    }
    EXPECT_EQ(live(), before);
    amp::tensor outlives;
    {
        const amp::scope scope;
        outlives = amp::add(x_, x_);
        (void)op("add", {x_.get(), x_.get()});
        const auto parts = amp::split(x_, 2);
        EXPECT_EQ(live(), before + 4);
    }
    EXPECT_EQ(live(), before + 1);
    EXPECT_EQ(numbers_of(outlives.get()), numbers_of(op("add", {x_.get(), x_.get()})));
}

TEST_F(Cxx, TheWritingFormsGiveTheirTargetOnceMore) {
    const amp::tensor y = amp::full({4, 8}, 1.0), before = amp::clone(y);
    EXPECT_EQ(amp::add_(y, x_).get(), y.get());
    EXPECT_EQ(numbers_of(y.get()), numbers_of(amp::add(before, x_).get()));
    EXPECT_EQ(amp::mul_out(y, x_, x_).get(), y.get());
    EXPECT_EQ(numbers_of(y.get()), numbers_of(amp::mul(x_, x_).get()));
}

TEST_F(Cxx, GuardsOpenAndClose) {
    {
        const amp::autocast region(AMP_DEVICE_CPU, amp::autocast_options().with_dtype(AMP_F16));
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
        const amp::autocast off(AMP_DEVICE_CPU, amp::autocast_options().with_enabled(false));
        EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        const amp::label outer("model"), inner("head");
        EXPECT_STREQ(amp_label_path(), "model/head");
    }
    EXPECT_EQ(amp_autocast_nesting(), 0);
    EXPECT_STREQ(amp_label_path(), "");
    const amp::autocast region(AMP_DEVICE_CPU);
    EXPECT_EQ(amp::linear(x_, w_, b_).dtype(), AMP_BF16);
}

TEST_F(Cxx, ValuesComeAndGo) {
    const float values[] = {1, 2, 3, 4};
    const amp::tensor made = amp::from_data(values, AMP_F32, {2, 2});
    EXPECT_EQ(amp::read<double>(amp::t(made), AMP_F64), (std::vector<double>{1, 3, 2, 4}));
    EXPECT_EQ(made.repr(), "[2, 2] f32 cpu\n[[1., 2.],\n [3., 4.]]");
    EXPECT_EQ(amp::sum(made).item(), 10);
}

TEST_F(Cxx, AnErrorStandsAndGivesEmptyTensors) {
    const amp::tensor y = amp::relu(amp::mm(x_, x_));
    EXPECT_FALSE(y);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "[4, 8]"}));
    EXPECT_TRUE(amp::mm(x_, amp::t(x_))) << "cleared";
}

TEST_F(Cxx, WithExceptionsItIsThrown) {
    const size_t before = live();
    amp_status status = AMP_OK;
    const std::string sentence = what_mm_throws(x_.get(), &status);
    EXPECT_NE(sentence.find("mm: "), std::string::npos) << sentence;
    EXPECT_EQ(status, AMP_ERROR_INVALID);
    EXPECT_TRUE(no_error()) << "none stands";
    EXPECT_EQ(amp_autocast_nesting(), 0) << "the region closed";
    EXPECT_EQ(live(), before);
}
