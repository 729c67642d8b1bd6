/* LSTM, GRU, RNN: libamp's layers where they mean the same, else step by step.
 *
 * ONNX's rows of weights stand in the order input, output, forget, cell of an LSTM and update, reset, new of a GRU;
 * libamp's, which are PyTorch's, in the order input, forget, cell, output and reset, update, new. */
#include <string.h>
#include <strings.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

enum { MOST_GATES = 4, MOST_FUNCTIONS = 3, BOTH = 2 };

/* A function of a gate. */
typedef struct activation {
    const char *name;
    double alpha, beta;
} activation;

typedef struct recurrent {
    amp_tensor *x, *weight, *recurrence, *bias, *lengths, *h, *c, *peepholes; /* x (T, B, I), h and c (D, B, H) */
    int gates, functions;                                                     /* 4 and 3 of an LSTM, … */
    int directions;
    bool backward; /* the only direction */
    bool batch_first;
    int64_t steps, batch, hidden;
    double clip; /* 0: none */
    bool coupled, before_reset;
    activation activations[BOTH][MOST_FUNCTIONS];
} recurrent;

/* ---- What is asked for -------------------------------------------------------------------------------------------- */

/* Names with their default alpha and beta. */
static const activation known_functions[] = {{"Sigmoid", 0, 0},      {"Tanh", 0, 0},
                                             {"Relu", 0, 0},         {"Affine", 1, 0},
                                             {"LeakyRelu", 0.01, 0}, {"ThresholdedRelu", 1, 0},
                                             {"ScaledTanh", 1, 1},   {"HardSigmoid", 0.2, 0.5},
                                             {"Elu", 1, 0},          {"Softsign", 0, 0},
                                             {"Softplus", 0, 0}};

static amp_status read_activations(const amp_onnx_step *s, recurrent *r) {
    static const char *const usual[3][MOST_FUNCTIONS] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    int count = 0, alphas = 0, betas = 0;
    const char *const *names = amp_onnx_texts(s, "activations", &count);
    const double *alpha = amp_onnx_floats(s, "activation_alpha", &alphas),
                 *beta = amp_onnx_floats(s, "activation_beta", &betas);
    if (count != 0 && count != r->functions * r->directions) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%d activations; expected %d", count, r->functions * r->directions);
    }
    for (int i = 0; i < r->functions * r->directions; i++) {
        const char *name = count ? names[i] : usual[r->functions - 1][i % r->functions];
        activation *a = &r->activations[i / r->functions][i % r->functions];
        for (size_t k = 0; k < sizeof known_functions / sizeof *known_functions; k++) {
            if (strcasecmp(name, known_functions[k].name) == 0) *a = known_functions[k];
        }
        if (!a->name) return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "the activation '%s'", name);
        if (i < alphas) a->alpha = alpha[i];
        if (i < betas) a->beta = beta[i];
    }
    return AMP_OK;
}

static amp_status read_direction(const amp_onnx_step *s, recurrent *r) {
    const char *direction = amp_onnx_text(s, "direction", "forward");
    r->backward = strcmp(direction, "reverse") == 0;
    r->directions = strcmp(direction, "bidirectional") == 0 ? BOTH : 1;
    if (r->directions == 1 && !r->backward && strcmp(direction, "forward") != 0) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'direction' is '%s'", direction);
    }
    return AMP_OK;
}

/* (D, rows …), or an input that is absent. */
static amp_status check_part(const amp_onnx_step *s, const recurrent *r, const char *name, const amp_tensor *t,
                             int rank, int64_t rows) {
    if (!t || (t->rank == rank && t->shape[0] == r->directions && t->shape[1] == rows)) return AMP_OK;
    return amp_onnx_fail(s, AMP_ERROR_INVALID, "%s is %s; expected [%d, %lld%s]", name, amp_describe(t), r->directions,
                         (long long)rows, rank == 3 ? ", …" : "");
}

static amp_tensor *initial_state(const amp_onnx_step *s, const recurrent *r, int i) {
    amp_tensor *h = amp_onnx_input(s, i);
    if (h) return r->batch_first ? amp_transpose(h, 0, 1) : h;
    return amp_zeros(AMP_DIMS(r->directions, r->batch, r->hidden), .dtype = r->x->dtype,
                     .device = (int)amp_tensor_device(r->x));
}

static amp_status read_recurrent(const amp_onnx_step *s, recurrent *r) {
    r->x = amp_onnx_required(s, 0);
    r->weight = amp_onnx_required(s, 1);
    r->recurrence = amp_onnx_required(s, 2);
    r->bias = amp_onnx_input(s, 3);
    r->lengths = amp_onnx_input(s, 4);
    if (!r->x || !r->weight || !r->recurrence) return amp_pending_error();
    AMP_TRY(read_direction(s, r));
    r->batch_first = amp_onnx_int(s, "layout", 0) != 0;
    if (r->x->rank != 3 || r->recurrence->rank != 3) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "X is %s, R %s; expected rank 3 of both", amp_describe(r->x),
                             amp_describe(r->recurrence));
    }
    if (r->batch_first) r->x = amp_transpose(r->x, 0, 1);
    if (!r->x) return amp_pending_error();
    r->steps = r->x->shape[0];
    r->batch = r->x->shape[1];
    r->hidden = amp_onnx_int(s, "hidden_size", r->recurrence->shape[2]);
    if (r->hidden < 1 || r->hidden > INT32_MAX)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'hidden_size' is %lld", (long long)r->hidden);
    AMP_TRY(check_part(s, r, "W", r->weight, 3, r->gates * r->hidden));
    AMP_TRY(check_part(s, r, "R", r->recurrence, 3, r->gates * r->hidden));
    AMP_TRY(check_part(s, r, "B", r->bias, 2, 2 * r->gates * r->hidden));
    r->h = initial_state(s, r, 5);
    if (r->gates == 4) {
        r->c = initial_state(s, r, 6);
        r->peepholes = amp_onnx_input(s, 7);
        AMP_TRY(check_part(s, r, "P", r->peepholes, 2, 3 * r->hidden));
        if (!r->c) return amp_pending_error();
    }
    r->clip = amp_onnx_float(s, "clip", 0);
    r->coupled = amp_onnx_int(s, "input_forget", 0) != 0;
    r->before_reset = amp_onnx_int(s, "linear_before_reset", 0) != 0;
    if (!r->h) return amp_pending_error();
    return read_activations(s, r);
}

/* All sequences are as long as the input, which sequence_lens may say too. */
static amp_status drop_full_lengths(const amp_onnx_step *s, recurrent *r) {
    const amp_tensor *lengths = r->lengths;
    if (!lengths) return AMP_OK;
    if (amp_tensor_elements(lengths) != r->batch) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "sequence_lens is %s; expected %lld", amp_describe(lengths),
                             (long long)r->batch);
    }
    int64_t *values = amp_onnx_memory(AMP_I64, r->batch);
    if (!values || amp_onnx_read_ints(s, lengths, values, r->batch) < 0) return amp_pending_error();
    bool full = true;
    for (int64_t i = 0; i < r->batch; i++) full = full && values[i] >= r->steps;
    if (full) r->lengths = NULL;
    return AMP_OK;
}

/* ---- libamp's layers ---------------------------------------------------------------------------------------------- */

/* Its functions are sigmoid and tanh, of an Elman layer tanh or relu. */
static bool is_layer(const recurrent *r) {
    bool usual = true;
    for (int d = 0; d < r->directions; d++) {
        const activation *a = r->activations[d];
        if (r->functions == 1) {
            usual = usual && (strcmp(a[0].name, "Tanh") == 0 || strcmp(a[0].name, "Relu") == 0) &&
                    a[0].name == r->activations[0][0].name;
            continue;
        }
        usual = usual && strcmp(a[0].name, "Sigmoid") == 0 && strcmp(a[1].name, "Tanh") == 0 &&
                (r->functions == 2 || strcmp(a[2].name, "Tanh") == 0);
    }
    return usual && r->clip == 0 && !r->coupled && !r->peepholes && !r->lengths && (r->gates != 3 || r->before_reset);
}

/* Rows of gates in libamp's order. */
static amp_tensor *reorder(amp_tensor *rows, int gates, int64_t hidden) {
    static const int orders[MOST_GATES + 1][MOST_GATES] = {{0}, {0}, {0}, {1, 0, 2}, {0, 2, 3, 1}};
    amp_tensor *parts[MOST_GATES];
    if (gates == 1) return rows;
    for (int g = 0; g < gates; g++) parts[g] = amp_narrow(rows, 0, orders[gates][g] * hidden, hidden);
    return amp_cat(((amp_tensor_list){.items = parts, .count = gates}));
}

/* {w_ih, w_hh, b_ih, b_hh} of each direction; how many there are. */
static int layer_parameters(const recurrent *r, amp_tensor **params) {
    int count = 0;
    for (int d = 0; d < r->directions; d++) {
        params[count++] = reorder(amp_select(r->weight, 0, d), r->gates, r->hidden);
        params[count++] = reorder(amp_select(r->recurrence, 0, d), r->gates, r->hidden);
        if (!r->bias) continue;
        amp_tensor *both = amp_select(r->bias, 0, d);
        const int64_t rows = r->gates * r->hidden;
        params[count++] = reorder(amp_narrow(both, 0, 0, rows), r->gates, r->hidden);
        params[count++] = reorder(amp_narrow(both, 0, rows, rows), r->gates, r->hidden);
    }
    return count;
}

/* Y as (T, D, B, H), and the last states. */
static amp_tensor *run_layer(recurrent *r) {
    amp_tensor *params[4 * BOTH], *states[2] = {r->h, r->c}, *h = NULL, *c = NULL;
    const char *mode = r->gates == 4                                    ? "lstm"
                       : r->gates == 3                                  ? "gru"
                       : strcmp(r->activations[0][0].name, "Tanh") == 0 ? "rnn_tanh"
                                                                        : "rnn_relu";
    const int count = layer_parameters(r, params);
    amp_tensor *x = r->backward ? amp_flip(r->x, AMP_DIMS(0)) : r->x;
    const amp_tensor_list hx = {.items = states, .count = r->c ? 2 : 1};
    amp_tensor *y = amp_rnn_layer(x, hx, ((amp_tensor_list){.items = params, .count = count}), r->bias != NULL, 1, 0.0,
                                  false, r->directions == BOTH, false, .mode = mode, .hn = &h, .cn = r->c ? &c : NULL);
    if (r->backward) y = amp_flip(y, AMP_DIMS(0));
    r->h = h;
    r->c = c;
    return amp_permute(amp_reshape(y, AMP_DIMS(r->steps, r->batch, r->directions, r->hidden)), AMP_DIMS(0, 2, 1, 3));
}

/* ---- Step by step ------------------------------------------------------------------------------------------------- */

static amp_tensor *activate(const recurrent *r, const activation *a, amp_tensor *x) {
    if (r->clip > 0) x = amp_clamp(x, .min = amp_float(-r->clip), .max = amp_float(r->clip));
    switch (a->name[0]) {
    case 'T':
        if (strcmp(a->name, "Tanh") == 0) return amp_tanh(x);
        return amp_threshold(x, amp_float(a->alpha), amp_float(0));
    case 'R': return amp_relu(x);
    case 'A': return amp_add_scalar(amp_mul_scalar(x, amp_float(a->alpha)), amp_float(a->beta));
    case 'L': return amp_leaky_relu(x, .negative_slope = AMP_SET(a->alpha));
    case 'H':
        x = amp_add_scalar(amp_mul_scalar(x, amp_float(a->alpha)), amp_float(a->beta));
        return amp_clamp(x, .min = amp_float(0), .max = amp_float(1));
    case 'E': return amp_elu(x, .alpha = AMP_SET(a->alpha));
    default:
        if (strcmp(a->name, "Sigmoid") == 0) return amp_sigmoid(x);
        if (strcmp(a->name, "Softsign") == 0) return amp_softsign(x);
        if (strcmp(a->name, "Softplus") == 0) return amp_softplus(x);
        return amp_mul_scalar(amp_tanh(amp_mul_scalar(x, amp_float(a->beta))), amp_float(a->alpha)); /* ScaledTanh */
    }
}

/* One direction while it runs; states are (B, H). */
typedef struct pass {
    const recurrent *r;
    const activation *f;
    amp_tensor *from_input; /* (T, B, gates · H) with the biases that stand beside it */
    amp_tensor *recurrence, *recurrent_bias;
    amp_tensor *peepholes; /* (3, H): of the gates input, output, forget */
    amp_tensor *h, *c;
} pass;

/* h times the recurrence, as wide as the state: in a region products are rounded, what is added up here is not. */
static amp_tensor *recur(const pass *p, amp_tensor *h, amp_tensor *rows, amp_tensor *bias) {
    return amp_onnx_as(amp_linear(h, rows, .bias = bias), p->r->h->dtype);
}

/* Columns of gate g. */
static amp_tensor *gate(const pass *p, amp_tensor *sums, int g) {
    return amp_narrow(sums, 1, g * p->r->hidden, p->r->hidden);
}

static amp_tensor *with_peephole(const pass *p, amp_tensor *sum, int g, amp_tensor *c) {
    return p->peepholes ? amp_addcmul(sum, amp_select(p->peepholes, 0, g), c) : sum;
}

static void step_lstm(pass *p, amp_tensor *x) {
    amp_tensor *sums = amp_add(x, recur(p, p->h, p->recurrence, p->recurrent_bias));
    amp_tensor *in = activate(p->r, &p->f[0], with_peephole(p, gate(p, sums, 0), 0, p->c));
    amp_tensor *forget = p->r->coupled ? amp_add_scalar(amp_neg(in), amp_float(1))
                                       : activate(p->r, &p->f[0], with_peephole(p, gate(p, sums, 2), 2, p->c));
    amp_tensor *fresh = activate(p->r, &p->f[1], gate(p, sums, 3));
    p->c = amp_add(amp_mul(forget, p->c), amp_mul(in, fresh));
    amp_tensor *out = activate(p->r, &p->f[0], with_peephole(p, gate(p, sums, 1), 1, p->c));
    p->h = amp_mul(out, activate(&(recurrent){.clip = 0}, &p->f[2], p->c));
}

/* linear_before_reset = 0 multiplies the state by the reset gate before the product. */
static void step_gru(pass *p, amp_tensor *x) {
    const int64_t hidden = p->r->hidden, two = 2 * hidden;
    amp_tensor *bias = p->recurrent_bias, *rows = p->recurrence;
    amp_tensor *gates = recur(p, p->h, amp_narrow(rows, 0, 0, two), bias ? amp_narrow(bias, 0, 0, two) : NULL);
    amp_tensor *sums = amp_add(amp_narrow(x, 1, 0, two), gates);
    amp_tensor *update = activate(p->r, &p->f[0], gate(p, sums, 0)),
               *reset = activate(p->r, &p->f[0], gate(p, sums, 1));
    amp_tensor *last = amp_narrow(rows, 0, two, hidden), *last_bias = bias ? amp_narrow(bias, 0, two, hidden) : NULL;
    amp_tensor *state = p->r->before_reset ? amp_mul(reset, recur(p, p->h, last, last_bias))
                                           : recur(p, amp_mul(reset, p->h), last, last_bias);
    amp_tensor *fresh = activate(p->r, &p->f[1], amp_add(amp_narrow(x, 1, two, hidden), state));
    p->h = amp_add(fresh, amp_mul(update, amp_sub(p->h, fresh)));
}

static void step_rnn(pass *p, amp_tensor *x) {
    p->h = activate(p->r, &p->f[0], amp_add(x, recur(p, p->h, p->recurrence, p->recurrent_bias)));
}

/* Where a sequence has ended its state stays, and its output is 0. */
static amp_tensor *step(pass *p, int64_t t) {
    amp_tensor *x = amp_select(p->from_input, 0, t), *h = p->h, *c = p->c;
    if (p->r->gates == 4) {
        step_lstm(p, x);
    } else if (p->r->gates == 3) {
        step_gru(p, x);
    } else {
        step_rnn(p, x);
    }
    if (!p->r->lengths) return p->h;
    amp_tensor *runs = amp_gt_scalar(amp_reshape(p->r->lengths, AMP_DIMS(p->r->batch, 1)), amp_int(t));
    p->h = amp_where(runs, p->h, h);
    if (c) p->c = amp_where(runs, p->c, c);
    return amp_where_scalar_other(runs, p->h, amp_float(0));
}

/* Y of one direction, (T, B, H). */
static amp_tensor *run_direction(const amp_onnx_step *s, recurrent *r, int d, pass *p) {
    const int64_t rows = r->gates * r->hidden;
    amp_tensor *both = r->bias ? amp_select(r->bias, 0, d) : NULL;
    *p = (pass){.r = r, .f = r->activations[d], .recurrence = amp_select(r->recurrence, 0, d)};
    p->from_input = amp_onnx_as(
        amp_linear(r->x, amp_select(r->weight, 0, d), .bias = both ? amp_narrow(both, 0, 0, rows) : NULL), r->h->dtype);
    p->recurrent_bias = both ? amp_narrow(both, 0, rows, rows) : NULL;
    p->peepholes = r->peepholes ? amp_reshape(amp_select(r->peepholes, 0, d), AMP_DIMS(3, r->hidden)) : NULL;
    p->h = amp_select(r->h, 0, d);
    p->c = r->c ? amp_select(r->c, 0, d) : NULL;
    if (r->steps > INT32_MAX / 16) {
        amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "%lld steps", (long long)r->steps);
        return NULL;
    }
    amp_tensor **y = amp_onnx_memory(AMP_I64, r->steps + 1);
    for (int64_t i = 0; y && i < r->steps && !amp_failed(); i++) {
        const int64_t t = r->backward || d == 1 ? r->steps - 1 - i : i;
        y[t] = step(p, t);
    }
    if (amp_failed()) return NULL;
    if (r->steps > 0) return amp_stack(((amp_tensor_list){.items = y, .count = r->steps}));
    return amp_zeros(AMP_DIMS(0, r->batch, r->hidden), .dtype = r->x->dtype, .device = (int)amp_tensor_device(r->x));
}

static amp_tensor *run_steps(const amp_onnx_step *s, recurrent *r) {
    amp_tensor *y[BOTH], *h[BOTH], *c[BOTH];
    for (int d = 0; d < r->directions; d++) {
        pass p;
        y[d] = run_direction(s, r, d, &p);
        if (!y[d] || amp_failed()) return NULL;
        h[d] = p.h;
        c[d] = p.c;
    }
    r->h = amp_stack(((amp_tensor_list){.items = h, .count = r->directions}));
    if (r->c) r->c = amp_stack(((amp_tensor_list){.items = c, .count = r->directions}));
    return amp_stack(((amp_tensor_list){.items = y, .count = r->directions}), .dim = 1);
}

/* `to`: which of the three. */
amp_status onnx_recurrent(amp_onnx_step *s) {
    const char *kind = s->node->op->to;
    const int place = *kind == 'l' ? 2 : *kind == 'g' ? 1 : 0;
    recurrent r = {.gates = (const int[]){1, 3, 4}[place], .functions = place + 1};
    AMP_TRY(read_recurrent(s, &r));
    AMP_TRY(drop_full_lengths(s, &r));
    amp_tensor *y = is_layer(&r) ? run_layer(&r) : run_steps(s, &r);
    if (!y) return amp_pending_error();
    if (r.batch_first) {
        y = amp_permute(y, AMP_DIMS(2, 0, 1, 3));
        r.h = amp_transpose(r.h, 0, 1);
        if (r.c) r.c = amp_transpose(r.c, 0, 1);
    }
    AMP_TRY(amp_onnx_set(s, 0, y));
    AMP_TRY(amp_onnx_set(s, 1, r.h));
    return r.c ? amp_onnx_set(s, 2, r.c) : AMP_OK;
}
