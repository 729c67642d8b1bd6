/* A layer of a recurrent network in one direction. The inputs of many steps at a time go through one matrix product;
 * the steps themselves are one product with the previous h each, added in place, and the gates. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/product/matmul.h"
#include "cpu/registry/kernels.h"
#include "cpu/rnn/rnn.h"
#include "cpu/rnn/rnn_weight.h"

enum {
    GATES_AT_A_TIME =
        1 << 18,     /* elements of the gates of the steps whose inputs are multiplied together: 1 MB of f32 */
    LEAST_ROWS = 64, /* … and the rows that a product should have at least */
    GATE_COST = 32   /* simple operations that one element of h is worth */
};

typedef struct run {
    amp_call *call;
    const amp_rnn_pass *l;
    amp_dtype dtype, compute;    /* of the operands; f32 or f64: of sums and gates */
    int64_t columns;             /* G·hidden */
    amp_packed_b ih, hh, hr;     /* the weights */
    amp_tensor *bias, *bias_hh;  /* what is added to the input's product, and, for a GRU, to that of h */
    amp_tensor *gates, *h_gates; /* [steps, batch, columns] of the input; [batch, columns] of h, for a GRU */
    amp_tensor *state;       /* [batch, hidden]: c of an LSTM, h of a GRU; else NULL. With a workspace, of all steps */
    amp_tensor *unprojected; /* [batch, hidden] of dtype, where h is projected */
    amp_gates_function *function;
    amp_unary_function *activation;
} run;

/* ---- Products --------------------------------------------------------------------------------------------------- */

/* Headers for the same memory further on, for products, which look at nothing else of a tensor. */
typedef struct window {
    amp_tensor tensor, source;
} window;

static amp_tensor *shifted(window *w, const amp_tensor *t, int64_t elements) {
    w->tensor = *t;
    w->tensor.offset += elements;
    if (!t->storage) {
        w->source = *t->source;
        w->source.offset += elements;
        w->tensor.source = &w->source;
    }
    return &w->tensor;
}

/* The gates of `steps` steps from the `first` on: all rows in one product where they lie evenly, else by step or by
 * batch entry, whichever are fewer. */
static amp_status multiply_inputs(const run *r, int64_t first, int64_t steps) {
    const amp_rnn_pass *l = r->l;
    window w;
    amp_matmul p = amp_rnn_product(l->w_ih, true, &r->ih);
    const int64_t row = l->in.batch, time = l->in.time, out_row = r->columns, out_time = l->batch * r->columns;
    p.bias = r->bias;
    p.a = (amp_matrix){.tensor = shifted(&w, l->in.tensor, first * time), .row = row, .column = l->in.column};
    p.c = (amp_matrix){.tensor = r->gates, .row = out_row, .column = 1};
    if (l->batch == 1 || steps == 1 || time == l->batch * row) {
        p.m = steps * l->batch;
        if (l->batch == 1) p.a.row = time;
        return amp_cpu_matmul(r->call, &p);
    }
    const bool by_step = steps < l->batch;
    p.batch_rank = 1;
    p.batch_shape[0] = by_step ? steps : l->batch;
    p.m = by_step ? l->batch : steps;
    p.a.row = by_step ? row : time;
    p.a.batch[0] = by_step ? time : row;
    p.c.row = by_step ? out_row : out_time;
    p.c.batch[0] = by_step ? out_time : out_row;
    return amp_cpu_matmul(r->call, &p);
}

/* h·W_hhᵀ, added to the gates of one step, or for a GRU beside them. */
static amp_status multiply_state(const run *r, const amp_matrix *h, int64_t step) {
    window w;
    amp_matmul p = amp_rnn_product(r->l->w_hh, true, &r->hh);
    p.m = r->l->batch;
    p.a = *h;
    p.c = (amp_matrix){.row = r->columns, .column = 1};
    if (r->h_gates) {
        p.c.tensor = r->h_gates;
        p.bias = r->bias_hh;
    } else {
        p.c.tensor = shifted(&w, r->gates, step * r->l->batch * r->columns);
        p.residual = p.c;
        p.beta = 1;
    }
    return amp_cpu_matmul(r->call, &p);
}

static amp_status project(const run *r, amp_tensor *to) {
    const amp_rnn_pass *l = r->l;
    amp_matmul p = amp_rnn_product(l->w_hr, true, &r->hr);
    p.m = l->batch;
    p.a = (amp_matrix){.tensor = r->unprojected, .row = l->hidden, .column = 1};
    p.c = (amp_matrix){.tensor = to, .row = l->out.batch, .column = 1};
    return amp_cpu_matmul(r->call, &p);
}

/* ---- Gates ------------------------------------------------------------------------------------------------------ */

static double sigmoid(double x) {
    const double z = exp(-fabs(x));
    return (x < 0 ? z : 1.0) / (1.0 + z);
}

/* NOLINTBEGIN(clang-analyzer-core.NullDereference): each kind has the operands that it reads */
static void gates_f64(const run *r, double *out, double *state, const double *x, const double *h, int64_t n) {
    const int64_t s = r->l->hidden;
    for (int64_t i = 0; i < n; i++) {
        switch (r->l->kind) {
        case AMP_RNN_LSTM:
            state[i] = sigmoid(x[s + i]) * state[i] + sigmoid(x[i]) * tanh(x[2 * s + i]);
            out[i] = sigmoid(x[3 * s + i]) * tanh(state[i]);
            break;
        case AMP_RNN_GRU: {
            const double m = tanh(x[2 * s + i] + sigmoid(x[i] + h[i]) * h[2 * s + i]);
            out[i] = state[i] = m + sigmoid(x[s + i] + h[s + i]) * (state[i] - m);
            break;
        }
        case AMP_RNN_TANH: out[i] = tanh(x[i]); break;
        case AMP_RNN_RELU: out[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0.0; break;
        }
    }
}
/* NOLINTEND(clang-analyzer-core.NullDereference) */

/* `at`: elements to skip in every array; state and h only where the kind has them. */
static void apply_gates(const run *r, void *out, int64_t row, int64_t column, const void *x, int64_t n) {
    const int64_t state_at = row * r->l->hidden + column, h_at = row * r->columns + column;
    void *const state = r->state ? amp_tensor_pointer(r->state) : NULL;
    const void *const h = r->h_gates ? amp_tensor_pointer(r->h_gates) : NULL;
    if (r->compute == AMP_F64) {
        gates_f64(r, out, state ? (double *)state + state_at : NULL, x, h ? (const double *)h + h_at : NULL, n);
    } else if (r->function) {
        r->function(out, (float *)state + state_at, x, h ? (const float *)h + h_at : NULL, r->l->hidden, n);
    } else {
        r->activation(out, x, n);
    }
}

/* The rows of a step from `first` on: h to `to`, rows `to_row` elements apart. */
static void gate_rows(const run *r, int64_t step, amp_range rows, char *to, int64_t to_row) {
    _Alignas(64) char buffer[AMP_BLOCK_BYTES];
    const int64_t wide = (int64_t)amp_dtype_size(r->compute), size = (int64_t)amp_dtype_size(r->dtype);
    const int64_t block = AMP_BLOCK_BYTES / wide, hidden = r->l->hidden;
    const char *x = (const char *)amp_tensor_pointer(r->gates) + step * r->l->batch * r->columns * wide;
    for (int64_t row = rows.begin; row < rows.end; row++) {
        for (int64_t i = 0; i < hidden; i += block) {
            const int64_t n = hidden - i < block ? hidden - i : block;
            char *place = to + (row * to_row + i) * size;
            void *out = r->dtype == r->compute ? (void *)place : buffer;
            apply_gates(r, out, row, i, x + (row * r->columns + i) * wide, n);
            if (out == buffer) amp_block_store(r->compute, buffer, r->dtype, place, size, n);
        }
    }
}

static void gate_step(const run *r, int64_t step, char *to, int64_t to_row) {
    const int64_t batch = r->l->batch;
    int threads = amp_parallel_threads(batch * r->l->hidden * GATE_COST, AMP_GRAIN_ELEMENTS * 2);
    if (threads > batch) threads = (int)batch;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range rows = amp_parallel_part(batch, 1, omp_get_thread_num(), omp_get_num_threads());
        gate_rows(r, step, rows, to, to_row);
    }
}

/* ---- Steps ------------------------------------------------------------------------------------------------------ */

/* What is kept of step t has places of its own: the state goes on from the last step's. */
static void move_to_step(const run *r, int64_t t) {
    const amp_rnn_pass *l = r->l;
    if (!l->workspace) return;
    const amp_rnn_workspace places = amp_rnn_workspace_of(l->kind, l->steps, l->batch, l->hidden);
    const int64_t size = l->batch * l->hidden, at = places.states + t * size;
    if (r->h_gates) r->h_gates->offset = places.h_gates + t * l->batch * r->columns;
    if (!r->state || r->state->offset == at) return;
    const float *before = amp_tensor_pointer(r->state);
    r->state->offset = at;
    memcpy(amp_tensor_pointer(r->state), before, (size_t)size * sizeof *before);
}

/* Step number `step` of the gates at hand, which is step `t` of the sequence. */
static amp_status run_step(const run *r, int64_t step, int64_t t, const amp_matrix *h) {
    const amp_rnn_pass *l = r->l;
    window w;
    move_to_step(r, t);
    AMP_TRY(multiply_state(r, h, step));
    amp_tensor *to = shifted(&w, l->out.tensor, t * l->out.time);
    if (r->unprojected) {
        gate_step(r, step, amp_tensor_pointer(r->unprojected), l->hidden);
        return project(r, to);
    }
    gate_step(r, step, amp_tensor_pointer(to), l->out.batch);
    return AMP_OK;
}

static amp_status run_steps(const run *r) {
    const amp_rnn_pass *l = r->l;
    const int64_t most = r->gates->shape[0];
    window w;
    amp_matrix h = {.tensor = l->h0, .row = l->h0->strides[0], .column = l->h0->strides[1]};
    for (int64_t done = 0; done < l->steps;) {
        const int64_t n = l->steps - done < most ? l->steps - done : most;
        const int64_t first = l->reverse ? l->steps - done - n : done;
        AMP_TRY(multiply_inputs(r, first, n));
        for (int64_t i = 0; i < n; i++) {
            const int64_t step = l->reverse ? n - 1 - i : i;
            AMP_TRY(run_step(r, step, first + step, &h));
            h = (amp_matrix){.tensor = shifted(&w, l->out.tensor, (first + step) * l->out.time),
                             .row = l->out.batch,
                             .column = l->out.column};
        }
        done += n;
    }
    amp_tensor last = *h.tensor;
    last.rank = 2;
    last.shape[0] = l->batch;
    last.shape[1] = l->width;
    last.strides[0] = h.row;
    last.strides[1] = h.column;
    AMP_TRY(amp_cpu_copy(l->hn, &last));
    return l->cn ? amp_cpu_copy(l->cn, r->state) : AMP_OK;
}

/* ---- Preparation ------------------------------------------------------------------------------------------------ */

/* The biases in the type of the sums; added up where both are added to one gate. */
static amp_status prepare_biases(run *r) {
    amp_tensor *in = r->l->b_ih, *h = r->l->b_hh;
    if (!in) return AMP_OK;
    AMP_TRY(amp_call_materialize(r->call, in));
    AMP_TRY(amp_call_materialize(r->call, h));
    in = amp_contiguous(amp_to(in, .dtype = r->compute));
    h = amp_contiguous(amp_to(h, .dtype = r->compute));
    r->bias_hh = h;
    r->bias = in && h && r->l->kind != AMP_RNN_GRU ? amp_add(in, h) : in;
    return r->bias && h ? AMP_OK : amp_pending_error();
}

static amp_status make(const run *r, amp_dtype dtype, int rank, const int64_t *shape, amp_tensor **made) {
    *made = amp_tensor_new(r->call->op->name, dtype, rank, shape);
    return *made ? AMP_OK : amp_pending_error();
}

static amp_status view_of(const run *r, int64_t offset, int rank, const int64_t *shape, amp_tensor **made) {
    int64_t strides[3] = {0};
    for (int64_t d = rank, step = 1; d-- > 0; step *= shape[d]) strides[d] = step;
    *made = amp_tensor_view(r->call->op->name, r->l->workspace, rank, shape, strides, offset);
    return *made ? AMP_OK : amp_pending_error();
}

/* The same room within the workspace, as it is at the first step. */
static amp_status take_workspace(run *r) {
    const amp_rnn_pass *l = r->l;
    const amp_rnn_workspace places = amp_rnn_workspace_of(l->kind, l->steps, l->batch, l->hidden);
    const int64_t first = l->reverse ? l->steps - 1 : 0, gates[3] = {l->steps, l->batch, r->columns};
    const int64_t hidden[2] = {l->batch, l->hidden};
    AMP_TRY(view_of(r, 0, 3, gates, &r->gates));
    if (places.h_gates) AMP_TRY(view_of(r, places.h_gates, 2, gates + 1, &r->h_gates));
    if (l->w_hr) AMP_TRY(make(r, r->dtype, 2, hidden, &r->unprojected));
    if (!places.states) return AMP_OK;
    AMP_TRY(view_of(r, places.states + first * l->batch * l->hidden, 2, hidden, &r->state));
    return amp_cpu_copy(r->state, l->c0 ? l->c0 : l->h0);
}

static amp_status make_room(run *r) {
    const amp_rnn_pass *l = r->l;
    int64_t steps = GATES_AT_A_TIME / (l->batch * r->columns + 1);
    if (steps * l->batch < LEAST_ROWS) steps = LEAST_ROWS / l->batch;
    if (steps < 1) steps = 1;
    const int64_t gates[3] = {steps < l->steps ? steps : l->steps, l->batch, r->columns};
    const int64_t hidden[2] = {l->batch, l->hidden};
    const bool has_state = l->kind == AMP_RNN_GRU || l->kind == AMP_RNN_LSTM;
    AMP_TRY(make(r, r->compute, 3, gates, &r->gates));
    if (l->kind == AMP_RNN_GRU) AMP_TRY(make(r, r->compute, 2, gates + 1, &r->h_gates));
    if (has_state) AMP_TRY(make(r, r->compute, 2, hidden, &r->state));
    if (l->w_hr) AMP_TRY(make(r, r->dtype, 2, hidden, &r->unprojected));
    return has_state ? amp_cpu_copy(r->state, l->c0 ? l->c0 : l->h0) : AMP_OK;
}

static amp_status choose_kernels(run *r) {
    static const amp_kernel_family families[] = {[AMP_RNN_TANH] = AMP_KERNEL_TANH,
                                                 [AMP_RNN_RELU] = AMP_KERNEL_RELU,
                                                 [AMP_RNN_GRU] = AMP_KERNEL_GRU_GATES,
                                                 [AMP_RNN_LSTM] = AMP_KERNEL_LSTM_GATES};
    const amp_rnn_kind kind = r->l->kind;
    const amp_kernel *kernel = amp_kernel_select(families[kind], AMP_F32, AMP_F32);
    if (!kernel) return amp_pending_error();
    amp_block_prepare();
    if (kind == AMP_RNN_GRU || kind == AMP_RNN_LSTM)
        r->function = (amp_gates_function *)kernel->function;
    else
        r->activation = (amp_unary_function *)kernel->function;
    return AMP_OK;
}

static amp_status run_layer(run *r) {
    const amp_rnn_pass *l = r->l;
    AMP_TRY(choose_kernels(r));
    AMP_TRY(prepare_biases(r));
    AMP_TRY(l->workspace ? take_workspace(r) : make_room(r));
    AMP_TRY(amp_rnn_pack(r->call, l->w_ih, true, &r->ih));
    AMP_TRY(amp_rnn_pack(r->call, l->w_hh, true, &r->hh));
    AMP_TRY(amp_rnn_pack(r->call, l->w_hr, true, &r->hr));
    return run_steps(r);
}

amp_status amp_cpu_rnn_pass(amp_call *call, const amp_rnn_pass *layer) {
    run r = {.call = call,
             .l = layer,
             .dtype = layer->out.tensor->dtype,
             .compute = layer->out.tensor->dtype == AMP_F64 ? AMP_F64 : AMP_F32,
             .columns = amp_rnn_gates(layer->kind) * layer->hidden};
    if (layer->batch == 0) return AMP_OK;
    amp_scope_frame frame;
    amp_scope_push(&frame);
    const amp_status status = run_layer(&r);
    amp_cpu_matmul_unpack(&r.ih);
    amp_cpu_matmul_unpack(&r.hh);
    amp_cpu_matmul_unpack(&r.hr);
    amp_scope_pop(&frame);
    return status;
}
