/* Gradient scaling. The scale is an f32 here; what was found lies on the device until a step or an update asks. */
#include "train/grad_scaler.h"

#include <math.h>
#include <stdio.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "train/optimizer.h"
#include "train/unscale.h"

typedef enum stage { READY, UNSCALED, STEPPED } stage;

/* An optimizer since the last update. */
typedef struct seen {
    const amp_optimizer *optimizer; /* compared only */
    stage stage;
    amp_tensor *found; /* on the device, 1: a gradient was not finite; NULL: there were no gradients */
    char name[128];    /* of the first such parameter, where the scale is about to end; or "" */
} seen;

struct amp_grad_scaler {
    amp_device device;
    bool enabled, has_scaled; /* amp_grad_scaler_scale was called */
    float scale;
    double growth_factor, backoff_factor, min_scale;
    int64_t growth_interval, growth_tracker;
    seen *seen;
    int64_t count, capacity;
};

/* ---- Making ------------------------------------------------------------------------------------------------------- */
static amp_status check_option(const char *what, bool is_right, const char *name, double value, const char *expected) {
    if (is_right) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: %s is %g; expected %s", what, name, value, expected);
}

static amp_status check_scaler(const char *what, const amp_grad_scaler *s) {
    AMP_TRY(check_option(what, s->scale >= 0 && isfinite(s->scale), "the scale", s->scale, "a finite f32"));
    AMP_TRY(check_option(what, s->growth_factor > 1, "growth_factor", s->growth_factor, "a number above 1"));
    AMP_TRY(check_option(what, s->backoff_factor > 0 && s->backoff_factor < 1, "backoff_factor", s->backoff_factor,
                         "a number between 0 and 1"));
    AMP_TRY(check_option(what, s->min_scale >= 0, "min_scale", s->min_scale, "a number of at least 0"));
    return check_option(what, s->growth_interval > 0, "growth_interval", (double)s->growth_interval, "at least 1");
}

static const char what_create[] = "grad_scaler_create";

static amp_status read_number(const char *name, amp_opt_float given, double *value) {
    AMP_TRY(amp_struct_mark(what_create, name, given.set, given.value == 0));
    if (given.set) *value = given.value;
    return AMP_OK;
}

static amp_status fill(amp_grad_scaler *s, const amp_grad_scaler_args *given) {
    amp_grad_scaler_args a;
    double scale = 65536;
    AMP_TRY(amp_struct_read(what_create, "amp_grad_scaler_args", &a, sizeof a, sizeof a.struct_size, given));
    *s = (amp_grad_scaler){.device = a.device, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000};
    AMP_TRY(read_number("init_scale", a.init_scale, &scale));
    AMP_TRY(read_number("growth_factor", a.growth_factor, &s->growth_factor));
    AMP_TRY(read_number("backoff_factor", a.backoff_factor, &s->backoff_factor));
    AMP_TRY(read_number("min_scale", a.min_scale, &s->min_scale));
    if ((unsigned)a.device >= AMP_DEVICE_COUNT)
        return amp_fail(AMP_ERROR_DEVICE, "%s: there is no device %d", what_create, (int)a.device);
    AMP_TRY(amp_struct_mark(what_create, "growth_interval", a.growth_interval.set, a.growth_interval.value == 0));
    AMP_TRY(amp_struct_mark(what_create, "enabled", a.enabled.set, !a.enabled.value));
    if (a.growth_interval.set) s->growth_interval = a.growth_interval.value;
    s->enabled = !a.enabled.set || a.enabled.value;
    s->scale = (float)scale;
    return check_scaler(what_create, s);
}

amp_grad_scaler *amp_grad_scaler_create_call(const amp_grad_scaler_args *args) {
    if (amp_failed()) return NULL;
    amp_grad_scaler *s = amp_alloc_zeroed(sizeof *s);
    if (!s) (void)amp_fail(AMP_ERROR_MEMORY, "grad_scaler_create: no memory");
    if (s && fill(s, args) == AMP_OK) return s;
    amp_free(s);
    return NULL;
}

static void forget_seen(amp_grad_scaler *s) {
    for (int64_t i = 0; i < s->count; i++) amp_release(s->seen[i].found);
    s->count = 0;
}

void amp_grad_scaler_destroy(amp_grad_scaler *s) {
    if (!s) return;
    forget_seen(s);
    amp_free(s->seen);
    amp_free(s);
}

/* ---- Scaling ------------------------------------------------------------------------------------------------------ */
static amp_status check_given(const char *what, const amp_grad_scaler *s, const void *other, const char *called) {
    AMP_TRY(amp_pending_error());
    if (s && other) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: %s is NULL", what, s ? called : "the scaler");
}

amp_tensor *amp_grad_scaler_scale(amp_grad_scaler *s, amp_tensor *loss) {
    if (check_given("grad_scaler_scale", s, loss, "the loss") != AMP_OK) return NULL;
    if (!s->enabled) return loss;
    amp_tensor *scaled = amp_mul_scalar(loss, amp_float(s->scale));
    if (scaled) s->has_scaled = true;
    return scaled;
}

/* ---- Unscaling ------------------------------------------------------------------------------------------------------ */
static amp_status check_scaled(const char *what, const amp_grad_scaler *s) {
    if (s->has_scaled) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: no loss was scaled yet; amp_grad_scaler_scale comes first", what);
}

static amp_status see(const char *what, amp_grad_scaler *s, const amp_optimizer *o, seen **found) {
    for (int64_t i = 0; i < s->count; i++) {
        *found = &s->seen[i];
        if (s->seen[i].optimizer == o) return AMP_OK;
    }
    if (!amp_make_room((void **)&s->seen, s->count, &s->capacity, sizeof *s->seen))
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    *found = &s->seen[s->count++];
    **found = (seen){.optimizer = o};
    return AMP_OK;
}

/* The gradients that there are, in an array for amp_free. */
static amp_status gather(const char *what, const amp_optimizer *o, amp_tensor ***gradients, int64_t *count) {
    *gradients = amp_alloc((size_t)o->count * sizeof **gradients);
    if (!*gradients) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    for (int64_t i = 0; i < o->count; i++) {
        amp_tensor *g = amp_tensor_grad(o->items[i].parameter);
        if (g && g->dtype == AMP_F16)
            return amp_fail(
                AMP_ERROR_DTYPE,
                "%s: the gradient of '%.200s' is %s; f16 gradients are not unscaled: parameters should be f32", what,
                o->items[i].name, amp_describe(g));
        if (g) (*gradients)[(*count)++] = g;
    }
    return amp_pending_error();
}

static amp_status unscale(const char *what, const amp_grad_scaler *s, const amp_optimizer *o, seen *of) {
    amp_tensor **gradients = NULL;
    int64_t count = 0;
    amp_status status = gather(what, o, &gradients, &count);
    if (status == AMP_OK && count > 0)
        status = amp_unscale_gradients(gradients, count, (double)s->scale, s->device, &of->found);
    amp_free(gradients);
    if (status == AMP_OK) of->stage = UNSCALED;
    return status;
}

amp_status amp_grad_scaler_unscale(amp_grad_scaler *s, amp_optimizer *o) {
    static const char what[] = "grad_scaler_unscale";
    seen *of = NULL;
    AMP_TRY(check_given(what, s, o, "the optimizer"));
    if (!s->enabled) return AMP_OK;
    AMP_TRY(check_scaled(what, s));
    AMP_TRY(see(what, s, o, &of));
    if (of->stage == UNSCALED)
        return amp_fail(AMP_ERROR_INVALID, "%s: this optimizer's gradients were unscaled already since the last update",
                        what);
    if (of->stage == STEPPED)
        return amp_fail(AMP_ERROR_INVALID, "%s: this optimizer has stepped already since the last update", what);
    return unscale(what, s, o, of);
}

/* ---- Stepping ------------------------------------------------------------------------------------------------------- */
static bool ends_with(const amp_grad_scaler *s, float scale) {
    return scale < s->min_scale;
}

static float backed_off(const amp_grad_scaler *s) {
    return (float)((double)s->scale * s->backoff_factor);
}

/* Which parameter it was, while its gradient is there; asked only where it will be told. x − x is 0 of finite x only,
 * and so is their sum. */
static void note_name(const amp_optimizer *o, seen *of) {
    amp_no_grad_here();
    amp_scope_here();
    for (int64_t i = 0; i < o->count && !of->name[0]; i++) {
        amp_tensor *g = amp_tensor_grad(o->items[i].parameter), *zeros = g ? amp_sub(g, g) : NULL;
        amp_tensor *sum = zeros ? amp_sum(zeros) : NULL;
        float value = 0;
        if (sum && amp_read(sum, AMP_F32, &value, sizeof value) == AMP_OK && value != 0)
            snprintf(of->name, sizeof of->name, "%s", o->items[i].name);
    }
}

/* Whether the step is left out; *of: what is known of the optimizer since the last update. */
static amp_status decide(amp_grad_scaler *s, amp_optimizer *o, seen **of, bool *skips) {
    static const char what[] = "grad_scaler_step";
    AMP_TRY(check_scaled(what, s));
    AMP_TRY(see(what, s, o, of));
    if ((*of)->stage == STEPPED)
        return amp_fail(AMP_ERROR_INVALID, "%s: this optimizer has stepped already since the last update", what);
    if ((*of)->stage == READY) AMP_TRY(unscale(what, s, o, *of));
    if (!(*of)->found)
        return amp_fail(AMP_ERROR_INVALID, "%s: none of this optimizer's parameters has a gradient to look at", what);
    return amp_read_found((*of)->found, skips);
}

static amp_status step(amp_grad_scaler *s, amp_optimizer *o, bool *skips) {
    seen *of = NULL;
    const amp_status status = decide(s, o, &of, skips);
    if (status != AMP_OK) return amp_optimizer_tell(o, status);
    if (*skips && ends_with(s, backed_off(s))) note_name(o, of);
    if (!*skips) AMP_TRY(amp_optimizer_step(o));
    of->stage = STEPPED;
    return amp_pending_error();
}

amp_step_result amp_grad_scaler_step(amp_grad_scaler *s, amp_optimizer *o) {
    bool skips = false;
    const amp_status given = check_given("grad_scaler_step", s, o, "the optimizer");
    if (given != AMP_OK && o) (void)amp_optimizer_tell(o, given);
    if (given != AMP_OK) return AMP_STEP_FAILED;
    const amp_status status = s->enabled ? step(s, o, &skips) : amp_optimizer_step(o);
    if (status != AMP_OK) return AMP_STEP_FAILED;
    return skips ? AMP_SKIPPED : AMP_STEPPED;
}

/* ---- Updating ------------------------------------------------------------------------------------------------------- */
/* Over all optimizers; how many were looked at, and the first name. */
static amp_status gather_flags(const amp_grad_scaler *s, int *looked_at, bool *found, const char **name) {
    for (int64_t i = 0; i < s->count; i++) {
        bool here = false;
        if (!s->seen[i].found) continue;
        AMP_TRY(amp_read_found(s->seen[i].found, &here));
        ++*looked_at;
        *found |= here;
        if (!*name && s->seen[i].name[0]) *name = s->seen[i].name;
    }
    return AMP_OK;
}

static amp_status back_off(amp_grad_scaler *s, const char *name) {
    const float scale = backed_off(s);
    s->growth_tracker = 0;
    if (!ends_with(s, scale)) {
        s->scale = scale;
        return AMP_OK;
    }
    return amp_fail(
        AMP_ERROR_INVALID,
        "grad_scaler_update: the scale would fall from %g to %g, and %g is the least; gradients are not finite%s%s%s",
        (double)s->scale, (double)scale, s->min_scale, name ? ": '" : "", name ? name : "",
        name ? "' is the first" : "");
}

/* At the interval, and not beyond it, as where the interval was made shorter meanwhile. A scale that would be infinite
 * stays. */
static void grow(amp_grad_scaler *s) {
    if (++s->growth_tracker != s->growth_interval) return;
    const float scale = (float)((double)s->scale * s->growth_factor);
    if (isfinite(scale)) s->scale = scale;
    s->growth_tracker = 0;
}

amp_status amp_grad_scaler_update(amp_grad_scaler *s) {
    static const char what[] = "grad_scaler_update";
    int looked_at = 0;
    bool found = false;
    const char *name = NULL;
    AMP_TRY(check_given(what, s, s, "the scaler"));
    if (!s->enabled) return AMP_OK;
    AMP_TRY(check_scaled(what, s));
    AMP_TRY(gather_flags(s, &looked_at, &found, &name));
    if (looked_at == 0)
        return amp_fail(AMP_ERROR_INVALID, "%s: no gradients were unscaled since the last update", what);
    amp_status status = AMP_OK;
    if (found)
        status = back_off(s, name);
    else
        grow(s);
    forget_seen(s);
    return status;
}

amp_status amp_grad_scaler_update_to(amp_grad_scaler *s, double new_scale) {
    static const char what[] = "grad_scaler_update_to";
    AMP_TRY(check_given(what, s, s, "the scaler"));
    if (!s->enabled) return AMP_OK;
    AMP_TRY(check_scaled(what, s));
    const float scale = (float)new_scale;
    AMP_TRY(check_option(what, scale > 0 && isfinite(scale), "the scale", new_scale, "a finite f32 above 0"));
    s->scale = scale;
    forget_seen(s);
    return AMP_OK;
}

/* ---- State ---------------------------------------------------------------------------------------------------------- */
double amp_grad_scaler_get_scale(const amp_grad_scaler *s) {
    return !s ? 0 : s->enabled ? (double)s->scale : 1;
}

bool amp_grad_scaler_is_enabled(const amp_grad_scaler *s) {
    return s && s->enabled;
}

amp_status amp_grad_scaler_get_state(const amp_grad_scaler *s, amp_grad_scaler_state *state) {
    if (!s || !state)
        return amp_fail(AMP_ERROR_INVALID, "grad_scaler_get_state: %s is NULL", s ? "the state" : "the scaler");
    amp_grad_scaler_state made = {.struct_size = state->struct_size};
    if (s->enabled) {
        made.scale = (double)s->scale;
        made.growth_factor = s->growth_factor;
        made.backoff_factor = s->backoff_factor;
        made.growth_interval = s->growth_interval;
        made.growth_tracker = s->growth_tracker;
    }
    return amp_struct_write("grad_scaler_get_state", state, state->struct_size, &made, sizeof made);
}

bool amp_grad_scaler_is_between(const amp_grad_scaler *s) {
    return s->count > 0;
}

static amp_status check_state(const char *what, const amp_grad_scaler *s, const amp_grad_scaler_state *state) {
    if (state->scale == 0 && state->growth_factor == 0)
        return amp_fail(AMP_ERROR_INVALID, "%s: the state is empty, as of a scaler that was disabled", what);
    if (state->growth_tracker < 0)
        return amp_fail(AMP_ERROR_INVALID, "%s: growth_tracker is %lld; expected at least 0", what,
                        (long long)state->growth_tracker);
    amp_grad_scaler loaded = *s;
    loaded.scale = (float)state->scale;
    loaded.growth_factor = state->growth_factor;
    loaded.backoff_factor = state->backoff_factor;
    loaded.growth_interval = state->growth_interval;
    return check_scaler(what, &loaded);
}

amp_status amp_grad_scaler_note_state(amp_loading *l, amp_grad_scaler *s, const amp_grad_scaler_state *state) {
    const float scale = (float)state->scale;
    if (!s->enabled) return AMP_OK;
    AMP_TRY(check_state(l->what, s, state));
    AMP_TRY(amp_loading_bytes(l, &s->scale, &scale, sizeof scale));
    AMP_TRY(amp_loading_bytes(l, &s->growth_factor, &state->growth_factor, sizeof s->growth_factor));
    AMP_TRY(amp_loading_bytes(l, &s->backoff_factor, &state->backoff_factor, sizeof s->backoff_factor));
    AMP_TRY(amp_loading_bytes(l, &s->growth_interval, &state->growth_interval, sizeof s->growth_interval));
    return amp_loading_bytes(l, &s->growth_tracker, &state->growth_tracker, sizeof s->growth_tracker);
}

amp_status amp_grad_scaler_set_state(amp_grad_scaler *s, const amp_grad_scaler_state *given) {
    amp_loading l = {.what = "grad_scaler_set_state"};
    amp_grad_scaler_state state;
    AMP_TRY(check_given(l.what, s, given, "the state"));
    AMP_TRY(amp_struct_read(l.what, "amp_grad_scaler_state", &state, sizeof state, sizeof state.struct_size, given));
    amp_status status = amp_grad_scaler_note_state(&l, s, &state);
    if (status == AMP_OK) status = amp_loading_write(&l);
    amp_loading_free(&l);
    return status;
}
