// The first error stands, NULL propagates, and each sentence says what is wrong with what.
#include "amp_test.h"

#include <string>
#include <thread>
#include <vector>

#include "error_missing.h"

using namespace amp_test;

namespace {

class Errors : public Test {
  protected:
    static void fail(const char *name) {
        EXPECT_EQ(op(name, {}), nullptr);
    }

    amp_tensor *m23_ = tensor(AMP_F32, {2, 3}), *m45_ = tensor(AMP_F32, {4, 5});
};

} // namespace

TEST_F(Errors, NoneAtTheStart) {
    EXPECT_EQ(amp_last_status(), AMP_OK);
    EXPECT_STREQ(amp_last_error(), "");
}

TEST_F(Errors, TheFirstStandsUntilCleared) {
    EXPECT_EQ(op("mm", {m23_, m45_}), nullptr);
    const std::string first = amp_last_error();
    EXPECT_EQ(op("no_such_op", {}), nullptr);
    EXPECT_EQ(op("add", {m23_, m45_}), nullptr);
    EXPECT_EQ(amp_load_npy("no/such/file.npy"), nullptr);
    EXPECT_EQ(amp_last_error(), first);
    EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID);
    amp_clear_error();
    EXPECT_STREQ(amp_last_error(), "");
    EXPECT_NE(op("add", {m23_, m23_}), nullptr);
}

TEST_F(Errors, WhileOneStandsEveryOpReturnsNull) {
    EXPECT_EQ(op("mm", {m23_, m45_}), nullptr);
    EXPECT_EQ(op("add", {m23_, m23_}), nullptr) << "a correct call";
    EXPECT_EQ(tensor(AMP_F32, {2}), nullptr);
    float number = 0;
    EXPECT_EQ(amp_from_memory(&number, AMP_F32, 0, nullptr, nullptr, nullptr, nullptr), nullptr);
    int count = -1;
    EXPECT_EQ(amp_call_op("add", nullptr, 0, nullptr, 0, &count), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
}

TEST_F(Errors, NullPropagatesThroughNestedCalls) {
    amp_tensor *y = op("add", {op("mul", {op("mm", {m23_, m45_}), 2.0}), 1.0});
    EXPECT_EQ(y, nullptr);
    EXPECT_EQ(amp_keep(y), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "[2, 3]", "[4, 5]"}));
}

TEST_F(Errors, AFailedOptionalArgumentDoesNotBecomeAbsent) {
    amp_tensor *bias = amp_load_npy("no/such/bias.npy");
    EXPECT_EQ(op("linear", {m23_, m23_, bias}), nullptr) << "the bias did not silently vanish";
    EXPECT_TRUE(failed_with(AMP_ERROR_IO, {"no/such/bias.npy"}));
}

TEST_F(Errors, AreOfTheirThread) {
    EXPECT_EQ(op("mm", {m23_, m45_}), nullptr);
    std::thread([] {
        EXPECT_TRUE(no_error());
        Scope scope;
        EXPECT_NE(tensor(AMP_F32, {2}), nullptr);
        EXPECT_EQ(op("no_such_op", {}), nullptr);
    }).join();
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
}

TEST_F(Errors, AMissingTensorIsNamed) {
    EXPECT_EQ(op("mm", {m23_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "'mat2'", "missing"}));
    EXPECT_EQ(op("mm", {m23_, nullptr}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "'mat2'", "missing"}));
}

TEST_F(Errors, ShapesThatDoNotFitAreNamed) {
    EXPECT_EQ(op("mm", {m23_, m45_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "[2, 3] f32", "[4, 5] f32"}));
    EXPECT_EQ(op("add", {m23_, m45_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add", "[2, 3]", "[4, 5]"}));
    EXPECT_EQ(op("view", {m23_, AMP_DIMS(5)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view", "[2, 3]", "[5]"}));
    EXPECT_EQ(op("transpose", {m23_, 0, 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"transpose", "2"}));
}

TEST_F(Errors, AReleasedArgumentIsNamed) {
    amp_tensor *gone = tensor(AMP_F32, {2, 3});
    amp_release(gone);
    EXPECT_EQ(op("add", {m23_, gone}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add", "'other'", "released before"}));
    EXPECT_EQ(op("add_", {gone, m23_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_", "'input'", "released before"}));
    EXPECT_EQ(op("add_out", {m23_, m23_}, {{"out", gone}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_out", "'out'", "released before"}));
    EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{m23_, gone}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat", "'tensors'", "released before"}));
}

TEST_F(Errors, WritingWhereElementsShareMemoryIsRefused) {
    amp_tensor *expanded = op("expand", {tensor(AMP_F32, {1, 3}), AMP_DIMS(2, 3)});
    EXPECT_EQ(op("add_", {expanded, m23_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_", "share memory"}));
    EXPECT_EQ(op("add_out", {m23_, m23_}, {{"out", expanded}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_out", "share memory"}));
}

TEST_F(Errors, AnOutOfAnotherShapeIsRefused) {
    EXPECT_EQ(op("add_out", {m23_, m23_}, {{"out", m45_}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_out", "'out'", "[4, 5]", "[2, 3]"}));
    EXPECT_EQ(op("add_", {tensor(AMP_F32, {3}), m23_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_", "'input'", "[3]", "[2, 3]"}));
}

TEST_F(Errors, ALongSentenceIsCutNotOverrun) {
    const std::string name(5000, 'x');
    EXPECT_EQ(amp_call_op(name.c_str(), nullptr, 0, nullptr, 0, nullptr), AMP_ERROR_INVALID);
    EXPECT_LT(std::strlen(amp_last_error()), 1024u);
    amp_clear_error();
    EXPECT_EQ(amp_load_npy(name.c_str()), nullptr);
    EXPECT_LT(std::strlen(amp_last_error()), 1024u);
    amp_clear_error();
}

TEST_F(Errors, ControlCharactersDoNotReachTheTerminal) {
    EXPECT_EQ(op("evil\x1b[2J\nname", {}), nullptr);
    const std::string error = amp_last_error();
    for (char c : error) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << error;
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"evil"}));
}

TEST_F(Errors, EveryStatusHasAName) {
    for (int s = AMP_OK; s <= AMP_ERROR_INTERNAL; s++) {
        EXPECT_STRNE(amp_status_name(amp_status(s)), "?");
    }
    EXPECT_STREQ(amp_status_name(static_cast<amp_status>(99)), "?");
}

TEST_F(Errors, CallsThatReturnAStatusReturnTheOneThatStands) {
    EXPECT_EQ(op("mm", {m23_, m45_}), nullptr);
    const uint64_t version = amp_tensor_version(m23_);
    EXPECT_EQ(amp_tensor_mark_dirty(m23_), AMP_ERROR_INVALID);
    EXPECT_GT(amp_tensor_version(m23_), version) << "yet it did its work";
    EXPECT_EQ(amp_tensor_mark_parameter(m23_), AMP_ERROR_INVALID);
    EXPECT_EQ(amp_tensor_set_requires_grad(m23_, true), AMP_ERROR_INVALID);
    EXPECT_TRUE(amp_tensor_requires_grad(m23_));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
}

TEST_F(Errors, SettingsAreMadeWhileAnErrorStandsAndReturnTheirOwnStatus) {
    const int threads = amp_get_num_threads();
    EXPECT_EQ(op("mm", {m23_, m45_}), nullptr);
    EXPECT_EQ(amp_autocast_override("mm", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    EXPECT_EQ(amp_autocast_set_table("torch"), AMP_OK);
    EXPECT_EQ(amp_set_num_threads(2), AMP_OK);
    EXPECT_EQ(amp_get_num_threads(), 2);
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
    EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
    EXPECT_NE(amp_set_num_threads(0), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"})) << "the first error's sentence";
}

TEST_F(Errors, AnUnknownOpSuggestsANearOneWithoutPyTorchsPrefixes) {
    const struct {
        const char *name, *near;
    } cases[] = {{"liner", "linear"},
                 {"sofmax", "softmax"},
                 {"torch.nn.functional.relu", "relu"},
                 {"aten::addmm", "addmm"},
                 {"torch.bmm", "bmm"},
                 {"aten::add.Tensor", "add"},
                 {"amp_layernorm", "layer_norm"}};
    for (const auto &c : cases) {
        EXPECT_EQ(op(c.name, {}), nullptr);
        EXPECT_TRUE(
            failed_with(AMP_ERROR_INVALID, {"call_op: there is no op '", c.name, " (`amp info --ops` lists them)",
                                            "did you mean '" + std::string(c.near) + "'"}));
    }
    EXPECT_EQ(op("zq", {}), nullptr);
    EXPECT_EQ(std::string(amp_last_error()).find("did you mean"), std::string::npos) << amp_last_error();
    amp_clear_error();
}

TEST_F(Errors, AFormThatIsNotThereNamesTheOnesThatAre) {
    EXPECT_EQ(op("mm_", {m23_, m23_}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm_: there is no such form of mm, which has the form mm_out"}));
    EXPECT_EQ(op("layer_norm_", {m23_, AMP_DIMS(3)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"layer_norm_: there is no such form of layer_norm, which has "}));
}

// ---- Required numbers -------------------------------------------------------------------------------------------------

TEST_F(Errors, ARequiredNumberThatIsLeftOutIsMissing) {
    EXPECT_EQ(topk_without_k(m23_), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"topk: the argument 'k' is missing"}));
    EXPECT_EQ(narrow_without_start(m23_), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"narrow: the argument 'start' is missing"}));
    EXPECT_EQ(quantile_without_q(m23_), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"quantile", "'q' is missing"}));
    EXPECT_NE(softmax_by_name(m23_), nullptr) << amp_last_error();
}

TEST_F(Errors, ARequiredNumberIsMissingInAStructOfCxx) {
    amp_softmax_args args{};
    args.input = m23_;
    EXPECT_EQ(amp_softmax_call(&args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"softmax: the argument 'dim' is missing"}));
    args.dim = 0;
    EXPECT_NE(amp_softmax_call(&args), nullptr) << amp_last_error();
}

// ---- The hook ---------------------------------------------------------------------------------------------------------

namespace {

struct Told {
    std::vector<std::string> sentences;
    amp_status status = AMP_OK;
};

void tell(amp_status status, const char *sentence, void *context) {
    auto *told = static_cast<Told *>(context);
    told->sentences.emplace_back(sentence);
    told->status = status;
}

class ErrorHook : public Errors {
  protected:
    void SetUp() override {
        amp_set_error_hook(tell, &told_);
    }
    void TearDown() override {
        amp_set_error_hook(nullptr, nullptr);
        Errors::TearDown();
    }

    Told told_;
};

} // namespace

TEST_F(ErrorHook, IsCalledOnceForTheErrorThatStands) {
    EXPECT_NE(op("add", {m23_, m23_}), nullptr);
    EXPECT_TRUE(told_.sentences.empty()) << "nothing failed";
    EXPECT_EQ(op("mm", {m23_, m45_}), nullptr);
    EXPECT_EQ(op("no_such_op", {}), nullptr);
    ASSERT_EQ(told_.sentences.size(), 1u);
    EXPECT_EQ(told_.sentences[0], amp_last_error());
    EXPECT_EQ(told_.status, AMP_ERROR_INVALID);
    amp_clear_error();
    EXPECT_EQ(op("no_such_op", {}), nullptr);
    EXPECT_EQ(told_.sentences.size(), 2u) << "an error after a clear is a first one";
    amp_clear_error();
}

TEST_F(ErrorHook, HearsOfOtherThreads) {
    std::thread([] {
        EXPECT_EQ(amp_load_npy("no/such/file.npy"), nullptr);
        amp_clear_error();
    }).join();
    ASSERT_EQ(told_.sentences.size(), 1u);
    EXPECT_EQ(told_.status, AMP_ERROR_IO);
}

TEST_F(ErrorHook, GoesWithNull) {
    amp_set_error_hook(nullptr, nullptr);
    EXPECT_EQ(op("mm", {m23_, m45_}), nullptr);
    EXPECT_TRUE(told_.sentences.empty());
    amp_clear_error();
}
