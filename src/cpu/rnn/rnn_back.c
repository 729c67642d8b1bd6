/* Back through the steps of a layer of a recurrent network, in one direction. A step is one pass over its gates, of the
 * sums that the pass kept, and one product with W_hh for the gradient of the h before. What does not hang on the order
 * of steps (the gradients of weights, biases and input) is not here: products over all steps at once make it of
 * grad_gates. */
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/registry/kernels.h"
#include "cpu/rnn/rnn_weight.h"

enum { GATE_COST = 40 }; /* simple operations that one element of h is worth */

typedef struct back {
    amp_call *call;
    const amp_rnn_back *l;
    amp_dtype dtype; /* the pass's; what is computed is f32 */
    int64_t columns; /* G·hidden */
    amp_packed_b hh, hr;
    amp_rnn_workspace places;
    amp_tensor *grad_h;                        /* [batch, width]: the gradient of a step's h */
    amp_tensor *grad_unprojected, *grad_state; /* [batch, hidden]: of h before its projection; of the state */
    const amp_tensor *state0;                  /* dense [batch, hidden] */
    amp_gates_back_function *function;
    amp_binary_function *add;
} back;

/* ---- Products --------------------------------------------------------------------------------------------------- */
/* Step t of rows by step, f32, which enter the product in the pass's dtype. */
static amp_status multiply(const back *b, amp_tensor *rows, int64_t t, const amp_tensor *weight,
                           const amp_packed_b *packed, amp_tensor *to, bool onto) {
    amp_matmul p = amp_rnn_product(weight, false, packed);
    amp_tensor step = *rows, narrow = {.dtype = b->dtype, .source = &step}; /* products look at nothing else */
    step.offset += t * b->l->batch * p.k;
    p.m = b->l->batch;
    p.a = (amp_matrix){.tensor = b->dtype == AMP_F32 ? &step : &narrow, .row = p.k, .column = 1};
    p.c = (amp_matrix){.tensor = to, .row = p.n, .column = 1};
    if (onto) {
        p.residual = p.c;
        p.beta = 1;
    }
    return amp_cpu_matmul(b->call, &p);
}

/* ---- Rows of a step ----------------------------------------------------------------------------------------------- */
static float *row_of(const amp_tensor *t, int64_t row, int64_t length) {
    return t ? (float *)amp_tensor_pointer(t) + row * length : NULL;
}

/* grad_h += the gradient that the step's output has. */
static void add_output(const back *b, int64_t t, int64_t row) {
    _Alignas(64) char buffer[AMP_BLOCK_BYTES];
    const amp_sequence *s = &b->l->grad_out;
    const int64_t size = (int64_t)amp_dtype_size(b->dtype), width = b->l->width, block = AMP_BLOCK_BYTES / 4;
    const char *from = (const char *)amp_tensor_pointer(s->tensor) + (t * s->time + row * s->batch) * size;
    float *sum = row_of(b->grad_h, row, width);
    for (int64_t i = 0; i < width; i += block) {
        const int64_t n = width - i < block ? width - i : block;
        amp_block_load(AMP_F32, buffer, b->dtype, from + i * s->column * size, s->column * size, n);
        b->add(sum + i, sum + i, buffer, n, 0.0F);
    }
}

/* The state before step t: that of the step that ran before it. */
static const float *state_before(const back *b, int64_t t, int64_t row) {
    const amp_rnn_back *l = b->l;
    const int64_t last = l->reverse ? t + 1 : t - 1;
    if (last < 0 || last >= l->steps) return row_of(b->state0, row, l->hidden);
    return l->workspace + b->places.states + (last * l->batch + row) * l->hidden;
}

static void gates_of_row(const back *b, int64_t t, int64_t row) {
    const amp_rnn_back *l = b->l;
    const int64_t at = t * l->batch + row, columns = b->columns;
    const bool has_state = b->places.states > 0;
    const amp_gates_way way = {.grad_out = row_of(l->w_hr ? b->grad_unprojected : b->grad_h, row, l->hidden),
                               .x = l->workspace + at * columns,
                               .h = l->grad_h_gates ? l->workspace + b->places.h_gates + at * columns : NULL,
                               .before = has_state ? state_before(b, t, row) : NULL,
                               .after = has_state ? l->workspace + b->places.states + at * l->hidden : NULL,
                               .grad_x = row_of(l->grad_gates, at, columns),
                               .grad_h = row_of(l->grad_h_gates, at, columns),
                               .grad_state = l->kind == AMP_RNN_GRU ? row_of(b->grad_h, row, l->hidden)
                                                                    : row_of(b->grad_state, row, l->hidden),
                               .stride = l->hidden};
    b->function(&way, l->hidden);
}

static void output_of_row(const back *b, int64_t t, int64_t row) {
    add_output(b, t, row);
    const int64_t width = b->l->width;
    if (!b->l->w_hr) return;
    memcpy(row_of(b->l->grad_projected, t * b->l->batch + row, width), row_of(b->grad_h, row, width),
           (size_t)width * sizeof(float));
}

/* Both, where nothing lies between them. */
static void step_of_row(const back *b, int64_t t, int64_t row) {
    output_of_row(b, t, row);
    gates_of_row(b, t, row);
}

static void each_row(const back *b, int64_t t, void (*visit)(const back *, int64_t, int64_t)) {
    const int64_t batch = b->l->batch;
    int threads = amp_parallel_threads(batch * b->l->hidden * GATE_COST, AMP_GRAIN_ELEMENTS * 2);
    if (threads > batch) threads = (int)batch;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t row = 0; row < batch; row++) visit(b, t, row);
}

/* ---- Steps ------------------------------------------------------------------------------------------------------ */
static amp_status run_step(const back *b, int64_t t) {
    const amp_rnn_back *l = b->l;
    const bool is_gru = l->kind == AMP_RNN_GRU;
    each_row(b, t, l->w_hr ? output_of_row : step_of_row);
    if (l->w_hr) {
        AMP_TRY(multiply(b, l->grad_projected, t, l->w_hr, &b->hr, b->grad_unprojected, false));
        each_row(b, t, gates_of_row);
    }
    return multiply(b, is_gru ? l->grad_h_gates : l->grad_gates, t, l->w_hh, &b->hh, b->grad_h, is_gru);
}

static amp_status run_steps(const back *b) {
    const amp_rnn_back *l = b->l;
    for (int64_t i = 0; i < l->steps; i++) AMP_TRY(run_step(b, l->reverse ? i : l->steps - 1 - i));
    AMP_TRY(amp_cpu_copy(l->grad_h0, b->grad_h));
    return l->grad_c0 ? amp_cpu_copy(l->grad_c0, b->grad_state) : AMP_OK;
}

/* ---- Preparation ------------------------------------------------------------------------------------------------ */
/* f32 [batch, columns]: zeros, or what is given. */
static amp_status make(const back *b, int64_t columns, const amp_tensor *from, amp_tensor **made) {
    const int64_t shape[2] = {b->l->batch, columns};
    *made = amp_tensor_new(b->call->op->name, AMP_F32, 2, shape);
    if (!*made) return amp_pending_error();
    if (from) return amp_cpu_copy(*made, from);
    memset(amp_tensor_pointer(*made), 0, (size_t)(b->l->batch * columns) * sizeof(float));
    return AMP_OK;
}

static amp_status make_room(back *b) {
    const amp_rnn_back *l = b->l;
    const bool is_gru = l->kind == AMP_RNN_GRU;
    AMP_TRY(make(b, l->width, l->grad_hn, &b->grad_h));
    if (l->kind == AMP_RNN_LSTM) AMP_TRY(make(b, l->hidden, l->grad_cn, &b->grad_state));
    if (l->w_hr) AMP_TRY(make(b, l->hidden, NULL, &b->grad_unprojected));
    if (!b->places.states) return AMP_OK;
    amp_tensor *state0 = NULL;
    AMP_TRY(make(b, l->hidden, is_gru ? l->h0 : l->c0, &state0));
    b->state0 = state0;
    return AMP_OK;
}

static amp_status choose_kernels(back *b) {
    static const amp_kernel_family families[] = {[AMP_RNN_TANH] = AMP_KERNEL_TANH_GATES_BACK,
                                                 [AMP_RNN_RELU] = AMP_KERNEL_RELU_GATES_BACK,
                                                 [AMP_RNN_GRU] = AMP_KERNEL_GRU_GATES_BACK,
                                                 [AMP_RNN_LSTM] = AMP_KERNEL_LSTM_GATES_BACK};
    const amp_kernel *kernel = amp_kernel_select(families[b->l->kind], AMP_F32, AMP_F32);
    b->add = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_ADD, AMP_F32, AMP_F32);
    if (!kernel || !b->add) return amp_pending_error();
    b->function = (amp_gates_back_function *)kernel->function;
    amp_block_prepare();
    return AMP_OK;
}

static amp_status run_layer(back *b) {
    AMP_TRY(choose_kernels(b));
    AMP_TRY(make_room(b));
    AMP_TRY(amp_rnn_pack(b->call, b->l->w_hh, false, &b->hh));
    AMP_TRY(amp_rnn_pack(b->call, b->l->w_hr, false, &b->hr));
    return run_steps(b);
}

amp_status amp_cpu_rnn_back(amp_call *call, const amp_rnn_back *layer) {
    back b = {.call = call,
              .l = layer,
              .dtype = layer->grad_out.tensor->dtype,
              .columns = amp_rnn_gates(layer->kind) * layer->hidden,
              .places = amp_rnn_workspace_of(layer->kind, layer->steps, layer->batch, layer->hidden)};
    if (layer->batch == 0) return AMP_OK;
    amp_scope_frame frame;
    amp_scope_push(&frame);
    const amp_status status = run_layer(&b);
    amp_cpu_matmul_unpack(&b.hh);
    amp_cpu_matmul_unpack(&b.hr);
    amp_scope_pop(&frame);
    return status;
}
