/* Operations of a call: a formula for each op, and the argument whose shape it needs besides the result's. */
#include "explain/operations.h"

#include <math.h>
#include <string.h>

static const amp_arg_info *argument_named(const amp_call *call, const char *name) {
    for (int i = 0; i < call->op->arg_count; i++) {
        if (strcmp(call->op->args[i].name, name) == 0) return &call->op->args[i];
    }
    return NULL;
}

/* NULL where it is absent. */
static const amp_tensor *tensor_named(const amp_call *call, const char *name) {
    const amp_arg_info *arg = argument_named(call, name);
    return arg && arg->kind == AMP_ARG_TENSOR ? *amp_call_tensor(call, arg) : NULL;
}

static bool is_set(const amp_call *call, const char *name) {
    const amp_arg_info *arg = argument_named(call, name);
    return arg && arg->kind == AMP_ARG_BOOL && *(const bool *)amp_call_field(call, arg);
}

static double elements(const amp_tensor *t) {
    double count = 1;
    for (int i = 0; i < t->rank; i++) count *= (double)t->shape[i];
    return count;
}

/* Extent of a dimension counted from the end, 1 for the last. */
static double extent(const amp_tensor *t, int from_end) {
    return t->rank >= from_end ? (double)t->shape[t->rank - from_end] : 1;
}

/* Elements for each index of a dimension: 0 of an empty tensor. */
static double per(const amp_tensor *t, double extent) {
    return extent > 0 ? elements(t) / extent : 0;
}

/* The argument is the factor whose last dimension is summed over: a result is a dot product of that length. */
static double of_product(const amp_call *call, const amp_tensor *factor) {
    return 2 * elements(call->outputs[0]) * extent(factor, 1);
}

/* Products of a batch that are added up. */
static double of_batch_sum(const amp_call *call, const amp_tensor *batch1) {
    return of_product(call, batch1) * extent(batch1, 3);
}

/* a (M, K), b (K, N), the result (M, N), each any number of dimensions: (MK · KN · MN)^½ = MNK. */
static double of_contraction(const amp_call *call, const amp_tensor *a) {
    return 2 * sqrt(elements(a) * elements(tensor_named(call, "b")) * elements(call->outputs[0]));
}

/* weight (O, C / groups, K…): each result is a dot product over one of its rows. */
static double of_convolution(const amp_call *call, const amp_tensor *weight) {
    return 2 * elements(call->outputs[0]) * per(weight, (double)weight->shape[0]);
}

/* weight (C, O / groups, K…): each element of the input meets one of its rows. */
static double of_transposed(const amp_call *call, const amp_tensor *weight) {
    return 2 * elements(tensor_named(call, "input")) * per(weight, (double)weight->shape[0]);
}

/* weight (K, C, O) */
static double of_conv_tbc(const amp_call *call, const amp_tensor *weight) {
    return 2 * elements(call->outputs[0]) * per(weight, extent(weight, 1));
}

/* query (…, L, E), key (…, S, E), value (…, S, V): the scores and the sums of values. Causal: what is masked is no
 * work, row i of the scores has min(i + 1, S). */
static double of_attention(const amp_call *call, const amp_tensor *query) {
    const amp_tensor *value = tensor_named(call, "value");
    const double l = extent(query, 2), s = extent(value, 2), square = l < s ? l : s;
    const double causal = square * (square + 1) / 2 + (l - square) * s;
    const double pairs = is_set(call, "is_causal") ? causal : l * s;
    return 2 * per(query, l * extent(query, 1)) * pairs * (extent(query, 1) + extent(value, 1));
}

/* query (B, L, D), key and value (B, S, D); four projections of D × D, and the heads' attention. */
static double of_multi_head_attention(const amp_call *call, const amp_tensor *query) {
    const amp_tensor *key = tensor_named(call, "key"), *value = tensor_named(call, "value");
    const double d = extent(query, 1), projected = 2 * elements(query) + elements(key) + elements(value);
    return 2 * d * projected + 4 * elements(query) * extent(key, 2);
}

static double of_matrices(const amp_tensor *t) {
    return t && t->rank == 2 ? elements(t) : 0;
}

/* input (…, C): every step of it meets every matrix of every layer and direction. */
static double of_layers(const amp_call *call, const amp_tensor *input) {
    const amp_tensor_list *params = amp_call_tensor_list(call, argument_named(call, "params"));
    double weights = 0;
    for (int64_t i = 0; i < params->count; i++) weights += of_matrices(params->items[i]);
    return 2 * per(input, extent(input, 1)) * weights;
}

static double of_cell(const amp_call *call, const amp_tensor *input) {
    const double weights = of_matrices(tensor_named(call, "w_ih")) + of_matrices(tensor_named(call, "w_hh"));
    return 2 * per(input, extent(input, 1)) * weights;
}

static const struct {
    const char *op, *argument;
    double (*operations)(const amp_call *call, const amp_tensor *argument);
} formulas[] = {
    {"linear", "input", of_product},
    {"linear_pointwise", "input", of_product},
    {"linear_pointwise_binary", "input", of_product},
    {"matmul", "input", of_product},
    {"mm", "input", of_product},
    {"bmm", "input", of_product},
    {"mv", "input", of_product},
    {"dot", "input", of_product},
    {"vdot", "input", of_product},
    {"addmm", "mat1", of_product},
    {"addmm_activation", "mat1", of_product},
    {"addmv", "mat", of_product},
    {"baddbmm", "batch1", of_product},
    {"addbmm", "batch1", of_batch_sum},
    {"tensordot", "a", of_contraction},
    {"conv1d", "weight", of_convolution},
    {"conv1d_padding", "weight", of_convolution},
    {"conv2d", "weight", of_convolution},
    {"conv2d_padding", "weight", of_convolution},
    {"conv3d", "weight", of_convolution},
    {"conv3d_padding", "weight", of_convolution},
    {"convolution_pointwise", "weight", of_convolution},
    {"convolution_pointwise_binary", "weight", of_convolution},
    {"conv_transpose1d", "weight", of_transposed},
    {"conv_transpose2d", "weight", of_transposed},
    {"conv_transpose3d", "weight", of_transposed},
    {"convolution_transpose_pointwise", "weight", of_transposed},
    {"conv_tbc", "weight", of_conv_tbc},
    {"scaled_dot_product_attention", "query", of_attention},
    {"native_multi_head_attention", "query", of_multi_head_attention},
    {"lstm", "input", of_layers},
    {"gru", "input", of_layers},
    {"rnn_tanh", "input", of_layers},
    {"rnn_relu", "input", of_layers},
    {"rnn_layer", "input", of_layers},
    {"lstm_cell", "input", of_cell},
    {"gru_cell", "input", of_cell},
    {"rnn_tanh_cell", "input", of_cell},
    {"rnn_relu_cell", "input", of_cell},
};

double amp_call_operations(const amp_call *call) {
    const char *const name = call->op->alias_of ? call->op->alias_of : call->op->c_name;
    if (!call->outputs[0] || amp_dtype_is_complex(amp_tensor_memory(call->outputs[0])->dtype)) return 0;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        if (strcmp(formulas[i].op, name) != 0) continue;
        const amp_tensor *argument = tensor_named(call, formulas[i].argument);
        return argument ? formulas[i].operations(call, argument) : 0;
    }
    return 0;
}
