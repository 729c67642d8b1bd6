/* Optimizers: parameters in groups, and the one driver of all algorithms. */
#include "train/optimizer.h"

#include <math.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "core/near_name.h"
#include "core/struct_size.h"
#include "train/apex.h"

/* ---- Options ------------------------------------------------------------------------------------------------------ */
amp_status amp_option_check(const char *what, const amp_option_row *row, double value) {
    const bool is_bounded = value >= 0 && isfinite(value) && (!row->below_one || value < 1);
    if (row->is_bool ? !isnan(value) : row->any ? isfinite(value) : is_bounded) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: %s is %g; expected %s", what, row->name, value,
                    row->any         ? "a finite number"
                    : row->below_one ? "a number from 0 up to but without 1"
                                     : "a finite number of at least 0");
}

static amp_status fail_lacks(const char *what, const amp_algorithm *a, const char *option) {
    amp_near_name near = {.wanted = option};
    for (int i = 0; i < AMP_OPTIONS; i++) {
        if (amp_algorithm_has(a, (amp_option)i)) amp_near_name_offer(&near, amp_option_rows[i].name);
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: %s has no option '%.100s'%s", what, a->name, option,
                    amp_near_name_hint(near.nearest));
}

/* Whether the option is given, and what it is; *set is the mark as it stands. */
static double given_value(const amp_optimizer_args *args, const amp_option_row *row, int *set) {
    const void *field = (const char *)args + row->offset;
    if (row->is_bool) {
        const amp_opt_bool *option = field;
        *set = option->set;
        return option->value;
    }
    const amp_opt_float *option = field;
    *set = option->set;
    return option->value;
}

/* What one option asks of others. */
static amp_status check_together(const char *what, const double *options) {
    if (options[AMP_OPTION_NESTEROV] == 0 || (options[AMP_OPTION_MOMENTUM] != 0 && options[AMP_OPTION_DAMPENING] == 0))
        return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: nesterov with momentum %g and dampening %g; expected momentum above 0 and no dampening", what,
                    options[AMP_OPTION_MOMENTUM], options[AMP_OPTION_DAMPENING]);
}

static amp_status read_options(const char *what, const amp_algorithm *a, const amp_optimizer_args *args,
                               double *options) {
    for (int i = 0; i < AMP_OPTIONS; i++) {
        const amp_option_row *row = &amp_option_rows[i];
        int set = 0;
        const double value = given_value(args, row, &set);
        if (set == 0 && value == 0) continue;
        AMP_TRY(amp_struct_mark(what, row->name, set, false));
        if (!amp_algorithm_has(a, (amp_option)i)) return fail_lacks(what, a, row->name);
        AMP_TRY(amp_option_check(what, row, value));
        options[i] = value;
    }
    return check_together(what, options);
}

static amp_status find_option(const char *what, const amp_optimizer *o, const char *name, int *option) {
    for (*option = 0; name && *option < AMP_OPTIONS; ++*option) {
        if (!strcmp(amp_option_rows[*option].name, name) && amp_algorithm_has(o->algorithm, (amp_option)*option))
            return AMP_OK;
    }
    return name ? fail_lacks(what, o->algorithm, name) : amp_fail(AMP_ERROR_INVALID, "%s: the option is NULL", what);
}

static amp_status check_group(const char *what, const amp_optimizer *o, int group, int least) {
    if (!o) return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is NULL", what);
    if (group >= least && group < o->group_count) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: there is no group %d; there are %lld", what, group,
                    (long long)o->group_count);
}

double amp_optimizer_get(const amp_optimizer *o, int group, const char *name) {
    int option = 0;
    if (check_group("optimizer_get", o, group, 0) != AMP_OK) return 0;
    if (find_option("optimizer_get", o, name, &option) != AMP_OK) return 0;
    return o->groups[group].options[option];
}

amp_status amp_optimizer_set(amp_optimizer *o, int group, const char *name, double value) {
    int option = 0;
    AMP_TRY(check_group("optimizer_set", o, group, -1));
    AMP_TRY(find_option("optimizer_set", o, name, &option));
    AMP_TRY(amp_option_check("optimizer_set", &amp_option_rows[option], value));
    const int64_t begin = group < 0 ? 0 : group, end = group < 0 ? o->group_count : group + 1;
    for (int64_t i = begin; i < end; i++) {
        double options[AMP_OPTIONS];
        memcpy(options, o->groups[i].options, sizeof options);
        options[option] = value;
        AMP_TRY(check_together("optimizer_set", options));
    }
    for (int64_t i = begin; i < end; i++) o->groups[i].options[option] = value;
    return amp_pending_error();
}

double amp_optimizer_lr(const amp_optimizer *o, int group) {
    return amp_optimizer_get(o, group, "lr");
}

amp_status amp_optimizer_set_lr(amp_optimizer *o, int group, double lr) {
    return amp_optimizer_set(o, group, "lr", lr);
}

/* ---- Parameters --------------------------------------------------------------------------------------------------- */
static void trained_end(amp_trained *t) {
    amp_free(t->name);
    amp_release(t->parameter);
    amp_release(t->master);
    amp_release(t->stash);
    for (int k = 0; k < AMP_ALGORITHM_STATES; k++) amp_release(t->states[k]);
}

/* In no scope, and without a record. */
amp_status amp_trained_make_master(const char *what, amp_trained *t, amp_tensor *from) {
    amp_no_grad {
        amp_scope_here();
        amp_tensor *copy = amp_clone(amp_to(from, AMP_F32));
        if (copy) t->master = amp_keep(copy);
    }
    return t->master ? AMP_OK : amp_fail(AMP_ERROR_MEMORY, "%s: no memory for an f32 copy", what);
}

static bool is_16_bit(const amp_tensor *t) {
    return t->dtype == AMP_F16 || t->dtype == AMP_BF16;
}

static amp_status check_new(const char *what, const amp_optimizer *o, const amp_parameter *p) {
    for (int64_t i = 0; i < o->count; i++) {
        if (o->items[i].parameter == p->tensor)
            return amp_fail(AMP_ERROR_INVALID, "%s: parameter '%.200s' is in group %d already", what, p->name,
                            o->items[i].group);
        if (!strcmp(o->items[i].name, p->name))
            return amp_fail(AMP_ERROR_INVALID, "%s: there is a parameter '%.200s' in group %d already", what, p->name,
                            o->items[i].group);
    }
    return AMP_OK;
}

static amp_status add_parameter(const char *what, amp_optimizer *o, const amp_parameter *p, int group) {
    AMP_TRY(check_new(what, o, p));
    amp_trained t = {.parameter = amp_retain(p->tensor), .progress = {.mu_product = 1}, .group = group};
    t.name = amp_text_copy(p->name);
    const bool has_room = t.name && amp_make_room((void **)&o->items, o->count, &o->capacity, sizeof t);
    if (has_room && o->master_weights && is_16_bit(t.parameter)) (void)amp_trained_make_master(what, &t, t.parameter);
    if (has_room && !amp_failed()) {
        o->items[o->count++] = t;
        return AMP_OK;
    }
    trained_end(&t);
    return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
}

static amp_status add_parameters(const char *what, amp_optimizer *o, const amp_parameters *list) {
    const int64_t before = o->count;
    amp_status status = AMP_OK;
    for (int64_t i = 0; i < list->count && status == AMP_OK; i++) {
        if (!list->items[i].is_buffer) status = add_parameter(what, o, &list->items[i], (int)o->group_count);
    }
    if (status == AMP_OK) return AMP_OK;
    while (o->count > before) trained_end(&o->items[--o->count]);
    return status;
}

static amp_status add_group(const char *what, amp_optimizer *o, const amp_optimizer_args *args, const double *options) {
    AMP_TRY(amp_parameters_check_trained(what, args->parameters));
    if (!amp_make_room((void **)&o->groups, o->group_count, &o->group_capacity, sizeof *o->groups))
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    AMP_TRY(add_parameters(what, o, args->parameters));
    memcpy(o->groups[o->group_count++].options, options, sizeof o->groups->options);
    return AMP_OK;
}

static amp_status read_args(const char *what, amp_optimizer_args *args, const amp_optimizer_args *given) {
    AMP_TRY(amp_struct_read(what, "amp_optimizer_args", args, sizeof *args, sizeof args->struct_size, given));
    return amp_struct_reserved(what, args->reserved, sizeof args->reserved);
}

static amp_status fill(amp_optimizer *o, const amp_optimizer_args *given) {
    amp_optimizer_args args;
    AMP_TRY(read_args("optimizer_create", &args, given));
    memcpy(o->defaults, o->algorithm->defaults, sizeof o->defaults);
    AMP_TRY(read_options("optimizer_create", o->algorithm, &args, o->defaults));
    o->master_weights = args.master_weights;
    return add_group("optimizer_create", o, &args, o->defaults);
}

amp_optimizer *amp_optimizer_create(amp_optimizer_kind kind, const amp_optimizer_args *given) {
    const amp_algorithm *algorithm = amp_failed() ? NULL : amp_algorithm_of(kind);
    if (!algorithm) return NULL;
    amp_optimizer *o = amp_alloc_zeroed(sizeof *o);
    if (!o) {
        (void)amp_fail(AMP_ERROR_MEMORY, "optimizer_create: no memory");
        return NULL;
    }
    o->algorithm = algorithm;
    if (fill(o, given) == AMP_OK) return o;
    amp_optimizer_destroy(o);
    return NULL;
}

void amp_optimizer_destroy(amp_optimizer *o) {
    if (!o) return;
    if (o->apex) amp_apex_forget(o->apex, o);
    if (o->sharing.context) o->sharing.end(o->sharing.context);
    for (int64_t i = 0; i < o->count; i++) trained_end(&o->items[i]);
    amp_free(o->items);
    amp_free(o->groups);
    amp_free(o);
}

amp_status amp_optimizer_add_group_call(amp_optimizer *o, const amp_optimizer_args *given) {
    static const char what[] = "optimizer_add_group";
    amp_optimizer_args args;
    double options[AMP_OPTIONS];
    AMP_TRY(amp_pending_error());
    if (!o) return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is NULL", what);
    if (o->sharing.context)
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: the optimizer is sharded; its groups come before amp_data_parallel_shard", what);
    AMP_TRY(read_args(what, &args, given));
    if (args.master_weights)
        return amp_fail(AMP_ERROR_INVALID, "%s: master_weights is the whole optimizer's, not a group's", what);
    memcpy(options, o->defaults, sizeof options);
    AMP_TRY(read_options(what, o->algorithm, &args, options));
    return add_group(what, o, &args, options);
}

int amp_optimizer_group_count(const amp_optimizer *o) {
    return o ? (int)o->group_count : 0;
}

int64_t amp_optimizer_parameter_count(const amp_optimizer *o) {
    return o ? o->count : 0;
}

static const amp_trained *item_at(const amp_optimizer *o, int64_t index) {
    return o && index >= 0 && index < o->count ? &o->items[index] : NULL;
}

amp_tensor *amp_optimizer_parameter(const amp_optimizer *o, int64_t index) {
    const amp_trained *t = item_at(o, index);
    return t ? t->parameter : NULL;
}

const char *amp_optimizer_parameter_name(const amp_optimizer *o, int64_t index) {
    const amp_trained *t = item_at(o, index);
    return t ? t->name : NULL;
}

amp_tensor *amp_optimizer_master(const amp_optimizer *o, int64_t index) {
    const amp_trained *t = item_at(o, index);
    return t ? amp_trained_master(t) : NULL;
}

/* ---- A step --------------------------------------------------------------------------------------------------------- */
bool amp_state_is_used(const amp_state_row *row, const double *options) {
    return row->name && (row->only_if == AMP_STATE_ALWAYS || options[row->only_if] != 0);
}

amp_status amp_trained_make_state(const amp_optimizer *o, amp_trained *t, int which) {
    if (t->states[which]) return AMP_OK;
    const double *options = o->groups[t->group].options;
    const double begin = o->algorithm->states[which].begins_other ? options[AMP_OPTION_INITIAL_ACCUMULATOR_VALUE] : 0;
    amp_tensor *made = amp_full_like(amp_trained_master(t), amp_float(begin));
    if (!made) return amp_pending_error();
    t->states[which] = amp_keep(made);
    return AMP_OK;
}

static amp_status check_live(const char *what, const amp_optimizer *o) {
    if (!o) return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is NULL", what);
    for (int64_t i = 0; i < o->count; i++) {
        if (!amp_tensor_is_live(o->items[i].parameter))
            return amp_fail(AMP_ERROR_INVALID, "%s: parameter '%.200s' was released", what, o->items[i].name);
    }
    return AMP_OK;
}

amp_status amp_masters_refresh(amp_optimizer *o) {
    if (!o->masters_are_new) return AMP_OK;
    amp_no_grad_here();
    amp_scope_here();
    for (int64_t i = 0; i < o->count; i++) {
        const amp_trained *t = &o->items[i];
        if (t->master && !amp_copy_(t->master, t->parameter)) return amp_pending_error();
    }
    return AMP_OK;
}

/* Under apex a master's gradient is unscaled, its parameter's is not. */
amp_tensor *amp_trained_gradient(const amp_optimizer *o, const amp_trained *t) {
    return amp_tensor_grad(o->apex && t->master ? t->master : t->parameter);
}

static void drop_master_gradients(const amp_optimizer *o) {
    for (int64_t i = 0; o->apex && i < o->count; i++) {
        if (o->items[i].master) (void)amp_tensor_zero_grad(o->items[i].master);
    }
}

/* Gradients of half parameters go on to their masters at the end of a scaled loss. */
static amp_status check_masters(const amp_optimizer *o) {
    const amp_trained *left = NULL;
    for (int64_t i = 0; o->apex && i < o->count; i++) {
        const amp_trained *t = &o->items[i];
        if (t->master && amp_tensor_grad(t->master)) return AMP_OK;
        if (!left && t->master && amp_tensor_grad(t->parameter)) left = t;
    }
    if (!left) return AMP_OK;
    return amp_fail(
        AMP_ERROR_INVALID,
        "optimizer_step: the gradient of '%.200s' has not reached its f32 master; the backward belongs into "
        "amp_scale_loss(…) { }, without delay_unscale before a step",
        left->name);
}

static amp_status check_step(const amp_optimizer *o) {
    AMP_TRY(amp_pending_error());
    return check_live("optimizer_step", o);
}

static amp_status step(amp_optimizer *o) {
    const bool skips = o->skips_next;
    o->skips_next = false;
    if (!skips) AMP_TRY(check_masters(o));
    const amp_status status = skips ? AMP_OK : amp_optimizer_update_all(o);
    drop_master_gradients(o);
    return status;
}

amp_status amp_optimizer_tell(amp_optimizer *o, amp_status status) {
    return o->sharing.context ? o->sharing.before_step(o->sharing.context, status) : status;
}

amp_status amp_optimizer_step(amp_optimizer *o) {
    const amp_status before = check_step(o);
    if (!o) return before;
    AMP_TRY(amp_optimizer_tell(o, before));
    const amp_status status = step(o);
    return o->sharing.context ? o->sharing.after_step(o->sharing.context, status) : status;
}

amp_status amp_optimizer_zero_grad(amp_optimizer *o) {
    const amp_status status = check_live("optimizer_zero_grad", o);
    if (status != AMP_OK) return status;
    for (int64_t i = 0; i < o->count; i++) {
        (void)amp_tensor_zero_grad(o->items[i].parameter);
        amp_release(o->items[i].stash);
        o->items[i].stash = NULL;
    }
    o->holds_scaled = false;
    drop_master_gradients(o);
    return amp_pending_error();
}
