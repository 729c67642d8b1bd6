/* Rates that fall where a metric gets no better. Rules and defaults: PyTorch's ReduceLROnPlateau. */
#include <math.h>

#include "amp/scheduler.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "train/optimizer.h"

static const char what[] = "reduce_lr_on_plateau";

struct amp_plateau {
    amp_plateau_args options;
    amp_plateau_state state;
};

/* ---- Options ---------------------------------------------------------------------------------------------------------- */
static amp_status settle_number(const char *name, amp_opt_float *o, double otherwise, double below) {
    if (o->set == 0 && o->value == 0) *o = (amp_opt_float)AMP_SET(otherwise);
    if (o->set == AMP_PRESENT && o->value >= 0 && o->value < below) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %g; expected a number of at least 0%s, marked by AMP_SET", what,
                    name, o->value, below == 1 ? " and below 1" : "");
}

static amp_status settle_count(const char *name, amp_opt_int *o, int64_t otherwise) {
    if (o->set == 0 && o->value == 0) *o = (amp_opt_int)AMP_SET(otherwise);
    if (o->set == AMP_PRESENT && o->value >= 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %lld; expected at least 0, marked by AMP_SET", what, name,
                    (long long)o->value);
}

static amp_status settle_least(const amp_plateau_args *o) {
    const int groups = amp_optimizer_group_count(o->optimizer);
    if (o->min_lr.set != AMP_PRESENT || o->min_lr.count == 1 || o->min_lr.count == groups) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'min_lr' has %d numbers; expected 1 or %d, one for each group", what,
                    o->min_lr.count, groups);
}

static amp_status settle(amp_plateau_args *o) {
    AMP_TRY(amp_struct_reserved(what, o->reserved, sizeof o->reserved));
    if (!o->optimizer) return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is NULL", what);
    AMP_TRY(settle_number("factor", &o->factor, 0.1, 1));
    AMP_TRY(settle_number("threshold", &o->threshold, 1e-4, INFINITY));
    AMP_TRY(settle_number("eps", &o->eps, 1e-8, INFINITY));
    AMP_TRY(settle_count("patience", &o->patience, 10));
    AMP_TRY(settle_count("cooldown", &o->cooldown, 0));
    return settle_least(o);
}

static amp_status fill(amp_plateau *p, const amp_plateau_args *given) {
    AMP_TRY(amp_struct_read(what, "amp_plateau_args", &p->options, sizeof p->options, sizeof p->options.struct_size,
                            given));
    AMP_TRY(settle(&p->options));
    p->state.best = p->options.maximize ? -INFINITY : INFINITY;
    return AMP_OK;
}

amp_plateau *amp_plateau_create_call(const amp_plateau_args *args) {
    if (amp_failed()) return NULL;
    amp_plateau *p = amp_alloc_zeroed(sizeof *p);
    if (!p) (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    if (p && fill(p, args) == AMP_OK) return p;
    amp_free(p);
    return NULL;
}

void amp_plateau_destroy(amp_plateau *p) {
    amp_free(p);
}

/* ---- Steps -------------------------------------------------------------------------------------------------------------- */
static bool is_better(const amp_plateau_args *o, double metric, double best) {
    const double by = o->threshold.value;
    if (o->maximize) return metric > (o->absolute ? best + by : best * (1 + by));
    return metric < (o->absolute ? best - by : best * (1 - by));
}

static double least_of(const amp_plateau_args *o, int group) {
    if (o->min_lr.set != AMP_PRESENT) return 0;
    return o->min_lr.values[o->min_lr.count == 1 ? 0 : group];
}

static amp_status reduce(const amp_plateau_args *o) {
    for (int i = 0; i < amp_optimizer_group_count(o->optimizer); i++) {
        const double before = amp_optimizer_lr(o->optimizer, i);
        const double rate = fmax(before * o->factor.value, least_of(o, i));
        if (before - rate > o->eps.value) AMP_TRY(amp_optimizer_set_lr(o->optimizer, i, rate));
    }
    return AMP_OK;
}

amp_status amp_plateau_step(amp_plateau *p, double metric) {
    AMP_TRY(amp_pending_error());
    if (!p || isnan(metric))
        return amp_fail(AMP_ERROR_INVALID, "plateau_step: %s", p ? "the metric is NaN" : "the plateau is NULL");
    AMP_TRY(settle_least(&p->options)); /* groups may have been added */
    amp_plateau_state *s = &p->state;
    const bool better = is_better(&p->options, metric, s->best);
    if (better) s->best = metric;
    s->bad_steps = better ? 0 : s->bad_steps + 1;
    if (s->cooldown_left > 0) {
        s->cooldown_left--;
        s->bad_steps = 0;
    }
    if (s->bad_steps <= p->options.patience.value) return AMP_OK;
    s->cooldown_left = p->options.cooldown.value;
    s->bad_steps = 0;
    return reduce(&p->options);
}

/* ---- State -------------------------------------------------------------------------------------------------------------- */
amp_plateau_state amp_plateau_get_state(const amp_plateau *p) {
    return p ? p->state : (amp_plateau_state){0};
}

amp_status amp_plateau_set_state(amp_plateau *p, amp_plateau_state state) {
    AMP_TRY(amp_pending_error());
    if (!p || isnan(state.best) || state.bad_steps < 0 || state.cooldown_left < 0)
        return amp_fail(AMP_ERROR_INVALID, "plateau_set_state: %s",
                        p ? "the state has a NaN or a negative number" : "the plateau is NULL");
    p->state = state;
    return AMP_OK;
}
