// Saving: what is loaded again gives the same bits, and saved again the same bytes; in both forms, and of each row.
#include <sys/resource.h>

#include <csignal>
#include <functional>

#include "reading.h"

using namespace amp_test;

namespace {

using Tensors = std::vector<amp_tensor *>;
using Function = std::function<Tensors(const Tensors &)>;

struct Row {
    const char *name;
    Tensors inputs;
    Function function;
};

struct Source {
    Function function;
    int inputs;
};

amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    const auto *source = static_cast<Source *>(context);
    const Tensors results = source->function(Tensors(inputs, inputs + source->inputs));
    std::copy(results.begin(), results.end(), outputs);
    return amp_last_status();
}

struct Release {
    void operator()(amp_graph *graph) const {
        amp_graph_release(graph);
    }
};
using Graph = std::unique_ptr<amp_graph, Release>;

amp_graph_options exactly() {
    amp_graph_options options = {};
    options.struct_size = sizeof options;
    options.exact = true;
    return options;
}

amp_graph_save_options in_form(amp_graph_form form, bool external = false) {
    amp_graph_save_options options = {};
    options.struct_size = sizeof options;
    options.form = form;
    options.external_data = external;
    return options;
}

class Write : public onnx_reading::Test {
  protected:
    std::string bytes(const std::string &name) const {
        std::ifstream file(path(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    size_t files() const {
        return size_t(std::distance(std::filesystem::directory_iterator(folder), {}));
    }
    amp_status save(amp_graph *graph, const Tensors &inputs, const std::string &name,
                    const amp_graph_save_options &options) const {
        return amp_graph_save(graph, path(name).c_str(), inputs.data(), int(inputs.size()), &options);
    }
    Graph load(const std::string &name) const {
        const amp_graph_options options = exactly();
        Graph graph(amp_graph_load(path(name).c_str(), &options));
        EXPECT_NE(graph, nullptr) << amp_last_error();
        return graph;
    }
    static Tensors run(amp_graph *graph, const Tensors &inputs) {
        Tensors outputs(size_t(amp_graph_output_count(graph)), nullptr);
        EXPECT_EQ(amp_graph_run(graph, inputs.data(), int(inputs.size()), outputs.data(), int(outputs.size())), AMP_OK)
            << amp_last_error();
        return outputs;
    }
    static void expect_same(const Tensors &got, const Tensors &want, const std::string &what) {
        ASSERT_EQ(got.size(), want.size()) << what;
        for (size_t i = 0; i < got.size(); i++) {
            ASSERT_TRUE(got[i] && want[i]) << what;
            EXPECT_EQ(amp_tensor_dtype(got[i]), amp_tensor_dtype(want[i])) << what << ", output " << i;
            EXPECT_EQ(content(got[i]), content(want[i])) << what << ", output " << i;
        }
    }
    // Saved and loaded: the same bits; saved again: the same bytes.
    void check(amp_graph *graph, const Row &row, bool region, amp_graph_form form) {
        const std::string what =
            std::string(row.name) + (region ? ", bf16" : ", f32") + (form == AMP_GRAPH_PORTABLE ? ", portable" : "");
        const amp_graph_save_options options = in_form(form);
        Tensors want;
        if (region) {
            const Region bf16;
            want = run(graph, row.inputs);
            ASSERT_EQ(save(graph, row.inputs, "one.onnx", options), AMP_OK) << what << ": " << amp_last_error();
        } else {
            want = run(graph, row.inputs);
            ASSERT_EQ(save(graph, row.inputs, "one.onnx", options), AMP_OK) << what << ": " << amp_last_error();
        }
        const Graph loaded = load("one.onnx");
        ASSERT_NE(loaded, nullptr) << what;
        expect_same(run(loaded.get(), row.inputs), want, what);
        ASSERT_EQ(save(loaded.get(), row.inputs, "two.onnx", options), AMP_OK) << what << ": " << amp_last_error();
        EXPECT_TRUE(bytes("one.onnx") == bytes("two.onnx")) << what << ": saved again it is another file";
    }
    void check(const Row &row) {
        Source source = {row.function, int(row.inputs.size())};
        int outputs = 0;
        {
            const Scope scope;
            outputs = int(row.function(row.inputs).size());
        }
        const amp_graph_options options = exactly();
        const Graph graph(amp_graph_trace(row.name, compute, &source, source.inputs, outputs, &options));
        ASSERT_NE(graph, nullptr) << row.name << ": " << amp_last_error();
        for (const bool region : {false, true}) {
            check(graph.get(), row, region, AMP_GRAPH_TYPED);
            amp_clear_error();
            check(graph.get(), row, region, AMP_GRAPH_PORTABLE);
            amp_clear_error();
        }
    }
    void check_all(const std::vector<Row> &rows) {
        for (const Row &row : rows) check(row);
    }
};

amp_tensor *random_f32(const Shape &shape, unsigned seed = 1) {
    return random_tensor(AMP_F32, shape, seed);
}
amp_tensor *integers(const Shape &shape, const std::vector<double> &values) {
    return tensor(AMP_I64, shape, values);
}

// As autocast leaves it: bf16 in a region, from a product.
amp_tensor *product_of(amp_tensor *x) {
    return op("matmul", {x, random_f32({amp_tensor_shape(x)[amp_tensor_rank(x) - 1], 6}, 77)});
}

TEST_F(Write, OpsOfOneTensor) {
    amp_tensor *x = random_f32({3, 8});
    for (const char *name :
         {"abs",        "acos",     "asin",  "asinh",       "atan",      "ceil",       "cos",  "cosh", "erf",
          "exp",        "floor",    "gelu",  "hardsigmoid", "hardswish", "leaky_relu", "elu",  "mish", "neg",
          "reciprocal", "relu",     "round", "selu",        "sigmoid",   "sign",       "silu", "sin",  "sinh",
          "softplus",   "softsign", "tan",   "tanh",        "isnan",     "contiguous"}) {
        check({name, {x}, [name](const Tensors &t) {
                   return Tensors{op(name, {t[0]}), op(name, {product_of(t[0])})};
               }});
    }
    for (const char *name : {"acosh", "log", "sqrt"}) {
        check({name, {x}, [name](const Tensors &t) {
                   return Tensors{op(name, {op("add.scalar", {op("abs", {product_of(t[0])}), 1.5})})};
               }});
    }
}

TEST_F(Write, OpsOfTwo) {
    amp_tensor *x = random_f32({3, 6}, 1), *y = random_f32({6}, 2), *few = tensor(AMP_F32, {}, {0.3});
    for (const char *name : {"add", "sub", "mul", "div", "maximum", "minimum", "eq", "ge", "gt", "le", "lt"}) {
        check({name, {x, y}, [name, few](const Tensors &t) {
                   return Tensors{op(name, {t[0], t[1]}), op(name, {product_of(t[0]), t[1]}),
                                  op(name, {product_of(t[0]), few})};
               }});
    }
    for (const char *name : {"add.scalar", "sub.scalar", "mul.scalar", "div.scalar", "lt.scalar", "ge.scalar"}) {
        check({name, {x}, [name](const Tensors &t) {
                   return Tensors{op(name, {t[0], 0.1}), op(name, {product_of(t[0]), 0.1}),
                                  op(name, {product_of(t[0]), 2})};
               }});
    }
    check_all({{"pow",
                {x, y},
                [](const Tensors &t) {
                    return Tensors{op("pow", {op("abs", {t[0]}), t[1]})};
                }},
               {"pow.scalar",
                {x},
                [](const Tensors &t) {
                    return Tensors{op("pow.scalar", {product_of(t[0]), 2})};
                }},
               {"alpha",
                {x, y},
                [](const Tensors &t) {
                    return Tensors{op("add", {product_of(t[0]), t[1]}, {{"alpha", -2.0}})};
                }},
               {"where",
                {x, y},
                [](const Tensors &t) {
                    return Tensors{op("where", {op("gt.scalar", {t[0], 0.0}), product_of(t[0]), t[1]})};
                }},
               {"prelu",
                {x},
                [](const Tensors &t) {
                    return Tensors{op("prelu", {t[0], random_f32({6}, 5)})};
                }},
               {"clamp",
                {x},
                [few](const Tensors &t) {
                    return Tensors{op("clamp", {product_of(t[0]), -0.3, 0.4}), op("clamp", {t[0]}, {{"min", 0.1}}),
                                   op("clamp.tensor", {product_of(t[0]), nullptr, few})};
                }},
               {"integers", {integers({4}, {1, -7, 8, 3})}, [](const Tensors &t) {
                    return Tensors{op("add.scalar", {t[0], 3}), op("mul", {t[0], t[0]}), op("to", {t[0], AMP_F32}),
                                   op("div.scalar", {t[0], 2}, {{"rounding_mode", "trunc"}}),
                                   op("logical_and", {op("gt.scalar", {t[0], 0}), op("lt.scalar", {t[0], 4})})};
                }}});
}

TEST_F(Write, Movement) {
    amp_tensor *x = random_f32({2, 3, 4, 6});
    const auto all = [](const char *name, std::vector<Value> more, std::vector<Named> named = {}) {
        return [=](const Tensors &t) {
            std::vector<Value> a = {Value(t[0])}, b = {Value(product_of(t[0]))};
            a.insert(a.end(), more.begin(), more.end());
            b.insert(b.end(), more.begin(), more.end());
            return Tensors{op(name, a, named), op(name, b, named)};
        };
    };
    check_all(
        {{"reshape", {x}, all("reshape", {AMP_DIMS(6, -1)})},
         {"flatten", {x}, all("flatten", {1})},
         {"unsqueeze", {x}, all("unsqueeze", {2})},
         {"permute", {x}, all("permute", {AMP_DIMS(0, 2, 3, 1)})},
         {"transpose", {x}, all("transpose", {1, -1})},
         {"slice", {x}, all("slice", {}, {{"dim", 2}, {"start", 1}, {"end", -1}, {"step", 2}})},
         {"select", {x}, all("select", {1, -1})},
         {"narrow", {x}, all("narrow", {3, 2, 3})},
         {"flip", {x}, all("flip", {AMP_DIMS(1, 3)})},
         {"constant_pad_nd", {x}, all("constant_pad_nd", {AMP_DIMS(1, 2, 0, 1)}, {{"value", 0.7}})},
         {"expand",
          {x},
          [](const Tensors &t) {
              return Tensors{op("expand", {op("unsqueeze", {t[0], 0}), AMP_DIMS(5, 2, 3, 4, 6)})};
          }},
         {"cat",
          {x},
          [](const Tensors &t) {
              const Tensors parts = {t[0], product_of(t[0]), t[0]};
              return Tensors{op("cat", {parts}, {{"dim", 1}}), op("stack", {parts}, {{"dim", -1}})};
          }},
         {"there and back",
          {x},
          [](const Tensors &t) {
              amp_tensor *y = op("permute", {op("permute", {t[0], AMP_DIMS(0, 2, 3, 1)}), AMP_DIMS(0, 3, 1, 2)});
              return Tensors{op("relu", {op("reshape", {op("reshape", {y, AMP_DIMS(-1)}), AMP_DIMS(2, 3, 4, 6)})})};
          }},
         {"what is handed through", {x}, [](const Tensors &t) {
              amp_tensor *y = op("relu", {t[0]});
              return Tensors{y, y, op("reshape", {t[0], AMP_DIMS(2, 3, 4, 6)}), random_f32({3}, 9)};
          }}});
}

TEST_F(Write, Picking) {
    amp_tensor *x = random_f32({5, 6}), *ids = integers({2, 3}, {0, 4, 1, 1, 3, 2}), *places = integers({2}, {3, 0});
    check_all(
        {{"index_select",
          {x, places},
          [](const Tensors &t) {
              return Tensors{op("index_select", {t[0], 0, t[1]}), op("index_select", {product_of(t[0]), 1, t[1]})};
          }},
         {"embedding",
          {ids},
          [](const Tensors &t) {
              return Tensors{op("embedding", {t[0], random_f32({5, 4}, 3)})};
          }},
         {"gather",
          {x, ids},
          [](const Tensors &t) {
              return Tensors{op("gather", {t[0], 1, t[1]})};
          }},
         {"argmax", {x}, [](const Tensors &t) {
              return Tensors{op("argmax", {t[0]}, {{"dim", 1}}), op("argmax", {product_of(t[0])})};
          }}});
}

TEST_F(Write, Products) {
    amp_tensor *x = random_f32({2, 3, 8}, 1), *w = random_f32({6, 8}, 2), *b = random_f32({6}, 3);
    check_all(
        {{"linear",
          {x},
          [=](const Tensors &t) {
              return Tensors{op("linear", {t[0], w, b}), op("relu", {op("linear", {t[0], w})}),
                             op("linear", {op("select", {t[0], 1, 0}), w, b})};
          }},
         {"matmul",
          {x},
          [=](const Tensors &t) {
              return Tensors{op("matmul", {t[0], op("t", {w})}), op("bmm", {t[0], op("transpose", {t[0], 1, 2})})};
          }},
         {"addmm",
          {random_f32({4, 8}, 5)},
          [=](const Tensors &t) {
              return Tensors{op("addmm", {b, t[0], op("t", {w})}),
                             op("addmm", {b, t[0], op("t", {w})}, {{"beta", 0.5}, {"alpha", 2.0}})};
          }},
         {"attention", {random_f32({1, 2, 4, 8}, 6)}, [](const Tensors &t) {
              return Tensors{op("scaled_dot_product_attention", {t[0], t[0], t[0]}),
                             op("scaled_dot_product_attention", {t[0], t[0], t[0]}, {{"is_causal", true}})};
          }}});
}

TEST_F(Write, Convolutions) {
    amp_tensor *x = random_f32({2, 4, 9, 8}, 1), *w = random_f32({6, 2, 3, 2}, 2), *b = random_f32({6}, 3);
    amp_tensor *wt = random_f32({4, 3, 3, 2}, 4), *w1 = random_f32({3, 4, 3}, 5);
    check_all({{"conv2d",
                {x},
                [=](const Tensors &t) {
                    return Tensors{op("conv2d", {t[0], w, b},
                                      {{"stride", AMP_DIMS(2, 1)},
                                       {"padding", AMP_DIMS(1, 1)},
                                       {"dilation", AMP_DIMS(1, 2)},
                                       {"groups", 2}})};
                }},
               {"conv1d",
                {random_f32({2, 4, 9}, 6)},
                [=](const Tensors &t) {
                    return Tensors{op("conv1d", {t[0], w1}, {{"padding", AMP_DIMS(1)}}),
                                   op("conv1d", {op("select", {t[0], 0, 1}), w1})};
                }},
               {"conv_transpose2d",
                {x},
                [=](const Tensors &t) {
                    return Tensors{op(
                        "conv_transpose2d", {t[0], wt},
                        {{"stride", AMP_DIMS(2, 2)}, {"padding", AMP_DIMS(1, 0)}, {"output_padding", AMP_DIMS(1, 0)}})};
                }},
               {"pools",
                {x},
                [](const Tensors &t) {
                    return Tensors{op("max_pool2d", {t[0], AMP_DIMS(3, 2)}, {{"padding", AMP_DIMS(1, 1)}}),
                                   op("max_pool2d", {product_of(t[0]), AMP_DIMS(2, 2)}, {{"ceil_mode", true}}),
                                   op("avg_pool2d", {t[0], AMP_DIMS(2, 2)}, {{"stride", AMP_DIMS(1, 1)}}),
                                   op("avg_pool2d", {product_of(t[0]), AMP_DIMS(3, 3)},
                                      {{"padding", AMP_DIMS(1, 1)}, {"count_include_pad", false}})};
                }},
               {"interpolate", {x}, [](const Tensors &t) {
                    return Tensors{op("interpolate", {t[0]}, {{"size", AMP_DIMS(18, 16)}}),
                                   op("interpolate", {t[0]}, {{"size", AMP_DIMS(11, 13)}, {"mode", "bilinear"}}),
                                   op("interpolate", {t[0]},
                                      {{"size", AMP_DIMS(18, 16)}, {"mode", "bicubic"}, {"align_corners", true}})};
                }}});
}

TEST_F(Write, NormsAndReductions) {
    amp_tensor *x = random_f32({2, 4, 5, 6}, 1), *w = random_f32({6}, 2), *b = random_f32({6}, 3);
    amp_tensor *c = random_f32({4}, 4), *v = op("abs", {random_f32({4}, 5)});
    check_all(
        {{"layer_norm",
          {x},
          [=](const Tensors &t) {
              return Tensors{op("layer_norm", {t[0], AMP_DIMS(6), w, b}), op("layer_norm", {t[0], AMP_DIMS(5, 6)}),
                             op("layer_norm", {product_of(t[0]), AMP_DIMS(6), w, b}, {{"eps", 1e-3}})};
          }},
         {"rms_norm",
          {x},
          [=](const Tensors &t) {
              return Tensors{op("rms_norm", {t[0], AMP_DIMS(6), w}), op("rms_norm", {product_of(t[0]), AMP_DIMS(6)})};
          }},
         {"batch_norm",
          {x},
          [=](const Tensors &t) {
              return Tensors{op("batch_norm", {t[0], c, v, c, c}), op("batch_norm", {product_of(t[0]), c, v})};
          }},
         {"group_norm",
          {x},
          [=](const Tensors &t) {
              return Tensors{op("group_norm", {t[0], 2, c, c}), op("group_norm", {product_of(t[0]), 4}),
                             op("instance_norm", {t[0]})};
          }},
         {"local_response_norm",
          {x},
          [](const Tensors &t) {
              return Tensors{op("local_response_norm", {t[0], 3})};
          }},
         {"softmax",
          {x},
          [](const Tensors &t) {
              return Tensors{op("softmax", {t[0], -1}), op("log_softmax", {product_of(t[0]), 1})};
          }},
         {"reductions", {x}, [](const Tensors &t) {
              Tensors all;
              for (const char *name : {"mean", "sum", "amax", "amin", "linalg_vector_norm"}) {
                  all.push_back(op(name, {t[0]}, {{"dim", AMP_DIMS(-1)}}));
                  all.push_back(op(name, {product_of(t[0])}, {{"dim", AMP_DIMS(1, 2)}, {"keepdim", true}}));
              }
              all.push_back(op("cumsum", {t[0], 1}));
              return all;
          }}});
}

TEST_F(Write, RecurrentLayers) {
    amp_tensor *x = random_f32({5, 2, 3}, 1);
    const struct {
        const char *mode;
        int gates;
    } modes[] = {{"lstm", 4}, {"gru", 3}, {"rnn_tanh", 1}};
    for (const auto &m : modes) {
        for (const bool both_ways : {false, true}) {
            const int64_t directions = both_ways ? 2 : 1, rows = m.gates * 4;
            Tensors params, states = {random_f32({directions, 2, 4}, 2)};
            if (m.gates == 4) states.push_back(random_f32({directions, 2, 4}, 3));
            for (unsigned d = 0; d < directions; d++) {
                params.push_back(random_f32({rows, 3}, 4 + d));
                params.push_back(random_f32({rows, 4}, 6 + d));
                params.push_back(random_f32({rows}, 8 + d));
                params.push_back(random_f32({rows}, 10 + d));
            }
            check({m.mode, {x}, [=](const Tensors &t) {
                       return Tensors{
                           op("relu", {op("rnn_layer", {t[0], states, params, true, 1, 0.0, false, both_ways, false},
                                          {{"mode", m.mode}})})};
                   }});
        }
    }
}

TEST_F(Write, ZerosOfBothSigns) {
    check({"zeros", {tensor(AMP_F32, {2}, {-1.0, 2.0})}, [](const Tensors &t) {
               return Tensors{op("leaky_relu", {t[0], 0.0}), op("leaky_relu", {t[0], -0.0})};
           }});
}

// ---- Files ------------------------------------------------------------------------------------------------------------

class Files : public Write {
  protected:
    void SetUp() override {
        Write::SetUp();
        source_ = {[](const Tensors &t) { return Tensors{op("relu", {product_of(t[0])})}; }, 1};
        graph_.reset(amp_graph_trace("small", compute, &source_, 1, 1, nullptr));
        x_ = random_f32({40, 300});
    }
    void TearDown() override {
        graph_.reset();
        Write::TearDown();
    }
    amp_status save_to(const std::string &file) {
        return amp_graph_save(graph_.get(), file.c_str(), &x_, 1, nullptr);
    }
    Source source_;
    Graph graph_;
    amp_tensor *x_ = nullptr;
};

TEST_F(Files, WeightsBeside) {
    ASSERT_EQ(save(graph_.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_TYPED, true)), AMP_OK) << amp_last_error();
    EXPECT_EQ(files(), 2u);
    EXPECT_EQ(bytes("out.onnx.data").size() % 4096, 0u);
    EXPECT_LT(bytes("out.onnx").size(), 2000u);
    expect_same(run(load("out.onnx").get(), {x_}), run(graph_.get(), {x_}), "external data");
}

TEST_F(Files, NamesOfTheFileStay) {
    ASSERT_EQ(save(graph_.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_TYPED)), AMP_OK) << amp_last_error();
    amp_graph_value input, output;
    const Graph loaded = load("out.onnx");
    ASSERT_EQ(amp_graph_get_input(loaded.get(), 0, &input, sizeof input), AMP_OK);
    ASSERT_EQ(amp_graph_get_output(loaded.get(), 0, &output, sizeof output), AMP_OK);
    EXPECT_EQ(input.shape[1], 300);
    EXPECT_EQ(output.shape[1], 6);
    EXPECT_EQ(output.dtype, AMP_F32);
}

// An alphabet, say, without which a text recogniser's file is of no use.
TEST_F(Files, MetadataStay) {
    const std::string alphabet = onnx_writer::repeated("abcdefgh\n", 20000);
    write(onnx_writer::model(onnx_writer::relu_graph(), {},
                             onnx_writer::bytes(14, onnx_writer::entry("character", alphabet)) +
                                 onnx_writer::bytes(14, onnx_writer::entry("author", ""))),
          "in.onnx");
    const Graph graph = load("in.onnx");
    amp_tensor *x = random_f32({2, 3});
    for (const amp_graph_form form : {AMP_GRAPH_TYPED, AMP_GRAPH_PORTABLE}) {
        ASSERT_EQ(save(graph.get(), {x}, "out.onnx", in_form(form)), AMP_OK) << amp_last_error();
        const Graph loaded = load("out.onnx");
        EXPECT_EQ(amp_graph_metadata(loaded.get(), "character"), alphabet);
        EXPECT_STREQ(amp_graph_metadata(loaded.get(), "author"), "");
    }
}

TEST_F(Files, AFileThatIsReadCanBeReplaced) {
    ASSERT_EQ(save(graph_.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_TYPED)), AMP_OK);
    const Graph loaded = load("out.onnx");
    const Tensors want = run(loaded.get(), {x_});
    ASSERT_EQ(save(loaded.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_PORTABLE)), AMP_OK);
    expect_same(run(load("out.onnx").get(), {x_}), want, "replaced");
    expect_same(run(loaded.get(), {x_}), want, "still open");
}

TEST_F(Files, WrongArguments) {
    amp_graph_save_options options = in_form(amp_graph_form(7));
    EXPECT_NE(save(graph_.get(), {x_}, "out.onnx", options), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"graph_save", "form 7"}));
    EXPECT_NE(amp_graph_save(graph_.get(), nullptr, &x_, 1, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"graph_save", "path is NULL"}));
    EXPECT_NE(amp_graph_save(nullptr, "out.onnx", &x_, 1, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"graph_save", "graph is NULL"}));
    EXPECT_NE(amp_graph_save(graph_.get(), path("out.onnx").c_str(), &x_, 0, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"small", "0 inputs"}));
    EXPECT_NE(save_to(folder + "/nowhere/out.onnx"), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_IO, {"graph_save", "nowhere/out.onnx"}));
    EXPECT_NE(save_to(folder), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_IO, {"is a directory"}));
    EXPECT_EQ(files(), 0u);
}

TEST_F(Files, WhatONNXLacks) {
    Source source = {[](const Tensors &t) { return Tensors{op("lgamma", {t[0]})}; }, 1};
    const Graph graph(amp_graph_trace("lacks", compute, &source, 1, 1, nullptr));
    EXPECT_NE(save(graph.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_TYPED)), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"graph_save", "lacks", "lgamma"}));
    EXPECT_EQ(files(), 0u);
}

TEST_F(Files, WhatONNXRoundsOtherwise) {
    Source source = {[](const Tensors &t) { return Tensors{op("add", {t[0], t[0]}, {{"alpha", 0.3}})}; }, 1};
    const Graph graph(amp_graph_trace("alpha", compute, &source, 1, 1, nullptr));
    EXPECT_NE(save(graph.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_TYPED)), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"graph_save", "add", "alpha"}));
}

// As a model that looks at a sampling rate: the file is for that one alone, and says so.
TEST_F(Files, InputsThatDecide) {
    Source source = {[](const Tensors &t) {
                         double rate = 0;
                         EXPECT_EQ(amp_read(t[1], AMP_F64, &rate, sizeof rate), AMP_OK);
                         return Tensors{op(rate > 8000 ? "relu" : "neg", {t[0]})};
                     },
                     2};
    const Graph graph(amp_graph_trace("rates", compute, &source, 2, 1, nullptr));
    uint64_t fixed = 0;
    amp_graph_save_options options = in_form(AMP_GRAPH_TYPED);
    options.fixed_inputs = &fixed;
    const Tensors inputs = {x_, tensor(AMP_F32, {}, {16000})};
    ASSERT_EQ(save(graph.get(), inputs, "out.onnx", options), AMP_OK) << amp_last_error();
    EXPECT_EQ(fixed, 2u);
    expect_same(run(load("out.onnx").get(), inputs), run(graph.get(), inputs), "an input that decides");
}

TEST_F(Files, WhatCannotBeWrittenDown) {
    Source source = {[](const Tensors &t) {
                         return Tensors{op("masked_select", {t[0], op("gt.scalar", {t[0], 0.0})})};
                     },
                     1};
    const Graph graph(amp_graph_trace("sized", compute, &source, 1, 1, nullptr));
    EXPECT_NE(save(graph.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_TYPED)), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"graph_save", "sized", "masked_select"}));
    EXPECT_EQ(files(), 0u);
}

// Memory that runs out, at whichever request: a status, and no file.
struct Scarce {
    int left = 0;
    static void *allocate(void *context, size_t bytes, size_t alignment) {
        void *block = nullptr;
        if (static_cast<Scarce *>(context)->left-- <= 0) return nullptr;
        return posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
    }
    static void release(void *, void *block, size_t) {
        free(block);
    }
};

TEST_F(Files, MemoryThatRunsOut) {
    static Scarce scarce;
    const amp_allocator allocator = {Scarce::allocate, Scarce::release, &scarce};
    bool saved = false;
    for (int n = 0; !saved && n < 2000; n++) {
        ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
        scarce.left = n;
        const amp_status status = save(graph_.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_PORTABLE, true));
        scarce.left = 1 << 30;
        ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
        saved = status == AMP_OK;
        if (saved) continue;
        EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {})) << "request " << n;
        EXPECT_EQ(files(), 0u) << "request " << n;
    }
    EXPECT_TRUE(saved);
}

// As a disk that fills: the old file stays, and nothing else.
TEST_F(Files, ADiskThatFills) {
    write("old", "out.onnx");
    for (const bool external : {false, true}) {
        rlimit limit = {}, small = {};
        ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
        small = limit;
        small.rlim_cur = 1000;
        const auto before = std::signal(SIGXFSZ, SIG_IGN);
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
        const amp_status status = save(graph_.get(), {x_}, "out.onnx", in_form(AMP_GRAPH_TYPED, external));
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
        std::signal(SIGXFSZ, before);
        EXPECT_NE(status, AMP_OK);
        EXPECT_TRUE(failed_with(AMP_ERROR_IO, {"graph_save", "out.onnx"}));
        EXPECT_EQ(bytes("out.onnx"), "old");
        EXPECT_EQ(files(), 1u);
    }
}

// ---- Free extents --------------------------------------------------------------------------------------------------

class Dynamic : public Write {
  protected:
    using Inputs = std::function<Tensors(int64_t, int64_t)>; // of two extents

    amp_status save_free(amp_graph *graph, const Tensors &inputs, const char *dynamic, amp_graph_form form,
                         const std::string &name = "free.onnx") const {
        amp_graph_save_options options = in_form(form);
        options.dynamic = dynamic;
        return save(graph, inputs, name, options);
    }
    // One file, loaded, gives the function's bits for all extents; saved again it is the same file, unless what a node of it calls
    // depends on extents.
    void expect_free(const Function &function, const Inputs &inputs, const char *dynamic,
                     const std::vector<std::pair<int64_t, int64_t>> &sizes, bool again = true) {
        const Tensors given = inputs(sizes[0].first, sizes[0].second);
        Source source = {function, int(given.size())};
        const amp_graph_options exact = exactly();
        const Graph graph(amp_graph_trace("traced", compute, &source, source.inputs, 1, &exact));
        for (const bool region : {false, true}) {
            for (const amp_graph_form form : {AMP_GRAPH_TYPED, AMP_GRAPH_PORTABLE}) {
                amp_status status;
                if (region) {
                    const Region bf16;
                    status = save_free(graph.get(), given, dynamic, form);
                } else {
                    status = save_free(graph.get(), given, dynamic, form);
                }
                ASSERT_EQ(status, AMP_OK) << amp_last_error();
                const Graph loaded = load("free.onnx");
                for (const auto &[one, other] : sizes) {
                    const Scope scope;
                    const Tensors x = inputs(one, other);
                    Tensors want;
                    if (region) {
                        const Region bf16;
                        want = run(graph.get(), x);
                    } else {
                        want = run(graph.get(), x);
                    }
                    expect_same(run(loaded.get(), x), want, std::to_string(one) + ", " + std::to_string(other));
                }
                if (!again) continue;
                ASSERT_EQ(save_free(loaded.get(), given, "*", form, "again.onnx"), AMP_OK) << amp_last_error();
                EXPECT_TRUE(bytes("free.onnx") == bytes("again.onnx")) << "saved again it is another file";
            }
        }
    }
};

int64_t extent(const amp_tensor *t, int dim) {
    return amp_tensor_shape(t)[dim];
}

// Heads out of channels and back, positions out of a table, a number of each row.
TEST_F(Dynamic, BatchAndLength) {
    const auto inputs = [](int64_t b, int64_t l) { return Tensors{random_f32({b, l, 12}, 3), random_f32({b, l}, 4)}; };
    const auto function = [](const Tensors &t) {
        const int64_t b = extent(t[0], 0), l = extent(t[0], 1);
        amp_tensor *x = op("add", {t[0], op("narrow", {random_f32({64, 12}, 5), 0, 0, l})});
        x = op("linear", {x, random_f32({12, 12}, 6), random_f32({12}, 7)});
        amp_tensor *heads = op("transpose", {op("reshape", {x, AMP_DIMS(b, l, 3, 4)}), 1, 2});
        heads = op("scaled_dot_product_attention", {heads, heads, heads});
        x = op("reshape", {op("transpose", {heads, 1, 2}), AMP_DIMS(b * l, 12)});
        x = op("reshape", {op("relu", {x}), AMP_DIMS(b, l * 12)});
        amp_tensor *mask = op("expand", {op("unsqueeze", {t[1], 1}), AMP_DIMS(b, 12, l)});
        x = op("add", {x, op("reshape", {op("transpose", {mask, 1, 2}), AMP_DIMS(b, l * 12)})});
        return Tensors{op("add", {x, op("to", {op("arange", {amp_int(l * 12)}), AMP_F32})})};
    };
    expect_free(function, inputs, "0:0=batch,0:1=length,1:0=batch,1:1=length",
                {{1, 5}, {2, 7}, {3, 4}, {1, 1}, {4, 11}});
}

// An image whose halves round up, and which is made as large as it was.
TEST_F(Dynamic, HeightAndWidth) {
    const auto inputs = [](int64_t h, int64_t w) { return Tensors{random_f32({2, 3, h, w}, 3)}; };
    const auto function = [](const Tensors &t) {
        const std::vector<Named> halves = {{"stride", AMP_DIMS(2, 2)}, {"padding", AMP_DIMS(1, 1)}};
        amp_tensor *x = op("conv2d", {t[0], random_f32({4, 3, 3, 3}, 5)}, halves);
        amp_tensor *y = op("conv2d", {x, random_f32({4, 4, 3, 3}, 6)}, halves);
        y = op("interpolate", {y}, {{"size", AMP_DIMS(extent(x, 2), extent(x, 3))}});
        return Tensors{op("flatten", {op("add", {x, y}), 1, 3})};
    };
    expect_free(function, inputs, "0:2=height,0:3=width", {{16, 24}, {13, 24}, {17, 31}, {5, 6}}, false);
}

// What cannot be written for other extents is refused by name, and nothing is written.
TEST_F(Dynamic, Refused) {
    struct Case {
        Function function;
        const char *dynamic;
        amp_status status;
        std::vector<std::string> says;
    };
    const Function relu = [](const Tensors &t) { return Tensors{op("relu", {t[0]})}; };
    const std::vector<Case> cases = {
        {relu, "0:0", AMP_ERROR_INVALID, {"'0:0'", "INPUT:DIMENSION=NAME"}},
        {relu, "x:0=n", AMP_ERROR_INVALID, {"'x:0=n'", "no such input"}},
        {relu, "0:2=n", AMP_ERROR_INVALID, {"'0:2=n'", "no such dimension"}},
        {relu, "0:z=n", AMP_ERROR_INVALID, {"'0:z=n'", "is no number"}},
        {relu, "0:0=n,0:0=m", AMP_ERROR_INVALID, {"'0:0=m'", "twice"}},
        {relu, "0:0=n,0:1=n", AMP_ERROR_INVALID, {"'n'", "is 3 of", "4 of"}},
        {[](const Tensors &t) {
             return Tensors{op("mul", {t[0], random_f32({3, 4}, 5)})};
         },
         "0:0=n",
         AMP_ERROR_NOT_IMPLEMENTED,
         {"the extent 'n' cannot be free", "mul", "fixed"}},
        {[](const Tensors &t) { return Tensors{extent(t[0], 0) % 2 ? op("relu", {t[0]}) : op("neg", {t[0]})}; },
         "0:0=n",
         AMP_ERROR_NOT_IMPLEMENTED,
         {"relu", "neg", "fixed"}},
        {[](const Tensors &t) {
             const int64_t n = extent(t[0], 0);
             return Tensors{op("mul", {t[0], random_f32({n, 4}, unsigned(n))})};
         },
         "0:0=n",
         AMP_ERROR_NOT_IMPLEMENTED,
         {"Mul", "fixed"}},
        {[](const Tensors &t) {
             amp_tensor *mask = op("zeros", {AMP_DIMS(extent(t[0], 0), 4)});
             auto *elements = static_cast<float *>(amp_data_mut(mask));
             if (elements) elements[0] = 1; // after the call that would be written down
             return Tensors{op("mul", {t[0], mask})};
         },
         "0:0=n",
         AMP_ERROR_NOT_IMPLEMENTED,
         {"the function writes elements of a result"}},
    };
    for (const Case &c : cases) {
        Source source = {c.function, 1};
        const Graph graph(amp_graph_trace("traced", compute, &source, 1, 1, nullptr));
        EXPECT_EQ(save_free(graph.get(), {random_f32({3, 4})}, c.dynamic, AMP_GRAPH_TYPED), c.status) << c.dynamic;
        EXPECT_TRUE(failed_with(c.status, c.says)) << c.dynamic;
        EXPECT_EQ(files(), 0u);
    }
}

// A loaded model's extents of one name are equal in what it is given.
TEST_F(Dynamic, ExtentsOfOneName) {
    Source source = {[](const Tensors &t) { return Tensors{op("relu", {t[0]}), op("neg", {t[1]})}; }, 2};
    const Graph graph(amp_graph_trace("traced", compute, &source, 2, 2, nullptr));
    ASSERT_EQ(save_free(graph.get(), {random_f32({3, 4}), random_f32({3})}, "0:0=n,1:0=n", AMP_GRAPH_TYPED), AMP_OK)
        << amp_last_error();
    const Graph loaded = load("free.onnx");
    const Tensors wrong = {random_f32({2, 4}), random_f32({3})};
    Tensors outputs(2, nullptr);
    EXPECT_EQ(amp_graph_run(loaded.get(), wrong.data(), 2, outputs.data(), 2), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"the extent 'n' is 2 of the input 'input_0' and 3 of 'input_1'"}));
}

} // namespace
