/* An optimizer's state as named tensors: one walk over all there is, for saving and for loading. */
#include <stdio.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "train/optimizer.h"

/* One thing that the walk comes by: a number, or a tensor that may not be there yet. */
typedef struct item {
    const char *first, *second; /* "first.second" is its name */
    double *number;
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
        AMP_TRY(v->visit(v, o, &(item){name, amp_option_rows[k].name, .number = &o->groups[group].options[k]}));
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
    char **names;
    amp_tensor **tensors;
    int64_t count, name_room, tensor_room;
} saver;

static amp_status no_memory(void) {
    return amp_fail(AMP_ERROR_MEMORY, "optimizer_state: no memory");
}

static amp_status save_item(visitor *v, const amp_optimizer *o, const item *it) {
    saver *s = (saver *)v;
    (void)o;
    if (!it->number && !tensor_of(it)) return AMP_OK;
    if (!amp_make_room((void **)&s->names, s->count, &s->name_room, sizeof *s->names) ||
        !amp_make_room((void **)&s->tensors, s->count, &s->tensor_room, sizeof *s->tensors))
        return no_memory();
    const size_t bytes = strlen(it->first) + strlen(it->second) + 2;
    char *name = amp_alloc(bytes);
    if (!name) return no_memory();
    snprintf(name, bytes, "%s.%s", it->first, it->second);
    amp_tensor *t = it->number ? amp_keep(amp_from_data(it->number, AMP_F64, 0, NULL)) : amp_retain(tensor_of(it));
    s->names[s->count] = name;
    s->tensors[s->count++] = t;
    return t ? AMP_OK : amp_pending_error();
}

amp_state amp_optimizer_state(const amp_optimizer *o) {
    const amp_state none = {NULL, NULL, 0};
    if (!o) {
        (void)amp_fail(AMP_ERROR_INVALID, "optimizer_state: the optimizer is NULL");
        return none;
    }
    if (amp_failed()) return none;
    saver s = {.base = {save_item}};
    const amp_status status = walk(&s.base, o);
    const amp_state made = {(const char *const *)s.names, s.tensors, s.count};
    if (status == AMP_OK) return made;
    amp_state_free(made);
    return none;
}

void amp_state_free(amp_state state) {
    for (int64_t i = 0; i < state.count; i++) {
        amp_free((void *)state.names[i]);
        amp_release(state.tensors[i]);
    }
    amp_free((void *)state.names);
    amp_free((void *)state.tensors);
}

/* ---- Loading -------------------------------------------------------------------------------------------------------- */
typedef struct loader {
    visitor base;
    const char *const *names;
    amp_tensor *const *tensors;
    int64_t count, used;
    bool writes; /* the second walk, when all fits */
} loader;

static bool is_called(const char *name, const item *it) {
    const size_t length = strlen(it->first);
    return !strncmp(name, it->first, length) && name[length] == '.' && !strcmp(name + length + 1, it->second);
}

static amp_tensor *find_item(const loader *l, const item *it) {
    for (int64_t i = 0; i < l->count; i++) {
        if (is_called(l->names[i], it)) return l->tensors[i];
    }
    return NULL;
}

static amp_status check_item(const amp_optimizer *o, const item *it, const amp_tensor *t) {
    const amp_tensor *like = it->number ? NULL : it->trained->master ? it->trained->master : it->trained->parameter;
    if (like ? amp_same_shape(t, like) && amp_dtype_is_floating(t->dtype) : amp_tensor_elements(t) == 1) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "optimizer_load_state: '%.200s.%s' is %s; expected %s of %s", it->first,
                    it->second, amp_describe(t), like ? amp_describe(like) : "one number", o->algorithm->name);
}

static amp_status write_item(const amp_optimizer *o, const item *it, amp_tensor *t) {
    if (it->number) {
        *it->number = amp_item(t);
        return amp_pending_error();
    }
    if (it->state >= 0) AMP_TRY(amp_trained_make_state(o, it->trained, it->state));
    return amp_copy_(tensor_of(it), t) ? AMP_OK : amp_pending_error();
}

static amp_status load_item(visitor *v, const amp_optimizer *o, const item *it) {
    loader *l = (loader *)v;
    amp_tensor *t = find_item(l, it);
    if (t) {
        l->used++;
        return l->writes ? write_item(o, it, t) : check_item(o, it, t);
    }
    if (!it->number && !tensor_of(it)) return AMP_OK; /* of a parameter that had no gradient yet */
    return amp_fail(AMP_ERROR_INVALID, "optimizer_load_state: there is no '%.200s.%s'", it->first, it->second);
}

static amp_status check_lists(const char *const *names, amp_tensor *const *tensors, int64_t count) {
    if (count > 0 && (!names || !tensors))
        return amp_fail(AMP_ERROR_INVALID, "optimizer_load_state: %s is NULL", names ? "tensors" : "names");
    for (int64_t i = 0; i < count; i++) {
        if (!names[i] || !tensors[i] || !amp_tensor_is_live(tensors[i]))
            return amp_fail(AMP_ERROR_INVALID, "optimizer_load_state: number %lld has no %s", (long long)i,
                            names[i] ? "tensor" : "name");
    }
    return AMP_OK;
}

static const char *unknown_name(const loader *l, const amp_optimizer *o);

amp_status amp_optimizer_load_state(amp_optimizer *o, const char *const *names, amp_tensor *const *tensors,
                                    int64_t count) {
    AMP_TRY(amp_pending_error());
    if (!o) return amp_fail(AMP_ERROR_INVALID, "optimizer_load_state: the optimizer is NULL");
    AMP_TRY(check_lists(names, tensors, count));
    loader l = {.base = {load_item}, .names = names, .tensors = tensors, .count = count};
    AMP_TRY(walk(&l.base, o));
    if (l.used != count)
        return amp_fail(AMP_ERROR_INVALID, "optimizer_load_state: this %s has no '%.200s'", o->algorithm->name,
                        unknown_name(&l, o));
    l.writes = true;
    amp_no_grad_here();
    amp_scope_here();
    return walk(&l.base, o);
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
    s->found |= is_called(s->name, it);
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
