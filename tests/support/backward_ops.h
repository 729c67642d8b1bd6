// Ops that make gradients, as kernels: beside what the same op makes of other ops in f64, on every instruction set that this CPU has, with
// several threads, and where no memory is to be had.
#ifndef AMP_TESTS_BACKWARD_OPS_H
#define AMP_TESTS_BACKWARD_OPS_H

#include <climits>
#include <functional>

#include "amp_test.h"
#include "ending_memory.h"

extern "C" {
#include "cpu/registry/kernels.h"
}

namespace backward_ops {

using namespace amp_test;

using Tensors = std::vector<amp_tensor *>;
using Options = std::vector<Named>;

// All results of a call; of one that fails none.
inline Tensors results(const std::string &name, const std::vector<Value> &values, const Options &options = {}) {
    Tensors out;
    return call(name, values, options, &out) == AMP_OK ? out : Tensors();
}

inline amp_tensor *wide(amp_tensor *t) {
    return t ? op("to", {t, AMP_F64}) : nullptr;
}

inline double largest(const std::vector<double> &x) {
    double most = 0;
    for (double v : x)
        if (std::isfinite(v)) most = std::max(most, std::fabs(v));
    return most;
}

// Within the tolerance, of the largest element wanted.
inline void expect_close(const Tensors &got, const Tensors &want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); i++) {
        SCOPED_TRACE("result " + std::to_string(i));
        const std::vector<double> numbers = numbers_of(want[i]);
        ASSERT_EQ(amp_tensor_numel(got[i]), amp_tensor_numel(want[i]));
        const double most = std::max(largest(numbers), 1e-30);
        std::vector<double> scaled;
        for (double x : numbers) scaled.push_back(x / most);
        expect_near(op("div", {wide(got[i]), most}), scaled, tolerance);
    }
}

// One after the other each instruction set that the build and the CPU have; the fastest is the machine's again behind it.
inline void on_every_isa(const std::function<void()> &body) {
    for (const char *isa : {"ref", "avx2", "avx512", "avx512bf16"}) {
        SCOPED_TRACE(isa);
        amp_isa_reload_for_test(isa);
        body();
    }
    amp_isa_reload_for_test(nullptr);
}

inline std::vector<std::vector<double>> numbers(const Tensors &tensors) {
    std::vector<std::vector<double>> all;
    for (amp_tensor *t : tensors) all.push_back(numbers_of(t));
    return all;
}

inline void expect_same_with_threads(const std::function<Tensors()> &make) {
    const int before = amp_get_num_threads();
    ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
    const auto one = numbers(make());
    for (int threads : {2, 3, 7}) {
        ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
        EXPECT_EQ(numbers(make()), one) << threads << " threads";
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
    ASSERT_FALSE(one.empty());
}

// One allocation after the other is refused, until the call needs no more.
inline void expect_to_survive_refusals(const std::function<Tensors()> &make) {
    const auto want = numbers(make());
    ASSERT_FALSE(want.empty());
    EndingMemory memory;
    memory.until_it_works([&] { (void)make(); });
    const Scope scope;
    EXPECT_EQ(numbers(make()), want);
}

} // namespace backward_ops

#endif // AMP_TESTS_BACKWARD_OPS_H
