/* Calls that multiply: matrices, convolutions, attention, recurrent layers. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "onnx/write/from.h"

enum { MOST_SPATIAL = 3 };

static double number_of(amp_scalar s) {
    return s.kind == AMP_SCALAR_FLOAT ? s.re : (double)s.i;
}

static int64_t extent_of(const amp_writer *w, int value, int from, int to) {
    int64_t product = 1;
    for (int d = from; d < to; d++) product *= w->values[value].shape[d];
    return product;
}

/* ---- Matrices -------------------------------------------------------------------------------------------------- */

amp_status from_matmul(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const bool is_matmul = strcmp(c->node.op->name, "matmul") == 0;
    const int a = amp_written_operand(c, "input"), b = amp_written_operand(c, is_matmul ? "other" : "mat2");
    return amp_written_set(c, 0, AMP_MADE(c->w, "MatMul", &shape, a, b));
}

amp_status from_addmm(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int a = amp_written_operand(c, "mat1"), b = amp_written_operand(c, "mat2"),
              bias = amp_written_operand(c, "input");
    const int y = AMP_MADE(c->w, "Gemm", &shape, a, b, bias);
    const double alpha = number_of(amp_written_scalar(c, "alpha")), beta = number_of(amp_written_scalar(c, "beta"));
    if (alpha != 1) amp_made_float(c->w, "alpha", alpha);
    if (beta != 1) amp_made_float(c->w, "beta", beta);
    return amp_written_set(c, 0, y);
}

/* Gemm takes matrices alone. */
amp_status from_linear(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    int x = amp_written_operand(c, "input");
    const int weight = amp_written_operand(c, "weight"), bias = amp_written_operand(c, "bias");
    if (x < 0 || weight < 0) return amp_pending_error();
    if (c->w->values[weight].rank != 2) return amp_written_fail(c, "with a weight that is no matrix");
    const int64_t columns = c->w->values[weight].shape[1], wide = c->w->values[weight].shape[0];
    const int64_t rows = extent_of(c->w, x, 0, c->w->values[x].rank - 1);
    x = amp_made_reshape(c->w, x, 2, (int64_t[]){rows, columns});
    const amp_made_shape flat = amp_made_shape_from(shape.dtype, 2, (int64_t[]){rows, wide});
    const int y = AMP_MADE(c->w, "Gemm", &flat, x, weight, bias);
    amp_made_int(c->w, "transB", 1);
    return amp_written_set(c, 0, amp_made_reshape(c->w, y, shape.rank, shape.extents));
}

/* ---- Convolutions ---------------------------------------------------------------------------------------------- */

static void write_window(amp_written_call *c, int dims, const int64_t *kernel) {
    int64_t stride[MOST_SPATIAL], dilation[MOST_SPATIAL], pads[2 * MOST_SPATIAL];
    amp_written_spread(c, "stride", dims, 1, stride);
    amp_written_spread(c, "dilation", dims, 1, dilation);
    amp_written_spread(c, "padding", dims, 0, pads);
    memcpy(pads + dims, pads, (size_t)dims * sizeof *pads);
    amp_made_ints(c->w, "dilations", dilation, dims);
    amp_made_int(c->w, "group", amp_written_int(c, "groups", 1));
    amp_made_ints(c->w, "kernel_shape", kernel, dims);
    amp_made_ints(c->w, "pads", pads, dims * 2);
    amp_made_ints(c->w, "strides", stride, dims);
}

static amp_status convolve(amp_written_call *c, const char *type) {
    amp_made_shape shape = amp_written_shape(c, 0);
    int x = amp_written_operand(c, "input");
    const int weight = amp_written_operand(c, "weight"), bias = amp_written_operand(c, "bias");
    if (x < 0 || weight < 0) return amp_pending_error();
    const amp_made_value kernel = c->w->values[weight];
    const bool single = c->w->values[x].rank == kernel.rank - 1; /* (C, …): a batch of one */
    if (kernel.rank < 3 || kernel.rank > 2 + MOST_SPATIAL)
        return amp_written_fail(c, "over %d dimensions", kernel.rank - 2);
    if (single) {
        int64_t extents[AMP_MAX_RANK] = {1};
        memcpy(extents + 1, c->w->values[x].shape, (size_t)(kernel.rank - 1) * sizeof *extents);
        x = amp_made_reshape(c->w, x, kernel.rank, extents);
        memmove(shape.extents + 1, shape.extents, (size_t)shape.rank++ * sizeof *shape.extents);
        shape.extents[0] = 1;
    }
    int y = AMP_MADE(c->w, type, &shape, x, weight, bias);
    write_window(c, kernel.rank - 2, kernel.shape + 2);
    if (strcmp(type, "ConvTranspose") == 0) {
        int64_t extra[MOST_SPATIAL];
        amp_written_spread(c, "output_padding", kernel.rank - 2, 0, extra);
        amp_made_ints(c->w, "output_padding", extra, kernel.rank - 2);
    }
    if (single) y = amp_made_reshape(c->w, y, shape.rank - 1, shape.extents + 1);
    return amp_written_set(c, 0, y);
}

amp_status from_conv(amp_written_call *c) {
    return convolve(c, "Conv");
}

amp_status from_conv_transpose(amp_written_call *c) {
    return convolve(c, "ConvTranspose");
}

/* ---- Attention ------------------------------------------------------------------------------------------------- */

amp_status from_attention(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const amp_net_value *query = amp_written_value(c, "query");
    const int q = amp_written_operand(c, "query"), k = amp_written_operand(c, "key"),
              v = amp_written_operand(c, "value"), mask = amp_written_operand(c, "attn_mask");
    if (!query || query->rank != 4) return amp_written_fail(c, "queries that are not (B, H, L, E)");
    if (amp_written_float(c, "dropout_p", 0) != 0) return amp_written_fail(c, "with dropout");
    const double scale = amp_written_float(c, "scale", 0);
    const int y = AMP_MADE(c->w, "Attention", &shape, q, k, v, mask);
    if (amp_written_int(c, "is_causal", 0)) amp_made_int(c->w, "is_causal", 1);
    amp_made_float(c->w, "scale", scale != 0 ? scale : 1 / sqrt((double)query->shape[3]));
    return amp_written_set(c, 0, y);
}

/* ---- Recurrent layers ------------------------------------------------------------------------------------------ */

enum { MOST_GATES = 4, BOTH = 2, PARAMETERS = 4 };

typedef struct layer {
    const char *type;
    int gates, directions, each; /* parameters of a direction */
    int64_t hidden;
} layer;

/* Rows of gates in ONNX's order. */
static amp_tensor *reorder(amp_tensor *rows, const layer *l) {
    static const int orders[MOST_GATES + 1][MOST_GATES] = {{0}, {0}, {0}, {1, 0, 2}, {0, 3, 1, 2}};
    amp_tensor *parts[MOST_GATES];
    if (l->gates == 1) return rows;
    for (int g = 0; g < l->gates; g++) parts[g] = amp_narrow(rows, 0, orders[l->gates][g] * l->hidden, l->hidden);
    return amp_cat(((amp_tensor_list){.items = parts, .count = l->gates}));
}

/* Parameter `first` of each direction, and with `second` both one behind the other. */
static int join_parameters(amp_written_call *c, const layer *l, int first, int second) {
    amp_tensor *parts[BOTH];
    for (int d = 0; d < l->directions; d++) {
        amp_tensor *pair[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++) {
            const int place = i == 0 ? first : second;
            if (place < 0) continue;
            const int value = amp_written_item(c, "params", d * l->each + place);
            if (value < 0) return value;
            if (!c->w->values[value].constant) {
                (void)amp_written_fail(c, "with weights that are computed");
                return AMP_MADE_NONE;
            }
            pair[i] = reorder(c->w->values[value].constant, l);
        }
        parts[d] = pair[1] ? amp_cat(AMP_LIST(pair[0], pair[1])) : pair[0];
    }
    return amp_made_constant(c->w, amp_stack(((amp_tensor_list){.items = parts, .count = l->directions})));
}

static amp_status read_layer(const amp_written_call *c, layer *l) {
    static const struct {
        const char *mode, *type;
        int gates;
    } modes[] = {{"lstm", "LSTM", 4}, {"gru", "GRU", 3}, {"rnn_tanh", "RNN", 1}, {"rnn_relu", "RNN", 1}};
    const char *mode = amp_written_text(c, "mode", "lstm");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i].mode, mode) != 0) continue;
        l->type = modes[i].type;
        l->gates = modes[i].gates;
    }
    l->directions = amp_written_int(c, "bidirectional", 0) ? BOTH : 1;
    l->each = amp_written_int(c, "has_biases", 0) ? PARAMETERS : PARAMETERS / 2;
    if (!l->type) return amp_written_fail(c, "in mode '%s'", mode);
    if (amp_written_int(c, "num_layers", 1) != 1) return amp_written_fail(c, "of several layers");
    if (amp_written_int(c, "train", 0) && amp_written_float(c, "dropout", 0) != 0)
        return amp_written_fail(c, "with dropout");
    if (amp_written_count(c, "params") != l->directions * l->each) return amp_written_fail(c, "with a projection");
    return AMP_OK;
}

/* (T, D, B, H) as (T, B, D · H). */
static int join_directions(amp_writer *w, int y) {
    static const int64_t order[] = {0, 2, 1, 3};
    const amp_made_shape s = amp_made_shape_of(w, y);
    const int64_t joined[] = {s.extents[0], s.extents[2], s.extents[1] * s.extents[3]};
    return amp_made_reshape(w, amp_made_transpose(w, y, order), 3, joined);
}

amp_status from_recurrent(amp_written_call *c) {
    static const int64_t turn[] = {1, 0, 2};
    layer l = {0};
    AMP_TRY(read_layer(c, &l));
    amp_writer *w = c->w;
    const bool batch_first = amp_written_int(c, "batch_first", 0) != 0;
    int x = amp_written_operand(c, "input");
    const int h = amp_written_item(c, "hx", 0), cell = l.gates == 4 ? amp_written_item(c, "hx", 1) : AMP_MADE_NONE;
    if (x < 0 || h < 0) return amp_pending_error();
    if (w->values[x].rank != 3) return amp_written_fail(c, "of an input that has no batch");
    if (batch_first) x = amp_made_transpose(w, x, turn);
    const amp_made_shape state = amp_made_shape_of(w, h);
    l.hidden = state.extents[2];
    const int64_t extents[] = {w->values[x].shape[0], l.directions, w->values[x].shape[1], l.hidden};
    const amp_made_shape all = amp_made_shape_from(state.dtype, 4, extents);
    const int rows = join_parameters(c, &l, 0, -1), recurrence = join_parameters(c, &l, 1, -1);
    const int bias = l.each == PARAMETERS ? join_parameters(c, &l, 2, 3) : AMP_MADE_NONE;
    if (amp_failed()) return amp_pending_error();
    int y = AMP_MADE(w, l.type, &all, x, rows, recurrence, bias, AMP_MADE_NONE, h, cell);
    const int hn = amp_made_another(w, &state), cn = l.gates == 4 ? amp_made_another(w, &state) : AMP_MADE_NONE;
    if (strcmp(amp_written_text(c, "mode", ""), "rnn_relu") == 0) return amp_written_fail(c, "in mode 'rnn_relu'");
    amp_made_text(w, "direction", l.directions == BOTH ? "bidirectional" : "forward");
    amp_made_int(w, "hidden_size", l.hidden);
    if (l.gates == 3) amp_made_int(w, "linear_before_reset", 1);
    y = join_directions(w, y);
    if (batch_first) y = amp_made_transpose(w, y, turn);
    AMP_TRY(amp_written_set(c, 0, y));
    if (amp_written_wants(c, 1)) AMP_TRY(amp_written_set(c, 1, hn));
    return amp_written_wants(c, 2) ? amp_written_set(c, 2, cn) : AMP_OK;
}
