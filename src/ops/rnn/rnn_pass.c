/* rnn_pass, one layer of a recurrent network in one direction, and the way back through its steps. */
#include "amp/ops.h"
#include "call/backend.h"
#include "cpu/product/matmul.h"
#include "ops/rnn/rnn_checks.h"
#include "steps/steps.h"

/* ---- Forward ------------------------------------------------------------------------------------------------------ */
static amp_status check_state(const amp_call *call, const char *name, const amp_tensor *t, const amp_tensor *input,
                              int64_t batch, int64_t extent) {
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, name, t));
    return amp_call_check_shape(call, name, t, 2, (const int64_t[]){batch, extent});
}

static amp_status check_presence(const amp_call *call, const amp_rnn_pass *l) {
    if ((l->b_ih == NULL) != (l->b_hh == NULL)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is given and '%s' is not; expected both biases, or none",
                        amp_call_name(call), l->b_ih ? "b_ih" : "b_hh", l->b_ih ? "b_hh" : "b_ih");
    }
    if ((l->kind == AMP_RNN_LSTM) != (l->c0 != NULL)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'c0' is %s; an LSTM has it, and no other does", amp_call_name(call),
                        l->c0 ? "given" : "missing");
    }
    if (l->kind == AMP_RNN_LSTM || !l->w_hr) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'w_hr' is given; only an LSTM projects h", amp_call_name(call));
}

static amp_status check_ranks(const amp_call *call, const amp_rnn_pass_args *a) {
    if (a->input->rank != 3) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected 3 dimensions, %s", amp_call_name(call),
                        amp_describe(a->input),
                        a->batch_first ? "(batch, steps, features)" : "(steps, batch, features)");
    }
    if (a->input->shape[a->batch_first ? 1 : 0] == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected at least one step", amp_call_name(call),
                        amp_describe(a->input));
    }
    const amp_tensor *const states[] = {a->h0, a->c0};
    for (int i = 0; i < 2; i++) {
        if (!states[i] || states[i]->rank == 2) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected (batch, hidden)", amp_call_name(call),
                        i ? "c0" : "h0", amp_describe(states[i]));
    }
    return AMP_OK;
}

static amp_status read_pass(amp_call *call, amp_rnn_pass *l) {
    const amp_rnn_pass_args *a = call->args;
    AMP_TRY(amp_rnn_check_input(call, a->input));
    AMP_TRY(check_ranks(call, a));
    AMP_TRY(amp_rnn_kind_of(call, a->mode, &l->kind));
    const int batch_dim = a->batch_first ? 0 : 1;
    *l = (amp_rnn_pass){.kind = l->kind,
                        .steps = a->input->shape[1 - batch_dim],
                        .batch = a->input->shape[batch_dim],
                        .inputs = a->input->shape[2],
                        .hidden = (a->c0 ? a->c0 : a->h0)->shape[1],
                        .width = a->h0->shape[1],
                        .w_ih = a->w_ih,
                        .w_hh = a->w_hh,
                        .b_ih = a->b_ih,
                        .b_hh = a->b_hh,
                        .w_hr = a->w_hr,
                        .reverse = a->reverse,
                        .h0 = a->h0,
                        .c0 = a->c0};
    AMP_TRY(check_presence(call, l));
    if (!l->w_hr) l->width = l->hidden; /* what h0 is told of then */
    AMP_TRY(check_state(call, "h0", a->h0, a->input, l->batch, l->width));
    if (a->c0) AMP_TRY(check_state(call, "c0", a->c0, a->input, l->batch, l->hidden));
    AMP_TRY(amp_rnn_check_extents(call, a->input, l));
    return amp_rnn_check_weights(call, a->input, l);
}

/* For the way back, where the device has that step, of f32 and bf16; else the gradient is made of other ops. */
static bool keeps_workspace(const amp_call *call, amp_dtype dtype) {
    return amp_steps_of(call)->rnn_back && (dtype == AMP_F32 || dtype == AMP_BF16);
}

static amp_status make_results(amp_call *call, amp_rnn_pass *l, bool batch_first, amp_dtype dtype) {
    const int64_t out[3] = {batch_first ? l->batch : l->steps, batch_first ? l->steps : l->batch, l->width};
    const int64_t h[2] = {l->batch, l->width}, c[2] = {l->batch, l->hidden};
    amp_tensor *output = amp_call_output(call, 0, dtype, 3, out);
    l->hn = output ? amp_call_output(call, 1, dtype, 2, h) : NULL;
    l->cn = l->hn && l->c0 ? amp_call_output(call, 2, dtype, 2, c) : NULL;
    if (!l->hn || (l->c0 && !l->cn)) return amp_pending_error();
    l->out = amp_rnn_sequence(output, batch_first);
    if (!amp_call_wants(call, 3) || !keeps_workspace(call, dtype)) return AMP_OK;
    const int64_t elements = amp_rnn_workspace_of(l->kind, l->steps, l->batch, l->hidden).elements;
    l->workspace = amp_call_output(call, 3, AMP_F32, 1, &elements);
    return l->workspace ? AMP_OK : amp_pending_error();
}

amp_status amp_op_rnn_pass(amp_call *call) {
    const amp_rnn_pass_args *a = call->args;
    const bool here = call->device == AMP_DEVICE_CPU;
    amp_rnn_pass l;
    AMP_TRY(read_pass(call, &l));
    if (here && a->input->dtype == AMP_F16) {
        AMP_TRY(amp_cpu_run_widened(call, amp_op_rnn_pass));
        call->outputs[3] = NULL; /* of other numbers than the call's */
        return AMP_OK;
    }
    if (here) AMP_TRY(amp_cpu_matmul_operand(call, a->input, false));
    AMP_TRY(amp_call_materialize(call, a->h0));
    if (a->c0) AMP_TRY(amp_call_materialize(call, a->c0));
    AMP_TRY(make_results(call, &l, a->batch_first, a->input->dtype));
    l.in = amp_rnn_sequence(a->input, a->batch_first);
    return amp_steps_of(call)->rnn_pass(call, &l);
}

/* ---- Back --------------------------------------------------------------------------------------------------------- */
static amp_status check_back_ranks(const amp_call *call, const amp_rnn_pass_backward_args *a) {
    const struct {
        const char *name;
        const amp_tensor *tensor;
        int rank;
    } parts[] = {{"grad_output", a->grad_output, 3},
                 {"h0", a->h0, 2},
                 {"c0", a->c0, 2},
                 {"workspace", a->workspace, 1},
                 {"w_hh", a->w_hh, 2}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].tensor || parts[i].tensor->rank == parts[i].rank) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected %d dimension%s", amp_call_name(call),
                        parts[i].name, amp_describe(parts[i].tensor), parts[i].rank, parts[i].rank > 1 ? "s" : "");
    }
    return AMP_OK;
}

static amp_status check_workspace(const amp_call *call, const amp_rnn_back *l, const amp_tensor *t) {
    const int64_t elements = amp_rnn_workspace_of(l->kind, l->steps, l->batch, l->hidden).elements;
    if (t->dtype == AMP_F32 && t->shape[0] == elements) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'workspace' is %s; expected f32 [%lld], what rnn_pass gives of these steps, batch and gates",
                    amp_call_name(call), amp_describe(t), (long long)elements);
}

/* One of grad_output's dtype, if it is there. */
static amp_status check_part(const amp_call *call, const char *name, const amp_tensor *t, const amp_tensor *like,
                             int64_t rows, int64_t columns) {
    if (!t) return AMP_OK;
    AMP_TRY(amp_call_check_same_dtype(call, "grad_output", like, name, t));
    return amp_call_check_shape(call, name, t, 2, (const int64_t[]){rows, columns});
}

static amp_status check_back(const amp_call *call, const amp_rnn_pass_backward_args *a, const amp_rnn_back *l) {
    const amp_tensor *d = a->grad_output;
    if (!keeps_workspace(call, d->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'grad_output' is %s; expected f32 or bf16 on the CPU",
                        amp_call_name(call), amp_describe(d));
    }
    if ((l->kind == AMP_RNN_LSTM) != (a->c0 != NULL)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'c0' is %s; an LSTM has it, and no other does", amp_call_name(call),
                        a->c0 ? "given" : "missing");
    }
    AMP_TRY(check_workspace(call, l, a->workspace));
    AMP_TRY(check_part(call, "h0", a->h0, d, l->batch, l->w_hr ? l->width : l->hidden));
    AMP_TRY(check_part(call, "c0", a->c0, d, l->batch, l->hidden));
    AMP_TRY(amp_call_check_shape(call, "grad_output", d, 3, (const int64_t[]){d->shape[0], d->shape[1], l->width}));
    AMP_TRY(check_part(call, "grad_hn", a->grad_hn, d, l->batch, l->width));
    AMP_TRY(check_part(call, "grad_cn", a->grad_cn, d, l->batch, l->hidden));
    AMP_TRY(check_part(call, "w_hh", a->w_hh, d, amp_rnn_gates(l->kind) * l->hidden, l->width));
    return check_part(call, "w_hr", a->w_hr, d, l->width, l->hidden);
}

static amp_status make_gradients(amp_call *call, amp_rnn_back *l, amp_dtype dtype) {
    const int64_t gates[3] = {l->steps, l->batch, amp_rnn_gates(l->kind) * l->hidden};
    const int64_t projected[3] = {l->steps, l->batch, l->width};
    const bool is_gru = l->kind == AMP_RNN_GRU;
    l->grad_gates = amp_call_output(call, 0, AMP_F32, 3, gates);
    amp_tensor *more = is_gru || l->w_hr ? amp_call_output(call, 1, AMP_F32, 3, is_gru ? gates : projected) : NULL;
    *(is_gru ? &l->grad_h_gates : &l->grad_projected) = more;
    l->grad_h0 = amp_call_output(call, 2, dtype, 2, projected + 1);
    l->grad_c0 = l->c0 ? amp_call_output(call, 3, dtype, 2, (const int64_t[]){l->batch, l->hidden}) : NULL;
    return amp_pending_error();
}

static amp_status materialize_back(amp_call *call, const amp_rnn_pass_backward_args *a) {
    amp_tensor *const parts[] = {a->grad_output, a->grad_hn, a->grad_cn, a->workspace, a->h0, a->c0};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i]) AMP_TRY(amp_call_materialize(call, parts[i]));
    }
    return AMP_OK;
}

amp_status amp_op_rnn_pass_backward(amp_call *call) {
    const amp_rnn_pass_backward_args *a = call->args;
    const amp_tensor *d = a->grad_output;
    amp_rnn_back l = {0};
    AMP_TRY(amp_rnn_check_input(call, d));
    AMP_TRY(check_back_ranks(call, a));
    AMP_TRY(amp_rnn_kind_of(call, a->mode, &l.kind));
    const int batch_dim = a->batch_first ? 0 : 1;
    l.steps = d->shape[1 - batch_dim];
    l.batch = d->shape[batch_dim];
    l.width = a->h0->shape[1];
    l.hidden = (a->c0 ? a->c0 : a->h0)->shape[1];
    l.w_hh = a->w_hh;
    l.w_hr = a->w_hr;
    l.reverse = a->reverse;
    AMP_TRY(check_back(call, a, &l));
    AMP_TRY(materialize_back(call, a));
    l.h0 = a->h0;
    l.c0 = a->c0;
    l.grad_hn = a->grad_hn;
    l.grad_cn = a->grad_cn;
    amp_tensor *workspace = amp_contiguous(a->workspace);
    if (!workspace) return amp_pending_error();
    l.workspace = amp_tensor_pointer(workspace);
    l.grad_out = amp_rnn_sequence(a->grad_output, a->batch_first);
    AMP_TRY(make_gradients(call, &l, d->dtype));
    return amp_steps_of(call)->rnn_back(call, &l);
}
