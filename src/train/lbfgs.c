/* L-BFGS: Nocedal, "Updating quasi-Newton matrices with limited storage" (1980), as torch.optim.LBFGS has it. */
#include "train/lbfgs.h"

#include <math.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "call/backend.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "train/line_search.h"

/* ---- Making ------------------------------------------------------------------------------------------------------- */
static const char what_create[] = "lbfgs_create", what_step[] = "lbfgs_step";

static amp_status read_number(const char *name, amp_opt_float given, double *value) {
    if (given.set == 0 && given.value == 0) return AMP_OK;
    *value = given.value;
    if (given.set == AMP_PRESENT && given.value >= 0 && isfinite(given.value)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %g; expected a finite number of at least 0, marked by AMP_SET",
                    what_create, name, given.value);
}

static amp_status read_whole(const char *name, amp_opt_int given, int64_t *value) {
    if (given.set == 0 && given.value == 0) return AMP_OK;
    *value = given.value;
    if (given.set == AMP_PRESENT && given.value >= 1 && given.value <= INT32_MAX) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %lld; expected at least 1, marked by AMP_SET", what_create, name,
                    (long long)given.value);
}

static amp_status read_options(amp_lbfgs *l, const amp_lbfgs_args *a) {
    l->lr = 1;
    l->tolerance_grad = 1e-7;
    l->tolerance_change = 1e-9;
    l->max_iter = 20;
    l->history_size = 100;
    AMP_TRY(read_number("lr", a->lr, &l->lr));
    AMP_TRY(read_number("tolerance_grad", a->tolerance_grad, &l->tolerance_grad));
    AMP_TRY(read_number("tolerance_change", a->tolerance_change, &l->tolerance_change));
    AMP_TRY(read_whole("max_iter", a->max_iter, &l->max_iter));
    l->max_eval = l->max_iter * 5 / 4;
    AMP_TRY(read_whole("max_eval", a->max_eval, &l->max_eval));
    AMP_TRY(read_whole("history_size", a->history_size, &l->history_size));
    l->line_search = a->line_search;
    if (l->line_search == AMP_LINE_SEARCH_NONE || l->line_search == AMP_STRONG_WOLFE) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: there is no line search %d", what_create, (int)l->line_search);
}

static amp_status take_parameter(amp_lbfgs *l, const amp_parameter *p) {
    if (l->count > 0 && amp_tensor_device(p->tensor) != l->device)
        return amp_fail(AMP_ERROR_DEVICE, "%s: parameter '%.200s' is on %s, and others are on %s", what_create, p->name,
                        amp_device_name(amp_tensor_device(p->tensor)), amp_device_name(l->device));
    char *name = amp_text_copy(p->name);
    if (!name || !amp_make_room((void **)&l->items, l->count, &l->capacity, sizeof *l->items)) {
        amp_free(name);
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_create);
    }
    l->items[l->count++] = (amp_parameter){.name = name, .tensor = amp_retain(p->tensor)};
    l->device = amp_tensor_device(p->tensor);
    l->elements += amp_tensor_elements(p->tensor);
    if (p->tensor->dtype == AMP_F64) l->dtype = AMP_F64;
    return AMP_OK;
}

static amp_status fill(amp_lbfgs *l, const amp_lbfgs_args *given) {
    amp_lbfgs_args a;
    AMP_TRY(amp_struct_read(what_create, "amp_lbfgs_args", &a, sizeof a, sizeof a.struct_size, given));
    AMP_TRY(amp_struct_reserved(what_create, &a.reserved, sizeof a.reserved));
    AMP_TRY(read_options(l, &a));
    AMP_TRY(amp_parameters_check_trained(what_create, a.parameters));
    l->dtype = AMP_F32;
    for (int64_t i = 0; i < a.parameters->count; i++) {
        if (!a.parameters->items[i].is_buffer) AMP_TRY(take_parameter(l, &a.parameters->items[i]));
    }
    if (l->elements == 0) return amp_fail(AMP_ERROR_INVALID, "%s: the parameters have no elements", what_create);
    return AMP_OK;
}

amp_lbfgs *amp_lbfgs_create(const amp_lbfgs_args *args) {
    if (amp_failed()) return NULL;
    amp_lbfgs *l = amp_alloc_zeroed(sizeof *l);
    if (!l) (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_create);
    if (l && fill(l, args) == AMP_OK) return l;
    amp_lbfgs_destroy(l);
    return NULL;
}

static void put(amp_tensor **place, amp_tensor *t) {
    amp_release(*place);
    *place = t;
}

amp_status amp_curvature_make_room(const char *what, amp_curvature *k, int64_t pairs) {
    if (pairs <= k->room) return AMP_OK;
    const int64_t room = pairs > 2 * k->room ? pairs : 2 * k->room;
    amp_curvature_pair *larger = amp_alloc_zeroed((size_t)room * sizeof *larger);
    if (!larger) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a history of %lld", what, (long long)pairs);
    if (k->count > 0) memcpy(larger, k->pairs, (size_t)k->count * sizeof *larger);
    amp_free(k->pairs);
    k->pairs = larger;
    k->room = room;
    return AMP_OK;
}

static void forget_oldest(amp_curvature *k) {
    amp_release(k->pairs[0].change);
    amp_release(k->pairs[0].step);
    k->count--;
    memmove(k->pairs, k->pairs + 1, (size_t)k->count * sizeof *k->pairs);
    k->pairs[k->count] = (amp_curvature_pair){0};
}

static void forget_all(amp_curvature *k) {
    while (k->count > 0) forget_oldest(k);
    put(&k->direction, NULL);
    put(&k->gradient, NULL);
    k->iterations = 0;
}

void amp_lbfgs_destroy(amp_lbfgs *l) {
    if (!l) return;
    forget_all(&l->known);
    for (int64_t i = 0; i < l->count; i++) {
        amp_free(l->items[i].name);
        amp_release(l->items[i].tensor);
    }
    amp_free(l->known.pairs);
    amp_free(l->items);
    amp_free(l);
}

/* ---- Vectors -------------------------------------------------------------------------------------------------------- */
static double number_of(amp_tensor *t) {
    return t ? amp_item(t) : 0;
}

static double dot(amp_tensor *a, amp_tensor *b) {
    return number_of(amp_dot(a, b));
}

static double largest(amp_tensor *v) {
    return number_of(amp_amax(amp_abs(v)));
}

/* A step of the program's. */
typedef struct run {
    amp_lbfgs *l;
    amp_closure closure;
    void *context;
    amp_tensor **row;             /* room for a tensor of each parameter */
    amp_tensor **before, **start; /* what the parameters were before the step, and before the iteration */
    amp_tensor *direction;
    int64_t evaluations;
    double loss;
    amp_tensor *gradient; /* where the parameters are, owned */
} run;

static amp_tensor *flat_gradient(const run *r) {
    const amp_lbfgs *l = r->l;
    for (int64_t i = 0; i < l->count; i++) {
        amp_tensor *p = l->items[i].tensor, *g = amp_tensor_grad(p);
        const amp_dims all = AMP_DIMS(amp_tensor_elements(p));
        r->row[i] = g ? amp_reshape(amp_to(g, l->dtype), all) : amp_zeros(all, .dtype = l->dtype, .device = l->device);
        if (!r->row[i]) return NULL;
    }
    return amp_cat((amp_tensor_list){.items = r->row, .count = l->count});
}

static amp_status evaluate(run *r, double *loss, amp_tensor **gradient) {
    const bool was_on = amp_grad_set_enabled(true);
    *loss = r->closure(r->context);
    (void)amp_grad_set_enabled(was_on);
    AMP_TRY(amp_pending_error());
    r->evaluations++;
    r->l->known.evaluations++;
    *gradient = flat_gradient(r);
    return amp_pending_error();
}

static amp_dims shape_of(const amp_tensor *t) {
    amp_dims dims = {.set = AMP_PRESENT, .count = t->rank};
    memcpy(dims.values, t->shape, (size_t)t->rank * sizeof *dims.values);
    return dims;
}

/* The parameters become what they were and `t` of the direction. */
static amp_status move(const run *r, double t) {
    int64_t at = 0;
    for (int64_t i = 0; i < r->l->count; i++) {
        amp_tensor *p = r->l->items[i].tensor;
        const int64_t elements = amp_tensor_elements(p);
        amp_tensor *part = amp_reshape(amp_narrow(r->direction, 0, at, elements), shape_of(p));
        if (!part || !amp_add_(p, part, .alpha = amp_float(t))) return amp_pending_error();
        at += elements;
    }
    return AMP_OK;
}

static void take_back(const run *r, amp_tensor **to) {
    for (int64_t i = 0; i < r->l->count; i++) {
        (void)amp_copy_tensor(r->l->items[i].tensor, to[i]);
        (void)amp_tensor_mark_dirty(r->l->items[i].tensor);
    }
}

static amp_status copy_parameters(const run *r, amp_tensor **to) {
    for (int64_t i = 0; i < r->l->count; i++) {
        to[i] = amp_clone(r->l->items[i].tensor);
        if (!to[i]) return amp_pending_error();
    }
    return AMP_OK;
}

/* ---- The direction --------------------------------------------------------------------------------------------------- */
/* Notes the pair of the iteration before, unless it would not be positive definite. */
static amp_status learn(const run *r, amp_curvature *k) {
    amp_tensor *change = amp_sub(r->gradient, k->gradient), *step = amp_mul_scalar(k->direction, amp_float(k->t));
    const double product = change && step ? dot(change, step) : 0;
    AMP_TRY(amp_pending_error());
    if (!(product > 1e-10)) return AMP_OK;
    const double square = dot(change, change);
    AMP_TRY(amp_pending_error());
    if (k->count == r->l->history_size) forget_oldest(k);
    AMP_TRY(amp_curvature_make_room(what_step, k, k->count + 1));
    k->pairs[k->count++] = (amp_curvature_pair){amp_keep(change), amp_keep(step), .inverse = 1 / product};
    k->scale = product / square;
    return AMP_OK;
}

/* The two loops over the history, which multiply by the inverse Hessian: newest to oldest, and back. */
static amp_tensor *multiplied(const amp_curvature *k, amp_tensor *v) {
    for (int64_t i = k->count; v && i-- > 0;) {
        amp_curvature_pair *const p = &k->pairs[i];
        p->part = dot(p->step, v) * p->inverse;
        v = amp_add_(v, p->change, .alpha = amp_float(-p->part));
    }
    if (v) v = amp_mul_scalar_(v, amp_float(k->scale));
    for (int64_t i = 0; v && i < k->count; i++) {
        const amp_curvature_pair *const p = &k->pairs[i];
        const double part = dot(p->change, v) * p->inverse;
        v = amp_add_(v, p->step, .alpha = amp_float(p->part - part));
    }
    return v;
}

static amp_status find_direction(const run *r) {
    amp_curvature *k = &r->l->known;
    if (!k->direction) k->scale = 1;
    amp_status status = k->direction ? learn(r, k) : AMP_OK;
    amp_tensor *d = status == AMP_OK ? amp_neg(r->gradient) : NULL;
    if (d && k->direction) d = multiplied(k, d);
    if (!d) return amp_pending_error();
    put(&k->direction, amp_keep(d));
    put(&k->gradient, amp_retain(r->gradient));
    k->loss = r->loss;
    return AMP_OK;
}

/* ---- An iteration ---------------------------------------------------------------------------------------------------- */
static amp_status look(void *context, amp_line_point *p) {
    run *r = context;
    AMP_TRY(move(r, p->t));
    AMP_TRY(evaluate(r, &p->loss, &p->gradient));
    p->slope = dot(p->gradient, r->direction);
    take_back(r, r->start);
    return amp_pending_error();
}

static amp_status search_line(run *r, double slope) {
    const amp_line_point start = {0, r->loss, slope, r->gradient};
    amp_line_point found;
    AMP_TRY(copy_parameters(r, r->start));
    const double reach = largest(r->direction);
    AMP_TRY(amp_pending_error());
    AMP_TRY(amp_strong_wolfe(&start, r->l->known.t, reach, look, r, &found));
    r->l->known.t = found.t;
    r->loss = found.loss;
    put(&r->gradient, amp_retain(found.gradient));
    return move(r, found.t);
}

/* lr times the direction; what the loss is there is asked only if another iteration follows. */
static amp_status go(run *r, bool is_last) {
    amp_tensor *gradient = NULL;
    AMP_TRY(move(r, r->l->known.t));
    if (is_last) return AMP_OK;
    AMP_TRY(evaluate(r, &r->loss, &gradient));
    put(&r->gradient, amp_retain(gradient));
    return AMP_OK;
}

static amp_status is_over(const run *r, bool *over) {
    const amp_lbfgs *l = r->l;
    *over = r->evaluations >= l->max_eval || largest(r->gradient) <= l->tolerance_grad ||
            largest(r->direction) * fabs(l->known.t) <= l->tolerance_change ||
            fabs(r->loss - l->known.loss) < l->tolerance_change;
    return amp_pending_error();
}

static amp_status iterate(run *r, bool is_last, bool *over) {
    amp_lbfgs *l = r->l;
    amp_scope_here();
    const bool is_first = !l->known.direction;
    AMP_TRY(find_direction(r));
    r->direction = l->known.direction;
    l->known.iterations++;
    l->known.t = is_first ? fmin(1, 1 / number_of(amp_sum(amp_abs(r->gradient)))) * l->lr : l->lr;
    const double slope = dot(r->gradient, r->direction);
    AMP_TRY(amp_pending_error());
    *over = slope > -l->tolerance_change;
    if (*over) return AMP_OK;
    AMP_TRY(l->line_search == AMP_STRONG_WOLFE ? search_line(r, slope) : go(r, is_last));
    return is_last ? AMP_OK : is_over(r, over);
}

static amp_status iterate_all(run *r, double *first) {
    amp_tensor *gradient = NULL;
    AMP_TRY(evaluate(r, &r->loss, &gradient));
    r->gradient = amp_retain(gradient);
    *first = r->loss;
    bool over = largest(r->gradient) <= r->l->tolerance_grad;
    AMP_TRY(amp_pending_error());
    for (int64_t i = 1; i <= r->l->max_iter && !over; i++) AMP_TRY(iterate(r, i == r->l->max_iter, &over));
    return AMP_OK;
}

/* ---- Entry ----------------------------------------------------------------------------------------------------------- */
static amp_status run_step(run *r, double *first) {
    amp_no_grad_here();
    amp_scope_here();
    AMP_TRY(copy_parameters(r, r->before));
    const amp_status status = iterate_all(r, first);
    if (status != AMP_OK) {
        take_back(r, r->before);
        forget_all(&r->l->known);
    }
    amp_release(r->gradient);
    return status;
}

static amp_status check_step(const amp_lbfgs *l, amp_closure closure) {
    AMP_TRY(amp_pending_error());
    if (!l || !closure)
        return amp_fail(AMP_ERROR_INVALID, "%s: %s is NULL", what_step, l ? "the closure" : "the optimizer");
    for (int64_t i = 0; i < l->count; i++) {
        if (!amp_tensor_is_live(l->items[i].tensor))
            return amp_fail(AMP_ERROR_INVALID, "%s: parameter '%.200s' was released", what_step, l->items[i].name);
    }
    return AMP_OK;
}

double amp_lbfgs_step(amp_lbfgs *l, amp_closure closure, void *context) {
    double first = 0;
    if (check_step(l, closure) != AMP_OK) return 0;
    run r = {.l = l, .closure = closure, .context = context};
    r.row = amp_alloc(3 * (size_t)l->count * sizeof(amp_tensor *));
    if (!r.row) {
        (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_step);
        return 0;
    }
    r.before = r.row + l->count;
    r.start = r.before + l->count;
    const amp_status status = run_step(&r, &first);
    amp_free(r.row);
    return status == AMP_OK ? first : 0;
}

int64_t amp_lbfgs_evaluations(const amp_lbfgs *l) {
    return l ? l->known.evaluations : 0;
}
