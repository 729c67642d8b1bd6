// L-BFGS follows the recorded trajectories of PyTorch's; what it knows, there and back; failures leave parameters as they were.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "amp/grad.h"
#include "amp/lbfgs.h"
#include "amp/training.h"
#include "ending_memory.h"
#include "recorded.h"

using namespace amp_test;

namespace {

// 0.5 x'Ax - b'x + 0.05 sum x^4, of parameters that lie in a row.
struct Problem {
    amp_parameters *p;
    amp_tensor *a, *b;
    int calls = 0, fails_at = -1;
};

// A scope that memory may have no room for.
struct AnyScope {
    AnyScope() {
        (void)amp_scope_enter();
    }
    ~AnyScope() {
        (void)amp_scope_exit();
    }
    AnyScope(const AnyScope &) = delete;
    AnyScope &operator=(const AnyScope &) = delete;
};

double closure(void *context) {
    auto *problem = static_cast<Problem *>(context);
    const AnyScope scope;
    EXPECT_TRUE(amp_grad_is_enabled());
    amp_parameters_zero_grad(problem->p);
    std::vector<amp_tensor *> parts;
    for (int64_t i = 0; i < amp_parameters_count(problem->p); i++)
        parts.push_back(op("reshape", {amp_parameters_at(problem->p, i), AMP_DIMS(-1)}));
    amp_tensor *x = op("to", {op("cat", {parts}), amp_tensor_dtype(problem->a)});
    if (problem->calls++ == problem->fails_at) op("mm", {x, x});
    amp_tensor *x2 = op("mul", {x, x});
    amp_tensor *loss =
        op("sub", {op("mul", {op("dot", {x, op("mv", {problem->a, x})}), 0.5}), op("dot", {problem->b, x})});
    loss = op("add", {loss, op("mul", {op("sum", {op("mul", {x2, x2})}), 0.05})});
    amp_backward_args args = {};
    args.struct_size = sizeof args;
    args.loss = loss;
    (void)amp_backward_call(&args);
    return loss ? amp_item(loss) : 0;
}

class Lbfgs : public Test {
  protected:
    void TearDown() override {
        drop();
        Test::TearDown();
    }
    void drop() {
        for (amp_parameters *p : made_) amp_parameters_destroy(p);
        made_.clear();
    }
    // A well-behaved problem of 6 numbers, as parameters of these shapes.
    Problem problem(const std::vector<Shape> &shapes = {{2, 2}, {2}}, amp_dtype dtype = AMP_F32) {
        amp_parameters *p = amp_parameters_create();
        made_.push_back(p);
        for (const Shape &shape : shapes)
            EXPECT_TRUE(amp_parameters_add(p, ("p" + std::to_string(amp_parameters_count(p))).c_str(),
                                           random_tensor(dtype, shape, 3)));
        std::vector<double> a(36, 0.1);
        for (size_t i = 0; i < 6; i++) a[7 * i] = double(i + 1);
        const amp_dtype wide = dtype == AMP_F64 ? AMP_F64 : AMP_F32;
        return {p, tensor(wide, {6, 6}, a), tensor(wide, {6}, {1, -1, 2, -2, 3, -3})};
    }
    static amp_lbfgs *make(const Problem &problem, amp_line_search search = AMP_STRONG_WOLFE, int64_t max_iter = 4,
                           int64_t history = 3) {
        amp_lbfgs_args args = {};
        args.struct_size = sizeof args;
        args.parameters = problem.p;
        args.max_iter = amp_opt_int(max_iter);
        args.history_size = amp_opt_int(history);
        args.line_search = search;
        amp_lbfgs *l = amp_lbfgs_create(&args);
        EXPECT_TRUE(l) << amp_last_error();
        return l;
    }
    static std::vector<double> numbers(const Problem &problem) {
        std::vector<double> all;
        for (int64_t i = 0; i < amp_parameters_count(problem.p); i++) {
            for (double n : numbers_of(amp_parameters_at(problem.p, i))) all.push_back(n);
        }
        return all;
    }
    static std::string error() {
        const std::string sentence = amp_last_error();
        amp_clear_error();
        return sentence;
    }

  private:
    std::vector<amp_parameters *> made_;
};

// One recorded case; the root mean square errors, ours and PyTorch's.
std::pair<double, double> follow(const Recorded &file, const json_t *json) {
    const std::vector<double> first = file.numbers(text(json, "x")), b = file.numbers(text(json, "b"));
    const int64_t n = int64_t(first.size());
    amp_parameters *p = amp_parameters_create();
    EXPECT_TRUE(amp_parameters_add(p, "x", tensor(AMP_F32, {n}, first)));
    // The loss in f64: in f32 its last bit decides whether an iteration is the last (on other CPUs PyTorch's own f32 run of case 0 calls the
    // closure 11 times, not 10).
    Problem problem = {p, tensor(AMP_F64, {n, n}, file.numbers(text(json, "A"))), tensor(AMP_F64, {n}, b)};
    const json_t *options = json_object_get(json, "options"), *after = json_object_get(json, "after");
    amp_lbfgs_args args = {};
    args.struct_size = sizeof args;
    args.parameters = p;
    args.lr = amp_opt_float(number(options, "lr"));
    args.max_iter = amp_opt_int(integer(options, "max_iter"));
    if (integer(options, "history_size")) args.history_size = amp_opt_int(integer(options, "history_size"));
    if (text(options, "line_search_fn") == "strong_wolfe") args.line_search = AMP_STRONG_WOLFE;
    amp_lbfgs *l = amp_lbfgs_create(&args);
    EXPECT_TRUE(l) << amp_last_error();
    const std::vector<double> want = file.numbers(text(after, "tensor")),
                              losses = list_of(json_object_get(json, "losses"));
    double square = 0;
    for (size_t step = 0; step < losses.size(); step++) {
        EXPECT_NEAR(amp_lbfgs_step(l, closure, &problem), losses[step], 2e-6 * (1 + std::fabs(losses[step])));
        EXPECT_EQ(amp_last_status(), AMP_OK) << amp_last_error();
        const std::vector<double> got = numbers_of(amp_parameters_at(p, 0));
        for (size_t i = 0; i < got.size(); i++) {
            const double truth = want[step * got.size() + i], off = got[i] - truth;
            EXPECT_LE(std::fabs(off), number(after, "atol") + number(after, "rtol") * std::fabs(truth))
                << "[" << i << "] after step " << step << ": " << got[i] << ", not " << truth;
            square += off * off / double(want.size());
        }
    }
    EXPECT_EQ(amp_lbfgs_evaluations(l), problem.calls);
    EXPECT_EQ(problem.calls, integer(json, "function_calls"));
    amp_lbfgs_destroy(l);
    amp_parameters_destroy(p);
    return {std::sqrt(square), number(after, "torch_rms")};
}

TEST_F(Lbfgs, FollowsTheRecordedTrajectories) {
    Recorded file("optimizers");
    if (!file) GTEST_SKIP() << "neither AMP_GOLDEN_TRAIN nor AMP_GOLDEN names a folder of recorded training";
    int cases = 0;
    for (size_t i = 0; i < json_array_size(file.cases()); i++) {
        const json_t *json = json_array_get(file.cases(), i);
        if (text(json, "optimizer") != "lbfgs") continue;
        SCOPED_TRACE(text(json, "name"));
        const Scope scope;
        const auto [ours, theirs] = follow(file, json);
        printf("%s: error %.2f of PyTorch's\n", text(json, "name").c_str(), ours / theirs);
        cases++;
    }
    EXPECT_GT(cases, 0);
}

TEST_F(Lbfgs, ComesToTheLeastInAnyDtypeAndShape) {
    for (const amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        for (const amp_line_search search : {AMP_LINE_SEARCH_NONE, AMP_STRONG_WOLFE}) {
            Problem task = problem({{2, 2}, {}, {1}}, dtype);
            amp_lbfgs *l = make(task, search, 20, 10);
            for (int step = 0; step < 8; step++) amp_lbfgs_step(l, closure, &task);
            EXPECT_EQ(amp_last_status(), AMP_OK) << amp_last_error();
            (void)closure(&task);
            double slope = 0;
            for (int64_t i = 0; i < 3; i++) {
                for (double n : numbers_of(amp_tensor_grad(amp_parameters_at(task.p, i)))) slope += std::fabs(n);
            }
            // A step ends where the slope along the direction is above −1e-9, or what a rounding of the loss hides: √(6 · 1e-9)
            // for curvatures up to 6, and √(6 · 2⁻²²) in f32, for each of 6 elements.
            EXPECT_LT(slope, dtype == AMP_F64   ? 5e-4
                             : dtype == AMP_F32 ? 7e-3
                                                : 0.2)
                << amp_dtype_name(dtype) << search;
            amp_lbfgs_destroy(l);
        }
    }
}

TEST_F(Lbfgs, AStateTakenElsewhereGoesOnWithTheSameBits) {
    for (const int before : {0, 1, 3}) {
        Problem first = problem(), second = problem();
        amp_lbfgs *a = make(first, AMP_STRONG_WOLFE, 2), *b = make(second, AMP_STRONG_WOLFE, 2);
        for (int i = 0; i < before; i++) amp_lbfgs_step(a, closure, &first);
        amp_lbfgs_step(b, closure, &second);
        amp_lbfgs_step(b, closure, &second); // what is loaded over
        const amp_state state = amp_lbfgs_state(a);
        ASSERT_EQ(amp_lbfgs_load_state(b, state.names, state.tensors, state.count), AMP_OK) << amp_last_error();
        for (int64_t i = 0; i < 2; i++)
            op("copy_",
               {op("detach", {amp_parameters_at(second.p, i)}), op("detach", {amp_parameters_at(first.p, i)})});
        for (int i = 0; i < 2; i++)
            EXPECT_EQ(amp_lbfgs_step(a, closure, &first), amp_lbfgs_step(b, closure, &second)) << amp_last_error();
        EXPECT_EQ(numbers(first), numbers(second));
        EXPECT_EQ(amp_lbfgs_load_state(b, state.names + 1, state.tensors + 1, state.count - 1), AMP_ERROR_INVALID);
        EXPECT_EQ(error(), "lbfgs_load_state: there is no 't'");
        amp_lbfgs *small = make(second, AMP_STRONG_WOLFE, 2, 1);
        if (before == 3) {
            EXPECT_EQ(amp_lbfgs_load_state(small, state.names, state.tensors, state.count), AMP_ERROR_INVALID);
            EXPECT_EQ(error(), "lbfgs_load_state: this L-BFGS with a history of 1 has no 'old_dirs.1'");
        }
        Problem wide = problem({{5}, {3}});
        amp_lbfgs *other = make(wide);
        if (before > 0) {
            EXPECT_EQ(amp_lbfgs_load_state(other, state.names, state.tensors, state.count), AMP_ERROR_INVALID);
            EXPECT_EQ(error(), "lbfgs_load_state: 'd' is [6] f32; expected [8] f32");
        }
        amp_state_free(state);
        for (amp_lbfgs *each : {a, b, small, other}) amp_lbfgs_destroy(each);
    }
}

TEST_F(Lbfgs, IsPartOfACheckpoint) {
    const std::string path = testing::TempDir() + "amp-lbfgs-" + std::to_string(getpid()) + ".safetensors";
    Problem first = problem(), second = problem();
    amp_training runs[2] = {};
    Problem *problems[2] = {&first, &second};
    for (int i = 0; i < 2; i++) {
        runs[i].struct_size = sizeof runs[i];
        runs[i].parameters = problems[i]->p;
        runs[i].lbfgs[0] = make(*problems[i], AMP_STRONG_WOLFE, 2);
    }
    amp_lbfgs_step(runs[0].lbfgs[0], closure, &first);
    ASSERT_EQ(amp_training_save(&runs[0], path.c_str()), AMP_OK) << amp_last_error();
    ASSERT_EQ(amp_training_load(&runs[1], path.c_str()), AMP_OK) << amp_last_error();
    for (int i = 0; i < 2; i++) amp_lbfgs_step(runs[i].lbfgs[0], closure, problems[i]);
    EXPECT_EQ(numbers(first), numbers(second));
    for (amp_training &run : runs) amp_lbfgs_destroy(run.lbfgs[0]);
    std::remove(path.c_str());
}

TEST_F(Lbfgs, AFailureOfTheClosureLeavesTheParameters) {
    for (const amp_line_search search : {AMP_LINE_SEARCH_NONE, AMP_STRONG_WOLFE}) {
        for (int fails_at = 0; fails_at < 4; fails_at++) {
            Problem task = problem();
            amp_lbfgs *l = make(task, search);
            amp_lbfgs_step(l, closure, &task);
            const auto before = numbers(task);
            task.calls = 0;
            task.fails_at = fails_at;
            EXPECT_EQ(amp_lbfgs_step(l, closure, &task), 0);
            EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
            EXPECT_EQ(numbers(task), before) << fails_at;
            const double loss = amp_lbfgs_step(l, closure, &task);
            EXPECT_LT(amp_lbfgs_step(l, closure, &task), loss) << "the next right call works";
            amp_lbfgs_destroy(l);
        }
    }
}

TEST_F(Lbfgs, BadInputIsOneSentence) {
    Problem task = problem();
    amp_lbfgs_args args = {};
    args.struct_size = sizeof args;
    EXPECT_FALSE(amp_lbfgs_create(&args));
    EXPECT_EQ(error(), "lbfgs_create: the list of parameters is NULL");
    args.parameters = task.p;
    args.lr = amp_opt_float(0.5, 0);
    EXPECT_FALSE(amp_lbfgs_create(&args));
    EXPECT_EQ(error(), "lbfgs_create: 'lr' is 0.5; expected a finite number of at least 0, marked by AMP_SET");
    args.lr = {};
    args.history_size = amp_opt_int(0);
    EXPECT_FALSE(amp_lbfgs_create(&args));
    EXPECT_EQ(error(), "lbfgs_create: 'history_size' is 0; expected at least 1, marked by AMP_SET");
    args.history_size = {};
    args.line_search = amp_line_search(7);
    EXPECT_FALSE(amp_lbfgs_create(&args));
    EXPECT_EQ(error(), "lbfgs_create: there is no line search 7");
    amp_lbfgs *l = make(task);
    EXPECT_EQ(amp_lbfgs_step(l, nullptr, nullptr), 0);
    EXPECT_EQ(error(), "lbfgs_step: the closure is NULL");
    EXPECT_EQ(amp_lbfgs_step(nullptr, closure, nullptr), 0);
    EXPECT_EQ(error(), "lbfgs_step: the optimizer is NULL");
    amp_lbfgs_destroy(l);
}

TEST_F(Lbfgs, AHistoryTakesMemoryAsItGrows) {
    Problem few = problem(), many = problem();
    const size_t before = amp_memory_statistics().live_bytes;
    amp_lbfgs *a = make(few, AMP_STRONG_WOLFE, 4, 100), *b = make(many, AMP_STRONG_WOLFE, 4, 1000000000);
    for (int i = 0; i < 3; i++) EXPECT_EQ(amp_lbfgs_step(a, closure, &few), amp_lbfgs_step(b, closure, &many));
    EXPECT_EQ(numbers(few), numbers(many));
    const amp_state state = amp_lbfgs_state(a);
    EXPECT_EQ(amp_lbfgs_load_state(b, state.names, state.tensors, state.count), AMP_OK) << amp_last_error();
    EXPECT_LT(amp_memory_statistics().live_bytes, before + 1000000);
    amp_state_free(state);
    for (amp_lbfgs *each : {a, b}) amp_lbfgs_destroy(each);
}

TEST_F(Lbfgs, AGradientThatDoesNotChangeTeachesNothing) {
    Problem linear = problem();
    std::memset(amp_data_mut(linear.a), 0,
                size_t(amp_tensor_numel(linear.a)) * amp_dtype_size(amp_tensor_dtype(linear.a)));
    amp_lbfgs *l = make(linear, AMP_LINE_SEARCH_NONE, 4, 10);
    for (int i = 0; i < 2; i++) EXPECT_TRUE(std::isfinite(amp_lbfgs_step(l, closure, &linear))) << amp_last_error();
    amp_lbfgs_destroy(l);
}

TEST_F(Lbfgs, MemoryMayEndAnywhere) {
    EndingMemory memory;
    for (const amp_line_search search : {AMP_LINE_SEARCH_NONE, AMP_STRONG_WOLFE}) {
        const Scope scope;
        Problem task = problem();
        const auto before = numbers(task);
        amp_lbfgs *l = nullptr, *other = make(task, search);
        amp_lbfgs_args args = {};
        args.struct_size = sizeof args;
        args.parameters = task.p;
        args.max_iter = amp_opt_int(3);
        args.line_search = search;
        amp_state state = {};
        memory.until_it_works([&] { l = amp_lbfgs_create(&args); }, [&] { EXPECT_FALSE(l); });
        memory.until_it_works([&] { (void)amp_lbfgs_step(l, closure, &task); },
                              [&] { EXPECT_EQ(numbers(task), before); });
        memory.until_it_works([&] { state = amp_lbfgs_state(l); }, [&] { EXPECT_EQ(state.count, 0); });
        memory.until_it_works([&] { (void)amp_lbfgs_load_state(other, state.names, state.tensors, state.count); },
                              [&] { EXPECT_EQ(amp_lbfgs_evaluations(other), 0); });
        EXPECT_EQ(amp_lbfgs_evaluations(other), amp_lbfgs_evaluations(l));
        amp_state_free(state);
        amp_lbfgs_destroy(l);
        amp_lbfgs_destroy(other);
        drop();
    }
}

} // namespace
