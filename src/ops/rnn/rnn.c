/* lstm, gru, rnn_tanh, rnn_relu and their cells: arguments checked, one run for each layer and direction. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/memory.h"
#include "cpu/product/matmul.h"
#include "ops/rnn/rnn_checks.h"
#include "steps/steps.h"

static amp_status run_pass(amp_call *call, const amp_rnn_pass *l) {
    return amp_steps_of(call)->rnn_pass(call, l);
}

static amp_status check_tensors(const amp_call *call, const char *name, const amp_tensor_list *list, int64_t count,
                                const char *meaning) {
    if (list->count != count) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has %lld tensors; expected %lld: %s", amp_call_name(call), name,
                        (long long)list->count, (long long)count, meaning);
    }
    for (int64_t i = 0; i < count; i++) {
        if (list->items[i]) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: tensor %lld of '%s' is missing", amp_call_name(call), (long long)i,
                        name);
    }
    return AMP_OK;
}

amp_status amp_rnn_check_input(const amp_call *call, const amp_tensor *input) {
    if (amp_dtype_is_floating(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; expected a floating dtype", amp_call_name(call),
                    amp_describe(input));
}

/* A tensor of the input's dtype and of this shape (a vector where columns is 0); `name` says which it is. */
static amp_status check_part(const amp_call *call, const char *name, const amp_tensor *t, const amp_tensor *input,
                             int64_t rows, int64_t columns) {
    const int64_t shape[2] = {rows, columns};
    const int rank = columns ? 2 : 1;
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, name, t));
    return amp_call_check_shape(call, name, t, rank, shape);
}

amp_status amp_rnn_check_weights(const amp_call *call, const amp_tensor *input, const amp_rnn_pass *l) {
    const int64_t columns = amp_rnn_gates(l->kind) * l->hidden;
    AMP_TRY(check_part(call, "w_ih", l->w_ih, input, columns, l->inputs));
    AMP_TRY(check_part(call, "w_hh", l->w_hh, input, columns, l->width));
    if (l->b_ih) AMP_TRY(check_part(call, "b_ih", l->b_ih, input, columns, 0));
    if (l->b_hh) AMP_TRY(check_part(call, "b_hh", l->b_hh, input, columns, 0));
    if (l->w_hr) AMP_TRY(check_part(call, "w_hr", l->w_hr, input, l->width, l->hidden));
    return AMP_OK;
}

amp_status amp_rnn_check_extents(const amp_call *call, const amp_tensor *input, const amp_rnn_pass *l) {
    if (l->inputs > 0 && l->hidden > 0 && l->width > 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, h has %lld elements; both must have at least one",
                    amp_call_name(call), amp_describe(input), (long long)(l->width < l->hidden ? l->width : l->hidden));
}

static const char *const modes[] = {
    [AMP_RNN_LSTM] = "lstm", [AMP_RNN_GRU] = "gru", [AMP_RNN_TANH] = "rnn_tanh", [AMP_RNN_RELU] = "rnn_relu"};

bool amp_rnn_kind_named(const char *mode, amp_rnn_kind *kind) {
    for (int k = AMP_RNN_TANH; k <= AMP_RNN_LSTM; k++) {
        *kind = (amp_rnn_kind)k;
        if (!strcmp(mode, modes[k])) return true;
    }
    return false;
}

amp_status amp_rnn_kind_of(const amp_call *call, const char *mode, amp_rnn_kind *kind) {
    if (amp_rnn_kind_named(mode, kind)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'mode' is \"%s\"; expected \"lstm\", \"gru\", \"rnn_tanh\" or \"rnn_relu\"",
                    amp_call_name(call), mode);
}

/* ---- Layers ----------------------------------------------------------------------------------------------------- */

/* What the layers' ops have in common: the fields of amp_lstm_args from the input to batch_first, which all of them
 * share; where they begin depends on the number of results. */
typedef struct stack {
    amp_call *call;
    amp_rnn_kind kind;
    amp_lstm_args a;
    int64_t layers, directions, steps, batch, hidden, width;
    int per_layer; /* tensors of params for each layer and direction */
    bool projected;
    amp_tensor *between[2]; /* outputs of inner layers, in turn */
    amp_tensor *out, *hn, *cn;
} stack;

#define SPAN(op, last) (offsetof(amp_##op##_args, last) - offsetof(amp_##op##_args, input))
_Static_assert(SPAN(lstm, batch_first) == SPAN(gru, batch_first) &&
                   SPAN(lstm, batch_first) == SPAN(rnn_tanh, batch_first) &&
                   SPAN(lstm, batch_first) == SPAN(rnn_relu, batch_first) &&
                   SPAN(lstm, batch_first) == SPAN(rnn_layer, batch_first),
               "one struct for all");

static amp_lstm_args layers_args(const amp_call *call) {
    amp_lstm_args a = {.struct_size = sizeof a};
    memcpy(&a.input, (const char *)call->args + call->op->args[0].offset,
           SPAN(lstm, batch_first) + sizeof a.batch_first);
    return a;
}

static amp_status check_options(const amp_call *call, const amp_lstm_args *a) {
    if (a->input->rank != 3) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected 3 dimensions, %s", amp_call_name(call),
                        amp_describe(a->input),
                        a->batch_first ? "(batch, steps, features)" : "(steps, batch, features)");
    }
    if (a->num_layers < 1 || a->num_layers > INT32_MAX) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'num_layers' is %lld; expected at least 1", amp_call_name(call),
                        (long long)a->num_layers);
    }
    if (a->input->shape[a->batch_first ? 1 : 0] == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected at least one step", amp_call_name(call),
                        amp_describe(a->input));
    }
    if (!a->train || a->dropout == 0.0 || a->num_layers == 1) return AMP_OK;
    return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: 'dropout' is %g with 'train'; only 0 is implemented between layers",
                    amp_call_name(call), a->dropout);
}

static amp_status check_state(const stack *s, int index, int64_t extent) {
    const amp_tensor *t = s->a.hx.items[index];
    const int64_t shape[3] = {s->layers * s->directions, s->batch, extent};
    AMP_TRY(amp_call_check_same_dtype(s->call, "input", s->a.input, "hx", t));
    if (amp_has_shape(t, 3, shape)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: tensor %d of 'hx' is %s; expected %s: one for each layer and direction",
                    amp_call_name(s->call), index, amp_describe(t), amp_describe_shape(3, shape));
}

static amp_status check_stack(stack *s) {
    const amp_lstm_args *a = &s->a;
    const bool lstm = s->kind == AMP_RNN_LSTM;
    AMP_TRY(amp_rnn_check_input(s->call, a->input));
    AMP_TRY(check_options(s->call, a));
    AMP_TRY(check_tensors(s->call, "hx", &a->hx, lstm ? 2 : 1, lstm ? "h and c" : "h"));
    s->layers = a->num_layers;
    s->directions = a->bidirectional ? 2 : 1;
    s->steps = a->input->shape[a->batch_first ? 1 : 0];
    s->batch = a->input->shape[a->batch_first ? 0 : 1];
    const amp_tensor *h = a->hx.items[0], *wide = a->hx.items[lstm ? 1 : 0];
    s->width = h->rank == 3 ? h->shape[2] : 1;
    s->hidden = wide->rank == 3 ? wide->shape[2] : 1;
    s->projected = s->hidden != s->width;
    AMP_TRY(check_state(s, 0, s->width));
    if (lstm) AMP_TRY(check_state(s, 1, s->hidden));
    s->per_layer = 2 + (a->has_biases ? 2 : 0) + (s->projected ? 1 : 0);
    return check_tensors(s->call, "params", &a->params, s->layers * s->directions * s->per_layer,
                         s->projected ? "weights, biases where has_biases, and w_hr for each layer and direction"
                                      : "weights, and biases where has_biases, for each layer and direction");
}

amp_sequence amp_rnn_sequence(amp_tensor *t, bool batch_first) {
    return (amp_sequence){t, t->strides[batch_first ? 1 : 0], t->strides[batch_first ? 0 : 1], t->strides[2]};
}

static amp_rnn_pass layer_at(const stack *s, int64_t layer, int64_t direction) {
    const int64_t index = layer * s->directions + direction;
    amp_tensor *const *params = s->a.params.items + index * s->per_layer;
    const bool biases = s->a.has_biases;
    return (amp_rnn_pass){.kind = s->kind,
                          .steps = s->steps,
                          .batch = s->batch,
                          .inputs = layer == 0 ? s->a.input->shape[2] : s->directions * s->width,
                          .hidden = s->hidden,
                          .width = s->width,
                          .w_ih = params[0],
                          .w_hh = params[1],
                          .b_ih = biases ? params[2] : NULL,
                          .b_hh = biases ? params[3] : NULL,
                          .w_hr = s->projected ? params[s->per_layer - 1] : NULL,
                          .reverse = direction == 1};
}

static amp_status run_direction(const stack *s, int64_t layer, int64_t direction, amp_sequence in, amp_sequence out) {
    amp_rnn_pass l = layer_at(s, layer, direction);
    const int64_t index = layer * s->directions + direction;
    amp_tensor part = *out.tensor; /* this direction's half of the last dimension */
    part.offset += direction * s->width * out.column;
    l.in = in;
    l.out = out;
    l.out.tensor = &part;
    l.h0 = amp_select(s->a.hx.items[0], 0, index);
    l.hn = amp_select(s->hn, 0, index);
    if (!l.h0 || !l.hn) return amp_pending_error();
    if (s->cn) {
        l.c0 = amp_select(s->a.hx.items[1], 0, index);
        l.cn = amp_select(s->cn, 0, index);
        if (!l.c0 || !l.cn) return amp_pending_error();
    }
    return run_pass(s->call, &l);
}

static amp_status make_results(stack *s) {
    const amp_dtype dtype = s->a.input->dtype;
    const int64_t states = s->layers * s->directions, wide = s->directions * s->width;
    const int64_t out[3] = {s->a.batch_first ? s->batch : s->steps, s->a.batch_first ? s->steps : s->batch, wide};
    s->out = amp_call_output(s->call, 0, dtype, 3, out);
    s->hn = s->out ? amp_call_output(s->call, 1, dtype, 3, (const int64_t[]){states, s->batch, s->width}) : NULL;
    if (!s->hn) return amp_pending_error();
    if (s->kind == AMP_RNN_LSTM) {
        s->cn = amp_call_output(s->call, 2, dtype, 3, (const int64_t[]){states, s->batch, s->hidden});
        if (!s->cn) return amp_pending_error();
    }
    for (int64_t i = 0; i < 2 && i + 1 < s->layers; i++) {
        s->between[i] = amp_backend_tensor(s->call->device, s->call->op->name, dtype, 3,
                                           (const int64_t[]){s->steps, s->batch, wide});
        if (!s->between[i]) return amp_pending_error();
    }
    return AMP_OK;
}

/* ---- Layers as passes, where gradients are recorded ------------------------------------------------------------- */
static amp_tensor *pass_over(const stack *s, amp_tensor *in, int64_t layer, int64_t direction, amp_tensor **states) {
    const amp_rnn_pass l = layer_at(s, layer, direction);
    const int64_t index = layer * s->directions + direction, count = s->layers * s->directions;
    return amp_rnn_pass_call(
        &(const amp_rnn_pass_args){.struct_size = sizeof(amp_rnn_pass_args),
                                   .hn = &states[index],
                                   .cn = &states[count + index],
                                   .input = in,
                                   .h0 = amp_select(s->a.hx.items[0], 0, index),
                                   .c0 = s->kind == AMP_RNN_LSTM ? amp_select(s->a.hx.items[1], 0, index) : NULL,
                                   .w_ih = l.w_ih,
                                   .w_hh = l.w_hh,
                                   .b_ih = l.b_ih,
                                   .b_hh = l.b_hh,
                                   .w_hr = l.w_hr,
                                   .mode = modes[s->kind],
                                   .reverse = l.reverse,
                                   .batch_first = s->a.batch_first});
}

/* `states` has room for h and for c of each layer and direction. */
static amp_status run_passes(const stack *s, amp_tensor **states) {
    const int64_t count = s->layers * s->directions;
    amp_tensor *out = s->a.input;
    for (int64_t layer = 0; layer < s->layers && out; layer++) {
        amp_tensor *forth = pass_over(s, out, layer, 0, states);
        amp_tensor *back = forth && s->directions == 2 ? pass_over(s, out, layer, 1, states) : NULL;
        out = s->directions == 2 ? amp_cat(AMP_LIST(forth, back), 2) : forth;
    }
    if (!out) return amp_pending_error();
    s->call->outputs[0] = out;
    s->call->outputs[1] = amp_stack((amp_tensor_list){states, count, NULL}, 0);
    if (s->kind == AMP_RNN_LSTM) s->call->outputs[2] = amp_stack((amp_tensor_list){states + count, count, NULL}, 0);
    return amp_pending_error();
}

static amp_status run_recorded(const stack *s) {
    const size_t count = (size_t)(2 * s->layers * s->directions);
    amp_tensor **states = amp_alloc_zeroed(count * sizeof *states);
    if (!states) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for the states of %lld layers", amp_call_name(s->call),
                        (long long)s->layers);
    }
    const amp_status status = run_passes(s, states);
    amp_free(states);
    return status;
}

/* `self`: the op itself, for f16. */
static amp_status run_stack(stack *s, amp_op_function self) {
    const amp_lstm_args *a = &s->a;
    AMP_TRY(check_stack(s));
    for (int64_t layer = 0; layer < s->layers; layer++) {
        for (int64_t d = 0; d < s->directions; d++) {
            const amp_rnn_pass l = layer_at(s, layer, d);
            AMP_TRY(amp_rnn_check_extents(s->call, a->input, &l));
            AMP_TRY(amp_rnn_check_weights(s->call, a->input, &l));
        }
    }
    if (s->call->inner_layers) return run_recorded(s);
    const bool here = s->call->device == AMP_DEVICE_CPU;
    if (here && a->input->dtype == AMP_F16) return amp_cpu_run_widened(s->call, self);
    if (here) AMP_TRY(amp_cpu_matmul_operand(s->call, a->input, false));
    for (int64_t i = 0; i < a->hx.count; i++) AMP_TRY(amp_call_materialize(s->call, a->hx.items[i]));
    AMP_TRY(make_results(s));
    amp_sequence in = amp_rnn_sequence(a->input, a->batch_first);
    for (int64_t layer = 0; layer < s->layers; layer++) {
        const bool last = layer + 1 == s->layers;
        const amp_sequence out =
            last ? amp_rnn_sequence(s->out, a->batch_first) : amp_rnn_sequence(s->between[layer % 2], false);
        for (int64_t d = 0; d < s->directions; d++) AMP_TRY(run_direction(s, layer, d, in, out));
        in = out;
    }
    return AMP_OK;
}

/* DEFINE_LAYERS(op, kind) */
#define DEFINE_LAYERS(op, kind_of)                                                                                     \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        stack s = {.call = call, .kind = kind_of, .a = layers_args(call)};                                             \
        return run_stack(&s, amp_op_##op);                                                                             \
    }
DEFINE_LAYERS(lstm, AMP_RNN_LSTM)
DEFINE_LAYERS(gru, AMP_RNN_GRU)
DEFINE_LAYERS(rnn_tanh, AMP_RNN_TANH)
DEFINE_LAYERS(rnn_relu, AMP_RNN_RELU)

amp_status amp_op_rnn_layer(amp_call *call) {
    stack s = {.call = call, .a = layers_args(call)};
    AMP_TRY(amp_rnn_kind_of(call, ((const amp_rnn_layer_args *)call->args)->mode, &s.kind));
    return run_stack(&s, amp_op_rnn_layer);
}

/* ---- Cells ------------------------------------------------------------------------------------------------------ */

_Static_assert(SPAN(lstm_cell, b_hh) == SPAN(gru_cell, b_hh) && SPAN(lstm_cell, b_hh) == SPAN(rnn_tanh_cell, b_hh) &&
                   SPAN(lstm_cell, b_hh) == SPAN(rnn_relu_cell, b_hh),
               "one struct for all");

static amp_lstm_cell_args cell_args(const amp_call *call) {
    amp_lstm_cell_args a = {.struct_size = sizeof a};
    memcpy(&a.input, (const char *)call->args + call->op->args[0].offset, SPAN(lstm_cell, b_hh) + sizeof a.b_hh);
    return a;
}

static amp_status check_cell_state(const amp_call *call, const amp_tensor *input, const amp_tensor *first,
                                   const amp_tensor *t) {
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, "hx", t));
    const bool fits = t->rank == input->rank && (t->rank == 1 || t->shape[0] == input->shape[0]) &&
                      amp_same_leading(t, first, t->rank);
    if (fits) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'input' is %s, 'hx' has %s; expected (batch, features) and (batch, hidden), or "
                    "both without the batch",
                    amp_call_name(call), amp_describe(input), amp_describe(t));
}

static amp_status check_cell(amp_call *call, const amp_lstm_cell_args *a, bool lstm) {
    const amp_tensor *x = a->input;
    AMP_TRY(amp_rnn_check_input(call, x));
    if (x->rank != 1 && x->rank != 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected (batch, features) or (features)",
                        amp_call_name(call), amp_describe(x));
    }
    AMP_TRY(check_tensors(call, "hx", &a->hx, lstm ? 2 : 1, lstm ? "h and c" : "h"));
    for (int64_t i = 0; i < a->hx.count; i++) {
        AMP_TRY(check_cell_state(call, x, a->hx.items[0], a->hx.items[i]));
    }
    if ((a->b_ih == NULL) == (a->b_hh == NULL)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is given and '%s' is not; expected both biases, or none",
                    amp_call_name(call), a->b_ih ? "b_ih" : "b_hh", a->b_ih ? "b_hh" : "b_ih");
}

/* A vector as a batch of one. */
static amp_tensor *as_batch(amp_tensor *t) {
    return t->rank == 1 ? amp_unsqueeze(t, 0) : t;
}

/* Number `index` of the gates that lie side by side in the last dimension. */
static amp_tensor *gate(amp_tensor *gates, int index, int64_t hidden) {
    return amp_narrow(gates, -1, index * hidden, hidden);
}

amp_tensor *amp_rnn_step(amp_rnn_kind kind, amp_tensor *x, amp_tensor *h, amp_tensor *state, amp_tensor **c) {
    const int64_t n = x->shape[x->rank - 1] / amp_rnn_gates(kind);
    if (kind == AMP_RNN_GRU) {
        amp_tensor *reset = amp_sigmoid(amp_add(gate(x, 0, n), gate(h, 0, n)));
        amp_tensor *update = amp_sigmoid(amp_add(gate(x, 1, n), gate(h, 1, n)));
        amp_tensor *made = amp_tanh(amp_add(gate(x, 2, n), amp_mul(reset, gate(h, 2, n))));
        return amp_add(made, amp_mul(update, amp_sub(state, made)));
    }
    amp_tensor *gates = amp_add(x, h);
    if (kind != AMP_RNN_LSTM) return kind == AMP_RNN_RELU ? amp_relu(gates) : amp_tanh(gates);
    amp_tensor *kept = amp_mul(amp_sigmoid(gate(gates, 1, n)), state);
    *c = amp_add(kept, amp_mul(amp_sigmoid(gate(gates, 0, n)), amp_tanh(gate(gates, 2, n))));
    return amp_mul(amp_sigmoid(gate(gates, 3, n)), amp_tanh(*c));
}

/* In a region, by its parts: linear is cast, the state keeps its type. */
static amp_status run_parts(amp_call *call, amp_rnn_kind kind) {
    const amp_lstm_cell_args args = cell_args(call), *const a = &args;
    amp_tensor *x = amp_linear(a->input, a->w_ih, a->b_ih), *h = amp_linear(a->hx.items[0], a->w_hh, a->b_hh);
    if (!x || !h) return amp_pending_error();
    amp_tensor *state = a->hx.items[kind == AMP_RNN_LSTM ? 1 : 0];
    call->outputs[0] = amp_rnn_step(kind, x, h, state, &call->outputs[1]);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* A cell is a layer of one step. */
static amp_status run_cell(amp_call *call, amp_rnn_kind kind, amp_op_function self) {
    const amp_lstm_cell_args args = cell_args(call), *const a = &args;
    const bool lstm = kind == AMP_RNN_LSTM;
    AMP_TRY(check_cell(call, a, lstm));
    for (int64_t i = 0; i < a->hx.count; i++) AMP_TRY(amp_call_materialize(call, a->hx.items[i]));
    AMP_TRY(amp_call_materialize(call, a->input));
    amp_tensor *x = as_batch(a->input), *h = as_batch(a->hx.items[0]), *c = lstm ? as_batch(a->hx.items[1]) : NULL;
    if (!x || !h || (lstm && !c)) return amp_pending_error();
    amp_rnn_pass l = {.kind = kind,
                      .steps = 1,
                      .batch = x->shape[0],
                      .inputs = x->shape[1],
                      .hidden = h->shape[1],
                      .width = h->shape[1],
                      .w_ih = a->w_ih,
                      .w_hh = a->w_hh,
                      .b_ih = a->b_ih,
                      .b_hh = a->b_hh,
                      .in = {x, 0, x->strides[0], x->strides[1]},
                      .h0 = h,
                      .c0 = c};
    AMP_TRY(amp_rnn_check_extents(call, a->input, &l));
    AMP_TRY(amp_rnn_check_weights(call, a->input, &l));
    if (call->inner_layers) return run_parts(call, kind);
    if (x->dtype == AMP_F16 && call->device == AMP_DEVICE_CPU) return amp_cpu_run_widened(call, self);
    amp_tensor *out = amp_call_output(call, 0, x->dtype, a->hx.items[0]->rank, a->hx.items[0]->shape);
    amp_tensor *cell = out && lstm ? amp_call_output(call, 1, x->dtype, out->rank, out->shape) : NULL;
    if (!out || (lstm && !cell)) return amp_pending_error();
    l.hn = as_batch(out);
    l.cn = cell ? as_batch(cell) : NULL;
    if (!l.hn || (lstm && !l.cn)) return amp_pending_error();
    l.out = (amp_sequence){l.hn, 0, l.hidden, 1};
    return run_pass(call, &l);
}

/* DEFINE_CELL(op, kind) */
#define DEFINE_CELL(op, kind)                                                                                          \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        return run_cell(call, kind, amp_op_##op);                                                                      \
    }
DEFINE_CELL(lstm_cell, AMP_RNN_LSTM)
DEFINE_CELL(gru_cell, AMP_RNN_GRU)
DEFINE_CELL(rnn_tanh_cell, AMP_RNN_TANH)
DEFINE_CELL(rnn_relu_cell, AMP_RNN_RELU)
