// Matrices of sizes around the one where cuSOLVER and cuBLAS take over, against the CPU; CMake runs them again without
// cuSOLVER, with an old one, and without cuBLAS (the folders of tests/fake_cuda that AMP_TESTS_LIBRARIES names).
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "amp/explain.h"
#include "cuda_test.h"

using namespace amp_test;

namespace {

bool tested_with(const std::string &libraries) {
    const char *folder = std::getenv("AMP_TESTS_LIBRARIES");
    return folder && libraries == folder;
}
bool without_solver() {
    return tested_with("no_cusolver");
}
bool without_trsm() {
    return tested_with("no_trsm");
}
bool without_geev() {
    return without_solver() || tested_with("old_cusolver");
}

class CudaSolver : public CudaTest {
  protected:
    static amp_tensor *numbers(amp_dtype dtype, Shape shape, int seed) {
        if (dtype == AMP_F32 || dtype == AMP_F64) return random_tensor(dtype, shape, uint64_t(seed));
        shape.push_back(2);
        return op("view_as_complex", {random_tensor(dtype == AMP_C64 ? AMP_F32 : AMP_F64, shape, uint64_t(seed))});
    }
    template <class R>
    static amp_tensor *conjugated(amp_tensor *x) {
        const auto *from = static_cast<const R *>(amp_data(x));
        std::vector<R> parts(from, from + 2 * amp_tensor_numel(x));
        for (size_t i = 1; i < parts.size(); i += 2) parts[i] = -parts[i];
        return amp_from_data(parts.data(), amp_tensor_dtype(x), amp_tensor_rank(x), amp_tensor_shape(x));
    }
    static amp_tensor *adjoint(amp_tensor *x) {
        x = op("contiguous", {turned(x)});
        const amp_dtype dtype = amp_tensor_dtype(x);
        return dtype == AMP_C64 ? conjugated<float>(x) : dtype == AMP_C128 ? conjugated<double>(x) : x;
    }
    static amp_tensor *identity(int64_t n, amp_dtype dtype) {
        std::vector<double> values(static_cast<size_t>(n * n));
        for (int64_t i = 0; i < n; i++) values[static_cast<size_t>(i * n + i)] = 1;
        return op("to", {tensor(AMP_F64, {n, n}, values), dtype});
    }
    // With a condition that f32 bears, on the device in rows that are far apart.
    static amp_tensor *mild(int64_t n, amp_dtype dtype, int seed) {
        return op("add", {numbers(dtype, {n, n}, seed), op("mul", {identity(n, dtype), amp_float(double(n))})});
    }
    static amp_tensor *sent_apart(amp_tensor *x) {
        return op("select", {sent(op("stack", {std::vector<amp_tensor *>{x, x}, 2})), 2, 1});
    }
    static std::vector<amp_tensor *> all(const std::string &name, const std::vector<Value> &values,
                                         const std::vector<Named> &named = {}) {
        std::vector<amp_tensor *> outputs;
        EXPECT_EQ(call(name, values, named, &outputs), AMP_OK) << amp_last_error();
        outputs.resize(4);
        return outputs;
    }
    static bool is_single(amp_dtype dtype) {
        return dtype == AMP_F32 || dtype == AMP_C64;
    }
    static std::string told() {
        EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
        return error();
    }
    // Runs `body` and checks whether a library had a part in it, and that nobody waited for the device.
    template <class Body>
    void expect_library(bool expected, Body body) {
        const uint64_t steps = fake->factors, waits = amp_cuda_counters().synchronizations;
        body();
        EXPECT_EQ(fake->factors > steps, expected);
        EXPECT_EQ(amp_cuda_counters().synchronizations, waits);
    }
    template <class Body>
    void expect_solver(bool expected, Body body) {
        expect_library(expected && !without_solver(), body);
    }
    // What explain says of one call.
    static std::string explained(const char *name, const std::vector<Value> &values) {
        amp_explain_begin();
        EXPECT_NE(all(name, values)[0], nullptr);
        amp_explain_end();
        char *report = amp_explain_report(AMP_EXPLAIN_JSON);
        const std::string text = report ? report : "";
        amp_explain_free(report);
        amp_explain_reset();
        return text;
    }
};

constexpr amp_dtype dtypes[] = {AMP_F32, AMP_F64, AMP_C64, AMP_C128};

TEST_F(CudaSolver, EquationsOfAllSizesAreSolved) {
    for (amp_dtype dtype : dtypes) {
        for (int64_t n : {1, 63, 64, 65, 200}) {
            if (without_solver() && n > 65) continue; // slow, and tested elsewhere
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(n));
            Scope scope;
            const double tolerance = is_single(dtype) ? 1e-4 : 1e-12;
            amp_tensor *a = mild(n, dtype, 1), *b = numbers(dtype, {n, 3}, 2), *there = sent_apart(a), *right = sent(b);
            amp_tensor *x = nullptr, *inverse = nullptr;
            expect_solver(n >= 64, [&] {
                x = op("linalg_solve", {there, right});
                inverse = op("linalg_inv", {there});
            });
            expect_agree(x, op("linalg_solve", {a, b}), tolerance);
            expect_agree(inverse, op("linalg_inv", {a}), tolerance);
            const std::vector<amp_tensor *> want = all("lu_with_info", {a}), got = all("lu_with_info", {there});
            for (size_t i = 0; i < 3; i++) expect_agree(got[i], want[i], tolerance * double(n));
            for (bool turned : {false, true}) {
                expect_agree(op("lu_solve", {right, got[0], got[1], turned}),
                             op("lu_solve", {b, want[0], want[1], turned}), tolerance);
            }
            amp_tensor *p = op("add", {a, adjoint(a)}); // its diagonal outweighs all else
            for (bool upper : {false, true}) {
                amp_tensor *factor = nullptr, *solution = nullptr;
                expect_solver(n >= 64, [&] {
                    factor = op("linalg_cholesky", {sent_apart(p)}, {{"upper", upper}});
                    solution = op("cholesky_solve", {right, factor, upper});
                });
                expect_agree(factor, op("linalg_cholesky", {p}, {{"upper", upper}}), tolerance * 10);
                expect_agree(solution, op("linalg_solve", {p, b}), tolerance);
                expect_agree(op("cholesky_inverse", {factor, upper}), op("linalg_inv", {p}), tolerance);
            }
        }
    }
}

TEST_F(CudaSolver, ReflectorsOfAllSizesAreThoseOfTheCpu) {
    for (amp_dtype dtype : dtypes) {
        for (const Shape &shape : {Shape{1, 1}, Shape{63, 70}, Shape{64, 64}, Shape{65, 100}, Shape{200, 66}}) {
            if (without_solver() && shape[0] > 65) continue;
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(shape[0]));
            Scope scope;
            const double tolerance = is_single(dtype) ? 2e-3 : 1e-11;
            amp_tensor *a = numbers(dtype, shape, 1), *there = sent_apart(a);
            for (const char *mode : {"reduced", "complete", "r"}) {
                SCOPED_TRACE(mode);
                const std::vector<amp_tensor *> want = all("linalg_qr", {a, mode});
                std::vector<amp_tensor *> got;
                expect_solver(shape[0] >= 64, [&] { got = all("linalg_qr", {there, mode}); });
                for (size_t i = 0; i < 2; i++) expect_agree(got[i], want[i], tolerance);
            }
            const std::vector<amp_tensor *> want = all("geqrf", {a}), got = all("geqrf", {there});
            for (size_t i = 0; i < 2; i++) expect_agree(got[i], want[i], tolerance);
            if (shape[0] >= shape[1])
                expect_agree(op("linalg_householder_product", {got[0], got[1]}),
                             op("linalg_householder_product", {want[0], want[1]}), tolerance);
        }
    }
}

TEST_F(CudaSolver, SingularValuesAndVectorsOfAllSizesGiveTheMatrixBack) {
    for (amp_dtype dtype : dtypes) {
        for (const Shape &shape : {Shape{1, 1}, Shape{63, 63}, Shape{64, 80}, Shape{2, 65, 64}, Shape{200, 64}}) {
            if (without_solver() && (shape[0] > 65 || is_single(dtype))) continue;
            for (bool full : {false, true}) {
                SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(shape[0]) +
                             (full ? " full" : ""));
                Scope scope;
                const double tolerance = is_single(dtype) ? 1e-3 : 1e-11;
                amp_tensor *a = numbers(dtype, shape, 1), *there = sent(a);
                std::vector<amp_tensor *> f;
                const int64_t m = shape[shape.size() - 2], n = shape.back(), k = std::min(m, n);
                expect_solver(k >= 64, [&] { f = all("linalg_svd", {there, full}); });
                for (int i = 0; i < 3; i++) f[size_t(i)] = fetched(f[size_t(i)]);
                amp_tensor *scaled = op("mul", {op("narrow", {f[0], -1, 0, k}), op("unsqueeze", {f[1], -2})});
                expect_agree(product(scaled, op("narrow", {f[2], -2, 0, k})), a, tolerance);
                amp_tensor *left = product(adjoint(f[0]), f[0]), *right = product(f[2], adjoint(f[2]));
                expect_agree(op("sub", {left, identity(full ? m : k, dtype)}), op("zeros_like", {left}), tolerance);
                expect_agree(op("sub", {right, identity(full ? n : k, dtype)}), op("zeros_like", {right}), tolerance);
                expect_agree(op("linalg_svdvals", {there}), op("linalg_svdvals", {a}), tolerance);
                if (!full) expect_agree(op("pinverse", {there}), op("pinverse", {a}), is_single(dtype) ? 0.1 : 1e-8);
            }
        }
    }
}

TEST_F(CudaSolver, EigenvectorsOfAllSizesGiveTheMatrixBack) {
    for (amp_dtype dtype : dtypes) {
        for (int64_t n : {1, 63, 64, 65, 200}) {
            if (without_solver() && (n > 65 || is_single(dtype))) continue;
            for (const char *side : {"L", "U"}) {
                SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(n) + side);
                Scope scope;
                const double tolerance = is_single(dtype) ? 2e-3 : 1e-11;
                amp_tensor *a = numbers(dtype, {n, n}, 1), *there;
                a = op("add", {a, adjoint(a)});
                amp_tensor *half = op(*side == 'L' ? "tril" : "triu", {a}); // the other triangle does not count
                there = sent_apart(half);
                std::vector<amp_tensor *> f;
                expect_solver(n >= 64, [&] { f = both("linalg_eigh", {there, side}); });
                for (amp_tensor *&t : f) t = fetched(t);
                expect_agree(product(op("mul", {f[1], op("unsqueeze", {f[0], -2})}), adjoint(f[1])), a, tolerance);
                expect_agree(op("linalg_eigvalsh", {there, side}), op("linalg_eigvalsh", {a, side}), tolerance);
            }
        }
    }
}

TEST_F(CudaSolver, TriangularEquationsOfAllSizesAreSolved) {
    for (amp_dtype dtype : dtypes) {
        for (int64_t n : {1, 63, 64, 65, 200}) {
            Scope scope;
            const double tolerance = is_single(dtype) ? 1e-4 : 1e-12;
            amp_tensor *a = mild(n, dtype, 1), *b = numbers(dtype, {2, n, 3}, 2), *right = sent(b);
            amp_tensor *columns = op("contiguous", {turned(a)}); // a, as columns lie
            for (int bits = 0; bits < 16; bits++) {
                SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(n) + " " + std::to_string(bits));
                ASSERT_EQ(amp_cuda_trim_memory(), AMP_OK); // the driver's double hands nothing out again before that
                const bool upper = bits & 1, transposed = bits & 2, unit = bits & 4;
                amp_tensor *there = bits & 8 ? turned(sent(columns)) : sent_apart(a), *x = nullptr;
                amp_tensor *own = unit ? op("mul", {a, amp_float(1.0 / double(n))}) : a;
                if (unit) there = op("mul", {there, amp_float(1.0 / double(n))});
                expect_library(n >= 64 && !without_trsm(), [&] {
                    x = op("triangular_solve", {right, there, upper, transposed, unit});
                });
                expect_agree(x, op("triangular_solve", {b, own, upper, transposed, unit}), tolerance);
            }
        }
    }
}

TEST_F(CudaSolver, ProductsWithReflectorsAreThoseOfTheCpu) {
    for (amp_dtype dtype : dtypes) {
        for (const Shape &shape : {Shape{1, 1}, Shape{63, 70}, Shape{64, 64}, Shape{100, 65}, Shape{2, 200, 66}}) {
            Scope scope;
            const double tolerance = is_single(dtype) ? 2e-3 : 1e-11;
            const int64_t m = shape[shape.size() - 2], k = std::min(m, shape.back());
            const std::vector<amp_tensor *> f = all("geqrf", {numbers(dtype, shape, 1)});
            for (bool left : {true, false}) {
                Shape wanted = shape;
                wanted[shape.size() - 2] = left ? m : 5;
                wanted.back() = left ? 5 : m;
                amp_tensor *other = numbers(dtype, wanted, 2), *there = sent(other), *got = nullptr;
                amp_tensor *reflectors = sent(f[0]), *scales = sent(f[1]);
                for (bool transposed : {false, true}) {
                    SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(m) +
                                 (left ? " left" : " right") + (transposed ? " transposed" : ""));
                    expect_solver(k >= 64, [&] { got = op("ormqr", {reflectors, scales, there, left, transposed}); });
                    expect_agree(got, op("ormqr", {f[0], f[1], other, left, transposed}), tolerance);
                }
            }
        }
    }
}

TEST_F(CudaSolver, LeastSquaresOfAllSizesAreThoseOfTheCpu) {
    const bool there_is_one = !without_solver() && !without_trsm();
    for (amp_dtype dtype : dtypes) {
        for (const Shape &shape : {Shape{1, 1}, Shape{63, 63}, Shape{96, 64}, Shape{2, 64, 96}}) {
            for (const char *driver : {"gels", "gelsy", "gelsd", "gelss"}) {
                const bool by_values = std::string(driver) != "gels";
                if (by_values && !there_is_one && is_single(dtype)) continue; // slow, and tested elsewhere
                SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(shape[0]) + driver);
                Scope scope;
                const double tolerance = is_single(dtype) ? 1e-2 : 1e-10;
                Shape sides = shape;
                sides.back() = 3;
                amp_tensor *a = numbers(dtype, shape, 1), *b = numbers(dtype, sides, 2);
                if (shape.back() == 63) a = mild(63, dtype, 1);
                amp_tensor *there = sent(a), *right = sent(b);
                const std::vector<Named> named = {{"driver", driver}};
                const std::vector<amp_tensor *> want = all("linalg_lstsq", {a, b}, named);
                std::vector<amp_tensor *> got;
                expect_library(std::min(shape[shape.size() - 2], shape.back()) >= 64 && there_is_one, [&] {
                    got = all("linalg_lstsq", {there, right}, named);
                });
                expect_agree(got[0], want[0], tolerance);
                if (!by_values) expect_agree(got[1], want[1], tolerance * 10);
                expect_agree(got[2], want[2], 0);
                if (amp_tensor_numel(want[3]) > 0) expect_agree(got[3], want[3], tolerance);
            }
        }
    }
}

// Of whom the reflectors and the factor are results, too; those of the rows, where there are fewer.
TEST_F(CudaSolver, FactorsOfLeastSquaresAreThoseOfTheCpu) {
    for (amp_dtype dtype : dtypes) {
        for (const Shape &shape : {Shape{96, 64}, Shape{64, 96}}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(shape[0]));
            Scope scope;
            amp_tensor *a = numbers(dtype, shape, 1), *b = numbers(dtype, {shape[0], 2}, 2);
            const std::vector<amp_tensor *> want = all("lstsq", {b, a}), got = all("lstsq", {sent(b), sent(a)});
            for (size_t i = 0; i < 2; i++) expect_agree(got[i], want[i], is_single(dtype) ? 1e-2 : 1e-10);
        }
    }
}

TEST_F(CudaSolver, RanksOfLeastSquaresAreFound) {
    for (amp_dtype dtype : {AMP_F64, AMP_C128}) {
        Scope scope;
        amp_tensor *a = product(numbers(dtype, {70, 40}, 1), numbers(dtype, {40, 80}, 2)), *b = numbers(dtype, {70}, 3);
        const std::vector<Named> named = {{"rcond", 1e-9}, {"driver", "gelsd"}};
        const std::vector<amp_tensor *> want = all("linalg_lstsq", {a, b}, named);
        const std::vector<amp_tensor *> got = all("linalg_lstsq", {sent(a), sent(b)}, named);
        EXPECT_EQ(numbers_of(op("to", {fetched(got[2]), AMP_F32}))[0], 40);
        expect_agree(got[0], want[0], 1e-9);
    }
}

TEST_F(CudaSolver, EigenvectorsOfAnyMatrixTurnIntoMultiplesOfThemselves) {
    for (amp_dtype dtype : dtypes) {
        for (const Shape &shape : {Shape{1, 1}, Shape{63, 63}, Shape{64, 64}, Shape{2, 65, 65}, Shape{120, 120}}) {
            if (without_geev() && (shape[0] > 64 || is_single(dtype))) continue; // slow, and tested elsewhere
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(shape[0]));
            Scope scope;
            const double tolerance = is_single(dtype) ? 1e-3 : 1e-11;
            const amp_dtype wide = is_single(dtype) ? AMP_C64 : AMP_C128;
            amp_tensor *a = numbers(dtype, shape, 1), *there = sent(a), *alone = nullptr;
            std::vector<amp_tensor *> f;
            expect_library(shape.back() >= 64 && !without_geev(), [&] {
                f = both("linalg_eig", {there});
                alone = op("linalg_eigvals", {there});
            });
            for (amp_tensor *&t : f) t = fetched(t);
            EXPECT_EQ(amp_tensor_dtype(f[1]), wide);
            amp_tensor *turned_into = product(op("to", {a, wide}), f[1]);
            expect_agree(turned_into, op("mul", {f[1], op("unsqueeze", {f[0], -2})}), tolerance);
            const std::vector<Named> along = {{"dim", AMP_DIMS(-2)}};
            amp_tensor *lengths = op("linalg_vector_norm", {op("abs", {f[1]})}, along);
            expect_agree(op("sub", {lengths, amp_float(1.0)}), op("zeros_like", {lengths}), tolerance);
            expect_agree(op("sum", {fetched(alone)}), op("sum", {f[0]}), tolerance * 100);
        }
    }
}

TEST_F(CudaSolver, BatchesOfManyMatricesStayWithOurKernels) {
    amp_tensor *few = sent(op("add", {numbers(AMP_F64, {4, 64, 64}, 1), identity(64, AMP_F64)}));
    amp_tensor *many = sent(op("add", {numbers(AMP_F64, {5, 64, 64}, 1), identity(64, AMP_F64)}));
    expect_solver(true, [&] { op("linalg_inv", {few}); });
    expect_solver(false, [&] { op("linalg_inv", {many}); });
    expect_agree(op("select", {op("linalg_inv", {few}), 0, 3}), fetched(op("select", {op("linalg_inv", {many}), 0, 3})),
                 1e-8);
}

// The same as with our own kernels: what has no answer is told of when the host waits.
TEST_F(CudaSolver, AMatrixWithoutAnAnswerIsToldOfWhenTheHostWaits) {
    amp_tensor *none = sent(op("zeros", {AMP_DIMS(2, 70, 70), AMP_F32}));
    for (const char *name : {"linalg_inv", "linalg_cholesky", "cholesky_inverse"}) {
        ASSERT_NE(op(name, {none}), nullptr) << amp_last_error();
        EXPECT_TRUE(contains(told(), std::string("a matrix of ") + name));
    }
    const std::vector<amp_tensor *> ex = all("linalg_inv_ex", {none});
    EXPECT_EQ(amp_cuda_synchronize(), AMP_OK);
    EXPECT_EQ(numbers_of(op("to", {fetched(ex[1]), AMP_F32}))[0], 1);
    amp_tensor *holes = op("ones", {AMP_DIMS(70, 70), AMP_F32});
    op("fill_", {op("narrow", {op("narrow", {holes, 0, 3, 1}), 1, 2, 1}), amp_float(NAN)});
    ASSERT_NE(op("linalg_svdvals", {sent(holes)}), nullptr) << amp_last_error();
    EXPECT_TRUE(contains(told(), "a matrix of linalg_svdvals"));
    amp_tensor *values = fetched(op("linalg_eigvalsh", {sent(holes)})); // of which NaN is an answer
    EXPECT_TRUE(std::isnan(numbers_of(values)[0]));
    op("fill_", {op("narrow", {op("narrow", {holes, 0, 3, 1}), 1, 2, 1}), amp_float(INFINITY)});
    EXPECT_TRUE(std::isnan(numbers_of(fetched(op("linalg_svdvals", {sent(holes)})))[69]));
    amp_tensor *pivots = op("full", {AMP_DIMS(70), amp_int(71), AMP_I32}), *ones = sent(identity(70, AMP_F32));
    ASSERT_NE(op("lu_solve", {ones, ones, sent(pivots)}), nullptr) << amp_last_error();
    EXPECT_TRUE(contains(told(), "an index of lu_solve"));
}

TEST_F(CudaSolver, LeastSquaresAndEigenvaluesWithoutAnAnswerAreToldOf) {
    for (bool wide : {false, true}) {
        for (const char *driver : {"gels", "gelsd"}) {
            for (int bad = 0; bad < 3; bad++) { // in the matrix, or on the right
                SCOPED_TRACE(std::string(driver) + std::to_string(bad) + (wide ? " wide" : ""));
                Scope scope;
                amp_tensor *a = numbers(AMP_F32, {64, wide ? 70 : 64}, 1), *b = numbers(AMP_F32, {64, 2}, 2);
                op("fill_", {op("select", {op("select", {bad == 2 ? b : a, 0, 3}), 0, 1}),
                             amp_float(bad == 1 ? INFINITY : NAN)});
                ASSERT_NE(all("linalg_lstsq", {sent(a), sent(b)}, {{"driver", driver}})[0], nullptr);
                EXPECT_TRUE(contains(told(), "a matrix of linalg_lstsq"));
            }
        }
        Scope scope;
        amp_tensor *zeros = sent(op("zeros", {AMP_DIMS(64, wide ? 70 : 64), AMP_F32}));
        amp_tensor *b = sent(numbers(AMP_F32, {64, 2}, 2));
        ASSERT_NE(all("linalg_lstsq", {zeros, b}, {{"driver", "gels"}})[0], nullptr);
        EXPECT_TRUE(contains(told(), "a matrix of linalg_lstsq")) << "has not full rank";
    }
    for (double bad : {double(NAN), double(INFINITY)}) {
        amp_tensor *a = mild(64, AMP_F64, 1);
        op("fill_", {op("select", {op("select", {a, 0, 3}), 0, 1}), amp_float(bad)});
        ASSERT_NE(op("linalg_eigvals", {sent(a)}), nullptr);
        EXPECT_TRUE(contains(told(), "a matrix of linalg_eigvals"));
    }
    amp_tensor *flat = sent(op("zeros", {AMP_DIMS(64, 64), AMP_F64})), *ones = op("ones", {AMP_DIMS(64, 1), AMP_F64});
    amp_tensor *x = fetched(op("triangular_solve", {sent(ones), flat})); // of which infinity is an answer
    EXPECT_TRUE(std::isinf(numbers_of(x)[63]));
    EXPECT_EQ(amp_cuda_synchronize(), AMP_OK);
}

// As with our own kernels, whose blocks a batch of many keeps.
TEST_F(CudaSolver, NaNGoesThroughAsInOurOwnKernels) {
    for (amp_dtype dtype : dtypes) {
        for (double bad : {double(NAN), double(INFINITY)}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(bad));
            Scope scope;
            amp_tensor *a = mild(70, dtype, 1);
            op("fill_", {op("narrow", {op("narrow", {a, 0, 0, 1}), 1, 0, 1}), amp_float(bad)});
            amp_tensor *many = sent(op("expand", {a, AMP_DIMS(5, 70, 70)})), *one = sent(a);
            amp_tensor *right = sent(numbers(dtype, {70, 2}, 2));
            const auto expect_alike = [&](const char *name, const std::vector<Value> &rest) {
                SCOPED_TRACE(name);
                std::vector<Value> of_one = {one}, of_many = {many};
                of_one.insert(of_one.end(), rest.begin(), rest.end());
                of_many.insert(of_many.end(), rest.begin(), rest.end());
                std::vector<amp_tensor *> got;
                expect_solver(true, [&] { got = all(name, of_one); });
                const std::vector<amp_tensor *> want = all(name, of_many);
                amp_tensor *x = fetched(got[0]), *y = fetched(op("select", {want[0], 0, 0}));
                ASSERT_NE(x, nullptr) << amp_last_error();
                EXPECT_EQ(numbers_of(op("isnan", {x})), numbers_of(op("isnan", {y})));
            };
            expect_alike("linalg_inv_ex", {});
            expect_alike("linalg_solve", {right});
            for (amp_tensor *factor : both("linalg_qr", {one})) { // how far it spreads is the algorithm's
                const std::vector<double> marks = numbers_of(op("isnan", {fetched(factor)}));
                EXPECT_NE(std::count(marks.begin(), marks.end(), 1.0), 0);
            }
            EXPECT_EQ(amp_cuda_synchronize(), AMP_OK) << "a matrix of NaN is not singular";
            const std::vector<amp_tensor *> lu = all("lu_with_info", {one});
            ASSERT_NE(op("lu_solve", {right, lu[0], lu[1]}), nullptr) << amp_last_error();
            EXPECT_EQ(amp_cuda_synchronize(), AMP_OK) << "a pivot names a row";
            if (!std::isnan(bad)) continue;
            const std::vector<amp_tensor *> factor = all("linalg_cholesky_ex", {one});
            EXPECT_EQ(numbers_of(fetched(factor[1]))[0], 1);
            ASSERT_NE(op("linalg_cholesky", {one}), nullptr) << amp_last_error();
            EXPECT_TRUE(contains(told(), "a matrix of linalg_cholesky"));
        }
    }
}

TEST_F(CudaSolver, AStepThatFailsNamesTheOpAndLeavesNothing) {
    if (without_solver()) GTEST_SKIP() << "no step is cuSOLVER's";
    amp_tensor *a = sent(op("add", {mild(70, AMP_F64, 1), turned(mild(70, AMP_F64, 1))}));
    for (const char *name : {"linalg_inv", "linalg_cholesky", "linalg_qr", "linalg_svd", "linalg_eigh", "linalg_eig"}) {
        if (without_geev() && name == std::string("linalg_eig")) continue;
        SCOPED_TRACE(name);
        const size_t blocks = amp_cuda_counters().live_blocks;
        for (int status : {2, 6}) { // ALLOC_FAILED, EXECUTION_FAILED
            Scope scope;
            std::vector<amp_tensor *> outputs;
            fake->fail_factor = status;
            fake->fail_factors = status == 2 ? 2 : 1; // where there is no memory it is tried again
            EXPECT_EQ(call(name, {a}, {}, &outputs), status == 2 ? AMP_ERROR_MEMORY : AMP_ERROR_DEVICE);
            EXPECT_EQ(fake->fail_factor, 0);
            EXPECT_EQ(error(),
                      std::string(name) + (status == 2 ? ": cuda: cuSOLVER has no memory to factor a matrix"
                                                       : ": cuda: cuSOLVER cannot factor a matrix (status 6)"));
        }
        EXPECT_EQ(amp_cuda_counters().live_blocks, blocks);
        Scope scope;
        for (int status : {2, 0}) { // no memory, until the pool has given back what it kept
            fake->fail_factor = status;
            EXPECT_EQ(call(name, {a}, {}, nullptr), AMP_OK) << amp_last_error();
        }
    }
}

TEST_F(CudaSolver, TrianglesThatFailNameTheOpAndLeaveNothing) {
    if (without_trsm()) GTEST_SKIP() << "no step is cuBLAS's";
    amp_tensor *a = sent(mild(70, AMP_F64, 1)), *b = sent(numbers(AMP_F64, {70, 2}, 2));
    const size_t blocks = amp_cuda_counters().live_blocks;
    for (int status : {3, 13}) { // ALLOC_FAILED, EXECUTION_FAILED
        Scope scope;
        fake->fail_factor = status;
        fake->fail_factors = status == 3 ? 2 : 1;
        EXPECT_EQ(call("triangular_solve", {b, a}, {}, nullptr), status == 3 ? AMP_ERROR_MEMORY : AMP_ERROR_DEVICE);
        EXPECT_EQ(error(), status == 3
                               ? "triangular_solve: cuda: cuBLAS has no memory to solve triangular equations"
                               : "triangular_solve: cuda: cuBLAS cannot solve triangular equations (status 13)");
    }
    EXPECT_EQ(amp_cuda_counters().live_blocks, blocks);
    EXPECT_NE(op("triangular_solve", {b, a}), nullptr) << amp_last_error();
}

TEST_F(CudaSolver, AWorkspaceThatThereIsNotIsToldOfAndLeavesNothing) {
    if (without_solver()) GTEST_SKIP() << "no step is cuSOLVER's";
    amp_tensor *a = sent(mild(70, AMP_F64, 1));
    const size_t blocks = amp_cuda_counters().live_blocks, device = fake->factor_device, host = fake->factor_host;
    {
        Scope scope;
        fake->factor_device = 2 * fake->memory_limit;
        EXPECT_EQ(call("linalg_inv", {a}, {}, nullptr), AMP_ERROR_MEMORY);
        EXPECT_TRUE(contains(error(), "linalg_inv: cuda")) << error();
        fake->factor_device = device;
    }
    EXPECT_EQ(amp_cuda_counters().live_blocks, blocks);
    {
        Scope scope;
        fake->factor_host = size_t(1) << 62;
        EXPECT_EQ(call("linalg_qr", {a}, {}, nullptr), AMP_ERROR_MEMORY);
        EXPECT_EQ(error(), "linalg_qr: cuda: the host has no memory for a workspace of cuSOLVER");
        fake->factor_host = host;
    }
    EXPECT_EQ(amp_cuda_counters().live_blocks, blocks);
    EXPECT_NE(op("linalg_inv", {a}), nullptr) << amp_last_error();
    EXPECT_EQ(fake->factor_host, host);
}

TEST_F(CudaSolver, ExplainNamesItInOpsMadeOfSteps) {
    amp_tensor *a = sent(mild(64, AMP_F64, 1));
    for (const char *name : {"nuclear_norm", "svd", "linalg_cond", "linalg_matrix_rank"}) {
        amp_explain_begin();
        ASSERT_NE(all(name, {a})[0], nullptr);
        amp_explain_end();
        char *report = amp_explain_report(AMP_EXPLAIN_JSON);
        ASSERT_NE(report, nullptr);
        EXPECT_TRUE(contains(report, without_solver() ? "has no cusolverDnCreate" : "\"cusolver\"")) << report;
        amp_explain_free(report);
        amp_explain_reset();
    }
}

TEST_F(CudaSolver, ExplainNamesItOrSaysWhyItIsNotThere) {
    amp_tensor *large = sent(mild(64, AMP_F64, 1)), *small = sent(mild(63, AMP_F64, 1));
    amp_explain_begin();
    op("linalg_inv", {large});
    op("linalg_inv", {small});
    amp_explain_end();
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    ASSERT_NE(report, nullptr);
    EXPECT_TRUE(contains(report, without_solver() ? "has no cusolverDnCreate" : "\"cusolver\"")) << report;
    EXPECT_TRUE(contains(report, "matrix_solve_f64")) << report;
    amp_explain_free(report);
    amp_explain_reset();
}

TEST_F(CudaSolver, ExplainNamesTheLibraryOfEachOpOrWhatItLacks) {
    amp_tensor *a = sent(mild(64, AMP_F64, 1)), *b = sent(numbers(AMP_F64, {64, 2}, 2));
    const std::string triangle = explained("triangular_solve", {b, a}), eig = explained("linalg_eig", {a});
    const std::string least = explained("linalg_lstsq", {a, b});
    EXPECT_TRUE(contains(triangle, without_trsm() ? "has no cublasCreate_v2" : "\"cublas\"")) << triangle;
    EXPECT_TRUE(contains(eig, without_solver() ? "has no cusolverDnCreate"
                              : without_geev() ? "has no cusolverDnXgeev (CUDA 12.6 has)"
                                               : "\"cusolver\""))
        << eig;
    EXPECT_TRUE(contains(least, without_solver() ? "has no cusolverDnCreate"
                                : without_trsm() ? "has no cublasCreate_v2"
                                                 : "\"cusolver+cublas\""))
        << least;
    amp_tensor *tau = sent(numbers(AMP_F64, {64}, 3));
    const std::string reflectors = explained("ormqr", {a, tau, b});
    EXPECT_TRUE(contains(reflectors, without_solver() ? "has no cusolverDnCreate" : "\"cusolver\"")) << reflectors;
    amp_tensor *small = sent(mild(63, AMP_F64, 1));
    EXPECT_TRUE(contains(explained("linalg_eig", {small}), "\"matrix_eig_f64\""));
}

// As PyTorch's lists for CUDA have none of these ops, while those for the CPU have them in f32.
TEST_F(CudaSolver, AutocastLeavesHalvesAloneThatNoOpTakes) {
    const Region region(AMP_DEVICE_CUDA, AMP_F16);
    amp_tensor *a = mild(64, AMP_F32, 1), *b = numbers(AMP_F32, {64, 2}, 2), *tau = numbers(AMP_F32, {64}, 3);
    for (amp_dtype dtype : {AMP_F16, AMP_BF16}) {
        amp_tensor *x = sent(op("to", {a, dtype})), *y = sent(op("to", {b, dtype})), *t = sent(op("to", {tau, dtype}));
        const std::pair<const char *, std::vector<Value>> calls[] = {{"linalg_solve", {x, y}},
                                                                     {"triangular_solve", {y, x}},
                                                                     {"linalg_lstsq", {x, y}},
                                                                     {"linalg_eig", {x}},
                                                                     {"ormqr", {x, t, y}}};
        for (const auto &c : calls) {
            SCOPED_TRACE(c.first);
            EXPECT_EQ(call(c.first, c.second, {}, nullptr), AMP_ERROR_DTYPE);
            EXPECT_TRUE(contains(error(), "expected f32, f64, c64 or c128"));
        }
    }
    EXPECT_EQ(amp_tensor_dtype(op("linalg_solve", {sent(a), sent(b)})), AMP_F32);
}

} // namespace
