// What of distributed training can be seen in one process: a group of one, mistakes, memory that ends. (ranks/ has the
// rest.)
#include "internals.h"

#include <unistd.h>

#include <set>

#include "amp/distributed.h"
#include "amp/grad.h"
#include "ending_memory.h"

using namespace amp_test;

namespace {

amp_data_parallel_args args_of(amp_parameters *p) {
    amp_data_parallel_args a = {};
    a.struct_size = sizeof a;
    a.parameters = p;
    return a;
}

amp_status go_back(amp_tensor *loss, amp_data_parallel *ddp = nullptr) {
    amp_backward_args a = {};
    a.struct_size = sizeof a;
    a.loss = loss;
    return ddp ? amp_data_parallel_backward_call(ddp, &a) : amp_backward_call(&a);
}

class Distributed : public Test {
  protected:
    Distributed() {
        p_ = amp_parameters_create();
        w_ = amp_parameters_add(p_, "w", random_tensor(AMP_F32, {3, 4}, 1));
        b_ = amp_parameters_add(p_, "b", random_tensor(AMP_F32, {3}, 2));
        half_ = amp_parameters_add(p_, "half", random_tensor(AMP_BF16, {3}, 3));
        wide_ = amp_parameters_add(p_, "wide", random_tensor(AMP_F64, {3}, 4));
        unused_ = amp_parameters_add(p_, "unused", random_tensor(AMP_F32, {0, 5}, 4));
        x_ = random_tensor(AMP_F32, {2, 4}, 5);
    }
    void TearDown() override {
        amp_data_parallel_destroy(ddp_);
        amp_parameters_destroy(p_);
        Test::TearDown();
    }
    void make() {
        const amp_data_parallel_args a = args_of(p_);
        ddp_ = amp_data_parallel_create_call(&a);
        ASSERT_TRUE(ddp_) << amp_last_error();
    }
    amp_tensor *loss() const {
        amp_tensor *y = op("linear", {x_, w_, b_});
        y = op("mul", {op("mul", {y, op("to", {half_, AMP_F32})}), op("to", {wide_, AMP_F32})});
        return op("sum", {op("mul", {y, y})});
    }
    std::vector<std::vector<double>> gradients() const {
        std::vector<std::vector<double>> all;
        for (int64_t i = 0; i < amp_parameters_count(p_); i++) {
            const amp_tensor *g = amp_tensor_grad(amp_parameters_at(p_, i));
            all.push_back(g ? numbers_of(g) : std::vector<double>{-99});
        }
        return all;
    }

    amp_parameters *p_;
    amp_tensor *w_, *b_, *half_, *wide_, *unused_, *x_;
    amp_data_parallel *ddp_ = nullptr;
};

TEST_F(Distributed, AProcessByItselfIsRank0Of1) {
    EXPECT_EQ(amp_distributed_rank(), 0);
    EXPECT_EQ(amp_distributed_size(), 1);
    EXPECT_EQ(amp_distributed_barrier(), AMP_OK);
    const std::vector<double> before = numbers_of(w_);
    EXPECT_EQ(amp_distributed_broadcast(w_, 0), AMP_OK);
    EXPECT_EQ(numbers_of(w_), before);
    amp_tensor *t = tensor(AMP_I64, {2}, {3, 4});
    EXPECT_EQ(amp_distributed_all_reduce(t), AMP_OK);
    EXPECT_EQ(numbers_of(t), (std::vector<double>{3, 4}));
    EXPECT_EQ(amp_distributed_end(), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"distributed_end: there was no amp_distributed_init"}));
}

TEST_F(Distributed, LaunchersAreKnownByTheEnvironment) {
    for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK", "MV2_COMM_WORLD_SIZE"}) {
        EXPECT_FALSE(amp_distributed_is_launched()) << "these tests are not for mpirun";
        setenv(name, "1", 1);
        EXPECT_TRUE(amp_distributed_is_launched()) << name;
        unsetenv(name);
    }
}

TEST_F(Distributed, BackwardHasTheBitsOfAPlainOne) {
    EXPECT_EQ(go_back(loss()), AMP_OK);
    const auto once = gradients();
    EXPECT_EQ(go_back(loss()), AMP_OK);
    const auto twice = gradients();
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    make();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), once);
    EXPECT_EQ(amp_tensor_grad(unused_), nullptr);
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(half_)), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(amp_tensor_grad(wide_)), AMP_F64);
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), twice);
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    EXPECT_EQ(go_back(loss()), AMP_OK); // this rank's own …
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), twice); // … is part of its contribution
}

TEST_F(Distributed, MinusZeroStays) {
    make();
    amp_tensor *zero = tensor(AMP_F32, {2, 4}, {-0.0});
    EXPECT_EQ(go_back(op("sum", {op("mul", {op("narrow", {w_, 0, 0, 2}), zero})}), ddp_), AMP_OK);
    EXPECT_TRUE(std::signbit(numbers_of(amp_tensor_grad(w_))[0]));
}

TEST_F(Distributed, GradientsLiveLongerThanTheDdp) {
    make();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK);
    amp_tensor *kept = amp_retain(amp_tensor_grad(w_));
    const std::vector<double> numbers = numbers_of(kept);
    amp_data_parallel_destroy(ddp_);
    ddp_ = nullptr;
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    EXPECT_EQ(go_back(loss()), AMP_OK); // no hook is left
    EXPECT_EQ(numbers_of(kept), numbers);
    EXPECT_EQ(numbers_of(amp_tensor_grad(w_)), numbers);
    amp_release(kept);
}

TEST_F(Distributed, SumsAreInNoRegion) {
    make();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK);
    const auto want = gradients();
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    amp_tensor *l = loss();
    const Region region;
    EXPECT_EQ(go_back(l, ddp_), AMP_OK);
    EXPECT_EQ(gradients(), want);
}

TEST_F(Distributed, ClippedAndScaledInPlace) {
    make();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK);
    const std::vector<double> before = numbers_of(amp_tensor_grad(b_));
    amp_clip_grad_norm_args a = {};
    a.struct_size = sizeof a;
    a.parameters = p_;
    a.max_norm = 1e-3;
    EXPECT_GT(amp_clip_grad_norm_call(&a), 1e-3) << amp_last_error();
    EXPECT_LT(std::fabs(numbers_of(amp_tensor_grad(b_))[0]), std::fabs(before[0]));
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error(); // a reduced gradient it is all the same
    expect_near(amp_tensor_grad(b_), before, 2e-3);
}

TEST_F(Distributed, MistakesInABackward) {
    make();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK);
    const auto before = gradients();
    const auto unchanged = [&](const char *words, amp_status status = AMP_ERROR_INVALID) {
        EXPECT_TRUE(failed_with(status, {"data_parallel_backward: ", words}));
        EXPECT_EQ(gradients(), before);
    };
    EXPECT_NE(amp_data_parallel_backward_call(ddp_, nullptr), AMP_OK);
    unchanged("the struct is NULL");
    amp_backward_args a = {};
    a.struct_size = sizeof a;
    a.loss = loss();
    a.create_graph = true;
    EXPECT_NE(amp_data_parallel_backward_call(ddp_, &a), AMP_OK);
    unchanged("create_graph", AMP_ERROR_NOT_IMPLEMENTED);
    EXPECT_NE(go_back(nullptr, ddp_), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"backward: result 0 is NULL"}));
    EXPECT_EQ(gradients(), before);
    EXPECT_EQ(amp_data_parallel_backward_call(nullptr, &a), AMP_ERROR_INVALID);
    unchanged("the ddp is NULL");
    EXPECT_EQ(go_back(loss()), AMP_OK);
    const auto mixed = gradients();
    EXPECT_NE(go_back(loss(), ddp_), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"a plain amp_backward has added to the reduced gradient of 'wide'"}));
    EXPECT_EQ(gradients(), mixed);
    EXPECT_NE(go_back(loss(), ddp_), AMP_OK); // as before
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"a plain amp_backward has added"}));
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), before);
}

TEST_F(Distributed, AmpGradLeavesGradientsAlone) {
    make();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK);
    amp_grad_args a = {};
    a.struct_size = sizeof a;
    amp_tensor *output = loss();
    a.outputs = {&output, 1, nullptr};
    a.inputs = {&w_, 1, nullptr};
    EXPECT_EQ(amp_grad_call(&a).count, 1);
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
}

// It adds in other memory than that of the gradient which is there.
TEST_F(Distributed, APlainBackwardThatIsRecordedIsSeenToo) {
    make();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK);
    amp_backward_args a = {};
    a.struct_size = sizeof a;
    a.loss = loss();
    a.create_graph = true;
    EXPECT_EQ(amp_backward_call(&a), AMP_OK) << amp_last_error();
    for (int i = 0; i < 2; i++) {
        EXPECT_NE(go_back(loss(), ddp_), AMP_OK);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"a plain amp_backward has added to the reduced gradient of"}));
    }
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    EXPECT_EQ(go_back(loss()), AMP_OK);
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK); // gradients that are recorded hold what they were made of
}

amp_tensor *doubled(void *, amp_tensor *gradient) {
    return op("mul", {gradient, amp_float(2)});
}

TEST_F(Distributed, HooksOfTheProgramComeFirst) {
    EXPECT_EQ(amp_tensor_register_hook(b_, doubled, nullptr), AMP_OK);
    make();
    EXPECT_EQ(amp_tensor_register_hook(w_, doubled, nullptr), AMP_OK);
    EXPECT_EQ(go_back(loss()), AMP_OK);
    const auto want = gradients();
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), want);
}

TEST_F(Distributed, ParametersAreFrozenAndTrainedAgain) {
    EXPECT_EQ(go_back(loss()), AMP_OK);
    const auto all = gradients();
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    EXPECT_EQ(amp_tensor_set_requires_grad(b_, false), AMP_OK);
    make();
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_tensor_grad(b_), nullptr);
    EXPECT_EQ(numbers_of(amp_tensor_grad(w_)), all[0]);
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    EXPECT_EQ(amp_tensor_set_requires_grad(b_, true), AMP_OK);
    amp_tensor *before = loss();
    EXPECT_EQ(amp_tensor_set_requires_grad(w_, false), AMP_OK);
    EXPECT_EQ(amp_tensor_set_requires_grad(w_, true), AMP_OK);
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), all);
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    amp_data_parallel_destroy(ddp_);
    ddp_ = nullptr;
    EXPECT_EQ(go_back(before), AMP_OK) << "a record from before, whose leaves no ddp asks any more";
}

amp_status twice(void *context, amp_tensor *const *in, amp_tensor **out) {
    out[0] = op("linear", {in[0], static_cast<amp_tensor *>(context)});
    return amp_last_status();
}

TEST_F(Distributed, AGradientThatArrivesTwice) {
    const auto segments = [&] {
        amp_tensor *square = amp_parameters_find(p_, "square"), *h = x_;
        amp_tensor_set_requires_grad(x_, true);
        for (int i = 0; i < 2; i++) EXPECT_EQ(amp_checkpoint(twice, square, &h, 1, &h, 1), AMP_OK) << amp_last_error();
        return op("sum", {h});
    };
    amp_parameters_add(p_, "square", random_tensor(AMP_F32, {4, 4}, 9));
    make();
    EXPECT_NE(go_back(segments(), ddp_), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"the gradient of 'square' arrives twice; pass .overlap"}));
    EXPECT_EQ(amp_tensor_grad(amp_parameters_find(p_, "square")), nullptr);
    EXPECT_EQ(go_back(segments()), AMP_OK) << amp_last_error();
    const auto want = gradients();
    EXPECT_EQ(amp_parameters_zero_grad(p_), AMP_OK);
    amp_data_parallel_destroy(ddp_);
    amp_data_parallel_args a = args_of(p_);
    a.overlap = amp_opt_bool(false);
    ddp_ = amp_data_parallel_create_call(&a);
    EXPECT_EQ(go_back(segments(), ddp_), AMP_OK) << amp_last_error();
    EXPECT_EQ(gradients(), want);
}

TEST_F(Distributed, MistakesOfMaking) {
    const auto fails = [](const amp_data_parallel_args &a, amp_status status, const char *words) {
        EXPECT_EQ(amp_data_parallel_create_call(&a), nullptr);
        EXPECT_TRUE(failed_with(status, {"data_parallel_create: ", words}));
    };
    amp_data_parallel_args a = args_of(nullptr);
    fails(a, AMP_ERROR_INVALID, "the list of parameters is NULL");
    a = args_of(p_);
    a.dtype = AMP_F16;
    fails(a, AMP_ERROR_DTYPE, "dtype is f16; expected f32 or bf16");
    a = args_of(p_);
    a.reduction = amp_gradient_reduction(7);
    fails(a, AMP_ERROR_INVALID, "there is no reduction 7");
    a = args_of(p_);
    a.bucket_bytes = amp_opt_int(0);
    fails(a, AMP_ERROR_INVALID, "bucket_bytes is 0; expected at least 1");
    a = args_of(p_);
    a.bucket_bytes.value = 5;
    fails(a, AMP_ERROR_INVALID, "'bucket_bytes' is a bare value");
    amp_parameters_add(p_, "turned", op("t", {random_tensor(AMP_F32, {3, 4}, 1)}));
    fails(args_of(p_), AMP_ERROR_INVALID, "parameter 'turned', [4, 3] f32, is not contiguous");
    amp_parameters *other = amp_parameters_create();
    fails(args_of(other), AMP_ERROR_INVALID, "the list of parameters is empty");
    amp_parameters_add(other, "c", random_tensor(AMP_C64, {2}, 1));
    fails(args_of(other), AMP_ERROR_DTYPE, "parameter 'c' is [2] c64; complex gradients are not reduced");
    amp_parameters_destroy(other);
    other = amp_parameters_create();
    amp_tensor *lent = amp_parameters_add_buffer(other, "lent", random_tensor(AMP_F32, {2}, 1));
    amp_parameters_add(other, "own", random_tensor(AMP_F32, {2}, 1));
    lent->storage->read_only = true;
    fails(args_of(other), AMP_ERROR_INVALID, "buffer 'lent'");
    lent->storage->read_only = false;
    amp_parameters_destroy(other);
    EXPECT_EQ(amp_data_parallel_create_call(nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data_parallel_create: the struct is NULL"}));
    amp_data_parallel_destroy(nullptr);
}

TEST_F(Distributed, MistakesOfTheRest) {
    make();
    EXPECT_NE(amp_distributed_broadcast(nullptr, 0), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"distributed_broadcast: the tensor is NULL"}));
    EXPECT_NE(amp_distributed_broadcast(x_, 1), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"distributed_broadcast: there is no rank 1; there are 1"}));
    EXPECT_NE(amp_distributed_all_reduce(op("t", {x_})), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"distributed_all_reduce: the tensor, [4, 2] f32, is not contiguous"}));
    EXPECT_NE(amp_distributed_all_reduce(tensor(AMP_BOOL, {2})), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"distributed_all_reduce: the tensor is [2] bool; expected numbers"}));
    EXPECT_NE(amp_data_parallel_get_stats(ddp_, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data_parallel_get_stats: the struct is NULL"}));
    EXPECT_NE(amp_data_parallel_broadcast(nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data_parallel_broadcast: the ddp is NULL"}));
    EXPECT_EQ(amp_data_parallel_broadcast(ddp_), AMP_OK);
    EXPECT_NE(amp_data_parallel_shard(ddp_, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data_parallel_shard: the optimizer is NULL"}));
    EXPECT_NE(amp_data_parallel_save(ddp_, nullptr, "x"), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data_parallel_save: the struct is NULL"}));
    const amp_training training = {sizeof training, p_, {}, {}, {}, {}, {}, nullptr};
    EXPECT_NE(amp_data_parallel_load(ddp_, &training, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data_parallel_load: the path is NULL"}));
}

TEST_F(Distributed, SharedOutAmongOne) {
    make();
    amp_optimizer_args a = {};
    a.struct_size = sizeof a;
    a.parameters = p_;
    amp_optimizer *o = amp_optimizer_create(AMP_ADAMW, &a);
    EXPECT_EQ(amp_data_parallel_shard(ddp_, o), AMP_OK) << amp_last_error();
    EXPECT_NE(amp_data_parallel_shard(ddp_, o), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data_parallel_shard: the optimizer is sharded already"}));
    EXPECT_EQ(go_back(loss(), ddp_), AMP_OK);
    const std::vector<double> before = numbers_of(w_);
    EXPECT_EQ(amp_optimizer_step(o), AMP_OK) << amp_last_error();
    EXPECT_NE(numbers_of(w_), before);
    amp_parameters *others = amp_parameters_create();
    amp_parameters_add(others, "other", random_tensor(AMP_F32, {2}, 1));
    a.parameters = others;
    EXPECT_NE(amp_optimizer_add_group_call(o, &a), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"optimizer_add_group: the optimizer is sharded"}));
    amp_optimizer_destroy(o);
    o = amp_optimizer_create(AMP_ADAMW, &a);
    EXPECT_NE(amp_data_parallel_shard(ddp_, o), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data_parallel_shard: the ddp has no parameter 'other'"}));
    amp_optimizer_destroy(o);
    amp_parameters_destroy(others);
}

// Everything of a step, from the beginning; what was not made is NULL, and an error stands then.
void whole_step() {
    amp_parameters *p = amp_parameters_create();
    amp_tensor *w = amp_parameters_add(p, "w", random_tensor(AMP_F32, {3, 4}, 1));
    amp_tensor *half = amp_parameters_add(p, "half", random_tensor(AMP_BF16, {3}, 2));
    amp_data_parallel_args args = args_of(p);
    args.dtype = AMP_BF16;
    args.bucket_bytes = amp_opt_int(16);
    amp_data_parallel *ddp = amp_data_parallel_create_call(&args);
    amp_optimizer_args options = {};
    options.struct_size = sizeof options;
    options.parameters = p;
    options.master_weights = true;
    amp_optimizer *o = amp_optimizer_create(AMP_ADAMW, &options);
    if (ddp && o) (void)amp_data_parallel_shard(ddp, o);
    if (ddp && o) {
        amp_tensor *y = op("mul", {op("linear", {random_tensor(AMP_F32, {2, 4}, 5), w}), op("to", {half, AMP_F32})});
        amp_tensor *loss = op("sum", {y});
        (void)go_back(loss, ddp);
        EXPECT_EQ(amp_last_status() == AMP_OK, amp_tensor_grad(w) != nullptr);
        (void)amp_optimizer_step(o);
    }
    amp_optimizer_destroy(o);
    amp_data_parallel_destroy(ddp);
    amp_parameters_destroy(p);
}

void own_samples() {
    amp_distributed_sampler_args a = {};
    a.struct_size = sizeof a;
    a.count = 5;
    a.batch = amp_opt_int(2);
    (void)amp_distributed_sampler_call(&a);
}

void sum_of_all() {
    amp_tensor *t = tensor(AMP_F32, {5});
    if (t) (void)amp_distributed_all_reduce(t);
}

TEST_F(Distributed, NothingIsLeftWhereMemoryEnds) {
    const auto calls = {whole_step, own_samples, sum_of_all};
    for (const auto call : calls) { // what a process makes once, it keeps
        const Scope scope;
        call();
    }
    EndingMemory memory;
    for (const auto call : calls) memory.until_it_works(call);
}

// ---- The sampler
// ------------------------------------------------------------------------------------------------------
amp_distributed_sampler_args samples(int64_t count, int64_t epoch = 0) {
    amp_distributed_sampler_args a = {};
    a.struct_size = sizeof a;
    a.count = count;
    a.epoch = epoch;
    return a;
}

TEST_F(Distributed, SamplerOfOneHasAll) {
    amp_distributed_sampler_args a = samples(11);
    const std::vector<double> first = numbers_of(amp_distributed_sampler_call(&a));
    EXPECT_EQ(numbers_of(amp_distributed_sampler_call(&a)), first);
    EXPECT_EQ(std::set<double>(first.begin(), first.end()).size(), 11u);
    a.epoch = 1;
    EXPECT_NE(numbers_of(amp_distributed_sampler_call(&a)), first);
    a.shuffle = amp_opt_bool(false);
    EXPECT_EQ(numbers_of(amp_distributed_sampler_call(&a))[10], 10);
    a.batch = amp_opt_int(4);
    EXPECT_EQ(numbers_of(amp_distributed_sampler_call(&a)), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0}));
    a.drop_last = true;
    EXPECT_EQ(numbers_of(amp_distributed_sampler_call(&a)), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
    a.count = 2;
    EXPECT_EQ(amp_distributed_sampler_call(&a), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"distributed_sampler: 2 samples are less than a round of 4"}));
    a.drop_last = false;
    EXPECT_EQ(numbers_of(amp_distributed_sampler_call(&a)), (std::vector<double>{0, 1, 0, 1}));
    a = samples(0);
    EXPECT_EQ(amp_distributed_sampler_call(&a), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"distributed_sampler: count is 0"}));
}

} // namespace
