// Scopes and ownership: one rule, and every way to the end of a block.
#include "amp_test.h"

#include <thread>

#include "scope_blocks.h"

using namespace amp_test;

namespace {

size_t live() {
    return amp_memory_statistics().live_tensors;
}

class Scopes : public Test {
  protected:
    void SetUp() override {
        before_ = live();
    }
    size_t before_ = 0;
};

// Outside of any scope.
class NoScope : public testing::Test {
  protected:
    void SetUp() override {
        before_ = live();
    }
    void TearDown() override {
        EXPECT_TRUE(no_error());
        EXPECT_EQ(live(), before_);
    }
    size_t before_ = 0;
};

} // namespace

TEST_F(Scopes, EndReleasesWhatWasMadeInside) {
    {
        Scope scope;
        amp_tensor *a = tensor(AMP_F32, {2});
        op("add", {a, a});
        EXPECT_EQ(live(), before_ + 2);
    }
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, NestAndReleaseInnermostFirst) {
    amp_tensor *outer = tensor(AMP_F32, {1}, {5});
    {
        Scope scope;
        amp_tensor *inner = op("add", {outer, outer});
        EXPECT_EQ(amp_item(inner), 10);
    }
    EXPECT_EQ(live(), before_ + 1);
    EXPECT_EQ(amp_item(outer), 5);
}

TEST_F(Scopes, TheBlockMacroInCpp) {
    amp_scope {
        tensor(AMP_F32, {2});
        EXPECT_EQ(live(), before_ + 1);
    }
    EXPECT_EQ(live(), before_);
    const auto returns = [] {
        amp_scope {
            return tensor(AMP_F32, {2}) != nullptr;
        }
        return false;
    };
    EXPECT_TRUE(returns());
    EXPECT_EQ(live(), before_);
    try {
        amp_scope {
            tensor(AMP_F32, {2});
            throw 1;
        }
    } catch (int) {
    }
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, TheBlockMacroInC) {
    EXPECT_STREQ(scope_blocks_failure(), nullptr);
}

TEST_F(Scopes, KeepMovesATensorOut) {
    amp_tensor *kept = nullptr;
    {
        Scope scope;
        kept = amp_keep(tensor(AMP_F32, {1}, {7}));
    }
    EXPECT_EQ(amp_item(kept), 7);
    EXPECT_EQ(live(), before_ + 1);
    amp_release(kept);
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, AKeptTensorWantsOneReleaseHoweverOftenItIsKept) {
    amp_tensor *kept = amp_keep(tensor(AMP_F32, {1}, {7}));
    EXPECT_EQ(amp_keep(kept), kept);
    amp_release(kept);
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, EachRetainWantsOneMoreRelease) {
    amp_tensor *kept = amp_keep(tensor(AMP_F32, {1}, {7}));
    EXPECT_EQ(amp_retain(kept), kept);
    EXPECT_EQ(amp_retain(nullptr), nullptr);
    amp_release(kept);
    EXPECT_EQ(amp_item(kept), 7);
    amp_release(kept);
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, OfSeveralOwnersTheScopeGoesLast) {
    amp_tensor *t = nullptr;
    {
        Scope scope;
        t = amp_retain(tensor(AMP_F32, {1}, {7}));
        amp_release(t);
        EXPECT_EQ(amp_item(t), 7) << "the scope's still";
        amp_retain(t);
    }
    EXPECT_EQ(amp_item(t), 7) << "the other owner's still";
    amp_release(t);
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, AKeptViewKeepsItsStorageAlive) {
    amp_tensor *view = nullptr;
    {
        Scope scope;
        amp_tensor *base = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
        view = amp_keep(op("select", {base, 0, 1}));
    }
    EXPECT_EQ(numbers_of(view), (std::vector<double>{3, 4}));
    amp_release(view);
}

TEST_F(Scopes, ReleaseInsideAScopeIsEarly) {
    amp_tensor *first = tensor(AMP_F32, {2}), *middle = tensor(AMP_F32, {2}), *last = tensor(AMP_F32, {2});
    amp_release(middle);
    amp_release(first);
    EXPECT_EQ(live(), before_ + 1);
    amp_release(last);
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, NullIsAllowedInKeepAndRelease) {
    EXPECT_EQ(amp_keep(nullptr), nullptr);
    amp_release(nullptr);
    amp_list_release({});
}

TEST_F(Scopes, ReleasingTwiceIsAnError) {
    amp_tensor *t = tensor(AMP_F32, {2});
    amp_release(t);
    amp_release(t);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"release", "released before"}));
    EXPECT_EQ(amp_keep(t), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"keep", "released before"}));
}

TEST_F(Scopes, AnErrorInsideLeavesTheScopeBalanced) {
    EXPECT_EQ(amp_scope_enter(), AMP_OK);
    amp_tensor *a = tensor(AMP_F32, {2, 2});
    EXPECT_EQ(op("mm", {a, tensor(AMP_F32, {3, 3})}), nullptr);
    EXPECT_EQ(amp_scope_enter(), AMP_ERROR_INVALID) << "it opens nevertheless";
    EXPECT_EQ(tensor(AMP_F32, {2}), nullptr);
    EXPECT_EQ(amp_scope_exit(), AMP_ERROR_INVALID);
    EXPECT_EQ(amp_scope_exit(), AMP_ERROR_INVALID) << "the status of the error that stands";
    EXPECT_EQ(live(), before_);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
}

TEST_F(Scopes, ResultsOfInPlaceFormsStayWithTheirOwner) {
    amp_tensor *a = tensor(AMP_F32, {2});
    {
        Scope scope;
        EXPECT_EQ(op("add_", {a, a}), a);
        EXPECT_EQ(op("mul_out", {a, a}, {{"out", a}}), a);
    }
    EXPECT_EQ(numbers_of(a), (std::vector<double>{4, 4}));
}

TEST_F(Scopes, AnArgumentThatComesBackHasAnOwnerOfItsOwn) {
    amp_tensor *a = tensor(AMP_F32, {2});
    {
        Scope scope;
        amp_tensor *same = op("contiguous", {a});
        EXPECT_NE(same, a);
        EXPECT_EQ(amp_data(same), amp_data(a)) << "the same elements";
    }
    EXPECT_EQ(numbers_of(a), (std::vector<double>{1, 1}));
}

TEST_F(Scopes, ListsBelongToTheScope) {
    amp_tensor *kept = nullptr;
    {
        Scope scope;
        amp_tensor *base = tensor(AMP_F32, {3, 2}, {1, 2, 3, 4, 5, 6});
        amp_unbind_args args = {};
        args.struct_size = sizeof args;
        args.input = base;
        const amp_tensor_list rows = amp_unbind_call(&args);
        ASSERT_EQ(rows.count, 3);
        kept = amp_keep(rows.items[2]);
    }
    EXPECT_EQ(numbers_of(kept), (std::vector<double>{5, 6}));
    amp_release(kept);
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, ThreadsHaveTheirOwn) {
    std::thread([&] {
        EXPECT_EQ(amp_scope_exit(), AMP_ERROR_INVALID) << "the scope of the main thread is not this one's";
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"scope", "exit without an open scope"}));
        Scope scope;
        tensor(AMP_F32, {2});
    }).join();
    EXPECT_EQ(live(), before_);
}

TEST_F(Scopes, AThousandDeep) {
    for (int i = 0; i < 1000; i++) {
        ASSERT_EQ(amp_scope_enter(), AMP_OK);
        tensor(AMP_F32, {1});
    }
    EXPECT_EQ(live(), before_ + 1000);
    for (int i = 0; i < 1000; i++) ASSERT_EQ(amp_scope_exit(), AMP_OK);
    EXPECT_EQ(live(), before_);
}

TEST_F(NoScope, TheCallerOwnsWhatIsReturned) {
    amp_tensor *a = tensor(AMP_F32, {2}), *sum = op("add", {a, a});
    amp_release(a);
    EXPECT_EQ(numbers_of(sum), (std::vector<double>{2, 2}));
    amp_release(sum);
}

TEST_F(NoScope, ListReleaseFreesTheListAndItsTensors) {
    amp_tensor *base = tensor(AMP_F32, {3, 2});
    amp_unbind_args args = {};
    args.struct_size = sizeof args;
    args.input = base;
    const amp_tensor_list rows = amp_unbind_call(&args);
    ASSERT_EQ(rows.count, 3);
    amp_list_release(rows);
    EXPECT_EQ(live(), before_ + 1);
    amp_release(base);
}

TEST_F(NoScope, AFailedOpLeavesNothing) {
    amp_tensor *a = tensor(AMP_F32, {2, 2}), *b = tensor(AMP_F32, {3, 3});
    Region region;
    EXPECT_EQ(op("mm", {a, b}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
    EXPECT_EQ(live(), before_ + 2);
    amp_release(a);
    amp_release(b);
}

TEST_F(NoScope, UnbalancedExitIsAnError) {
    EXPECT_EQ(amp_scope_exit(), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"scope", "exit without an open scope"}));
}
