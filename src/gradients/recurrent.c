/* Gradients of recurrent layers and cells: run once more by products and activations. */
#include <string.h>

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

/* ---- Layers --------------------------------------------------------------------------------------------------------- */
typedef struct layers {
    kind kind;
    amp_tensor_list hx, params;
    bool has_biases, is_projected;
    int64_t count, directions, steps, per_layer;
    amp_tensor **steps_room;  /* room for a tensor of each step … */
    amp_tensor **states_room; /* … and for two of each layer and direction */
} layers;

/* One layer in one direction over [steps, batch, features]; its results so too. */
static amp_tensor *run_direction(const layers *l, amp_tensor *input, int64_t index, bool is_reverse) {
    amp_tensor *const *params = l->params.items + index * l->per_layer;
    amp_tensor *const b_ih = l->has_biases ? params[2] : NULL, *const b_hh = l->has_biases ? params[3] : NULL;
    amp_tensor *const w_hr = l->is_projected ? params[l->per_layer - 1] : NULL;
    const amp_tensor_list x = amp_unbind(amp_linear(input, params[0], b_ih), .dim = 0);
    state s = {amp_select(l->hx.items[0], 0, index), l->kind == LSTM ? amp_select(l->hx.items[1], 0, index) : NULL};
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t t = is_reverse ? x.count - 1 - i : i;
        s = step(l->kind, x.items[t], amp_linear(s.h, params[1], b_hh), s);
        if (w_hr) s.h = amp_linear(s.h, w_hr);
        l->steps_room[t] = s.h;
    }
    l->states_room[2 * index] = s.h;
    l->states_room[2 * index + 1] = s.c;
    return amp_stack((amp_tensor_list){l->steps_room, x.count, NULL}, 0);
}

static amp_tensor *run_layers(const layers *l, amp_tensor *input) {
    for (int64_t i = 0; i < l->count && input; i++) {
        amp_tensor *forth = run_direction(l, input, i * l->directions, false);
        amp_tensor *back = l->directions == 2 ? run_direction(l, input, i * 2 + 1, true) : NULL;
        input = back ? amp_cat(AMP_LIST(forth, back), 2) : forth;
    }
    return input;
}

static void compose_in_room(layers *l, amp_tensor *input, bool batch_first, amp_tensor **results) {
    amp_tensor *out = run_layers(l, batch_first ? amp_transpose(input, 0, 1) : input);
    if (!out) return;
    results[0] = batch_first ? amp_transpose(out, 0, 1) : out;
    const int64_t count = l->count * l->directions;
    amp_tensor **states = l->states_room, **cells = states + 2 * count;
    for (int64_t i = 0; i < count; i++) {
        cells[i] = states[2 * i + 1];
        states[i] = states[2 * i];
    }
    results[1] = amp_stack((amp_tensor_list){states, count, NULL}, 0);
    if (l->kind == LSTM) results[2] = amp_stack((amp_tensor_list){cells, count, NULL}, 0);
}

static void compose_layers(kind k, const amp_lstm_args *a, amp_tensor **results) {
    const amp_tensor *h = a->hx.items[0];
    layers l = {.kind = k,
                .hx = a->hx,
                .params = a->params,
                .has_biases = a->has_biases,
                .is_projected = k == LSTM && a->hx.items[1]->shape[2] != h->shape[2],
                .count = a->num_layers,
                .directions = a->bidirectional ? 2 : 1,
                .steps = a->input->shape[a->batch_first ? 1 : 0]};
    l.per_layer = 2 + (l.has_biases ? 2 : 0) + (l.is_projected ? 1 : 0);
    const int64_t states = l.count * l.directions;
    l.steps_room = amp_alloc_zeroed((size_t)(l.steps + 3 * states) * sizeof *l.steps_room);
    if (!l.steps_room) {
        (void)amp_fail(AMP_ERROR_MEMORY, "backward: no memory for %lld steps", (long long)l.steps);
        return;
    }
    l.states_room = l.steps_room + l.steps;
    compose_in_room(&l, a->input, a->batch_first, results);
    amp_free(l.steps_room);
}

/* The fields that all layers share, as lstm has them. */
#define AS_LSTM(a)                                                                                                     \
    {                                                                                                                  \
        .input = (a)->input, .hx = (a)->hx, .params = (a)->params, .has_biases = (a)->has_biases,                      \
        .num_layers = (a)->num_layers, .bidirectional = (a)->bidirectional, .batch_first = (a)->batch_first            \
    }
#define LAYERS(name, k)                                                                                                \
    static void compose_##name(const void *args, amp_tensor **results) {                                               \
        const amp_##name##_args *a = args;                                                                             \
        const amp_lstm_args same = AS_LSTM(a);                                                                         \
        compose_layers(k, &same, results);                                                                             \
    }                                                                                                                  \
    AMP_GRADIENT_AGAIN(name)
LAYERS(lstm, LSTM)
LAYERS(gru, GRU)
LAYERS(rnn_tanh, RNN_TANH)
LAYERS(rnn_relu, RNN_RELU)

static void compose_rnn_layer(const void *args, amp_tensor **results) {
    static const char *const modes[] = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
    const amp_rnn_layer_args *a = args;
    const amp_lstm_args same = AS_LSTM(a);
    for (int k = LSTM; k <= RNN_RELU; k++) {
        if (strcmp(a->mode, modes[k]) == 0) compose_layers((kind)k, &same, results);
    }
}
AMP_GRADIENT_AGAIN(rnn_layer)
