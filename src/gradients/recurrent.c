/* Gradients of recurrent layers and cells: run once more by products and activations. */
#include <string.h>

#include "amp/grad.h"
#include "core/memory.h"
#include "gradients/again.h"

typedef enum { LSTM, GRU, RNN_TANH, RNN_RELU } kind;

typedef struct state {
    amp_tensor *h, *c;
} state;

/* One step from what the input and the state gave to the gates; of an LSTM c is followed too. */
static state step(kind k, amp_tensor *x, amp_tensor *h, state s) {
    if (k == GRU) {
        const amp_tensor_list gx = amp_chunk(x, 3, .dim = -1), gh = amp_chunk(h, 3, .dim = -1);
        if (gx.count != 3 || gh.count != 3) return (state){0};
        amp_tensor *reset = amp_sigmoid(amp_add(gx.items[0], gh.items[0]));
        amp_tensor *update = amp_sigmoid(amp_add(gx.items[1], gh.items[1]));
        amp_tensor *made = amp_tanh(amp_add(gx.items[2], amp_mul(reset, gh.items[2])));
        return (state){amp_add(made, amp_mul(update, amp_sub(s.h, made))), NULL};
    }
    amp_tensor *gates = amp_add(x, h);
    if (k != LSTM) return (state){k == RNN_RELU ? amp_relu(gates) : amp_tanh(gates), NULL};
    const amp_tensor_list g = amp_chunk(gates, 4, .dim = -1);
    if (g.count != 4) return (state){0};
    amp_tensor *kept = amp_mul(amp_sigmoid(g.items[1]), s.c);
    amp_tensor *c = amp_add(kept, amp_mul(amp_sigmoid(g.items[0]), amp_tanh(g.items[2])));
    return (state){amp_mul(amp_sigmoid(g.items[3]), amp_tanh(c)), c};
}

/* ---- Cells ---------------------------------------------------------------------------------------------------------- */
/* The fields that all cells share, from the input on. */
static void compose_cell(kind k, amp_tensor *input, amp_tensor_list hx, amp_tensor *const *weights,
                         amp_tensor **results) {
    const state s = {hx.items[0], k == LSTM ? hx.items[1] : NULL};
    const state next = step(k, amp_linear(input, weights[0], weights[2]), amp_linear(s.h, weights[1], weights[3]), s);
    results[0] = next.h;
    if (k == LSTM) results[1] = next.c;
}

#define CELL(name, k)                                                                                                  \
    static void compose_##name(const void *args, amp_tensor **results) {                                               \
        const amp_##name##_args *a = args;                                                                             \
        amp_tensor *const weights[4] = {a->w_ih, a->w_hh, a->b_ih, a->b_hh};                                           \
        compose_cell(k, a->input, a->hx, weights, results);                                                            \
    }                                                                                                                  \
    AMP_GRADIENT_AGAIN(name)
CELL(lstm_cell, LSTM)
CELL(gru_cell, GRU)
CELL(rnn_tanh_cell, RNN_TANH)
CELL(rnn_relu_cell, RNN_RELU)

/* ---- Passes: a layer in one direction ------------------------------------------------------------------------------- */
static kind kind_of(const char *mode) {
    static const char *const modes[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
    int k = LSTM;
    while (k < RNN_RELU && strcmp(mode, modes[k]) != 0) k++;
    return (kind)k;
}

/* Over [steps, batch, features]; `outputs` has room for h of each step. */
static void compose_steps(const amp_rnn_pass_args *a, amp_tensor *input, amp_tensor **outputs, amp_tensor **results) {
    const kind k = kind_of(a->mode);
    const amp_tensor_list x = amp_unbind(amp_linear(input, a->w_ih, a->b_ih), .dim = 0);
    state s = {a->h0, a->c0};
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t t = a->reverse ? x.count - 1 - i : i;
        s = step(k, x.items[t], amp_linear(s.h, a->w_hh, a->b_hh), s);
        if (a->w_hr) s.h = amp_linear(s.h, a->w_hr);
        outputs[t] = s.h;
    }
    amp_tensor *out = amp_stack((amp_tensor_list){outputs, x.count, NULL}, 0);
    results[0] = a->batch_first ? amp_transpose(out, 0, 1) : out;
    results[1] = s.h;
    results[2] = s.c;
}

static void compose_rnn_pass(const void *args, amp_tensor **results) {
    const amp_rnn_pass_args *a = args;
    const int64_t steps = a->input->shape[a->batch_first ? 1 : 0];
    amp_tensor **outputs = amp_alloc_zeroed((size_t)steps * sizeof *outputs);
    if (!outputs) {
        (void)amp_fail(AMP_ERROR_MEMORY, "backward: no memory for %lld steps", (long long)steps);
        return;
    }
    compose_steps(a, a->batch_first ? amp_transpose(a->input, 0, 1) : a->input, outputs, results);
    amp_free(outputs);
}

/* What rnn_pass_backward gives, f32; it enters products in the pass's dtype. */
typedef struct way_back {
    const amp_rnn_pass_args *a;
    amp_dtype dtype;
    amp_tensor *gates, *extra, *h0, *c0;
    int64_t steps, batch, hidden, width;
} way_back;

static amp_tensor *as_rows(const way_back *w, amp_tensor *t) {
    return amp_reshape(t, AMP_DIMS(w->steps * w->batch, -1));
}
/* Time first. */
static amp_tensor *by_time(const way_back *w, amp_tensor *t) {
    return w->a->batch_first ? amp_transpose(t, 0, 1) : t;
}
static amp_tensor *narrowed(const way_back *w, amp_tensor *t) {
    return t && t->dtype != w->dtype ? amp_to(t, w->dtype) : t;
}
static amp_tensor *product(amp_tensor *rows, amp_tensor *others) {
    return amp_mm(amp_t(rows), others);
}

/* h before each step, by step: the first h, then the results but for the last. */
static amp_tensor *rows_before(const way_back *w, amp_tensor *output) {
    const bool reverse = w->a->reverse;
    amp_tensor *first = amp_unsqueeze(w->a->h0, 0);
    amp_tensor *others = amp_narrow(by_time(w, output), 0, reverse ? 1 : 0, w->steps - 1);
    return as_rows(w, reverse ? amp_cat(AMP_LIST(others, first), 0) : amp_cat(AMP_LIST(first, others), 0));
}

/* h of each step before it was projected, of the sums and the states that the pass kept. */
static amp_tensor *rows_unprojected(const way_back *w, amp_tensor *workspace) {
    const int64_t rows = w->steps * w->batch, n = w->hidden;
    amp_tensor *gates = amp_reshape(amp_narrow(workspace, 0, 0, 4 * rows * n), AMP_DIMS(rows, 4 * n));
    amp_tensor *c = amp_reshape(amp_narrow(workspace, 0, 4 * rows * n, rows * n), AMP_DIMS(rows, n));
    return amp_to(amp_mul(amp_sigmoid(amp_narrow(gates, 1, 3 * n, n)), amp_tanh(c)), w->a->h0->dtype);
}

/* `rows` and `of_h`: the gradients of what the input and h give to the gates. */
static void give_weights(amp_gradient *g, const way_back *w, amp_tensor *rows, amp_tensor *of_h) {
    const amp_rnn_pass_args *a = w->a;
    if (amp_gradient_wants(g, &a->w_ih))
        amp_gradient_give(g, &a->w_ih, product(rows, as_rows(w, by_time(w, a->input))));
    if (amp_gradient_wants(g, &a->w_hh)) amp_gradient_give(g, &a->w_hh, product(of_h, rows_before(w, g->results[0])));
    if (amp_gradient_wants(g, &a->w_hr)) {
        amp_tensor *projected = narrowed(w, as_rows(w, w->extra));
        amp_gradient_give(g, &a->w_hr, product(projected, rows_unprojected(w, g->results[3])));
    }
}

static void give_all(amp_gradient *g, const way_back *w) {
    const amp_rnn_pass_args *a = w->a;
    const bool is_gru = w->extra && !a->w_hr;
    amp_tensor *wide = as_rows(w, w->gates), *wide_of_h = is_gru ? as_rows(w, w->extra) : wide;
    if (amp_gradient_wants(g, &a->b_ih)) amp_gradient_give(g, &a->b_ih, amp_sum(wide, .dim = AMP_DIMS(0)));
    if (amp_gradient_wants(g, &a->b_hh)) amp_gradient_give(g, &a->b_hh, amp_sum(wide_of_h, .dim = AMP_DIMS(0)));
    amp_tensor *rows = narrowed(w, wide), *of_h = is_gru ? narrowed(w, wide_of_h) : rows;
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *back = amp_reshape(amp_mm(rows, a->w_ih), AMP_DIMS(w->steps, w->batch, -1));
        amp_gradient_give(g, &a->input, by_time(w, back));
    }
    give_weights(g, w, rows, of_h);
    if (amp_gradient_wants(g, &a->h0)) amp_gradient_give(g, &a->h0, w->h0);
    if (amp_gradient_wants(g, &a->c0)) amp_gradient_give(g, &a->c0, w->c0);
}

static amp_tensor *in_dtype(amp_tensor *t, amp_dtype dtype) {
    return t ? amp_to(t, dtype) : NULL;
}

static void go_back(amp_gradient *g, const amp_rnn_pass_args *a) {
    const amp_tensor *out = g->results[0];
    const amp_dtype dtype = out->dtype;
    way_back w = {.a = a,
                  .dtype = dtype,
                  .steps = out->shape[a->batch_first ? 1 : 0],
                  .batch = out->shape[a->batch_first ? 0 : 1],
                  .hidden = (a->c0 ? a->c0 : a->h0)->shape[1],
                  .width = out->shape[2]};
    amp_tensor *of_output = g->of[0] ? amp_to(g->of[0], dtype) : amp_zeros_for(g, out, dtype);
    w.gates = amp_rnn_pass_backward(of_output, g->results[3], a->h0, a->w_hh, .c0 = a->c0, .w_hr = a->w_hr,
                                    .grad_hn = in_dtype(g->of[1], dtype), .grad_cn = in_dtype(g->of[2], dtype),
                                    .grad_state_gates = &w.extra, .grad_h0 = &w.h0, .grad_c0 = &w.c0, .mode = a->mode,
                                    .reverse = a->reverse, .batch_first = a->batch_first);
    if (w.gates) give_all(g, &w);
}

/* Where the pass kept its sums, by them; where the gradient is itself recorded, or nothing was kept, by other ops. */
void amp_gradient_rnn_pass(amp_gradient *g) {
    if (g->results[3] && !g->of[3] && !amp_grad_is_enabled())
        go_back(g, g->args);
    else
        amp_gradient_again(g, compose_rnn_pass);
}
