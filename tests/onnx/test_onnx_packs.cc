// Weights of a model's file: what stays in memory beside their packed forms, and packed forms in a file of their own.
#include <sys/resource.h>
#include <utime.h>
#include <xxhash.h>

#include <csignal>
#include <functional>

#include "reading.h"

extern "C" {
#include "graph/packs_file.h"
#include "policy/cast_cache.h"
}

using amp_test::random_tensor;
using amp_test::Shape;
using namespace onnx_writer;

namespace {

enum { WIDE = 512, ROWS = 600, WEIGHT_BYTES = WIDE * WIDE * 4 };

struct Release {
    void operator()(amp_graph *graph) const {
        amp_graph_release(graph);
    }
};
using Graph_ = std::unique_ptr<amp_graph, Release>;

Bytes random_bytes(const Shape &shape, uint64_t seed) {
    const amp_tensor *t = random_tensor(AMP_F32, shape, seed);
    return {static_cast<const char *>(amp_data(t)), size_t(amp_tensor_numel(t)) * sizeof(float)};
}

// ids → a row of a table → a product → a product with the same weight, transposed; and the largest of the weight's elements. The
// name's length decides at which address the weights lie.
Bytes model_with(const std::string &name, uint64_t seed = 1, bool is_looked_at = true) {
    Graph graph;
    graph.name = name;
    graph.nodes = {node("Gather", {"table", "ids"}, {"x"}, {int_attribute("axis", 0)}),
                   node("MatMul", {"x", "w"}, {"h"}), node("Relu", {"h"}, {"r"}),
                   node("Gemm", {"r", "w"}, {"y"}, {int_attribute("transB", 1)}),
                   node("ReduceMax", {"w"}, {"m"}, {int_attribute("keepdims", 0)})};
    if (!is_looked_at) graph.nodes.back() = node("Identity", {"y"}, {"m"});
    graph.initialisers = {tensor("table", FLOAT, {ROWS, WIDE}, random_bytes({ROWS, WIDE}, seed)),
                          tensor("w", FLOAT, {WIDE, WIDE}, random_bytes({WIDE, WIDE}, seed + 1))};
    graph.inputs = {value("ids", INT64, {-1})};
    graph.outputs = {value("y"), value("m")};
    return model(graph);
}

class Packs : public onnx_reading::Test {
  protected:
    void SetUp() override {
        onnx_reading::Test::SetUp();
        amp_cast_cache_clear();
        write(model_with("g"));
    }
    Graph_ load(const std::string &name = "m.onnx") const {
        Graph_ graph(amp_graph_load(path(name).c_str(), nullptr));
        EXPECT_NE(graph, nullptr) << amp_last_error();
        return graph;
    }
    // The outputs' bytes.
    static std::string run(amp_graph *graph, bool in_bf16 = true, int count = 5) {
        std::vector<double> ids;
        for (int i = 0; i < count; i++) ids.push_back((i * 37 + 5) % ROWS);
        amp_tensor *given = amp_test::tensor(AMP_I64, {count}, ids), *y[2] = {};
        amp_status status = AMP_OK;
        if (in_bf16) {
            amp_autocast(AMP_DEVICE_CPU) {
                status = amp_graph_run(graph, &given, 1, y, 2);
            }
        } else {
            status = amp_graph_run(graph, &given, 1, y, 2);
        }
        EXPECT_EQ(status, AMP_OK) << amp_last_error();
        return y[0] && y[1] ? content(y[0]) + content(y[1]) : "";
    }
    amp_status use(amp_graph *graph, const std::string &name = "packs") const {
        return amp_graph_load_packs(graph, path(name).c_str());
    }
    amp_status keep(amp_graph *graph, const std::string &name = "packs") const {
        return amp_graph_save_packs(graph, path(name).c_str());
    }
    void make() const {
        const Graph_ graph = load();
        (void)run(graph.get());
        ASSERT_EQ(keep(graph.get()), AMP_OK) << amp_last_error();
        amp_cast_cache_clear();
    }
    std::string bytes(const std::string &name = "packs") const {
        std::ifstream file(path(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    // The sentence of a file that does not fit; the graph runs as ever.
    std::string refusal(const std::string &content, amp_status status = AMP_ERROR_IO) const {
        write(content, "packs");
        return refusal_of(load().get(), status);
    }
    std::string refusal_of(amp_graph *graph, amp_status status = AMP_ERROR_IO) const {
        EXPECT_EQ(use(graph), status);
        const std::string text = amp_last_error();
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
        amp_clear_error();
        EXPECT_EQ(amp_cast_cache_statistics().entries, 0u);
        return text;
    }
    // The bytes with the head changed, and a checksum that holds.
    static std::string changed(const std::string &content,
                               const std::function<void(amp_packs_head &, amp_packs_row *)> &change) {
        std::string made = content;
        amp_packs_head head;
        std::memcpy(&head, made.data(), sizeof head);
        std::vector<amp_packs_row> rows(head.count);
        std::memcpy(rows.data(), made.data() + sizeof head, rows.size() * sizeof(amp_packs_row));
        change(head, rows.data());
        head.sum = 0;
        head.sum =
            XXH3_64bits_withSeed(rows.data(), rows.size() * sizeof(amp_packs_row), XXH3_64bits(&head, sizeof head));
        std::memcpy(made.data(), &head, sizeof head);
        std::memcpy(made.data() + sizeof head, rows.data(), rows.size() * sizeof(amp_packs_row));
        return made;
    }
};

// ---- Memory -------------------------------------------------------------------------------------------------------

// By counting: neither the table nor the weight is on the heap, but the weight's two packed forms, at every alignment.
TEST_F(Packs, WeightsOfAFileHaveNoCopyBesideWhatIsPacked) {
    for (const char *name : {"g", "gg", "ggg", "gggg"}) {
        write(model_with(name, 1, false));
        (void)run(load().get()); // what a process keeps from its first run on
        amp_cast_cache_clear();
        const size_t before = amp_memory_statistics().live_bytes;
        const Graph_ graph = load();
        EXPECT_LT(amp_memory_statistics().live_bytes - before, size_t(WEIGHT_BYTES)) << name;
        const std::string first = run(graph.get());
        EXPECT_EQ(run(graph.get()), first);
        EXPECT_LT(amp_memory_statistics().live_bytes - before, size_t(WEIGHT_BYTES + WEIGHT_BYTES / 2)) << name;
        EXPECT_EQ(amp_cast_cache_statistics().bytes, size_t(WEIGHT_BYTES));
    }
}

TEST_F(Packs, ElementsComeBackWhenTheyAreNeeded) {
    std::vector<std::string> results[2];
    for (const char *name : {"g", "gg", "ggg", "gggg"}) {
        write(model_with(name));
        const Graph_ graph = load();
        results[1].push_back(run(graph.get()));        // packs bf16, and lets the file's pages go
        results[0].push_back(run(graph.get(), false)); // f32 after that
        EXPECT_EQ(run(graph.get(), true, 9).size(), run(graph.get(), false, 9).size()); // another shape
        EXPECT_EQ(run(graph.get()), results[1].back());
    }
    for (const std::vector<std::string> &all : results) {
        for (const std::string &one : all) EXPECT_EQ(one, all.front());
    }
}

TEST_F(Packs, WeightsOfAFileCannotBeWritten) {
    const onnx_reading::Model model = file();
    amp_tensor *w = constant(model->graph, "w");
    EXPECT_EQ(amp_data_mut(w), nullptr);
    EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID);
    amp_clear_error();
}

// ---- The file -----------------------------------------------------------------------------------------------------

TEST_F(Packs, ResultsHaveTheSameBits) {
    const std::string expected[] = {run(load().get(), false), run(load().get(), true)};
    {
        const Graph_ graph = load();
        for (const bool in_bf16 : {false, true}) (void)run(graph.get(), in_bf16);
        ASSERT_EQ(keep(graph.get()), AMP_OK) << amp_last_error();
    }
    amp_cast_cache_clear();
    const Graph_ graph = load();
    ASSERT_EQ(use(graph.get()), AMP_OK) << amp_last_error();
    const size_t entries = amp_cast_cache_statistics().entries;
    EXPECT_GE(entries, 4u); // the weight and its transpose, in f32 and bf16
    for (const bool in_bf16 : {true, false, true}) EXPECT_EQ(run(graph.get(), in_bf16), expected[in_bf16]);
    EXPECT_EQ(amp_cast_cache_statistics().entries, entries) << "something was packed all the same";
    amp_cast_cache_clear(); // packed anew
    EXPECT_EQ(run(graph.get()), expected[1]);
}

TEST_F(Packs, WhatTheFileLacksIsPacked) {
    const std::string expected = run(load().get(), false);
    make(); // of bf16 only
    const Graph_ graph = load();
    ASSERT_EQ(use(graph.get()), AMP_OK) << amp_last_error();
    EXPECT_EQ(run(graph.get(), false), expected);
    ASSERT_EQ(keep(graph.get()), AMP_OK) << amp_last_error(); // over the file that is mapped: a new one in its place
    EXPECT_EQ(run(graph.get(), false), expected);
}

TEST_F(Packs, ACopyOfTheModelFits) {
    make();
    std::filesystem::copy(path(), path("other.onnx"));
    const utimbuf then = {1000000000, 1000000000};
    ASSERT_EQ(utime(path("other.onnx").c_str(), &then), 0);
    EXPECT_EQ(use(load("other.onnx").get()), AMP_OK) << amp_last_error();
}

TEST_F(Packs, AnotherModelIsRefused) {
    make();
    write(model_with("g", 7)); // other weights, of the same shapes
    EXPECT_TRUE(onnx_reading::has(refusal_of(load().get()), {"another model than", "m.onnx"}));
    write(model_with("other"));
    EXPECT_TRUE(onnx_reading::has(refusal_of(load().get()), {"another model than"}));
}

TEST_F(Packs, AnotherVersionFormatOrInstructionSetIsRefused) {
    make();
    const std::string good = bytes();
    EXPECT_TRUE(
        onnx_reading::has(refusal(changed(good, [](amp_packs_head &h, amp_packs_row *) { h.version[0] = '9'; })),
                          {"libamp 9", "this is"}));
    EXPECT_TRUE(onnx_reading::has(refusal(changed(good, [](amp_packs_head &h, amp_packs_row *) { h.layouts++; })),
                                  {"layouts 2"}));
    EXPECT_TRUE(onnx_reading::has(refusal(changed(good, [](amp_packs_head &h, amp_packs_row *) { h.format = 77; })),
                                  {"format 77"}));
    const auto other_isa = [](amp_packs_head &h, amp_packs_row *) { std::strcpy(h.isa, "other"); };
    EXPECT_TRUE(onnx_reading::has(refusal(changed(good, other_isa)), {"packed for other"}));
}

TEST_F(Packs, AFileThatIsNotWholeIsRefused) {
    make();
    const std::string good = bytes();
    for (const size_t length :
         {size_t(0), size_t(7), size_t(100), sizeof(amp_packs_head), size_t(5000), good.size() - 1})
        EXPECT_TRUE(onnx_reading::has(refusal(good.substr(0, length)), {"packs "})) << length;
    EXPECT_TRUE(onnx_reading::has(refusal(good + "x"), {"not whole"}));
    EXPECT_TRUE(onnx_reading::has(refusal("a text"), {"no file of packed weights"}));
    std::filesystem::remove(path("packs"));
    EXPECT_TRUE(onnx_reading::has(refusal_of(load().get()), {"packs", "No such file"}));
}

TEST_F(Packs, AFlippedBitIsRefused) {
    make();
    const std::string good = bytes();
    amp_packs_head head;
    std::memcpy(&head, good.data(), sizeof head);
    amp_packs_row row;
    std::memcpy(&row, good.data() + sizeof head, sizeof row);
    for (const size_t at : {size_t(9), size_t(60), offsetof(amp_packs_head, sum), sizeof head + 3, size_t(row.at),
                            size_t(row.at + row.bytes - 1)}) {
        std::string damaged = good;
        damaged[at] ^= 16;
        (void)refusal(damaged);
    }
}

// A table with a checksum that holds may say anything.
TEST_F(Packs, AHostileTableIsRefusedOrUnused) {
    make();
    const std::string good = bytes();
    const std::function<void(amp_packs_row &)> refused[] = {[](amp_packs_row &r) { r.tensor = -1; },
                                                            [](amp_packs_row &r) { r.tensor = 1 << 20; },
                                                            [](amp_packs_row &r) { r.rank = 9; },
                                                            [](amp_packs_row &r) { r.rank = -1; },
                                                            [](amp_packs_row &r) { r.at = UINT64_MAX - 4095; },
                                                            [](amp_packs_row &r) { r.at += 8; },
                                                            [](amp_packs_row &r) { r.bytes = UINT64_MAX; },
                                                            [](amp_packs_row &r) { r.bytes = 0; },
                                                            [](amp_packs_row &r) { r.at = 0; }};
    for (const auto &change : refused)
        EXPECT_TRUE(onnx_reading::has(refusal(changed(good, [&](amp_packs_head &, amp_packs_row *r) { change(r[0]); })),
                                      {"damaged"}));
    EXPECT_TRUE(onnx_reading::has(refusal(changed(good, [](amp_packs_head &, amp_packs_row *r) { r[1] = r[0]; })),
                                  {"damaged"}));
    std::string many = good;
    const uint64_t count = UINT64_MAX / 8;
    std::memcpy(many.data() + offsetof(amp_packs_head, count), &count, sizeof count);
    EXPECT_TRUE(onnx_reading::has(refusal(many), {"damaged"}));

    const std::string expected = run(load().get());
    amp_cast_cache_clear();
    const auto shorter = [&](amp_packs_head &, amp_packs_row *r) { // fewer bytes than the kernels read
        r[0].bytes = 4096;
        r[0].sum = XXH3_64bits(good.data() + r[0].at, 4096);
    };
    write(changed(good, shorter), "packs");
    const Graph_ graph = load();
    EXPECT_EQ(use(graph.get()), AMP_OK) << amp_last_error();
    EXPECT_EQ(run(graph.get()), expected);
}

TEST_F(Packs, SavingNeedsWeightsThatAreAFilesAndPacked) {
    const Graph_ graph = load();
    EXPECT_EQ(keep(graph.get()), AMP_ERROR_INVALID);
    EXPECT_TRUE(onnx_reading::has(amp_last_error(), {"none is packed", "m.onnx"}));
    amp_clear_error();
    const auto function = [](void *, amp_tensor *const *in, amp_tensor **out) {
        out[0] = amp_test::op("relu", {in[0]});
        return amp_last_status();
    };
    const Graph_ traced(amp_graph_trace("mine", function, nullptr, 1, 1, nullptr));
    EXPECT_EQ(keep(traced.get()), AMP_ERROR_NOT_IMPLEMENTED);
    EXPECT_TRUE(onnx_reading::has(amp_last_error(), {"mine", "function of the program"}));
    amp_clear_error();
    EXPECT_EQ(use(nullptr), AMP_ERROR_INVALID);
    amp_clear_error();
}

TEST_F(Packs, ADiskThatFillsLeavesWhatWasThere) {
    make();
    const std::string before = bytes();
    const Graph_ graph = load();
    (void)run(graph.get());
    rlimit old;
    getrlimit(RLIMIT_FSIZE, &old);
    const rlimit small = {8192, old.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_EQ(keep(graph.get()), AMP_ERROR_IO);
    setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
    amp_clear_error();
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2); // the model, the file
}

} // namespace
