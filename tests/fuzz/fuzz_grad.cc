// libFuzzer target: gradients of random ops. A call is drawn as fuzz_ops draws it, gets other sizes and values that lie off
// kinks, and some of its floating tensors become leaves. In f64 the gradient along a random direction must be what
// differences give (Richardson's, of two steps; where those do not settle, or further out on another slope, the function
// has an edge or stairs there, and nothing is said). In f32 and bf16 every gradient must be the f64 one of the same
// values, within what a unit of the last place of the arguments moves it. Other threads give the same bits; inputs stay as
// they are, nothing leaks, and what cannot be done is one sentence.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "choices.h"

using fuzz::Choices;
using fuzz::Random;
using op_calls::Call;
using op_calls::Layout;
using op_calls::Result;
using op_calls::Tensor;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

using Mask = std::vector<bool>;

void fail(const Call &call, const Mask &wanted, const char *what, const std::string &difference) {
    std::string mask;
    for (const bool is_wanted : wanted) mask += is_wanted ? '1' : '0';
    std::fprintf(stderr, "%s\nwanted %s: %s: %s\n", op_calls::describe(call).c_str(), mask.c_str(), what,
                 difference.c_str());
    std::abort();
}

// ---- Which ops, and their arguments -------------------------------------------------------------------------------
// The gradient is another than the slope, by definition.
bool has_other_gradient(const std::string &op) {
    static const std::set<std::string> ops = {
        // Straight through a step; what padding_idx, max_norm or scale_grad_by_freq make of it.
        "fake_quantize_per_tensor_affine", "embedding", "embedding_bag", "embedding_dense_backward", "renorm",
        // Of log_probs that are normalised; of the solution alone.
        "ctc_loss", "linalg_lstsq",
        // Where an index is there twice, one of the elements stays: which, the gradient does not ask.
        "index_copy", "max_unpool1d", "max_unpool2d", "max_unpool3d", "scatter", "index_put",
        // One triangle is read, and the gradient is that of a symmetric matrix; vectors are given up to signs.
        "cholesky", "linalg_cholesky", "linalg_cholesky_ex", "cholesky_inverse", "cholesky_solve", "linalg_eigh",
        "linalg_eigvalsh", "linalg_svd", "svd", "linalg_eig", "lu_solve", "geqrf", "linalg_lu_solve", "linalg_pinv",
        "linalg_matrix_rank", "symeig", "triangular_solve"};
    return ops.count(op) != 0;
}

// Numbers to the gradient, as in PyTorch: weights of losses, running statistics.
bool is_constant(const std::string &op, const std::string &argument) {
    static const std::set<std::string> losses = {"nll_loss",
                                                 "nll_loss2d",
                                                 "cross_entropy",
                                                 "cross_entropy_loss",
                                                 "binary_cross_entropy",
                                                 "multi_margin_loss",
                                                 "binary_cross_entropy_with_logits"};
    if (argument.rfind("running_", 0) == 0) return true;
    return losses.count(op) && (argument == "weight" || argument == "pos_weight");
}

bool is_drawn(const Call &call) {
    const size_t length = call.op.size();
    if (call.op.back() == '_' || (length > 4 && call.op.compare(length - 4, 4, "_out") == 0)) return false;
    if (op_calls::is_unspecified(call) || has_other_gradient(call.op) || call.tensors.size() > 24) return false;
    for (const Tensor &t : call.tensors) {
        if (amp_dtype_is_complex(t.dtype)) return false;
    }
    return true;
}

const std::vector<const Call *> &candidates() {
    static const std::vector<const Call *> all = [] {
        std::vector<const Call *> list;
        for (const Call &call : fuzz::calls()) {
            if (is_drawn(call)) list.push_back(&call);
        }
        return list;
    }();
    return all;
}

Tensor as_doubles(const Tensor &t) {
    return op_calls::converted(t, AMP_F64);
}
double *doubles(Tensor *t) {
    return reinterpret_cast<double *>(t->bytes.data());
}
const double *doubles(const Tensor &t) {
    return reinterpret_cast<const double *>(t.bytes.data());
}
size_t count_of(const Tensor &t) {
    return t.dtype == AMP_DTYPE_NONE ? 0 : t.bytes.size() / amp_dtype_size(t.dtype);
}

// What was recorded, each number moved a little, so that none is alike, none is round, and domains are kept.
void move_off_kinks(Call *call, Choices *choose) {
    Random random = {choose->byte() * 2654435761u + 1u};
    const double extent = choose->pick<double>({0.05, 0.2, 0.01});
    for (Tensor &t : call->tensors) {
        if (!amp_dtype_is_floating(t.dtype)) continue;
        t = as_doubles(t);
        for (size_t i = 0; i < count_of(t); i++) {
            double &x = doubles(&t)[i];
            if (!std::isfinite(x) || std::fabs(x) > 50) x = 0.5;
            const double moved = x * (1 + extent * (random.unit() - 0.5)) + (x == 0 ? extent * random.unit() : 0);
            x = moved;
        }
    }
}

Call draw(Choices *choose) {
    Call call = *candidates()[choose->below(candidates().size())];
    call.autocast = false;
    for (unsigned rounds = choose->byte() % 3; rounds-- > 0;) {
        const Call before = call;
        fuzz::rename_extent(&call, choose);
        size_t most = 0;
        for (const Tensor &t : call.tensors) most = std::max(most, op_calls::elements(t.shape));
        if (most > 4096) call = before;
    }
    move_off_kinks(&call, choose);
    return call;
}

Call in_dtype(const Call &call, amp_dtype dtype) {
    Call other = call;
    for (Tensor &t : other.tensors) {
        if (amp_dtype_is_floating(t.dtype)) t = op_calls::converted(t, dtype);
    }
    for (op_calls::Argument &a : other.arguments) {
        if (a.value.kind == AMP_VALUE_DTYPE && amp_dtype_is_floating(a.value.as.dtype)) a.value.as.dtype = dtype;
    }
    return other;
}

// Some of the floating tensors, at least one if there is one.
Mask draw_mask(const Call &call, Choices *choose) {
    std::vector<size_t> leaves;
    for (const op_calls::Argument &a : call.arguments) {
        for (const int i : a.tensors) {
            const bool may = i >= 0 && amp_dtype_is_floating(call.tensors[size_t(i)].dtype);
            if (may && !is_constant(call.op, a.name)) leaves.push_back(size_t(i));
        }
    }
    Mask mask(call.tensors.size());
    const size_t one = choose->byte();
    for (size_t k = 0; k < leaves.size(); k++) mask[leaves[k]] = k == one % leaves.size() || choose->one_in(2);
    return mask;
}

// ---- Differences --------------------------------------------------------------------------------------------------
struct Sum {
    double value = 0, magnitude = 0; // magnitude: of the terms
    bool is_known = false;
};

// Σ of the outputs that lead to leaves, each element times what comes back to it.
Sum weighted_sum(const Result &result, const std::vector<bool> &differentiable) {
    Sum sum;
    if (result.status != AMP_OK || result.outputs.size() != differentiable.size()) return sum;
    for (size_t k = 0; k < differentiable.size(); k++) {
        if (!differentiable[k]) continue;
        if (result.outputs[k].dtype != AMP_F64) return {}; // rounded: steps
        const Tensor &wide = result.outputs[k];
        for (size_t i = 0; i < count_of(wide); i++) {
            const double term = op_calls::cotangent(k, i) * doubles(wide)[i];
            sum.value += term;
            sum.magnitude += std::fabs(term);
        }
    }
    sum.is_known = std::isfinite(sum.value);
    return sum;
}

struct Line {
    const Call &call;
    const Mask &wanted;
    const std::vector<Tensor> direction; // by tensor, of those that are wanted
    const std::vector<bool> &differentiable;

    Sum at(double step) const {
        Call moved = call;
        for (size_t k = 0; k < wanted.size(); k++) {
            for (size_t i = 0; wanted[k] && i < count_of(moved.tensors[k]); i++)
                doubles(&moved.tensors[k])[i] += step * doubles(direction[k])[i];
        }
        return weighted_sum(op_calls::run(moved, Layout::dense, 1), differentiable);
    }
};

struct Slope {
    double value = 0, error = INFINITY; // INFINITY: none found
};

// Central differences of steps h, h/2 and h/4, the last two made one (Richardson). An edge within them keeps them apart; one at
// the point itself shows in the slopes of the two sides.
Slope slope_of(const Line &line, double h) {
    double differences[3], sides[2] = {0, 0};
    const Sum middle = line.at(0);
    double noise = 0;
    for (int i = 0; i < 3; i++) {
        const double step = h / (1 << i);
        const Sum up = line.at(step), down = line.at(-step);
        if (!up.is_known || !down.is_known || !middle.is_known) return {};
        differences[i] = (up.value - down.value) / (2 * step);
        sides[0] = (up.value - middle.value) / step;
        sides[1] = (middle.value - down.value) / step;
        noise = 1e-15 * (up.magnitude + down.magnitude) / step;
    }
    const double settled = (4 * differences[2] - differences[1]) / 3,
                 before = (4 * differences[1] - differences[0]) / 3;
    const double curve = std::fabs(sides[0] - sides[1]);
    if (curve > 0.02 * (std::fabs(settled) + 1e-3) + 100 * noise) return {}; // an edge, or too much of a curve to tell
    return {settled, std::fabs(settled - before) + noise + curve / 20};
}

bool is_settled(const Slope &slope) {
    return slope.error <= 1e-4 * (std::fabs(slope.value) + 1e-3);
}

std::vector<Tensor> directions(const Call &call, const Mask &wanted, Choices *choose) {
    Random random = {choose->byte() * 2246822519u + 7u};
    std::vector<Tensor> made(call.tensors.size());
    for (size_t k = 0; k < wanted.size(); k++) {
        if (!wanted[k]) continue;
        made[k] = call.tensors[k];
        for (size_t i = 0; i < count_of(made[k]); i++) {
            const double x = doubles(call.tensors[k])[i];
            doubles(&made[k])[i] = (2 * random.unit() - 1) * (std::fabs(x) < 1 ? 1 : std::fabs(x));
        }
    }
    return made;
}

void check_slope(const Call &call, const Mask &wanted, const Result &back, Choices *choose) {
    const Line line = {call, wanted, directions(call, wanted, choose), back.differentiable};
    double along = 0, magnitude = 0;
    for (size_t k = 0; k < wanted.size(); k++) {
        for (size_t i = 0; i < count_of(back.gradients[k]); i++) {
            const double term = doubles(back.gradients[k])[i] * doubles(line.direction[k])[i];
            along += term;
            magnitude += std::fabs(term);
        }
    }
    Slope best;
    bool has_steps = false;
    // The shortest is for kinks on both sides of the point, as where 4,096 numbers are sorted: their slopes can be alike.
    for (const double h : {1e-3, 1e-4, 1e-5, 1e-6}) {
        const Slope slope = slope_of(line, h);
        has_steps |=
            is_settled(slope) && is_settled(best) &&
            std::fabs(slope.value - best.value) > 1e-3 * (std::fabs(slope.value) + std::fabs(best.value)) + 1e-6;
        if (slope.error < best.error) best = slope;
    }
    if (has_steps || !is_settled(best)) return;
    const double allowed = 20 * best.error + 1e-6 * (magnitude + std::fabs(best.value)) + 1e-9;
    if (std::fabs(along - best.value) <= allowed) return;
    char text[160];
    std::snprintf(text, sizeof text, "along a line the gradient is %.12g, differences give %.12g (allowed %.3g)", along,
                  best.value, allowed);
    fail(call, wanted, "finite differences", text);
}

// ---- What must hold ------------------------------------------------------------------------------------------------
Result of_gradients(const Result &back) {
    Result result;
    result.status = back.status;
    result.error = back.error;
    result.outputs = back.gradients;
    return result;
}

// A backward's sentences begin with "backward" or the op.
void check_sane(const Call &call, const Mask &wanted, const Result &result) {
    if (result.status == AMP_ERROR_INTERNAL) fail(call, wanted, "error", "an internal error: " + result.error);
    if (result.status != AMP_OK && result.error.size() < 12)
        fail(call, wanted, "error", "no sentence: " + result.error);
    if (result.inputs_changed) fail(call, wanted, "inputs", "an input, or memory around it, was changed");
    if (result.leaked) fail(call, wanted, "memory", "a tensor is left");
}

// Every floating number a unit of `dtype` up or down.
Call nudged(const Call &call, amp_dtype dtype, uint64_t state) {
    Call other = call;
    for (Tensor &t : other.tensors) {
        if (!amp_dtype_is_floating(t.dtype)) continue;
        for (size_t i = 0; i < count_of(t); i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            doubles(&t)[i] *= 1 + (state & 1 ? 1 : -1) * op_calls::unit_of(dtype);
        }
    }
    return other;
}

double largest(const Tensor &t) {
    double most = 0;
    const Tensor wide = as_doubles(t);
    for (size_t i = 0; i < count_of(wide); i++) most = std::max(most, std::fabs(doubles(wide)[i]));
    return most;
}
double apart(const Tensor &a, const Tensor &b) {
    double most = 0;
    const Tensor x = as_doubles(a), y = as_doubles(b);
    for (size_t i = 0; i < std::min(count_of(x), count_of(y)); i++) {
        const double one = doubles(x)[i], other = doubles(y)[i];
        if ((std::isnan(one) && std::isnan(other)) || std::isinf(one) || std::isinf(other)) continue;
        const double difference = std::fabs(one - other);
        if (std::isnan(difference)) return difference;
        most = std::max(most, difference);
    }
    return most;
}

// Correlations that rounding brings beyond 1 are clamped.
bool is_another_function(const Call &call) {
    return call.op == "corrcoef";
}

// Without an eps, rms_norm and its backward take that of the type that they compute in.
Call with_eps_of_f32(Call call) {
    if (call.op.rfind("rms_norm", 0) != 0) return call;
    const auto is_eps = [](const op_calls::Argument &a) { return a.name == "eps"; };
    auto eps = std::find_if(call.arguments.begin(), call.arguments.end(), is_eps);
    if (eps == call.arguments.end()) {
        eps = call.arguments.emplace(eps);
        eps->name = "eps";
    }
    if (eps->value.kind != AMP_VALUE_NONE) return call;
    eps->value.kind = AMP_VALUE_SCALAR;
    eps->value.as.scalar = amp_float(double(FLT_EPSILON));
    return call;
}

// How far each gradient moves where arguments move by a unit of `dtype`; that of f64 tells too, scaled, how far sums cancel.
bool measure_moves(const Call &wide, const Mask &wanted, const Result &exact, amp_dtype dtype,
                   std::vector<double> *moved) {
    const amp_dtype units[] = {dtype, dtype, AMP_F64, AMP_F64};
    uint64_t seed = 88172645463325252u;
    for (const amp_dtype unit : units) {
        const Result other = op_calls::run_backward(nudged(wide, unit, seed), Layout::dense, 1, wanted);
        if (other.status != AMP_OK) return false;
        const double scale = op_calls::unit_of(dtype) / op_calls::unit_of(unit);
        for (size_t k = 0; k < wanted.size(); k++)
            (*moved)[k] = std::max((*moved)[k], scale * apart(other.gradients[k], exact.gradients[k]));
        seed += 1234567890123u;
    }
    return true;
}

// What gradients are made of is of the size of the result over the argument, and each part known to a unit of itself: where parts
// cancel (attention whose row looks at one key alone, a condition number that is always 1), little is left that is right.
double left_of_parts(const Result &exact, const Tensor &argument) {
    double result = 0;
    for (const Tensor &t : exact.outputs) result = std::max(result, largest(t));
    const double size = largest(argument);
    return std::isfinite(result) && size > 0 ? 64 * op_calls::unit_of(AMP_F32) * result / size : 0;
}

// A deviation's gradient is of x less the mean, over the deviation: of values that lie close together the first has few digits left,
// though of two values all that comes of it is a sign.
double left_of_deviations(const Call &wide, const Result &exact) {
    if (wide.op.rfind("std", 0) != 0) return 0;
    double least = INFINITY;
    const Tensor deviations = as_doubles(exact.outputs[0]);
    for (size_t i = 0; i < count_of(deviations); i++) least = std::min(least, std::fabs(doubles(deviations)[i]));
    return least > 0 ? 64 * op_calls::unit_of(AMP_F32) * largest(wide.tensors[0]) / least : 0;
}

// A gradient in f64 of which sums leave the range of f32, and of bf16, which has the same: 33 reflectors that are none (ormqr)
// make 1e49.
bool is_beyond_f32(double size) {
    return !(size <= double(FLT_MAX) / 65536);
}

// The gradient in `dtype` beside that of the same values in f64: rounding moves either as far as it moves arguments.
void check_narrow(const Call &narrow, const Mask &wanted, const Result &got, amp_dtype dtype) {
    if (is_another_function(narrow)) return;
    const Call wide = with_eps_of_f32(in_dtype(narrow, AMP_F64));
    const Result exact = op_calls::run_backward(wide, Layout::dense, 1, wanted);
    if (got.status != AMP_OK || exact.status != AMP_OK) return;
    std::vector<double> moved(wanted.size());
    if (!measure_moves(wide, wanted, exact, dtype, &moved)) return;
    for (size_t k = 0; k < wanted.size(); k++) {
        const double size = largest(exact.gradients[k]), error = apart(got.gradients[k], exact.gradients[k]);
        const double allowed = 64 * (moved[k] + op_calls::unit_of(dtype) * size) + 1e-7 +
                               left_of_parts(exact, wide.tensors[k]) + left_of_deviations(wide, exact);
        if (error <= allowed || is_beyond_f32(size) || !std::isfinite(moved[k])) continue;
        char text[160];
        std::snprintf(text, sizeof text,
                      "tensor %zu's gradient is %.6g off that of f64, whose largest is %.6g (allowed %.3g)", k, error,
                      size, allowed);
        fail(narrow, wanted, amp_dtype_name(dtype), text);
    }
}

void check_threads(const Call &call, const Mask &wanted, const Result &back) {
    const Result other = op_calls::run_backward(call, Layout::dense, 2, wanted);
    check_sane(call, wanted, other);
    const std::string difference = op_calls::difference(of_gradients(other), of_gradients(back));
    if (!difference.empty()) fail(call, wanted, "two threads against one", difference);
}

// Arguments that are a unit away move the gradients further: a matrix that can hardly be inverted, say.
bool moves_further(const Call &call, const Mask &wanted, const Result &back, const Result &other) {
    std::vector<double> moved(wanted.size());
    if (other.gradients.size() != wanted.size() || !measure_moves(call, wanted, back, AMP_F64, &moved)) return false;
    for (size_t k = 0; k < wanted.size(); k++) {
        const double difference = apart(other.gradients[k], back.gradients[k]);
        if (!(difference <= 64 * moved[k])) return false;
    }
    return true;
}

// Leaves that lie otherwise in memory.
void check_layout(const Call &call, const Mask &wanted, const Result &back, Choices *choose) {
    if (op_calls::depends_on_layout(call.op)) return;
    const auto layout = Layout(1 + choose->below(size_t(Layout::count) - 1));
    const Result other = op_calls::run_backward(call, layout, 1, wanted);
    check_sane(call, wanted, other);
    const std::string difference = op_calls::difference_beyond(of_gradients(other), of_gradients(back), 1e5, 1e-9);
    if (difference.empty() || moves_further(call, wanted, back, other)) return;
    fail(call, wanted, "another layout", difference);
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const bool limited = (fuzz::calls(), fuzz::limit_memory(), true);
    (void)limited;
    Choices choose = {data, data + size};
    const Call call = draw(&choose);
    const Mask wanted = draw_mask(call, &choose);
    if (std::getenv("AMP_TEST_TELL")) std::fprintf(stderr, "%s\n", op_calls::describe(call).c_str());
    const Result back = op_calls::run_backward(call, Layout::dense, 1, wanted);
    check_sane(call, wanted, back);
    if (back.status != AMP_OK || back.gradients.empty()) return 0;
    check_slope(call, wanted, back, &choose);
    check_layout(call, wanted, back, &choose);
    for (const amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        const Call narrow = in_dtype(call, dtype);
        const Result got = op_calls::run_backward(narrow, Layout::dense, 1, wanted);
        check_sane(narrow, wanted, got);
        if (got.status != AMP_OK || got.gradients.empty()) continue;
        check_threads(narrow, wanted, got);
        check_narrow(narrow, wanted, got, dtype);
    }
    return 0;
}
