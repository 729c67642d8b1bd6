// The table that `amp explain` prints of a report, which any program may have written.
#include <jansson.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "amp_test.h"
#include "explain/summary.h"
#include "explain/table.h"

static std::string table_of(const std::string &ops, double least_share = 0, int width = 0) {
    json_error_t error;
    json_t *root = json_loads(("{\"ops\": [" + ops + "]}").c_str(), 0, &error);
    EXPECT_NE(root, nullptr) << error.text;
    char *text = amp_explain_table(root, least_share, width);
    const std::string copy = text ? text : "";
    std::free(text);
    json_decref(root);
    return copy;
}

static std::string row_of(const char *op, const char *region, int nanoseconds, const char *kernel = "k",
                          const char *inputs = "f32[2]") {
    const std::string policy = *region ? std::string(", \"policy\": \"lower\", \"region\": \"") + region + "\"" : "";
    return std::string("{\"op\": \"") + op +
           "\", \"calls\": 3, \"first_nanoseconds\": 7770, \"nanoseconds\": " + std::to_string(nanoseconds) +
           ", \"median_nanoseconds\": 1230, \"runs_in\": \"f32\", \"kernel\": \"" + kernel + "\", \"inputs\": \"" +
           inputs + "\"" + policy + "}";
}

static size_t longest_line(const std::string &text) {
    size_t longest = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
    return longest;
}

TEST(ExplainTable, CutsNoName) {
    const std::string op(60, 'o'), kernel = "dnnl:" + std::string(80, 'k') + ":end";
    const std::string table = table_of(row_of(op.c_str(), "", 100, kernel.c_str()));
    EXPECT_NE(table.find(op), std::string::npos) << table;
    EXPECT_NE(table.find(kernel + "\n"), std::string::npos) << table;
}

TEST(ExplainTable, GroupsRowsByRegionWithSubtotals) {
    const std::string table = table_of(row_of("linear", "bf16", 3000000) + "," + row_of("gelu", "", 2500000) + "," +
                                       row_of("linear", "", 2000000) + "," + row_of("linear", "f16", 1500000) + "," +
                                       row_of("add", "bf16", 1000000));
    std::vector<std::string> words;
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
        if (line.find('%') == std::string::npos) continue;
        std::istringstream text(line.substr(0, line.find('%')));
        std::string joined;
        for (std::string word; text >> word;) joined += (joined.empty() ? "" : " ") + word;
        words.push_back(joined);
    }
    EXPECT_EQ(words,
              (std::vector<std::string>{"linear 9 6.500 65.0", "gelu 3 2.500 25.0", "add 3 1.000 10.0",
                                        "outside of autocast 6 4.500 45.0", "gelu 3 2.500 25.0", "linear 3 2.000 20.0",
                                        "autocast to bf16 6 4.000 40.0", "linear 3 3.000 30.0", "add 3 1.000 10.0",
                                        "autocast to f16 3 1.500 15.0", "linear 3 1.500 15.0", "all 15 10.000 100.0"}))
        << table;
    EXPECT_NE(table.find("  7.77       1.23  f32  "), std::string::npos) << table;
}

TEST(ExplainTable, OfOneGroupNeedsNoTotal) {
    const std::string table = table_of(row_of("linear", "", 2000000) + "," + row_of("gelu", "", 1000), 0.001);
    EXPECT_EQ(table.find("\nall"), std::string::npos) << table;
    EXPECT_NE(table.find("\n  1 more, 0.0 % of the time; --all shows them\n"), std::string::npos) << table;
}

TEST(ExplainTable, WrapsInputsBetweenThem) {
    const std::string input = "f32[1000, 1000, 1000, 1000] channels-last";
    const std::string table = table_of(row_of("cat", "", 1, "cat", (input + ", " + input + ", " + input).c_str()));
    EXPECT_LE(longest_line(table), 120u) << table;
    EXPECT_NE(table.find("\n      " + input + ", " + input + ",\n      " + input + "\n"), std::string::npos) << table;
    EXPECT_NE(table.find("\n  channels-last: "), std::string::npos) << "what the word means";
    EXPECT_EQ(table.find("\n  strided: "), std::string::npos);
}

TEST(ExplainTable, OptionsStandBehindTheInputs) {
    const std::string table = table_of(R"({"op": "conv2d", "calls": 1, "inputs": "f32[1], f32[2]",
        "options": {"stride": [2, 2], "padding": [1, 0], "groups": [4], "attr": "relu"}})");
    EXPECT_NE(table.find("\n      f32[1], f32[2]; stride 2, padding (1, 0), groups 4, attr relu\n"), std::string::npos)
        << table;
}

TEST(ExplainTable, SaysInOneSentenceWhyABetterKernelDidNotRun) {
    const std::string table = table_of(R"({"op": "mm", "kernel": "fair", "calls": 1,
        "refused": [{"kernel": "best", "reason": "the CPU has no AMX"},
                    {"kernel": "good", "reason": "it runs only where K is even"}]})");
    EXPECT_NE(table.find("\n  fair ran instead of best, because the CPU has no AMX\n"
                         "  fair ran instead of good, because it runs only where K is even\n"),
              std::string::npos)
        << table;
}

TEST(ExplainTable, NamesEachRefusedInstructionSetOnce) {
    const std::string refused = R"("calls": 1, "refused": [{"kernel": "best_amx", "reason": "the CPU has no AMX",
                                   "isa": "amx"}]})";
    const std::string table =
        table_of(R"({"op": "mm", "kernel": "fair", )" + refused + R"(, {"op": "bmm", "kernel": "good", )" + refused);
    const std::string sentence = "  amx is not used: the CPU has no AMX; that would be best_amx\n";
    EXPECT_NE(table.find(sentence), std::string::npos) << table;
    EXPECT_EQ(table.find("the CPU has no AMX"), table.rfind("the CPU has no AMX")) << table;
}

TEST(ExplainTable, HoldsTheWidthAndLosesNothing) {
    const std::string label = "encoder/layer1/attention", kernel = "gemm_bf16_avx512bf16";
    const std::string row = R"({"op": "native_multi_head_attention", "label": ")" + label + R"(", "calls": 12,
        "nanoseconds": 3000000, "first_nanoseconds": 150000, "median_nanoseconds": 100000, "runs_in": "bf16",
        "region": "bf16", "policy": "lower", "operations": 5e6, "casts_made": 3, "parts": [")" +
                            kernel + R"(", "attention_bf16_avx512bf16"], "inputs": "f32[8, 64, 384], f32[1152, 384]"})";
    for (const int width : {80, 120, 140}) {
        const std::string table = table_of(row, 0, width);
        EXPECT_LE(longest_line(table), size_t(width)) << table;
        for (const std::string &fact :
             {label, kernel, std::string("attention_bf16_avx512bf16"), std::string("lower"), std::string("3/0/0"),
              std::string("150.00"), std::string("100.00"), std::string("50.0"), std::string("f32[1152, 384]")})
            EXPECT_NE(table.find(fact), std::string::npos) << fact << " at " << width << "\n" << table;
    }
}

TEST(ExplainTable, ColumnsAreCountedInCharacters) {
    const std::string table = table_of(R"({"op": "mm", "label": "größe", "calls": 1, "runs_in": "f32"},
                                          {"op": "mm", "label": "gross", "calls": 1, "runs_in": "f32"})");
    std::vector<size_t> places;
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
        const size_t label = line.find("  mm     "), dtype = line.find("f32");
        if (label == 0 && dtype != std::string::npos) places.push_back(dtype);
    }
    ASSERT_EQ(places.size(), 2u) << table;
    EXPECT_EQ(std::max(places[0], places[1]) - std::min(places[0], places[1]), 2u) << "bytes of ö and ß\n" << table;
}

// 2 µs for 4,000 operations are 2 GFLOP/s, half of a peak of 4 in bf16.
TEST(ExplainTable, RatesAndSharesOfThePeak) {
    json_error_t error;
    json_t *root = json_loads(R"({"threads": 1, "peak": {"threads": 1, "dtypes": {"f32": 1e9, "bf16": 4e9}}, "ops": [
        {"op": "mm", "calls": 3, "nanoseconds": 12000, "median_nanoseconds": 2000, "first_nanoseconds": 8000,
         "operations": 4000, "runs_in": "bf16"},
        {"op": "mm", "calls": 1, "nanoseconds": 4000, "first_nanoseconds": 4000, "median_nanoseconds": null,
         "operations": 4000, "runs_in": "bf16"},
        {"op": "bmm", "calls": 1, "nanoseconds": 4000, "first_nanoseconds": 4000, "operations": 4000, "runs_in": "bf16",
         "device": "cuda"},
        {"op": "add", "calls": 1, "nanoseconds": 4000, "first_nanoseconds": 4000, "runs_in": "bf16"}]})",
                              0, &error);
    ASSERT_NE(root, nullptr) << error.text;
    ASSERT_TRUE(amp_explain_complete(root));
    json_t *rows = json_object_get(root, "ops"), *totals = json_object_get(root, "totals");
    const auto number = [](json_t *list, size_t i, const char *key) {
        json_t *value = json_object_get(json_array_get(list, i), key);
        return json_is_number(value) ? json_number_value(value) : -1;
    };
    EXPECT_EQ(number(rows, 0, "gflops"), 2);
    EXPECT_EQ(number(rows, 0, "peak_share"), 0.5);
    EXPECT_EQ(number(rows, 1, "gflops"), 1) << "the only call";
    EXPECT_EQ(number(rows, 2, "gflops"), 1);
    EXPECT_EQ(number(rows, 2, "peak_share"), -1) << "what was probed is the CPU";
    EXPECT_EQ(number(rows, 3, "gflops"), -1);
    EXPECT_EQ(number(totals, 0, "calls"), 4);
    EXPECT_EQ(number(totals, 0, "gflops"), 1) << "16,000 operations in 16 µs";
    EXPECT_EQ(number(totals, 0, "peak_share"), 0.25);
    json_decref(root);
}

TEST(ExplainTable, OfAnOlderReportShowsWhatThereIs) {
    const std::string table =
        table_of(R"({"op": "mm", "inputs": "f32[2]", "policy": "lower", "bypass": "an argument is f64", "calls": 1})");
    EXPECT_NE(table.find("autocast to ?"), std::string::npos) << table;
    EXPECT_NE(table.find("\n      not cast: an argument is f64\n"), std::string::npos) << table;
}
