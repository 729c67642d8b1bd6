// Every recorded call, and a call of each op that has none, each argument of it made wrong in every way that its row
// allows: absent, of another dtype, rank or extent, out of range, on another device. The op computes something or
// refuses it in one sentence; nothing crashes, changes an input or is left behind. (test_every_op.cc does the same with
// arguments that make no sense together.)
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "op_calls.h"
#include "policy/op_table.h"

using op_calls::Argument;
using op_calls::Call;
using op_calls::Layout;
using op_calls::Result;
using op_calls::Tensor;

namespace {

constexpr size_t page = 4096;
constexpr size_t slack = 64; // OpenBLAS's vector kernels read, but do not use, some bytes behind a matrix

size_t pages_of(size_t bytes) {
    return (bytes + page - 1) / page * page;
}

// Memory that ends at a page that cannot be touched. There is little of it: a size out of range fails at once.
void *guarded(void *, size_t bytes, size_t) {
    const size_t whole = pages_of(bytes + slack);
    if (bytes > (1u << 22)) return nullptr;
    void *memory = mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    char *end = static_cast<char *>(memory) + whole;
    mprotect(end, page, PROT_NONE);
    return end - (bytes + 63) / 64 * 64 - slack;
}

void unguarded(void *, void *block, size_t bytes) {
    char *start = static_cast<char *>(block) + (bytes + 63) / 64 * 64 + slack - pages_of(bytes + slack);
    munmap(start, pages_of(bytes + slack) + page);
}

class BadInput : public testing::Test {
  protected:
    void SetUp() override {
        amp_allocator small = {};
        small.allocate = guarded;
        small.release = unguarded;
        ASSERT_EQ(amp_set_allocator(&small), AMP_OK);
    }

    void TearDown() override {
        EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
    }

    // The recorded calls without a region, at most two of an op, and the written ones.
    static std::vector<Call> base_calls() {
        std::vector<Call> some;
        std::map<std::string, int> taken;
        for (Call &call : op_calls::recorded(AMP_TESTS_GOLDEN)) {
            if (!call.autocast && taken[call.op]++ < 2) some.push_back(std::move(call));
        }
        for (Call &call : op_calls::written()) some.push_back(std::move(call));
        return some;
    }

    // What came of it, after everything that must hold was checked.
    static amp_status expect_sane(const Call &call) {
        if (std::getenv("AMP_TEST_TELL")) std::fprintf(stderr, "%s\n", op_calls::describe(call).c_str());
        const Result result = op_calls::run(call, Layout::dense, 1);
        amp_memory_trim(); // so that what was freed cannot be touched either
        EXPECT_EQ(op_calls::bad_sentence(call, result), "") << op_calls::describe(call);
        EXPECT_FALSE(result.leaked) << op_calls::describe(call);
        EXPECT_TRUE(result.status == AMP_OK || !result.inputs_changed) << op_calls::describe(call);
        return result.status;
    }

    static void for_each_tensor(const std::function<void(Call *, Tensor *)> &change) {
        for (const Call &base : base_calls()) {
            for (size_t i = 0; i < base.tensors.size() && !HasFailure(); i++) {
                Call call = base;
                change(&call, &call.tensors[i]);
            }
        }
    }

    static void for_each_argument(const std::function<void(const Call &, size_t)> &change) {
        for (const Call &base : base_calls()) {
            for (size_t i = 0; i < base.arguments.size() && !HasFailure(); i++) change(base, i);
        }
    }
};

const int64_t odd_integers[] = {-1, 0, 1, 2, 3, 100, -100, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};

} // namespace

TEST_F(BadInput, EveryOpHasACall) {
    std::set<std::string> names;
    for (const Call &call : base_calls()) names.insert(call.op);
    for (int i = 0; i < amp_op_count; i++) EXPECT_EQ(names.count(amp_op_table[i].name), 1u) << amp_op_table[i].name;
}

TEST_F(BadInput, EveryCallIsGood) {
    for (const Call &call : base_calls()) {
        const amp_status status = expect_sane(call);
        EXPECT_TRUE(status == AMP_OK || status == AMP_ERROR_NOT_IMPLEMENTED) << op_calls::describe(call);
    }
}

TEST_F(BadInput, AnAbsentArgument) {
    for_each_argument([](const Call &base, size_t i) {
        Call call = base;
        call.arguments[i].value = {};
        expect_sane(call);
        call.arguments.erase(call.arguments.begin() + long(i));
        expect_sane(call);
        for (size_t k = 0; k < base.arguments[i].tensors.size(); k++) {
            call = base;
            call.arguments[i].tensors[k] = -1;
            expect_sane(call);
        }
    });
}

TEST_F(BadInput, AnotherDtype) {
    for_each_tensor([](Call *call, Tensor *t) {
        const Tensor original = *t;
        for (int dtype = 1; dtype < AMP_DTYPE_COUNT; dtype++) {
            *t = op_calls::converted(original, amp_dtype(dtype));
            expect_sane(*call);
        }
    });
}

TEST_F(BadInput, AnotherRank) {
    for_each_tensor([](Call *call, Tensor *t) {
        const std::vector<int64_t> shape = t->shape;
        for (const int64_t extent : {1, 2}) {
            std::vector<int64_t> more = shape;
            more.insert(more.begin(), extent);
            if (more.size() > AMP_MAX_RANK) continue;
            op_calls::reshape(t, more);
            expect_sane(*call);
        }
        for (std::vector<int64_t> less = shape; !less.empty();) {
            less.erase(less.begin());
            op_calls::reshape(t, less);
            expect_sane(*call);
        }
        op_calls::reshape(t, std::vector<int64_t>(AMP_MAX_RANK, 1));
        expect_sane(*call);
    });
}

TEST_F(BadInput, AnotherExtent) {
    for_each_tensor([](Call *call, Tensor *t) {
        const std::vector<int64_t> shape = t->shape;
        for (size_t d = 0; d < shape.size(); d++) {
            for (const int64_t extent : {int64_t(0), int64_t(1), shape[d] + 1, shape[d] - 1, 2 * shape[d]}) {
                std::vector<int64_t> changed = shape;
                changed[d] = std::max<int64_t>(extent, 0);
                op_calls::reshape(t, changed);
                expect_sane(*call);
            }
        }
        op_calls::reshape(t, std::vector<int64_t>(shape.size(), 0));
        expect_sane(*call);
    });
}

TEST_F(BadInput, ANumberOutOfRange) {
    for_each_argument([](const Call &base, size_t i) {
        Call call = base;
        amp_value &value = call.arguments[i].value;
        for (const int64_t number : odd_integers) {
            if (value.kind == AMP_VALUE_SCALAR) {
                value.as.scalar = amp_int(number);
                expect_sane(call);
            }
            for (int d = 0; value.kind == AMP_VALUE_DIMS && d < base.arguments[i].value.as.dims.count; d++) {
                value = base.arguments[i].value;
                value.as.dims.values[d] = number;
                expect_sane(call);
            }
        }
        for (const double number : {-0.5, 1e300, -1e300, double(NAN), double(INFINITY)}) {
            if (value.kind == AMP_VALUE_SCALAR) {
                value.as.scalar = amp_float(number);
                expect_sane(call);
            }
            for (int d = 0; value.kind == AMP_VALUE_FLOATS && d < base.arguments[i].value.as.floats.count; d++) {
                value = base.arguments[i].value;
                value.as.floats.values[d] = number;
                expect_sane(call);
            }
        }
    });
}

TEST_F(BadInput, AListOfAnotherLength) {
    for_each_argument([](const Call &base, size_t i) {
        Call call = base;
        Argument &a = call.arguments[i];
        for (int count = 0; a.value.kind == AMP_VALUE_DIMS && count <= AMP_MAX_RANK; count++) {
            a.value.as.dims.count = count;
            expect_sane(call);
        }
        for (int count = 0; a.value.kind == AMP_VALUE_FLOATS && count <= AMP_MAX_RANK; count++) {
            a.value.as.floats.count = count;
            expect_sane(call);
        }
        if (a.value.kind != AMP_VALUE_TENSOR_LIST) return;
        a.tensors.push_back(a.tensors.empty() ? -1 : a.tensors[0]);
        expect_sane(call);
        while (!a.tensors.empty()) {
            a.tensors.pop_back();
            expect_sane(call);
        }
    });
}

TEST_F(BadInput, AnIndexOutOfRange) {
    for_each_tensor([](Call *call, Tensor *t) {
        const bool integer = t->dtype >= AMP_I64 && t->dtype <= AMP_U8;
        if (!integer || t->bytes.empty()) return;
        const Tensor original = *t;
        for (const int64_t number : odd_integers) {
            for (const size_t place : {size_t(0), op_calls::elements(t->shape) - 1}) {
                *t = original;
                op_calls::set_number(t, place, double(number));
                expect_sane(*call);
            }
        }
    });
}

TEST_F(BadInput, StridesOverWhichNoStepIsTakenMeanNothing) {
    for_each_tensor([](Call *call, Tensor *t) {
        const Tensor original = *t;
        for (size_t d = 0; d <= original.shape.size(); d++) {
            for (const int64_t extent : {1, 0}) {
                *t = original;
                if (d < original.shape.size()) {
                    std::vector<int64_t> shape = original.shape;
                    shape[d] = extent;
                    op_calls::reshape(t, shape);
                } else if (extent == 0) { // then all as recorded
                    continue;
                }
                const Result want = op_calls::run(*call, Layout::dense, 1);
                const Result got = op_calls::run(*call, Layout::unstepped, 1);
                if (!op_calls::is_unspecified(*call)) {
                    EXPECT_EQ(op_calls::difference(got, want), "") << op_calls::describe(*call);
                }
            }
        }
        *t = original;
    });
}

TEST_F(BadInput, AValueThatIsNoNumber) {
    for_each_tensor([](Call *call, Tensor *t) {
        if (!amp_dtype_is_floating(t->dtype) || t->bytes.empty()) return;
        for (const double number : {double(NAN), double(INFINITY), -double(INFINITY), 0.0}) {
            op_calls::set_number(t, op_calls::elements(t->shape) - 1, number);
            expect_sane(*call);
        }
    });
}

TEST_F(BadInput, MixedDevices) {
    for_each_tensor([](Call *call, Tensor *t) {
        t->device = AMP_DEVICE_CUDA;
        const Result result = op_calls::run(*call, Layout::dense, 1);
        EXPECT_EQ(result.status, AMP_ERROR_DEVICE) << op_calls::describe(*call) << ": " << result.error;
        EXPECT_EQ(op_calls::bad_sentence(*call, result), "") << op_calls::describe(*call);
        EXPECT_FALSE(result.leaked);
    });
}

TEST_F(BadInput, AnotherWord) {
    for_each_argument([](const Call &base, size_t i) {
        Call call = base;
        Argument &a = call.arguments[i];
        if (a.value.kind != AMP_VALUE_STRING) return;
        for (const char *word :
             {"", "nonsense", "mean", "%s%n", "a,a->aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "->"}) {
            a.text = word;
            expect_sane(call);
        }
    });
}
