/* An optimizer's state as named tensors: one walk over all there is, for saving and for loading. */
#include "amp/scope.h"
#include "train/optimizer.h"

/* One thing that the walk comes by: a number, or a tensor that may not be there yet. */
typedef struct item {
    const char *first, *second; /* "first.second" is its name */
    double *number;
    const amp_option_row *option; /* the number is */
    amp_trained *trained;
    int state; /* of the algorithm; −1: the f32 copy */
} item;

typedef struct visitor {
    amp_status (*visit)(struct visitor *v, const amp_optimizer *o, const item *it);
} visitor;

static amp_status walk_parameter(visitor *v, const amp_optimizer *o, amp_trained *t) {
    AMP_TRY(v->visit(v, o, &(item){t->name, "step", .number = &t->progress.step}));
    AMP_TRY(v->visit(v, o, &(item){t->name, "mu_product", .number = &t->progress.mu_product}));
    if (t->master) AMP_TRY(v->visit(v, o, &(item){t->name, "master", .trained = t, .state = -1}));
    for (int k = 0; o->algorithm->states[k].name; k++)
        AMP_TRY(v->visit(v, o, &(item){t->name, o->algorithm->states[k].name, .trained = t, .state = k}));
    return AMP_OK;
}

static amp_status walk_group(visitor *v, const amp_optimizer *o, int group) {
    char name[32];
    snprintf(name, sizeof name, "group%d", group);
    for (int k = 0; k < AMP_OPTIONS; k++) {
        if (!amp_algorithm_has(o->algorithm, (amp_option)k)) continue;
        AMP_TRY(v->visit(v, o,
                         &(item){name, amp_option_rows[k].name, .number = &o->groups[group].options[k],
                                 .option = &amp_option_rows[k]}));
    }
    return AMP_OK;
}

static amp_status walk(visitor *v, const amp_optimizer *o) {
    for (int i = 0; i < o->group_count; i++) AMP_TRY(walk_group(v, o, i));
    for (int64_t i = 0; i < o->count; i++) AMP_TRY(walk_parameter(v, o, &o->items[i]));
    return AMP_OK;
}

static amp_tensor *tensor_of(const item *it) {
    return it->state < 0 ? it->trained->master : it->trained->states[it->state];
}

/* ---- Saving --------------------------------------------------------------------------------------------------------- */
typedef struct saver {
    visitor base;
    amp_named list;
} saver;

static amp_status save_item(visitor *v, const amp_optimizer *o, const item *it) {
    saver *s = (saver *)v;
    (void)o;
    if (it->number) return amp_named_add_numbers(&s->list, it->first, it->second, it->number, 0);
    return tensor_of(it) ? amp_named_add(&s->list, it->first, it->second, tensor_of(it)) : AMP_OK;
}

amp_state amp_optimizer_state(const amp_optimizer *o) {
    const amp_state none = {NULL, NULL, 0};
    if (!o) {
        (void)amp_fail(AMP_ERROR_INVALID, "optimizer_state: the optimizer is NULL");
        return none;
    }
    if (amp_failed()) return none;
    saver s = {.base = {save_item}};
    if (walk(&s.base, o) == AMP_OK) return (amp_state){(const char *const *)s.list.names, s.list.tensors, s.list.count};
    amp_fail_within("optimizer_state");
    amp_named_free(&s.list);
    return none;
}

void amp_state_free(amp_state state) {
    amp_named list = {.names = (char **)state.names, .tensors = (amp_tensor **)state.tensors, .count = state.count};
    amp_named_free(&list);
}

/* ---- Loading -------------------------------------------------------------------------------------------------------- */
typedef struct loader {
    visitor base;
    const char *const *names;
    amp_tensor *const *tensors;
    int64_t count, used;
    amp_loading *loading;
} loader;

static bool is_called(const char *name, const char *first, const char *second) {
    const size_t length = strlen(first);
    return !strncmp(name, first, length) && name[length] == '.' && !strcmp(name + length + 1, second);
}

static amp_tensor *find(const loader *l, const char *first, const char *second) {
    for (int64_t i = 0; i < l->count; i++) {
        if (is_called(l->names[i], first, second)) return l->tensors[i];
    }
    return NULL;
}

static amp_status check_item(const loader *l, const amp_optimizer *o, const item *it, const amp_tensor *t) {
    const amp_tensor *like = it->number ? NULL : amp_trained_master(it->trained);
    if (like ? amp_same_shape(t, like) && amp_dtype_is_floating(t->dtype) : amp_tensor_elements(t) == 1) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%.200s.%s' is %s; expected %s of %s", l->loading->what, it->first,
                    it->second, amp_describe(t), like ? amp_describe(like) : "one number", o->algorithm->name);
}

static amp_status note_item(const loader *l, const item *it, amp_tensor *t) {
    if (!it->number) {
        amp_tensor **place = it->state < 0 ? &it->trained->master : &it->trained->states[it->state];
        return amp_loading_tensor(l->loading, place, amp_trained_master(it->trained), t);
    }
    const double value = amp_item(t);
    AMP_TRY(amp_pending_error());
    if (it->option) AMP_TRY(amp_option_check(l->loading->what, it->option, value));
    return amp_loading_bytes(l->loading, it->number, &value, sizeof value);
}

/* A parameter has no states before it has stepped, and those that an option asks for may come later. */
static bool may_be_absent(const loader *l, const amp_optimizer *o, const item *it) {
    if (it->number || it->state < 0) return false;
    const amp_tensor *step = find(l, it->first, "step");
    return o->algorithm->states[it->state].only_if != AMP_STATE_ALWAYS || (step && amp_item(step) == 0);
}

static amp_status load_item(visitor *v, const amp_optimizer *o, const item *it) {
    loader *l = (loader *)v;
    amp_tensor *t = find(l, it->first, it->second);
    if (t) {
        l->used++;
        AMP_TRY(check_item(l, o, it, t));
        return note_item(l, it, t);
    }
    if (may_be_absent(l, o, it)) return amp_loading_nothing(l->loading, &it->trained->states[it->state]);
    AMP_TRY(amp_pending_error());
    return amp_fail(AMP_ERROR_INVALID, "%s: there is no '%.200s.%s'", l->loading->what, it->first, it->second);
}

static const char *unknown_name(const loader *l, const amp_optimizer *o);

amp_status amp_optimizer_note_state(amp_loading *loading, amp_optimizer *o, const char *const *names,
                                    amp_tensor *const *tensors, int64_t count) {
    amp_scope_here();
    loader l = {.base = {load_item}, .names = names, .tensors = tensors, .count = count, .loading = loading};
    AMP_TRY(walk(&l.base, o));
    static const bool loaded = false;
    if (l.used == count) return amp_loading_bytes(loading, &o->masters_are_new, &loaded, sizeof loaded);
    return amp_fail(AMP_ERROR_INVALID, "%s: this %s has no '%.200s'", loading->what, o->algorithm->name,
                    unknown_name(&l, o));
}

amp_status amp_optimizer_load_state(amp_optimizer *o, const char *const *names, amp_tensor *const *tensors,
                                    int64_t count) {
    amp_loading loading = {.what = "optimizer_load_state"};
    AMP_TRY(amp_pending_error());
    if (!o) return amp_fail(AMP_ERROR_INVALID, "optimizer_load_state: the optimizer is NULL");
    const amp_named from = {(char **)(uintptr_t)names, (amp_tensor **)(uintptr_t)tensors, .count = count};
    AMP_TRY(amp_named_check(&from, loading.what));
    amp_status status = amp_optimizer_note_state(&loading, o, names, tensors, count);
    if (status == AMP_OK) status = amp_loading_write(&loading);
    amp_loading_free(&loading);
    return status;
}

/* ---- Which name is nobody's ------------------------------------------------------------------------------------------ */
typedef struct seeker {
    visitor base;
    const char *name;
    bool found;
} seeker;

static amp_status seek_item(visitor *v, const amp_optimizer *o, const item *it) {
    seeker *s = (seeker *)v;
    (void)o;
    s->found |= is_called(s->name, it->first, it->second);
    return AMP_OK;
}

static const char *unknown_name(const loader *l, const amp_optimizer *o) {
    for (int64_t i = 0; i < l->count; i++) {
        seeker s = {.base = {seek_item}, .name = l->names[i]};
        (void)walk(&s.base, o);
        if (!s.found) return l->names[i];
    }
    return "a name twice";
}
