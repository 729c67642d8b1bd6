/* What L-BFGS knows, under PyTorch's names. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "train/lbfgs.h"

/* ---- What there is --------------------------------------------------------------------------------------------------- */
typedef struct number {
    const char *name;
    size_t offset; /* in amp_curvature */
    bool is_whole; /* an int64_t, else a double; in the file both are f64 */
} number;
#define NUMBER(name, field, is_whole)                                                                                  \
    { name, offsetof(amp_curvature, field), is_whole }
static const number numbers[] = {NUMBER("t", t, false), NUMBER("H_diag", scale, false),
                                 NUMBER("prev_loss", loss, false), NUMBER("n_iter", iterations, true),
                                 NUMBER("func_evals", evaluations, true)};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static const char *const vectors[2] = {"d", "prev_flat_grad"};
static const char *const lists[2] = {"old_dirs", "old_stps"};

static void name_of(const char *list, int64_t i, char name[48]) {
    snprintf(name, 48, "%s.%lld", list, (long long)i);
}

/* ---- Saving ---------------------------------------------------------------------------------------------------------- */
static amp_status gather_pair(const amp_curvature *k, int64_t i, amp_named *list) {
    char name[48];
    name_of(lists[0], i, name);
    AMP_TRY(amp_named_add(list, NULL, name, k->pairs[i].change));
    name_of(lists[1], i, name);
    AMP_TRY(amp_named_add(list, NULL, name, k->pairs[i].step));
    name_of("ro", i, name);
    return amp_named_add_numbers(list, NULL, name, &k->pairs[i].inverse, 0);
}

static amp_status gather(const amp_curvature *k, amp_named *list) {
    for (int i = 0; i < NUMBERS; i++) {
        const void *field = (const char *)k + numbers[i].offset;
        const double value = numbers[i].is_whole ? (double)*(const int64_t *)field : *(const double *)field;
        AMP_TRY(amp_named_add_numbers(list, NULL, numbers[i].name, &value, 0));
    }
    if (k->direction) AMP_TRY(amp_named_add(list, NULL, vectors[0], k->direction));
    if (k->gradient) AMP_TRY(amp_named_add(list, NULL, vectors[1], k->gradient));
    for (int64_t i = 0; i < k->count; i++) AMP_TRY(gather_pair(k, i, list));
    return AMP_OK;
}

amp_state amp_lbfgs_state(const amp_lbfgs *l) {
    const amp_state none = {NULL, NULL, 0};
    amp_named list = {0};
    if (!l) {
        (void)amp_fail(AMP_ERROR_INVALID, "lbfgs_state: the optimizer is NULL");
        return none;
    }
    if (amp_failed()) return none;
    if (gather(&l->known, &list) == AMP_OK)
        return (amp_state){(const char *const *)list.names, list.tensors, list.count};
    amp_fail_within("lbfgs_state");
    amp_named_free(&list);
    return none;
}

/* ---- Loading --------------------------------------------------------------------------------------------------------- */
typedef struct loader {
    amp_loading *loading;
    amp_lbfgs *lbfgs;
    const amp_named *from;
    int64_t used;
} loader;

static amp_tensor *take(loader *l, const char *name) {
    amp_tensor *t = amp_named_find(l->from, name);
    if (t) l->used++;
    return t;
}

static amp_status read_number(loader *l, const char *name, double *value) {
    amp_tensor *t = take(l, name);
    if (!t) return amp_fail(AMP_ERROR_INVALID, "%s: there is no '%s'", l->loading->what, name);
    if (amp_tensor_elements(t) != 1)
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected one number", l->loading->what, name,
                        amp_describe(t));
    *value = amp_item(t);
    AMP_TRY(amp_pending_error());
    return AMP_OK; /* after a loss of NaN that is what there is */
}

/* A vector, or nothing where there is none. */
static amp_status note_vector(loader *l, const char *name, amp_tensor **place, bool *is_there) {
    const amp_lbfgs *of = l->lbfgs;
    amp_tensor *t = take(l, name);
    *is_there = t != NULL;
    if (!t) return amp_loading_nothing(l->loading, place);
    if (t->rank != 1 || amp_tensor_elements(t) != of->elements || !amp_dtype_is_floating(t->dtype))
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected [%lld] %s", l->loading->what, name,
                        amp_describe(t), (long long)of->elements, amp_dtype_name(of->dtype));
    amp_tensor *like = amp_empty(AMP_DIMS(of->elements), .dtype = of->dtype, .device = of->device);
    return like ? amp_loading_tensor(l->loading, place, like, t) : amp_pending_error();
}

static amp_status note_numbers(loader *l) {
    for (int i = 0; i < NUMBERS; i++) {
        double value = 0;
        AMP_TRY(read_number(l, numbers[i].name, &value));
        const int64_t whole = (int64_t)fmin(fmax(value, 0), 9e15);
        void *field = (char *)&l->lbfgs->known + numbers[i].offset;
        AMP_TRY(amp_loading_bytes(l->loading, field, numbers[i].is_whole ? (const void *)&whole : &value, 8));
    }
    return AMP_OK;
}

static amp_status note_pair(loader *l, int64_t i, bool *is_there) {
    amp_curvature *k = &l->lbfgs->known;
    char name[48];
    bool has_step = false;
    double inverse = 0;
    name_of(lists[0], i, name);
    AMP_TRY(note_vector(l, name, &k->pairs[i].change, is_there));
    name_of(lists[1], i, name);
    AMP_TRY(note_vector(l, name, &k->pairs[i].step, &has_step));
    if (*is_there != has_step)
        return amp_fail(AMP_ERROR_INVALID, "%s: half of pair %s is not there", l->loading->what, name);
    if (!has_step) return AMP_OK;
    name_of("ro", i, name);
    AMP_TRY(read_number(l, name, &inverse));
    return amp_loading_bytes(l->loading, &k->pairs[i].inverse, &inverse, sizeof inverse);
}

/* Pairs up to the first that is not there, and nothing in the places behind. Room first: what is noted must not
 * move. */
static amp_status note_pairs(loader *l) {
    amp_curvature *k = &l->lbfgs->known;
    const int64_t listed = k->count + l->from->count;
    int64_t count = 0;
    bool goes_on = true;
    AMP_TRY(amp_curvature_make_room(l->loading->what, k,
                                    listed < l->lbfgs->history_size ? listed : l->lbfgs->history_size));
    for (int64_t i = 0; i < l->lbfgs->history_size; i++) {
        bool is_there = false;
        if (!goes_on && i >= k->count) break;
        AMP_TRY(note_pair(l, i, &is_there));
        if (is_there && !goes_on)
            return amp_fail(AMP_ERROR_INVALID, "%s: there is a pair %lld and none before it", l->loading->what,
                            (long long)i);
        goes_on = goes_on && is_there;
        count += goes_on;
    }
    return amp_loading_bytes(l->loading, &k->count, &count, sizeof count);
}

static amp_status note_all(loader *l) {
    amp_curvature *k = &l->lbfgs->known;
    bool has_direction = false, has_gradient = false;
    AMP_TRY(note_numbers(l));
    AMP_TRY(note_vector(l, vectors[0], &k->direction, &has_direction));
    AMP_TRY(note_vector(l, vectors[1], &k->gradient, &has_gradient));
    if (has_direction != has_gradient)
        return amp_fail(AMP_ERROR_INVALID, "%s: there is no '%s'", l->loading->what, vectors[has_direction]);
    return note_pairs(l);
}

static bool is_known(const amp_lbfgs *l, const char *name) {
    char *end = NULL;
    for (int i = 0; i < NUMBERS; i++) {
        if (strcmp(name, numbers[i].name) == 0) return true;
    }
    if (strcmp(name, vectors[0]) == 0 || strcmp(name, vectors[1]) == 0) return true;
    const char *const of_pairs[] = {lists[0], lists[1], "ro"};
    for (int i = 0; i < 3; i++) {
        const size_t length = strlen(of_pairs[i]);
        if (strncmp(name, of_pairs[i], length) != 0 || name[length] != '.') continue;
        const long long number = strtoll(name + length + 1, &end, 10);
        return number >= 0 && number < l->history_size && *end == '\0';
    }
    return false;
}

static amp_status fail_unknown(const loader *l) {
    int64_t i = 0;
    while (i < l->from->count - 1 && is_known(l->lbfgs, l->from->names[i])) i++;
    return amp_fail(AMP_ERROR_INVALID, "%s: this L-BFGS with a history of %lld has no '%.100s'", l->loading->what,
                    (long long)l->lbfgs->history_size, l->from->names[i]);
}

amp_status amp_lbfgs_note_state(amp_loading *loading, amp_lbfgs *lbfgs, const amp_named *from) {
    amp_no_grad_here();
    amp_scope_here();
    loader l = {.loading = loading, .lbfgs = lbfgs, .from = from};
    AMP_TRY(note_all(&l));
    return l.used == from->count ? AMP_OK : fail_unknown(&l);
}

amp_status amp_lbfgs_load_state(amp_lbfgs *l, const char *const *names, amp_tensor *const *tensors, int64_t count) {
    amp_loading loading = {.what = "lbfgs_load_state"};
    const amp_named from = {
        .names = (char **)(uintptr_t)names, .tensors = (amp_tensor **)(uintptr_t)tensors, .count = count};
    AMP_TRY(amp_pending_error());
    if (!l) return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is NULL", loading.what);
    AMP_TRY(amp_named_check(&from, loading.what));
    amp_status status = amp_lbfgs_note_state(&loading, l, &from);
    if (status == AMP_OK) status = amp_loading_write(&loading);
    amp_loading_free(&loading);
    return status;
}
