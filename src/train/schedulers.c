/* Learning rates as functions of the step and of the rate at the beginning. Formulas: PyTorch's documentation, in
 * closed form. */
#include <math.h>
#include <stddef.h>

#include "core/memory.h"
#include "core/struct_size.h"
#include "train/optimizer.h"
#include "train/scheduler.h"

/* ---- Formulas ----------------------------------------------------------------------------------------------------- */
typedef double formula(const amp_scheduler_args *o, double initial, int64_t step);

static double of_steps(const amp_scheduler_args *o, double initial, int64_t step) {
    const int64_t passed = step / o->step_size.value;
    return initial * pow(o->gamma.value, (double)passed);
}

static double of_milestones(const amp_scheduler_args *o, double initial, int64_t step) {
    int passed = 0;
    for (int i = 0; i < o->milestones.count; i++) passed += step >= o->milestones.values[i];
    return initial * pow(o->gamma.value, passed);
}

static double constant(const amp_scheduler_args *o, double initial, int64_t step) {
    return step < o->total_iters.value ? initial * o->factor.value : initial;
}

static double linear(const amp_scheduler_args *o, double initial, int64_t step) {
    const double part = step < o->total_iters.value ? (double)step / (double)o->total_iters.value : 1;
    return initial * (o->start_factor.value + (o->end_factor.value - o->start_factor.value) * part);
}

static double exponential(const amp_scheduler_args *o, double initial, int64_t step) {
    return initial * pow(o->gamma.value, (double)step);
}

static double polynomial(const amp_scheduler_args *o, double initial, int64_t step) {
    const double part = step < o->total_iters.value ? (double)step / (double)o->total_iters.value : 1;
    return initial * pow(1 - part, o->power.value);
}

/* From one to the other, as half a wave. */
static double cosine_between(double from, double to, double part) {
    return to + (from - to) * (1 + cos(M_PI * part)) / 2;
}

static double cosine(const amp_scheduler_args *o, double initial, int64_t step) {
    return cosine_between(initial, o->eta_min.value, (double)step / (double)o->t_max.value);
}

static double restarts(const amp_scheduler_args *o, double initial, int64_t step) {
    int64_t length = o->t_0.value;
    while (step >= length && o->t_mult.value > 1) {
        step -= length;
        if (__builtin_mul_overflow(length, o->t_mult.value, &length)) length = INT64_MAX;
    }
    return cosine_between(initial, o->eta_min.value, (double)(step % length) / (double)length);
}

static double between(const amp_scheduler_args *o, double from, double to, double part) {
    return o->linear_anneal.value ? from + (to - from) * part : cosine_between(from, to, part);
}

/* How much of a phase has passed; one of no length is over. */
static double passed(double at, double begin, double end) {
    return end > begin ? (at - begin) / (end - begin) : 1;
}

/* Smith and Topin, "Super-convergence" (2018): up, down, and with three phases to the last from the first. */
static double one_cycle(const amp_scheduler_args *o, double initial, int64_t step) {
    const double most = o->max_lr.value, first = most / o->div_factor.value, last = first / o->final_div_factor.value;
    const double up = o->pct_start.value * (double)o->total_steps.value - 1, end = (double)(o->total_steps.value - 1);
    const double down = o->three_phase.value ? 2 * o->pct_start.value * (double)o->total_steps.value - 2 : end;
    const double at = (double)step;
    (void)initial;
    if (at <= up) return between(o, first, most, passed(at, 0, up));
    if (at <= down) return between(o, most, o->three_phase.value ? first : last, passed(at, up, down));
    return between(o, first, last, passed(at, down, end));
}

static double lambda(const amp_scheduler_args *o, double initial, int64_t step) {
    return initial * o->function(o->context, step);
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */
/* A number of amp_scheduler_args, its default, and whether it must be given. */
typedef struct field {
    const char *name;
    size_t offset;
    bool is_whole;
    double value;
} field;
#define NUMBER(of, default)                                                                                            \
    { #of, offsetof(amp_scheduler_args, of), false, default }
#define WHOLE(of, default)                                                                                             \
    { #of, offsetof(amp_scheduler_args, of), true, default }
#define GIVEN NAN

typedef struct row {
    const char *name;
    formula *rate;
    field fields[7];
} row;

static const row rows[] = {
    [AMP_STEP_LR] = {"step_lr", of_steps, {WHOLE(step_size, GIVEN), NUMBER(gamma, 0.1)}},
    [AMP_MULTI_STEP_LR] = {"multi_step_lr", of_milestones, {NUMBER(gamma, 0.1)}},
    [AMP_CONSTANT_LR] = {"constant_lr", constant, {NUMBER(factor, 1.0 / 3), WHOLE(total_iters, 5)}},
    [AMP_LINEAR_LR] = {"linear_lr",
                       linear,
                       {NUMBER(start_factor, 1.0 / 3), NUMBER(end_factor, 1), WHOLE(total_iters, 5)}},
    [AMP_EXPONENTIAL_LR] = {"exponential_lr", exponential, {NUMBER(gamma, GIVEN)}},
    [AMP_POLYNOMIAL_LR] = {"polynomial_lr", polynomial, {NUMBER(power, 1), WHOLE(total_iters, 5)}},
    [AMP_COSINE_ANNEALING_LR] = {"cosine_annealing_lr", cosine, {NUMBER(eta_min, 0), WHOLE(t_max, GIVEN)}},
    [AMP_COSINE_ANNEALING_WARM_RESTARTS] = {"cosine_annealing_warm_restarts",
                                            restarts,
                                            {NUMBER(eta_min, 0), WHOLE(t_0, GIVEN), WHOLE(t_mult, 1)}},
    [AMP_ONE_CYCLE_LR] = {"one_cycle_lr",
                          one_cycle,
                          {NUMBER(max_lr, GIVEN), WHOLE(total_steps, GIVEN), NUMBER(pct_start, 0.3),
                           NUMBER(div_factor, 25), NUMBER(final_div_factor, 1e4)}},
    [AMP_LAMBDA_LR] = {"lambda_lr", lambda, {{0}}},
};

/* ---- Options ---------------------------------------------------------------------------------------------------------- */
static amp_status fail_value(const row *r, const field *f, double value) {
    if (isnan(value)) return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is not given, or NaN", r->name, f->name);
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %g; expected %s", r->name, f->name, value,
                    f->is_whole ? "at least 1" : "a finite number of at least 0, marked by AMP_SET");
}

static amp_status settle_number(const row *r, const field *f, amp_opt_float *o) {
    if (o->set == 0 && o->value == 0) *o = (amp_opt_float)AMP_SET(f->value);
    return o->set == AMP_PRESENT && o->value >= 0 && isfinite(o->value) ? AMP_OK : fail_value(r, f, o->value);
}

static amp_status settle_whole(const row *r, const field *f, amp_opt_int *o) {
    if (o->set == 0 && o->value == 0 && isnan(f->value)) return fail_value(r, f, f->value);
    if (o->set == 0 && o->value == 0) *o = (amp_opt_int)AMP_SET((int64_t)f->value);
    return o->set == AMP_PRESENT && o->value >= 1 ? AMP_OK : fail_value(r, f, (double)o->value);
}

static amp_status settle(const row *r, amp_scheduler_args *o) {
    for (const field *f = r->fields; f->name; f++) {
        void *at = (char *)o + f->offset;
        AMP_TRY(f->is_whole ? settle_whole(r, f, at) : settle_number(r, f, at));
    }
    if (r->rate == of_milestones && o->milestones.set != AMP_PRESENT)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'milestones' is not given", r->name);
    if (r->rate == one_cycle && o->pct_start.value > 1)
        return amp_fail(AMP_ERROR_INVALID, "%s: 'pct_start' is %g; expected a part, from 0 to 1", r->name,
                        o->pct_start.value);
    if (r->rate == lambda && !o->function) return amp_fail(AMP_ERROR_INVALID, "%s: 'function' is NULL", r->name);
    return o->optimizer ? AMP_OK : amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is NULL", r->name);
}

/* ---- Schedulers ------------------------------------------------------------------------------------------------------- */
/* Room for the rates of all groups; one that was added since the last step begins with the rate that it has. */
static amp_status take_groups(amp_scheduler *s) {
    const int64_t count = amp_optimizer_group_count(s->options.optimizer);
    if (count <= s->groups) return AMP_OK;
    double *rates = amp_alloc(2 * (size_t)count * sizeof *rates);
    if (!rates) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", rows[s->kind].name);
    for (int64_t i = 0; i < count; i++)
        rates[i] = i < s->groups ? s->initial[i] : amp_optimizer_lr(s->options.optimizer, (int)i);
    amp_free(s->initial);
    s->initial = rates;
    s->groups = count;
    return AMP_OK;
}

/* All rates, or none. */
static amp_status apply(amp_scheduler *s) {
    AMP_TRY(take_groups(s));
    const row *r = &rows[s->kind];
    if (r->rate == one_cycle && s->step >= s->options.total_steps.value)
        return amp_fail(AMP_ERROR_INVALID, "%s: step %lld is beyond the %lld of the cycle", r->name, (long long)s->step,
                        (long long)s->options.total_steps.value);
    double *rates = s->initial + s->groups;
    for (int64_t i = 0; i < s->groups; i++) {
        rates[i] = r->rate(&s->options, s->initial[i], s->step);
        if (!(rates[i] >= 0 && isfinite(rates[i])))
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: at step %lld the rate of group %lld is %g; expected a finite number of at least 0",
                            r->name, (long long)s->step, (long long)i, rates[i]);
    }
    for (int64_t i = 0; i < s->groups; i++) AMP_TRY(amp_optimizer_set_lr(s->options.optimizer, (int)i, rates[i]));
    return AMP_OK;
}

static amp_status fill(amp_scheduler *s, const amp_scheduler_args *given) {
    const row *r = &rows[s->kind];
    AMP_TRY(amp_struct_read(r->name, "amp_scheduler_args", &s->options, sizeof s->options,
                            sizeof s->options.struct_size, given));
    AMP_TRY(settle(r, &s->options));
    return apply(s);
}

amp_scheduler *amp_scheduler_create(amp_scheduler_kind kind, const amp_scheduler_args *args) {
    if (amp_failed()) return NULL;
    if ((size_t)kind >= sizeof rows / sizeof *rows) {
        (void)amp_fail(AMP_ERROR_INVALID, "scheduler_create: there is no scheduler of kind %d", (int)kind);
        return NULL;
    }
    amp_scheduler *s = amp_alloc_zeroed(sizeof *s);
    if (!s) {
        (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", rows[kind].name);
        return NULL;
    }
    s->kind = kind;
    if (fill(s, args) == AMP_OK) return s;
    amp_scheduler_destroy(s);
    return NULL;
}

void amp_scheduler_destroy(amp_scheduler *s) {
    if (!s) return;
    amp_free(s->initial);
    amp_free(s);
}

const char *amp_scheduler_name(const amp_scheduler *s) {
    return rows[s->kind].name;
}

int64_t amp_scheduler_get_step(const amp_scheduler *s) {
    return s ? s->step : 0;
}

amp_status amp_scheduler_check_step(const char *what, int64_t step) {
    if (step >= 0 && step < INT64_MAX) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the step is %lld; expected one of at least 0 that has a next", what,
                    (long long)step);
}

amp_status amp_scheduler_set_step(amp_scheduler *s, int64_t step) {
    AMP_TRY(amp_pending_error());
    if (!s) return amp_fail(AMP_ERROR_INVALID, "scheduler_set_step: the scheduler is NULL");
    AMP_TRY(amp_scheduler_check_step("scheduler_set_step", step));
    const int64_t before = s->step;
    s->step = step;
    const amp_status status = apply(s);
    if (status != AMP_OK) s->step = before;
    return status;
}

amp_status amp_scheduler_step(amp_scheduler *s) {
    if (!s) return amp_fail(AMP_ERROR_INVALID, "scheduler_step: the scheduler is NULL");
    return amp_scheduler_set_step(s, s->step + 1);
}
