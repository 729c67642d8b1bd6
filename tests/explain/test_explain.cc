// The explain report: what ran, in which type, and why; for people and for programs.
#include <jansson.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "explain_report.h"
#include "sanitizers.h"

using namespace amp_test;

TEST_F(Explain, CountsCallsByOpAndShape) {
    amp_tensor *y = tensor(AMP_F32, {5});
    for (int i = 0; i < 3; i++) op("add", {x_, x_});
    op("add", {y, y});
    const Report r;
    EXPECT_EQ(r.rows(), 2u);
    int64_t calls = 0;
    for (size_t i = 0; i < 2; i++) {
        json_t *row = r.row("add", i);
        const bool of_x = Report::text(row, "inputs") == "f32[2, 3], f32[2, 3]";
        EXPECT_EQ(Report::number(row, "calls"), of_x ? 3 : 1);
        EXPECT_GT(Report::number(row, "nanoseconds"), 0);
        EXPECT_LE(Report::number(row, "fastest_nanoseconds"), Report::number(row, "nanoseconds"));
        EXPECT_EQ(Report::text(row, "device"), "cpu");
        EXPECT_EQ(Report::number(row, "failures"), 0);
        calls += Report::number(row, "calls");
    }
    EXPECT_EQ(calls, 4);
}

TEST_F(Explain, TellsPolicyTypeCastsAndKernel) {
    {
        Region region;
        op("linear", {x_, w_});
        op("linear", {x_, w_});
    }
    const Report r;
    json_t *row = r.row("linear");
    EXPECT_EQ(Report::number(row, "calls"), 2);
    EXPECT_EQ(Report::text(row, "policy"), "lower");
    EXPECT_EQ(Report::text(row, "region"), "bf16");
    EXPECT_EQ(Report::text(row, "runs_in"), "bf16");
    EXPECT_EQ(Report::number(row, "casts_made"), 1) << "the weight, once";
    EXPECT_EQ(Report::number(row, "casts_cached"), 1);
    EXPECT_EQ(Report::number(row, "casts_fused"), 2) << "the input is rounded on the way in";
    EXPECT_EQ(Report::text(row, "kernel").rfind("gemm_bf16_", 0), 0u) << Report::text(row, "kernel");
    EXPECT_NE(Report::text(row, "isa"), "");
    EXPECT_TRUE(json_is_array(json_object_get(row, "refused")));
    EXPECT_TRUE(json_is_false(json_object_get(row, "overridden")));
    json_t *cache = json_object_get(r.root(), "cast_cache");
    EXPECT_EQ(Report::number(cache, "entries"), 1);
    EXPECT_GT(Report::number(cache, "hits"), 0);
}

TEST_F(Explain, KernelsThatWereRefusedHaveAReason) {
    Region region;
    op("linear", {x_, w_});
    const Report r;
    size_t i = 0;
    json_t *refusal = nullptr;
    json_array_foreach(json_object_get(r.row("linear"), "refused"), i, refusal) {
        EXPECT_NE(Report::text(refusal, "kernel"), "");
        EXPECT_NE(Report::text(refusal, "reason"), "");
    }
}

TEST_F(Explain, BypassesAreCountedWithTheirReason) {
    amp_tensor *f64 = tensor(AMP_F64, {2, 2}), *f32 = tensor(AMP_F32, {2, 2});
    {
        Region region;
        op("mm", {f64, f64});
        op("mm_out", {f32, f32}, {{"out", f32}});
        op("addmm_", {f32, f32, f32});
    }
    {
        Region cuda(AMP_DEVICE_CUDA);
        op("bmm", {tensor(AMP_F32, {1, 2, 2}), tensor(AMP_F32, {1, 2, 2})});
        op("add", {f32, f32});
    }
    const Report r;
    EXPECT_NE(Report::text(r.row("mm"), "bypass").find("f64"), std::string::npos);
    EXPECT_NE(Report::text(r.row("mm_out"), "bypass").find("out="), std::string::npos);
    EXPECT_NE(Report::text(r.row("addmm_"), "bypass").find("in-place"), std::string::npos);
    EXPECT_NE(Report::text(r.row("bmm"), "bypass").find("another device"), std::string::npos);
    EXPECT_EQ(Report::text(r.row("bmm"), "policy"), "");
    EXPECT_EQ(Report::text(r.row("add"), "bypass"), "") << "nothing would have been cast";
}

TEST_F(Explain, RowsTellApartHowACallRan) {
    op("mm", {op("t", {w_}), w_});
    {
        Region region;
        op("mm", {op("t", {w_}), w_});
    }
    const Report r;
    EXPECT_NE(Report::text(r.row("mm", 0), "runs_in"), Report::text(r.row("mm", 1), "runs_in"));
}

TEST_F(Explain, RunsInIsWhatItRanInWhereNothingWasCast) {
    amp_tensor *f64 = tensor(AMP_F64, {2, 2}), *i64 = tensor(AMP_I64, {2, 2});
    {
        Region region;
        op("linear", {f64, f64});
        op("mse_loss", {f64, f64});
        op("matmul", {i64, i64});
        op("add", {f64, f64});
    }
    op("add", {i64, tensor(AMP_F32, {})});
    const Report r;
    EXPECT_EQ(Report::text(r.row("linear"), "runs_in"), "f64");
    EXPECT_EQ(Report::text(r.row("mse_loss"), "runs_in"), "f64");
    EXPECT_EQ(Report::text(r.row("matmul"), "runs_in"), "i64");
    EXPECT_NE(Report::text(r.row("matmul"), "bypass").find("no argument is"), std::string::npos);
    const std::string first = Report::text(r.row("add", 0), "runs_in"),
                      second = Report::text(r.row("add", 1), "runs_in");
    EXPECT_EQ(std::min(first, second), "f32") << "a number of a higher category";
    EXPECT_EQ(std::max(first, second), "f64");
}

TEST_F(Explain, TheTableExplainsThePoliciesThatItShows) {
    {
        Region region;
        op("linear", {x_, w_});
    }
    const std::string table = report(AMP_EXPLAIN_TABLE);
    EXPECT_NE(table.find("\n  lower: runs in the region's dtype"), std::string::npos) << table;
    EXPECT_EQ(table.find("promote:"), std::string::npos) << table;
}

TEST_F(Explain, AWeightThatIsCastAtEachCallIsNamed) {
    amp_tensor *made = op("mul", {w_, 1.0});
    Region region;
    op("linear", {x_, w_});
    EXPECT_EQ(report(AMP_EXPLAIN_TABLE).find("amp_tensor_mark_parameter"), std::string::npos);
    op("linear", {x_, made});
    EXPECT_NE(report(AMP_EXPLAIN_TABLE).find("amp_tensor_mark_parameter"), std::string::npos);
}

TEST_F(Explain, AnOpWithoutInputsTakesOneLine) {
    op("zeros", {AMP_DIMS(2)});
    EXPECT_EQ(report(AMP_EXPLAIN_TABLE).find("    \n"), std::string::npos) << report(AMP_EXPLAIN_TABLE);
}

TEST_F(Explain, AnOverrideIsNamed) {
    ASSERT_EQ(amp_autocast_override("mm", AMP_DEVICE_CPU, AMP_OVERRIDE_DENY), AMP_OK);
    {
        Region region;
        op("mm", {tensor(AMP_BF16, {2, 2}), tensor(AMP_BF16, {2, 2})});
    }
    ASSERT_EQ(amp_autocast_override("mm", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    const Report r;
    EXPECT_TRUE(json_is_true(json_object_get(r.row("mm"), "overridden")));
    EXPECT_EQ(Report::text(r.row("mm"), "runs_in"), "f32");
}

TEST_F(Explain, FailuresAreCounted) {
    op("mm", {x_, x_});
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
    const Report r;
    EXPECT_EQ(Report::number(r.row("mm"), "calls"), 1);
    EXPECT_EQ(Report::number(r.row("mm"), "failures"), 1);
}

TEST_F(Explain, OfNothingIsAReportToo) {
    const Report r;
    EXPECT_EQ(r.rows(), 0u);
    EXPECT_NE(Report::text(r.root(), "cpu"), "");
    EXPECT_EQ(Report::text(r.root(), "libamp"), amp_version_string());
    EXPECT_FALSE(report(AMP_EXPLAIN_TABLE).empty());
}

TEST_F(Explain, TheTableNamesOpsKernelsAndPolicies) {
    {
        Region region;
        op("linear", {x_, w_});
    }
    const std::string table = report(AMP_EXPLAIN_TABLE);
    for (const char *word : {"linear", "bf16", "lower", "gemm_bf16_", "f32[2, 3]"}) {
        EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
    }
}

TEST_F(Explain, TheTableShowsTheInputsTypeWhereAutocastLeftTheArgumentsAlone) {
    op("embedding", {tensor(AMP_I64, {2}), tensor(AMP_F64, {4, 3})});
    EXPECT_NE(report(AMP_EXPLAIN_TABLE).find("  f64  0/0/0"), std::string::npos) << report(AMP_EXPLAIN_TABLE);
    amp_explain_reset();
    op("add", {tensor(AMP_I64, {2}), tensor(AMP_BF16, {2})});
    EXPECT_NE(report(AMP_EXPLAIN_TABLE).find("  bf16  0/0/0"), std::string::npos) << report(AMP_EXPLAIN_TABLE);
}

TEST_F(Explain, BeginsNestAndResetForgets) {
    amp_explain_begin();
    amp_explain_end();
    op("add", {x_, x_});
    EXPECT_EQ(Report().rows(), 1u) << "the outer begin still holds";
    amp_explain_reset();
    EXPECT_EQ(Report().rows(), 0u);
    amp_explain_end();
    op("add", {x_, x_});
    EXPECT_EQ(Report().rows(), 0u) << "not recording";
    amp_explain_end();
    amp_explain_begin();
    op("add", {x_, x_});
    EXPECT_EQ(Report().rows(), 1u) << "an end too many does no harm";
}

TEST_F(Explain, TheLongestShapesFit) {
    const int64_t extent = 1000000000000000;
    const Shape shape = {0, extent, 1, extent / 1000, 1, 1, 1, 1};
    const Shape strides = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, 1, 1, 1, 1};
    amp_tensor *empty = amp_from_memory(nullptr, AMP_F32, 8, shape.data(), strides.data(), nullptr, nullptr);
    if (!empty) {
        amp_clear_error(); // the product of the others is checked too
        const Shape less = {0, extent, 1, 1, 1, 1, 1, 1};
        empty = amp_from_memory(nullptr, AMP_F32, 8, less.data(), nullptr, nullptr, nullptr);
    }
    ASSERT_NE(empty, nullptr) << amp_last_error();
    op("add", {empty, empty});
    amp_clear_error();
    const Report r;
    EXPECT_EQ(Report::text(r.row("add"), "inputs").rfind("f32[0, 1000000000000000", 0), 0u);
}

// The first call of a row is told apart, and the median is that of the others: of an odd number of them it is one of
// them.
TEST_F(Explain, TheFirstCallAndTheMedianOfTheOthers) {
    op("add", {x_, x_});
    {
        const Report r;
        json_t *once = r.row("add");
        EXPECT_EQ(Report::number(once, "first_nanoseconds"), Report::number(once, "nanoseconds"));
        EXPECT_TRUE(json_is_null(json_object_get(once, "median_nanoseconds")));
    }
    amp_tensor *large = random_tensor(AMP_F32, {1000000}, 1);
    op("exp", {large});
    const Report first;
    const int64_t before = Report::number(first.row("exp"), "nanoseconds");
    for (int i = 0; i < 1000; i++) op("add", {x_, x_});
    op("exp", {large});
    const Report r;
    json_t *exp = r.row("exp"), *add = r.row("add");
    EXPECT_EQ(Report::number(exp, "first_nanoseconds"), before);
    const double second = double(Report::number(exp, "nanoseconds") - before);
    EXPECT_NEAR(double(Report::number(exp, "median_nanoseconds")), second, 1e-6 * second) << "kept as float";
    EXPECT_GE(Report::number(add, "median_nanoseconds"), Report::number(add, "fastest_nanoseconds"));
    EXPECT_LE(Report::number(add, "median_nanoseconds"), Report::number(add, "nanoseconds") / 500);
}

// A row's memory is taken at its first call; the next ones take none, however many.
TEST_F(Explain, RecordingAllocatesOnlyAtTheFirstCallOfARow) {
    const auto call = [&] {
        Scope scope;
        op("add", {x_, x_});
    };
    call();
    const size_t before = amp_memory_statistics().system_allocations, bytes = amp_memory_statistics().live_bytes;
    for (int i = 0; i < 1000; i++) call();
    EXPECT_EQ(amp_memory_statistics().live_bytes, bytes);
    if (!amp_test::under_asan) {
        EXPECT_EQ(amp_memory_statistics().system_allocations, before);
    }
    EXPECT_EQ(Report::number(Report().row("add"), "calls"), 1001);
}

TEST_F(Explain, TheLayoutOfEachInputIsShown) {
    amp_tensor *image = tensor(AMP_F32, {2, 3, 4, 5}), *weight = tensor(AMP_F32, {6, 3, 1, 1});
    amp_tensor *last =
        op("permute", {op("contiguous", {op("permute", {image, AMP_DIMS(0, 2, 3, 1)})}), AMP_DIMS(0, 3, 1, 2)});
    amp_explain_reset();
    op("conv2d", {image, weight});
    op("conv2d", {last, weight});
    op("mm", {op("t", {x_}), x_});
    const Report r;
    EXPECT_EQ(r.rows(), 4u) << "calls on different layouts are different rows";
    std::string texts[2];
    for (size_t i = 0; i < 2; i++) texts[i] = Report::text(r.row("conv2d", i), "inputs");
    std::sort(texts, texts + 2);
    EXPECT_EQ(texts[0], "f32[2, 3, 4, 5] channels-last, f32[6, 3, 1, 1]");
    EXPECT_EQ(texts[1], "f32[2, 3, 4, 5], f32[6, 3, 1, 1]");
    EXPECT_EQ(Report::text(r.row("mm"), "inputs"), "f32[3, 2] strided, f32[2, 3]");
    json_t *tensors = json_object_get(r.row("mm"), "tensors");
    ASSERT_EQ(json_array_size(tensors), 2u);
    EXPECT_EQ(Report::text(json_array_get(tensors, 0), "argument"), "input");
    EXPECT_EQ(Report::text(json_array_get(tensors, 0), "dtype"), "f32");
    EXPECT_EQ(Report::text(json_array_get(tensors, 0), "layout"), "strided");
    EXPECT_EQ(Report::text(json_array_get(tensors, 1), "layout"), "contiguous");
    json_t *shape = json_object_get(json_array_get(tensors, 1), "shape");
    ASSERT_EQ(json_array_size(shape), 2u);
    EXPECT_EQ(json_integer_value(json_array_get(shape, 0)), 2);
    EXPECT_EQ(json_integer_value(json_array_get(shape, 1)), 3);
}

TEST_F(Explain, WindowsOfOneShapeAreRowsOfTheirOwn) {
    amp_tensor *image = tensor(AMP_F32, {1, 4, 9, 9}), *weight = tensor(AMP_F32, {4, 4, 3, 3});
    amp_explain_reset();
    op("conv2d", {image, weight});
    op("conv2d", {image, weight}, {{"stride", AMP_DIMS(1, 1)}}); // the default, given
    op("conv2d", {image, weight}, {{"stride", AMP_DIMS(2)}, {"padding", AMP_DIMS(1, 0)}});
    op("narrow", {image, 2, 0, 4}); // places are not told apart
    op("narrow", {image, 2, 1, 4});
    const Report r;
    EXPECT_EQ(r.rows(), 3u);
    std::vector<std::string> options;
    for (size_t i = 0; i < 2; i++) {
        char *text = json_dumps(json_object_get(r.row("conv2d", i), "options"), JSON_COMPACT);
        options.push_back(text);
        free(text);
    }
    std::sort(options.begin(), options.end());
    EXPECT_EQ(options, (std::vector<std::string>{R"({"stride":[2,2],"padding":[1,0]})", "{}"}));
}

TEST_F(Explain, FusedOpsTellWindowsActivationsAndWhichTensorIsWhich) {
    amp_tensor *image = tensor(AMP_F32, {1, 4, 9, 9}), *weight = tensor(AMP_F32, {4, 4, 3, 3}),
               *row = tensor(AMP_F32, {4});
    amp_explain_reset();
    op("convolution_pointwise", {image, weight, row});
    op("convolution_pointwise", {image, weight, row}, {{"attr", "none"}}); // the default, given
    op("convolution_pointwise", {image, weight, row}, {{"attr", "relu"}});
    op("convolution_pointwise", {image, weight, row}, {{"attr", "relu"}, {"stride", AMP_DIMS(2)}});
    op("convolution_pointwise", {image, weight}, {{"scale", row}});
    const Report r;
    EXPECT_EQ(r.rows(), 4u);
    std::vector<std::string> rows;
    for (size_t i = 0; i < 4; i++) {
        json_t *const row = r.row("convolution_pointwise", i);
        char *text = json_dumps(json_object_get(row, "options"), JSON_COMPACT);
        rows.push_back(Report::text(row, "inputs") + " " + text);
        free(text);
    }
    std::sort(rows.begin(), rows.end());
    const std::string inputs = "f32[1, 4, 9, 9], f32[4, 4, 3, 3], ";
    EXPECT_EQ(rows, (std::vector<std::string>{inputs + R"(f32[4] {"attr":"relu"})",
                                              inputs + R"(f32[4] {"stride":[2],"attr":"relu"})", inputs + "f32[4] {}",
                                              inputs + "scale f32[4] {}"}));
}

TEST_F(Explain, ALongListOfInputsIsCutButNotMistakenForAnother) {
    std::vector<amp_tensor *> many(30, x_), others = many;
    others.back() = tensor(AMP_F32, {5, 3});
    op("cat", {many});
    op("cat", {many});
    op("cat", {others});
    const Report r;
    EXPECT_EQ(r.rows(), 2u);
    const std::string text = Report::text(r.row("cat"), "inputs");
    EXPECT_EQ(text.rfind("f32[2, 3], f32[2, 3], ", 0), 0u) << text;
    EXPECT_NE(text.find("], … (30 in all)"), std::string::npos) << text;
    EXPECT_LT(json_array_size(json_object_get(r.row("cat"), "tensors")), 30u);
}

TEST_F(Explain, ShapesBeyondTheBoundShareARow) {
    if (amp_test::under_tsan) {
        GTEST_SKIP() << "one thread";
    }
    enum { SHAPES = 6000 };
    const size_t before = amp_memory_statistics().live_bytes;
    for (int64_t n = 1; n <= SHAPES; n++) {
        Scope scope;
        amp_tensor *x = op("empty", {AMP_DIMS(n)});
        op("add", {x, x});
    }
    EXPECT_LT(amp_memory_statistics().live_bytes - before, size_t(10) << 20);
    const Report r;
    EXPECT_LE(r.rows(), 4100u);
    double calls = 0;
    size_t others = 0, i;
    json_t *row;
    json_array_foreach(json_object_get(r.root(), "ops"), i, row) {
        if (Report::text(row, "op") != "add") continue;
        calls += Report::number(row, "calls");
        if (!json_is_true(json_object_get(row, "other_shapes"))) continue;
        others++;
        EXPECT_EQ(Report::text(row, "inputs"), "other shapes");
    }
    EXPECT_EQ(calls, SHAPES);
    EXPECT_EQ(others, 1u);
    EXPECT_NE(report(AMP_EXPLAIN_TABLE).find("other shapes: the report keeps"), std::string::npos);
}

TEST_F(Explain, ThreadsShareOneReport) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            Scope scope;
            for (int k = 0; k < 25; k++) op("add", {x_, x_});
        });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(Report::number(Report().row("add"), "calls"), 100);
}

// ---- What follows from the rows ------------------------------------------------------------------------------------
TEST_F(Explain, OperationsFollowFromTheShapes) {
    amp_tensor *image = tensor(AMP_F32, {2, 4, 9, 9}), *kernels = tensor(AMP_F32, {6, 2, 3, 3});
    amp_tensor *batch = tensor(AMP_F32, {5, 2, 3}), *q = tensor(AMP_F32, {2, 4, 6, 8}),
               *k = tensor(AMP_F32, {2, 4, 5, 8});
    amp_tensor *hidden = tensor(AMP_F32, {2, 4}), *gates = tensor(AMP_F32, {12, 3}), *own = tensor(AMP_F32, {12, 4});
    op("linear", {x_, w_});
    op("bmm", {batch, tensor(AMP_F32, {5, 3, 7})});
    op("addbmm", {tensor(AMP_F32, {2, 7}), batch, tensor(AMP_F32, {5, 3, 7})});
    op("tensordot", {batch, tensor(AMP_F32, {3, 7}), AMP_DIMS(1)});
    op("conv2d", {image, kernels}, {{"stride", AMP_DIMS(2)}, {"groups", int64_t(2)}});
    op("conv_transpose2d", {image, tensor(AMP_F32, {4, 6, 3, 3})});
    op("scaled_dot_product_attention", {q, k, k});
    op("gru_cell", {x_, std::vector<amp_tensor *>{hidden}, gates, own});
    op("add", {x_, x_});
    op("mm", {x_, x_}); // fails
    amp_clear_error();
    const Report r;
    const auto operations = [&](const char *name) {
        return json_number_value(json_object_get(r.row(name), "operations"));
    };
    EXPECT_EQ(operations("linear"), 2 * 2 * 3 * 4);
    EXPECT_EQ(operations("bmm"), 2 * 5 * 2 * 3 * 7);
    EXPECT_EQ(operations("addbmm"), 2 * 5 * 2 * 3 * 7);
    EXPECT_EQ(operations("tensordot"), 2 * 5 * 2 * 3 * 7);
    EXPECT_EQ(operations("conv2d"), 2 * (2 * 6 * 4 * 4) * (2 * 3 * 3));
    EXPECT_EQ(operations("conv_transpose2d"), 2 * (2 * 4 * 9 * 9) * (6 * 3 * 3));
    EXPECT_EQ(operations("scaled_dot_product_attention"), 2 * (2 * 4) * (6 * 5) * (8 + 8));
    EXPECT_EQ(operations("gru_cell"), 2 * 2 * (12 * 3 + 12 * 4));
    EXPECT_TRUE(json_is_null(json_object_get(r.row("add"), "operations")));
    EXPECT_TRUE(json_is_null(json_object_get(r.row("mm"), "operations")));
    EXPECT_TRUE(json_is_null(json_object_get(r.row("mm"), "gflops")));
    EXPECT_GT(json_number_value(json_object_get(r.row("linear"), "gflops")), 0);
}

TEST_F(Explain, CausalAttentionIsARowOfItsOwnWithHalfTheWork) {
    amp_tensor *q = tensor(AMP_F32, {1, 4, 8});
    op("scaled_dot_product_attention", {q, q, q});
    op("scaled_dot_product_attention", {q, q, q}, {{"is_causal", true}});
    const Report r;
    EXPECT_EQ(r.rows(), 2u);
    for (size_t i = 0; i < 2; i++) {
        json_t *row = r.row("scaled_dot_product_attention", i);
        const bool causal = json_is_true(json_object_get(json_object_get(row, "options"), "is_causal"));
        EXPECT_EQ(json_number_value(json_object_get(row, "operations")), 2 * (causal ? 10 : 16) * 16);
    }
    EXPECT_NE(report(AMP_EXPLAIN_TABLE).find("; is_causal"), std::string::npos);
}

TEST_F(Explain, TotalsPerOpAndLabelAndTheClock) {
    amp_label("one") {
        op("add", {x_, x_});
        op("add", {w_, w_});
    }
    amp_label("two") op("exp", {x_});
    op("exp", {x_});
    const Report r;
    int64_t sum = 0;
    for (size_t i = 0; i < 2; i++) {
        sum += Report::number(r.row("add", i), "nanoseconds") + Report::number(r.row("exp", i), "nanoseconds");
    }
    EXPECT_EQ(Report::number(r.root(), "nanoseconds"), sum);
    EXPECT_GE(Report::number(r.root(), "wall_nanoseconds"), sum);
    size_t i = 0;
    json_t *total = nullptr;
    std::map<std::string, int64_t> calls;
    json_array_foreach(json_object_get(r.root(), "totals"), i, total) calls[Report::text(total, "op")] =
        Report::number(total, "calls");
    EXPECT_EQ(calls, (std::map<std::string, int64_t>{{"add", 2}, {"exp", 2}}));
    calls.clear();
    json_array_foreach(json_object_get(r.root(), "labels"), i, total) calls[Report::text(total, "label")] =
        Report::number(total, "calls");
    EXPECT_EQ(calls, (std::map<std::string, int64_t>{{"one", 2}, {"two", 1}, {"", 1}}));
    const std::string table = report(AMP_EXPLAIN_TABLE);
    for (const char *title : {"\nrecorded for ", "\nper op", "\nper label", "  (none) "})
        EXPECT_NE(table.find(title), std::string::npos) << title << "\n" << table;
}

TEST_F(Explain, TheClockStandsWhileNothingIsRecorded) {
    amp_explain_end();
    const int64_t before = Report::number(Report().root(), "wall_nanoseconds");
    usleep(2000);
    EXPECT_EQ(Report::number(Report().root(), "wall_nanoseconds"), before);
    amp_explain_begin();
}

TEST_F(Explain, AnOpThatIsMadeOfOthersShowsTheirKernels) {
    amp_tensor *hidden = tensor(AMP_F32, {2, 4}), *gates = tensor(AMP_F32, {16, 3}), *own = tensor(AMP_F32, {16, 4});
    {
        Region region;
        op("lstm_cell", {x_, std::vector<amp_tensor *>{hidden, hidden}, gates, own});
    }
    const Report r;
    json_t *row = r.row("lstm_cell"), *parts = json_object_get(row, "parts");
    EXPECT_EQ(r.rows(), 1u) << "what it calls are no rows";
    ASSERT_GE(json_array_size(parts), 2u);
    EXPECT_EQ(std::string(json_string_value(json_array_get(parts, 0))).rfind("gemm_bf16_", 0), 0u);
    EXPECT_GT(Report::number(row, "casts_made"), 0) << "those of its products";
    EXPECT_EQ(Report::text(row, "runs_in"), "bf16");
    EXPECT_NE(report(AMP_EXPLAIN_TABLE).find("; kernels gemm_bf16_"), std::string::npos);
}

// ---- Labels -----------------------------------------------------------------------------------------------------------

TEST_F(Explain, LabelsTellCallSitesApart) {
    amp_label("encoder") {
        for (int layer = 0; layer < 2; layer++) {
            amp_label_here(layer == 0 ? "layer0" : "layer1");
            for (int i = 0; i <= layer; i++) op("add", {x_, x_});
        }
    }
    op("add", {x_, x_});
    const Report r;
    ASSERT_EQ(r.rows(), 3u);
    std::map<std::string, int64_t> calls;
    for (size_t i = 0; i < 3; i++)
        calls[Report::text(r.row("add", i), "label")] = Report::number(r.row("add", i), "calls");
    const std::map<std::string, int64_t> expected = {{"", 1}, {"encoder/layer0", 1}, {"encoder/layer1", 2}};
    EXPECT_EQ(calls, expected);
}

TEST_F(Explain, TheTableHasAColumnOfLabelsOnlyWhereThereAreAny) {
    op("add", {x_, x_});
    EXPECT_EQ(report(AMP_EXPLAIN_TABLE).find("label"), std::string::npos);
    {
        amp_label_here("decoder");
        op("add", {x_, x_});
    }
    const std::string table = report(AMP_EXPLAIN_TABLE);
    EXPECT_NE(table.find("label"), std::string::npos) << table;
    EXPECT_TRUE(std::regex_search(table, std::regex("\n  add +decoder +1 "))) << table;
}

TEST_F(Explain, LabelsAreBoundedAndBalanced) {
    const std::string name(50, 'n');
    for (int i = 0; i < 40; i++) EXPECT_EQ(amp_label_enter(name.c_str()), AMP_OK);
    EXPECT_EQ(std::strlen(amp_label_path()), static_cast<size_t>(AMP_LABEL_BYTES - 1));
    op("add", {x_, x_});
    for (int i = 0; i < 39; i++) EXPECT_EQ(amp_label_exit(), AMP_OK);
    EXPECT_EQ(amp_label_path(), name);
    EXPECT_EQ(amp_label_exit(), AMP_OK);
    EXPECT_STREQ(amp_label_path(), "");
    EXPECT_EQ(amp_label_exit(), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"label: exit without an open label"}));
    EXPECT_EQ(Report().rows(), 1u);
}

TEST_F(Explain, ALabelIsCutBetweenCharacters) {
    const std::string long_name = std::string(AMP_LABEL_BYTES - 2, 'n') + "\xc3\xa4\xc3\xb6";
    amp_label_here(long_name.c_str());
    op("add", {x_, x_});
    EXPECT_EQ(Report::text(Report().row("add"), "label"), std::string(AMP_LABEL_BYTES - 2, 'n'));
}

TEST_F(Explain, ALabelThatIsNoTextIsAnErrorAndStillEnds) {
    {
        amp_label_here(nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"label: the name is NULL"}));
        amp_label_here("\xff");
        op("add", {x_, x_});
    }
    EXPECT_STREQ(amp_label_path(), "");
    EXPECT_EQ(Report::text(Report().row("add"), "label"), "?");
}
