/* A loss that is scaled for a block, and what becomes of the gradients at its end. */
#include "train/apex_scaling.h"
#include "amp/autocast.h"
#include "amp/grad.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "train/apex.h"
#include "train/unscale.h"

/* ---- The optimizers of a loss ---------------------------------------------------------------------------------------- */
static int64_t count_of(const amp_scaled_loss *l) {
    return 1 + l->more_optimizers.count;
}

static amp_optimizer *optimizer_at(const amp_scaled_loss *l, int64_t i) {
    return i == 0 ? l->optimizer : l->more_optimizers.items[i - 1];
}

static amp_loss_scaler *scaler_of(const amp_scaled_loss *l) {
    return l->wrapper ? &l->wrapper->scalers[l->scaler] : &l->apex->scalers[l->scaler];
}

/* ---- Before the backward ---------------------------------------------------------------------------------------------- */
/* What is there is not of this loss: sums of half gradients are their masters'; the others are put aside. */
static void put_aside(amp_trained *t) {
    amp_tensor *gradient = amp_tensor_grad(t->parameter);
    if (!gradient) return;
    if (!t->master) t->stash = amp_retain(gradient);
    (void)amp_tensor_zero_grad(t->parameter);
}

static void put_all_aside(const amp_scaled_loss *l) {
    for (int64_t i = 0; i < count_of(l); i++) {
        amp_optimizer *o = optimizer_at(l, i);
        for (int64_t k = 0; !o->holds_scaled && k < o->count; k++) put_aside(&o->items[k]);
    }
}

/* Each optimizer once, and in no other block. */
static amp_status check_free(const amp_scaled_loss *l) {
    for (int64_t i = 0; i < count_of(l); i++) {
        if (optimizer_at(l, i)->in_scaled_loss)
            return amp_fail(AMP_ERROR_INVALID,
                            "scale_loss: an optimizer is in another block of a scaled loss; end that first");
        for (int64_t k = 0; k < i; k++) {
            if (optimizer_at(l, k) == optimizer_at(l, i))
                return amp_fail(AMP_ERROR_INVALID, "scale_loss: an optimizer is named twice");
        }
    }
    return AMP_OK;
}

static void set_inside(const amp_scaled_loss *l, bool inside) {
    for (int64_t i = 0; i < count_of(l); i++) optimizer_at(l, i)->in_scaled_loss = inside;
}

static amp_status refresh_all(const amp_scaled_loss *l) {
    for (int64_t i = 0; i < count_of(l); i++) AMP_TRY(amp_masters_refresh(optimizer_at(l, i)));
    return AMP_OK;
}

amp_scaled_loss amp_scaled_loss_begin(amp_scaled_loss l, amp_tensor *loss, bool in_f32) {
    if (check_free(&l) != AMP_OK || refresh_all(&l) != AMP_OK) return (amp_scaled_loss){0};
    set_inside(&l, true);
    const amp_loss_scaler *s = scaler_of(&l);
    const bool is_plain = !s->is_dynamic && s->scale == 1 && l.apex->properties.masters != AMP_APEX_YES;
    l.loss = in_f32 && loss->dtype != AMP_F32 ? amp_to(loss, AMP_F32) : loss;
    l.is_unscaled = is_plain;
    if (is_plain || !l.loss) return l;
    l.loss = amp_mul_scalar(l.loss, amp_float(s->scale));
    if (l.loss) put_all_aside(&l);
    return l;
}

/* ---- After it ------------------------------------------------------------------------------------------------------- */
/* Gradients to unscale: of parameters with a master an f32 copy. */
typedef struct batch {
    amp_tensor **gradients;
    amp_trained **of;
    int64_t count;
} batch;

static amp_status gather(const amp_optimizer *o, batch *b) {
    b->gradients = amp_alloc((size_t)(o->count + 1) * sizeof(amp_tensor *));
    b->of = amp_alloc((size_t)(o->count + 1) * sizeof(amp_trained *));
    if (!b->gradients || !b->of) return amp_fail(AMP_ERROR_MEMORY, "scale_loss: no memory");
    for (int64_t i = 0; i < o->count; i++) {
        amp_trained *t = &o->items[i];
        amp_tensor *gradient = amp_tensor_grad(t->parameter);
        if (!gradient) continue;
        if (t->master) gradient = amp_to(gradient, AMP_F32);
        if (!gradient) return amp_pending_error();
        b->of[b->count] = t;
        b->gradients[b->count++] = gradient;
    }
    return AMP_OK;
}

/* The new gradient, and what there was. */
static amp_status give(amp_trained *t, amp_tensor *gradient) {
    amp_tensor *before = t->master ? amp_tensor_grad(t->master) : t->stash;
    if (before && !amp_add_(gradient, before)) return amp_pending_error();
    return t->master ? amp_tensor_set_grad(t->master, gradient) : AMP_OK;
}

/* Where the backward left nothing, what was put aside comes back. */
static void take_back(const amp_optimizer *o, bool only_missing) {
    for (int64_t i = 0; i < o->count; i++) {
        amp_trained *t = &o->items[i];
        if (t->stash && !(only_missing && amp_tensor_grad(t->parameter)))
            (void)amp_tensor_set_grad(t->parameter, t->stash);
        amp_release(t->stash);
        t->stash = NULL;
    }
}

static amp_status unscale_batch(const batch *b, amp_loss_scaler *s, amp_device device) {
    amp_tensor *found = NULL;
    bool is_set = false;
    AMP_TRY(amp_unscale_gradients(b->gradients, b->count, s->scale, device, &found));
    const amp_status status = s->is_dynamic ? amp_read_found(found, &is_set) : AMP_OK;
    amp_release(found);
    AMP_TRY(status);
    s->has_overflowed |= is_set;
    for (int64_t i = 0; i < b->count; i++) AMP_TRY(give(b->of[i], b->gradients[i]));
    return AMP_OK;
}

static amp_status unscale(amp_optimizer *o, amp_loss_scaler *s, amp_device device) {
    batch b = {0};
    amp_no_grad_here();
    amp_scope_here();
    amp_status status = gather(o, &b);
    if (status == AMP_OK && b.count > 0) status = unscale_batch(&b, s, device);
    amp_free(b.gradients);
    amp_free(b.of);
    if (status == AMP_OK) take_back(o, true);
    return status;
}

/* Gradients after one that overflowed stay scaled, as in apex: their step is skipped. */
static amp_status unscale_all(const amp_scaled_loss *l) {
    amp_loss_scaler *s = scaler_of(l);
    s->has_overflowed = false;
    for (int64_t i = 0; i < count_of(l); i++) {
        amp_optimizer *o = optimizer_at(l, i);
        o->holds_scaled = false;
        if (s->has_overflowed)
            take_back(o, true);
        else
            AMP_TRY(unscale(o, s, l->apex->device));
    }
    return AMP_OK;
}

static void update(const amp_scaled_loss *l) {
    if (!amp_loss_scaler_update(scaler_of(l))) return;
    if (l->wrapper) l->wrapper->skips[l->scaler] = true;
    for (int64_t i = 0; i < count_of(l); i++) optimizer_at(l, i)->skips_next = true;
}

/* What the standing error is of left gradients in between: there are those of before. */
static void restore_all(const amp_scaled_loss *l) {
    for (int64_t i = 0; i < count_of(l); i++) take_back(optimizer_at(l, i), false);
}

static void finish(const amp_scaled_loss *l) {
    if (l->is_unscaled) return;
    if (!amp_failed() && l->delay_unscale) {
        for (int64_t i = 0; i < count_of(l); i++) optimizer_at(l, i)->holds_scaled = true;
        return;
    }
    if (amp_failed() || unscale_all(l) != AMP_OK)
        restore_all(l);
    else if (!l->delay_overflow_check)
        update(l);
}

void amp_scale_loss_close(amp_scaled_loss *l) {
    if (!l || !l->apex) return;
    finish(l);
    set_inside(l, false);
    if (l->apex->properties.patch == AMP_APEX_YES) amp_cast_cache_clear();
    l->apex = NULL;
}

/* ---- Under amp_initialize --------------------------------------------------------------------------------------------- */
static amp_status check_optimizer(const amp_optimizer *o, const amp_apex *first) {
    if (!o) return amp_fail(AMP_ERROR_INVALID, "scale_loss: an optimizer is NULL");
    if (!o->apex || o->apex->is_handle)
        return amp_fail(AMP_ERROR_INVALID,
                        "scale_loss: an optimizer did not go through amp_initialize, which comes first");
    if (!first || o->apex == first) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "scale_loss: the optimizers went through amp_initialize apart; expected one call");
}

static amp_status check_args(const amp_scale_loss_args *a) {
    AMP_TRY(amp_struct_reserved("scale_loss", a->reserved, sizeof a->reserved));
    if (!a->loss) return amp_fail(AMP_ERROR_INVALID, "scale_loss: the loss is NULL");
    AMP_TRY(check_optimizer(a->optimizer, NULL));
    for (int64_t i = 0; i < a->more_optimizers.count; i++)
        AMP_TRY(check_optimizer(a->more_optimizers.items[i], a->optimizer->apex));
    const int64_t id = a->loss_id.value, count = a->optimizer->apex->properties.num_losses;
    if (id >= 0 && id < count) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "scale_loss: loss_id is %lld; amp_initialize was told of %lld losses (num_losses)", (long long)id,
                    (long long)count);
}

amp_scaled_loss amp_scale_loss_open(const amp_scale_loss_args *given) {
    amp_scale_loss_args a;
    amp_scaled_loss l = {0};
    if (amp_failed()) return l;
    if (amp_struct_read("scale_loss", "amp_scale_loss_args", &a, sizeof a, sizeof a.struct_size, given) != AMP_OK)
        return l;
    if (check_args(&a) != AMP_OK) return l;
    l.apex = a.optimizer->apex;
    l.optimizer = a.optimizer;
    l.more_optimizers = a.more_optimizers;
    l.scaler = (int)a.loss_id.value;
    l.delay_unscale = a.delay_unscale;
    l.delay_overflow_check = a.delay_overflow_check;
    if (l.apex->properties.enabled) return amp_scaled_loss_begin(l, a.loss, true);
    return (amp_scaled_loss){.loss = a.loss};
}
