/* Gradients of recurrent layers and cells: run once more by products and activations. */
#include "amp/grad.h"
#include "core/memory.h"
#include "gradients/again.h"
#include "gradients/pieces.h"
#include "steps/rnn.h"

/* ---- Cells ---------------------------------------------------------------------------------------------------------- */
/* h of the next step; of an LSTM c is followed too. NULL with an error. */
static amp_tensor *next_h(amp_rnn_kind kind, amp_tensor *x, amp_tensor *of_h, amp_tensor *h, amp_tensor **c) {
    if (!x || !of_h) return NULL;
    return amp_rnn_step(kind, x, of_h, kind == AMP_RNN_LSTM ? *c : h, c);
}

/* The fields that all cells share, from the input on. */
static void compose_cell(amp_rnn_kind kind, amp_tensor *input, amp_tensor_list hx, amp_tensor *const *weights,
                         amp_tensor **results) {
    const bool lstm = kind == AMP_RNN_LSTM;
    amp_tensor *h = hx.items[0], *c = lstm ? hx.items[1] : NULL;
    results[0] = next_h(kind, amp_linear(input, weights[0], weights[2]), amp_linear(h, weights[1], weights[3]), h, &c);
    if (lstm) results[1] = c;
}

#define CELL(name, k)                                                                                                  \
    static void compose_##name(const void *args, amp_tensor **results) {                                               \
        const amp_##name##_args *a = args;                                                                             \
        amp_tensor *const weights[4] = {a->w_ih, a->w_hh, a->b_ih, a->b_hh};                                           \
        compose_cell(k, a->input, a->hx, weights, results);                                                            \
    }                                                                                                                  \
    AMP_GRADIENT_AGAIN(name)
CELL(lstm_cell, AMP_RNN_LSTM)
CELL(gru_cell, AMP_RNN_GRU)
CELL(rnn_tanh_cell, AMP_RNN_TANH)
CELL(rnn_relu_cell, AMP_RNN_RELU)

/* ---- Passes: a layer in one direction ------------------------------------------------------------------------------- */
/* Over [steps, batch, features]; `outputs` has room for h of each step. */
static void compose_steps(const amp_rnn_pass_args *a, amp_tensor *input, amp_tensor **outputs, amp_tensor **results) {
    amp_rnn_kind kind;
    if (!amp_rnn_kind_named(a->mode, &kind)) return;
    const amp_tensor_list x = amp_unbind(amp_linear(input, a->w_ih, a->b_ih), .dim = 0);
    amp_tensor *h = a->h0, *c = a->c0;
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t t = a->reverse ? x.count - 1 - i : i;
        h = next_h(kind, x.items[t], amp_linear(h, a->w_hh, a->b_hh), h, &c);
        if (a->w_hr) h = amp_linear(h, a->w_hr);
        outputs[t] = h;
    }
    amp_tensor *out = amp_stack((amp_tensor_list){outputs, x.count, NULL}, 0);
    results[0] = a->batch_first ? amp_transpose(out, 0, 1) : out;
    results[1] = h;
    results[2] = c;
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
    if (amp_gradient_wants(g, &a->w_ih)) amp_give_product(g, &a->w_ih, amp_t(rows), as_rows(w, by_time(w, a->input)));
    if (amp_gradient_wants(g, &a->w_hh)) amp_give_product(g, &a->w_hh, amp_t(of_h), rows_before(w, g->results[0]));
    if (amp_gradient_wants(g, &a->w_hr)) {
        amp_tensor *projected = narrowed(w, as_rows(w, w->extra));
        amp_give_product(g, &a->w_hr, amp_t(projected), rows_unprojected(w, g->results[3]));
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
