/* A recurrent layer in one direction, made of other ops: the inputs of all steps are one product, each step is one more
 * and its gates. Products of 16-bit floats are of f32 copies, so that sums are rounded once. */
#include "amp/ops.h"
#include "amp/scope.h"
#include "core/compute_dtype.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"

typedef struct pass {
    const amp_rnn_pass *l;
    amp_dtype wide;                 /* what is computed in */
    amp_tensor *w_hh, *b_hh, *w_hr; /* in it */
    amp_tensor *inputs;             /* their gates, [steps, batch, G·hidden] */
    amp_tensor *h, *c;              /* what the next step sees: h rounded to the inputs' dtype */
    amp_tensor *state;              /* of a GRU: h before it is rounded */
    amp_tensor *out;                /* [steps, batch, width] */
} pass;

static amp_tensor *sequence(const amp_call *call, const amp_rnn_pass *l, const amp_sequence *s, int64_t columns) {
    const int64_t shape[3] = {l->steps, l->batch, columns}, strides[3] = {s->time, s->batch, s->column};
    return amp_tensor_view(call->op->name, s->tensor, 3, shape, strides, s->tensor->offset);
}

static amp_tensor *rounded(const pass *p, amp_tensor *t) {
    return amp_to(amp_to(t, p->l->h0->dtype), p->wide);
}

static amp_status step(const pass *p, int64_t t) {
    amp_tensor *x = amp_select(p->inputs, 0, t), *from_h = amp_linear(p->h, p->w_hh, p->b_hh), *h = NULL, *c = NULL;
    if (!x || !from_h) return amp_pending_error();
    h = amp_rnn_step(p->l->kind, x, from_h, p->c ? p->c : p->state, &c);
    if (p->w_hr) h = amp_linear(rounded(p, h), p->w_hr);
    amp_tensor *out = amp_select(p->out, 0, t), *next = rounded(p, h);
    if (!out || !next) return amp_pending_error();
    AMP_TRY(amp_cuda_copy_tensor(out, next));
    AMP_TRY(amp_cuda_copy_tensor(p->h, next));
    if (p->state) AMP_TRY(amp_cuda_copy_tensor(p->state, h));
    return c ? amp_cuda_copy_tensor(p->c, c) : AMP_OK;
}

static amp_status prepare(const amp_call *call, pass *p) {
    const amp_rnn_pass *l = p->l;
    amp_tensor *in = sequence(call, l, &l->in, l->inputs), *bias = l->b_ih ? amp_to(l->b_ih, p->wide) : NULL;
    p->inputs = amp_linear(amp_to(in, p->wide), amp_to(l->w_ih, p->wide), bias);
    p->w_hh = amp_to(l->w_hh, p->wide);
    p->b_hh = l->b_hh ? amp_to(l->b_hh, p->wide) : NULL;
    p->w_hr = l->w_hr ? amp_to(l->w_hr, p->wide) : NULL;
    p->h = amp_to(l->h0, p->wide, .copy = true);
    p->c = l->c0 ? amp_to(l->c0, p->wide, .copy = true) : NULL;
    p->state = l->kind == AMP_RNN_GRU ? amp_to(l->h0, p->wide, .copy = true) : NULL;
    p->out = sequence(call, l, &l->out, l->width);
    return amp_failed() ? amp_pending_error() : AMP_OK;
}

amp_status amp_cuda_rnn_pass(amp_call *call, const amp_rnn_pass *layer) {
    pass p = {.l = layer, .wide = amp_compute_dtype(layer->h0->dtype)};
    if (layer->batch == 0) return AMP_OK;
    AMP_TRY(prepare(call, &p));
    for (int64_t i = 0; i < layer->steps; i++) {
        AMP_TRY(amp_scope_enter()); /* a step's own tensors go with it */
        const amp_status status = step(&p, layer->reverse ? layer->steps - 1 - i : i);
        (void)amp_scope_exit();
        AMP_TRY(status);
    }
    AMP_TRY(amp_cuda_copy_tensor(layer->hn, p.h));
    return layer->cn ? amp_cuda_copy_tensor(layer->cn, p.c) : AMP_OK;
}
