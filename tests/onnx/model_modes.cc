// One model in all the ways that a graph computes it:
//   exact graphs give the bits of the model's nodes computed one by one, in f32 and in a region of bf16;
//   every run of a graph gives the same bits, on 1, 2 and 3 threads;
//   what a graph fuses under bf16 is no further from f32 than what it does not.
//
// model_modes MODEL DIR [--draws N]
// DIR holds the inputs as NAME.npy. The error of one input is chance: roundings that all elements share, such as those of a
// gate, are drawn once. So it is taken of several inputs, from fixed seeds: the given one, then that with noise, or with its
// words in another order; text in place of images that show nothing. There are 8 draws, and more, up to N (64), while the
// standard error of the mean of log(fused / exact) is above 0.1, or the ratio looks too high and may yet not be. Prints a line: the geometric means of the errors by norm of
// exact and of fused, their ratio with its standard error and less two of them, and what differs. Exit code 1: bits differ,
// or the ratio less two standard errors is above 1.02; 2: a mistake in the call, or a model that does not run.
#include "internals.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "amp/amp.h"
#include "drawn_text.h"

extern "C" {
#include "onnx/run.h"
}

namespace {

constexpr double most_ratio = 1.02, noise = 0.1, near_enough = 0.1, least_error = 1e-9;
constexpr int fewest_draws = 8, smallest_picture = 16;

struct ReleaseGraph {
    void operator()(amp_graph *graph) const {
        amp_graph_release(graph);
    }
};
using Graph = std::unique_ptr<amp_graph, ReleaseGraph>;
using Tensors = std::vector<amp_tensor *>;
using Bytes = std::vector<std::vector<char>>; // of each output

[[noreturn]] void fail() {
    throw std::runtime_error(amp_last_error());
}

Graph load(const std::string &path, bool exact) {
    amp_graph_options options = {};
    options.struct_size = sizeof options;
    options.exact = exact;
    Graph graph(amp_graph_load(path.c_str(), &options));
    if (!graph) fail();
    return graph;
}

std::string file_of(const std::string &folder, const char *name) {
    std::string file = name;
    for (char &c : file)
        if (!isalnum(static_cast<unsigned char>(c)) && !strchr("._-", c)) c = '_';
    return folder + "/" + file + ".npy";
}

Tensors load_inputs(const Graph &graph, const std::string &folder) {
    Tensors inputs;
    for (int i = 0; i < amp_graph_input_count(graph.get()); i++) {
        amp_graph_value value;
        if (amp_graph_get_input(graph.get(), i, &value, sizeof value) != AMP_OK) fail();
        inputs.push_back(amp_load_npy(file_of(folder, value.name).c_str()));
        if (!inputs.back()) fail();
    }
    return inputs;
}

// Of floating types the one that the model declares, as a graph hands it out.
amp_dtype dtype_of(const Graph &graph, int output, const amp_tensor *t) {
    amp_graph_value value;
    if (amp_graph_get_output(graph.get(), output, &value, sizeof value) != AMP_OK) fail();
    return amp_dtype_is_floating(value.dtype) ? value.dtype : amp_tensor_dtype(t);
}

Bytes bytes_of(const Graph &graph, const Tensors &tensors) {
    Bytes all;
    for (amp_tensor *t : tensors) {
        const amp_dtype dtype = dtype_of(graph, static_cast<int>(all.size()), t);
        std::vector<char> bytes(static_cast<size_t>(amp_tensor_numel(t)) * amp_dtype_size(dtype));
        if (amp_read(t, dtype, bytes.data(), bytes.size()) != AMP_OK) fail();
        all.push_back(std::move(bytes));
    }
    return all;
}

std::vector<float> numbers_of(const amp_tensor *t) {
    std::vector<float> numbers(static_cast<size_t>(amp_tensor_numel(t)));
    if (amp_read(t, AMP_F32, numbers.data(), numbers.size() * sizeof(float)) != AMP_OK) fail();
    return numbers;
}

struct Result {
    Bytes bytes;
    std::vector<std::vector<float>> numbers; // of floating outputs
};

// What a function computes, in f32 or in a region of bf16.
template <class Function>
Result run(const Graph &graph, bool bf16, Function function) {
    Tensors outputs(static_cast<size_t>(amp_graph_output_count(graph.get())));
    Result result;
    amp_scope_here();
    const auto compute = [&] { return function(outputs.data()); };
    amp_status status = AMP_OK;
    if (bf16) {
        amp_autocast(AMP_DEVICE_CPU) status = compute();
    } else {
        status = compute();
    }
    if (status != AMP_OK) fail();
    result.bytes = bytes_of(graph, outputs);
    for (amp_tensor *t : outputs) {
        if (!amp_dtype_is_floating(amp_tensor_dtype(t))) continue;
        result.numbers.push_back(numbers_of(t));
    }
    return result;
}

Result run(const Graph &graph, const Tensors &inputs, bool bf16) {
    return run(graph, bf16, [&](amp_tensor **outputs) {
        return amp_graph_run(graph.get(), inputs.data(), static_cast<int>(inputs.size()), outputs,
                             amp_graph_output_count(graph.get()));
    });
}

// The nodes one after the other, without the graph.
Result run_nodes(const std::string &path, const Graph &graph, const Tensors &inputs, bool bf16) {
    const std::unique_ptr<amp_onnx_model, void (*)(amp_onnx_model *)> model(amp_onnx_read(path.c_str(), nullptr),
                                                                            amp_onnx_free);
    if (!model || amp_onnx_resolve(model.get(), nullptr, nullptr) != AMP_OK) fail();
    return run(graph, bf16,
               [&](amp_tensor **outputs) { return amp_onnx_run_model(model.get(), nullptr, inputs.data(), outputs); });
}

// Whether an input is an image, (N,C,H,W) with one or three channels, that shows nothing: all its numbers are one.
bool is_blank(const amp_tensor *t, const std::vector<float> &numbers) {
    const int64_t *shape = amp_tensor_shape(t);
    if (amp_tensor_rank(t) != 4 || (shape[1] != 1 && shape[1] != 3)) return false;
    if (shape[2] < smallest_picture || shape[3] < smallest_picture) return false;
    return std::all_of(numbers.begin(), numbers.end(), [&](float x) { return x == numbers[0]; });
}

void draw_text(const int64_t *shape, std::mt19937 &engine, std::vector<float> *numbers) {
    const double size = numbers->empty() || numbers->front() == 0 ? 1 : numbers->front();
    const size_t each = static_cast<size_t>(shape[1] * shape[2] * shape[3]);
    for (size_t i = 0; i < numbers->size(); i += each)
        drawn_text::draw(numbers->data() + i, shape[1], shape[2], shape[3], size, engine);
}

void add_noise(std::mt19937 &engine, std::vector<float> *numbers) {
    double squares = 0;
    for (const float x : *numbers) squares += double(x) * x;
    const double size = std::sqrt(squares / double(numbers->empty() ? 1 : numbers->size()));
    std::uniform_real_distribution<double> between(-noise * size, noise * size);
    for (float &x : *numbers) x = static_cast<float>(x + between(engine));
}

// Rows of whole numbers, which are words, in another order; flags stay, and so do lone numbers and lists, which may be sizes.
amp_tensor *shuffled(amp_tensor *t, std::mt19937 &engine) {
    std::vector<int64_t> numbers(static_cast<size_t>(amp_tensor_numel(t)));
    if (amp_read(t, AMP_I64, numbers.data(), numbers.size() * sizeof(int64_t)) != AMP_OK) fail();
    const bool flags = std::all_of(numbers.begin(), numbers.end(), [](int64_t x) { return x == 0 || x == 1; });
    if (flags || amp_tensor_rank(t) < 2) return t;
    std::shuffle(numbers.begin(), numbers.end(), engine);
    return amp_from_data(numbers.data(), AMP_I64, amp_tensor_rank(t), amp_tensor_shape(t));
}

// Noise around an image that shows nothing leaves the means over its pixels where they are, and with them what gates let
// through: all draws would be one. So text takes its place, in the first draw too.
amp_tensor *disturbed(amp_tensor *t, bool first, std::mt19937 &engine) {
    std::vector<float> numbers = numbers_of(t);
    if (is_blank(t, numbers))
        draw_text(amp_tensor_shape(t), engine, &numbers);
    else if (first)
        return t;
    else
        add_noise(engine, &numbers);
    return amp_from_data(numbers.data(), AMP_F32, amp_tensor_rank(t), amp_tensor_shape(t));
}

// The first draw is what was given, but for images that show nothing.
Tensors draw(const Tensors &inputs, int number) {
    Tensors drawn = inputs;
    std::mt19937 engine(static_cast<unsigned>(number));
    for (amp_tensor *&t : drawn) {
        if (amp_tensor_dtype(t) == AMP_F32)
            t = disturbed(t, number == 0, engine);
        else if (amp_tensor_dtype(t) == AMP_I64 && number > 0)
            t = shuffled(t, engine);
        if (!t) fail();
    }
    return drawn;
}

void release(const Tensors &drawn, const Tensors &inputs) {
    for (size_t i = 0; i < drawn.size(); i++)
        if (drawn[i] != inputs[i]) amp_release(drawn[i]);
}

// By norm, of all floating outputs together: of each the error over its size.
double error_of(const Result &result, const Result &expected) {
    double sum = 0;
    for (size_t i = 0; i < expected.numbers.size(); i++) {
        double errors = 0, sizes = 0;
        for (size_t k = 0; k < expected.numbers[i].size(); k++) {
            const double x = result.numbers[i][k], y = expected.numbers[i][k];
            if (!std::isfinite(y) && !std::isfinite(x)) continue;
            errors += (x - y) * (x - y);
            sizes += y * y;
        }
        sum += sizes > 0 ? errors / sizes : errors;
    }
    return std::sqrt(sum);
}

double mean_of(const std::vector<double> &numbers) {
    double sum = 0;
    for (const double x : numbers) sum += x;
    return sum / double(numbers.size());
}

struct Comparison {
    std::string differs;                  // what has other bits than it should
    std::vector<double> exact, fused;     // logarithms of the errors
    double ratio = 1, standard_error = 0; // of the mean of log(fused / exact): e to its power, and its standard error

    // An error below `least_error`, 0 among them, is as good as that.
    void add(double of_exact, double of_fused) {
        exact.push_back(std::log(std::max(of_exact, least_error)));
        fused.push_back(std::log(std::max(of_fused, least_error)));
        const double mean = mean_of(fused) - mean_of(exact), count = double(exact.size());
        double squares = 0;
        for (size_t i = 0; i < exact.size(); i++) squares += std::pow(fused[i] - exact[i] - mean, 2);
        ratio = std::exp(mean);
        standard_error = count > 1 ? std::sqrt(squares / (count - 1) / count) : INFINITY;
    }

    double least_ratio() const {
        return ratio * std::exp(-2 * standard_error);
    }

    // Not a number is worse, too.
    bool is_worse() const {
        return !(least_ratio() <= most_ratio);
    }

    // More draws may tell.
    bool is_open() const {
        return standard_error > near_enough || (ratio > most_ratio && !is_worse());
    }
};

void compare_bits(const std::string &path, const Tensors &inputs, Comparison *c) {
    const int before = amp_get_num_threads();
    for (const bool bf16 : {false, true}) {
        const std::string where = bf16 ? " in bf16;" : " in f32;";
        const Graph exact = load(path, true);
        amp_set_num_threads(1);
        const Result eager = run_nodes(path, exact, inputs, bf16);
        for (int i = 0; i < 2; i++)
            if (run(exact, inputs, bf16).bytes != eager.bytes) c->differs += " exact and eager" + where;
        const Graph fused = load(path, false);
        const Result first = run(fused, inputs, bf16);
        for (const int threads : {1, 2, 3}) {
            amp_set_num_threads(threads);
            if (run(fused, inputs, bf16).bytes != first.bytes)
                c->differs += " " + std::to_string(threads) + " threads and the first run" + where;
            if (threads > 1 && run(exact, inputs, bf16).bytes != eager.bytes)
                c->differs += " exact on " + std::to_string(threads) + " threads" + where;
        }
        amp_set_num_threads(before);
    }
}

// Draws until the mean is known well enough to tell a ratio that is too high.
void compare_errors(const std::string &path, const Tensors &inputs, int most_draws, Comparison *c) {
    const Graph exact = load(path, true), fused = load(path, false);
    for (int i = 0; i < most_draws && (i < fewest_draws || c->is_open()); i++) {
        const Tensors drawn = draw(inputs, i);
        const Result expected = run(exact, drawn, false);
        c->add(error_of(run(exact, drawn, true), expected), error_of(run(fused, drawn, true), expected));
        release(drawn, inputs);
    }
}

int report(const Comparison &c) {
    std::printf("exact %.2e fused %.2e ratio %.3f +- %.3f of %zu, at least %.3f%s%s%s\n", std::exp(mean_of(c.exact)),
                std::exp(mean_of(c.fused)), c.ratio, c.ratio * c.standard_error, c.exact.size(), c.least_ratio(),
                c.is_worse() ? ": fused is WORSE" : "", c.differs.empty() ? "" : "; DIFFERS:", c.differs.c_str());
    return c.is_worse() || !c.differs.empty();
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3 && !(argc == 5 && !strcmp(argv[3], "--draws"))) {
        std::fprintf(stderr, "usage: model_modes MODEL DIR [--draws N]\n");
        return 2;
    }
    try {
        Comparison c;
        const Tensors inputs = load_inputs(load(argv[1], true), argv[2]);
        const Tensors first = draw(inputs, 0);
        compare_bits(argv[1], first, &c);
        release(first, inputs);
        compare_errors(argv[1], inputs, argc == 5 ? std::atoi(argv[4]) : 64, &c);
        for (amp_tensor *t : inputs) amp_release(t);
        return report(c);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 2;
    }
}
