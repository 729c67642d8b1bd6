/* amp_initialize: what models, optimizers and losses become at a level. */
#include "train/apex.h"

#include <math.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "amp/user.h"
#include "autocast/autocast.h"
#include "autocast/registration.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "grad/become.h"

static const char what[] = "initialize";

/* ---- The handle ----------------------------------------------------------------------------------------------------- */
amp_status amp_apex_read_device(const char *op, amp_device device, amp_dtype given, amp_dtype *half) {
    if ((unsigned)device >= AMP_DEVICE_COUNT)
        return amp_fail(AMP_ERROR_DEVICE, "%s: there is no device %d", op, (int)device);
    *half = given != AMP_DTYPE_NONE ? given : device == AMP_DEVICE_CUDA ? AMP_F16 : AMP_BF16;
    if (*half == AMP_F16 || *half == AMP_BF16) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: half is %s; expected f16 or bf16", op, amp_dtype_name(*half));
}

amp_apex *amp_apex_new(const char *op, int scalers, int64_t optimizers) {
    amp_apex *apex = amp_alloc_zeroed(sizeof *apex);
    if (apex) {
        apex->scalers = amp_alloc_zeroed((size_t)scalers * sizeof *apex->scalers);
        apex->optimizers = amp_alloc_zeroed((size_t)(optimizers + 1) * sizeof(amp_optimizer *));
        apex->has_cache = true;
        if (apex->scalers && apex->optimizers) return apex;
    }
    amp_apex_destroy(apex);
    (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", op);
    return NULL;
}

static void let_go(amp_optimizer *o) {
    for (int64_t i = 0; i < o->count; i++) {
        amp_release(o->items[i].stash);
        o->items[i].stash = NULL;
    }
    o->apex = NULL;
    o->skips_next = o->holds_scaled = o->in_scaled_loss = false;
}

void amp_apex_forget(amp_apex *apex, const amp_optimizer *o) {
    for (int64_t i = 0; i < apex->optimizer_count; i++) {
        if (apex->optimizers[i] == o) apex->optimizers[i] = apex->optimizers[--apex->optimizer_count];
    }
    for (int64_t i = 0; i < apex->wrapper_count; i++) {
        if (apex->wrappers[i]->optimizer == o) apex->wrappers[i]->optimizer = NULL;
    }
}

void amp_apex_destroy(amp_apex *apex) {
    if (!apex) return;
    if (apex->tells_casts) amp_autocast_tell_casts(false);
    for (int64_t i = 0; apex->optimizers && i < apex->optimizer_count; i++) let_go(apex->optimizers[i]);
    for (int64_t i = 0; i < apex->wrapper_count; i++) {
        if (apex->wrappers[i]->optimizer) let_go(apex->wrappers[i]->optimizer);
        amp_free(apex->wrappers[i]->scalers);
        amp_free(apex->wrappers[i]->skips);
        amp_free(apex->wrappers[i]);
    }
    amp_free(apex->wrappers);
    amp_free(apex->optimizers);
    amp_free(apex->scalers);
    amp_free(apex->text);
    amp_free(apex);
}

const char *amp_apex_describe(const amp_apex *apex) {
    return apex && apex->text ? apex->text : "";
}

/* ---- Optimizers ----------------------------------------------------------------------------------------------------- */
static amp_status check_optimizers(const amp_optimizer_list *list) {
    for (int64_t i = 0; i < list->count; i++) {
        const amp_optimizer *o = list->items[i];
        if (!o) return amp_fail(AMP_ERROR_INVALID, "%s: optimizer %lld is NULL", what, (long long)i);
        if (o->apex)
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: optimizer %lld went through amp_initialize or amp_wrap_optimizer before", what,
                            (long long)i);
        for (int64_t k = 0; k < i; k++) {
            if (list->items[k] == o)
                return amp_fail(AMP_ERROR_INVALID, "%s: optimizer %lld is optimizer %lld, too", what, (long long)i,
                                (long long)k);
        }
        if (o->master_weights)
            return amp_fail(AMP_ERROR_INVALID, "%s: optimizer %lld has master weights already; the level makes them",
                            what, (long long)i);
    }
    return AMP_OK;
}

static const amp_apex_change *change_of(const amp_apex_changes *changes, const amp_tensor *t) {
    for (int64_t i = 0; i < changes->count; i++) {
        if (changes->items[i].tensor == t) return &changes->items[i];
    }
    return NULL;
}

/* A master begins with the rounded parameter; states that there are stay f32 beside it, and else follow their
 * parameter. */
static amp_status prepare_trained(const amp_apex *apex, amp_trained *t, amp_apex_changes *changes) {
    const amp_apex_change *change = change_of(changes, t->parameter);
    if (!change) return AMP_OK;
    if (apex->properties.masters == AMP_APEX_YES) return amp_trained_make_master(what, t, change->elements);
    const amp_dtype dtype = change->elements->dtype;
    for (int k = 0; k < AMP_ALGORITHM_STATES; k++) {
        if (t->states[k]) AMP_TRY(amp_apex_prepare_tensor(t->states[k], dtype, changes));
    }
    return AMP_OK;
}

static amp_status prepare_optimizers(const amp_apex *apex, const amp_optimizer_list *list, amp_apex_changes *changes) {
    for (int64_t i = 0; i < list->count; i++) {
        const amp_optimizer *o = list->items[i];
        for (int64_t k = 0; k < o->count; k++) AMP_TRY(prepare_trained(apex, &o->items[k], changes));
    }
    return AMP_OK;
}

static void forget_masters(const amp_optimizer_list *list) {
    for (int64_t i = 0; i < list->count; i++) {
        for (int64_t k = 0; k < list->items[i]->count; k++) {
            amp_release(list->items[i]->items[k].master);
            list->items[i]->items[k].master = NULL;
        }
    }
}

/* From here on nothing fails. */
static void take_optimizers(amp_apex *apex, const amp_optimizer_list *list) {
    for (int64_t i = 0; i < list->count; i++) {
        list->items[i]->master_weights = apex->properties.enabled && apex->properties.masters == AMP_APEX_YES;
        list->items[i]->masters_are_new = list->items[i]->master_weights;
        list->items[i]->apex = apex;
        apex->optimizers[apex->optimizer_count++] = list->items[i];
    }
}

/* ---- All of it ------------------------------------------------------------------------------------------------------ */
static amp_status check_list(const amp_model_list *models) {
    if (models->count > 0 && models->items) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: there is no model", what);
}

static void set_scalers(amp_apex *apex) {
    const amp_apex_properties *p = &apex->properties;
    for (int i = 0; i < p->num_losses; i++)
        apex->scalers[i] =
            p->is_dynamic ? amp_loss_scaler_dynamic(p->min_scale, p->max_scale) : amp_loss_scaler_static(p->loss_scale);
}

static amp_status prepare(const amp_apex *apex, const amp_initialize_args *a, amp_apex_changes *changes) {
    const char *batchnorm = a->batchnorm ? a->batchnorm : "bn,batch_norm,batchnorm";
    AMP_TRY(amp_apex_prepare_models(&a->models, &apex->properties, apex->device, batchnorm, changes));
    const amp_status status = prepare_optimizers(apex, &a->optimizers, changes);
    if (status != AMP_OK) forget_masters(&a->optimizers);
    return status;
}

/* What can fail comes first; then the tensors change. */
static amp_status apply(amp_apex *apex, const amp_initialize_args *a) {
    amp_apex_changes changes = {0};
    AMP_TRY(check_list(&a->models));
    AMP_TRY(check_optimizers(&a->optimizers));
    amp_no_grad_here();
    amp_scope_here();
    const amp_status status = apex->properties.enabled ? prepare(apex, a, &changes) : AMP_OK;
    for (int64_t i = 0; i < changes.count && status == AMP_OK; i++) {
        amp_leaf_become(changes.items[i].tensor, changes.items[i].elements, changes.items[i].gradient);
        changes.items[i].gradient = NULL;
    }
    if (status == AMP_OK) take_optimizers(apex, &a->optimizers);
    amp_apex_changes_end(&changes);
    return status;
}

static amp_apex *initialize(const amp_initialize_args *a) {
    amp_dtype half = AMP_DTYPE_NONE;
    amp_apex_properties properties;
    char *text = NULL;
    if (amp_apex_read_device(what, a->device, a->half, &half) != AMP_OK) return NULL;
    if (amp_apex_properties_read(a, half, &properties, &text) != AMP_OK) return NULL;
    amp_apex *apex = amp_apex_new(what, properties.num_losses, a->optimizers.count);
    if (!apex) {
        amp_free(text);
        return NULL;
    }
    apex->properties = properties;
    apex->text = text;
    apex->device = a->device;
    apex->half = half;
    set_scalers(apex);
    if (apply(apex, a) == AMP_OK) return apex;
    amp_apex_destroy(apex);
    return NULL;
}

amp_apex *amp_initialize_call(const amp_initialize_args *given) {
    amp_initialize_args a;
    if (amp_failed()) return NULL;
    if (amp_struct_read(what, "amp_initialize_args", &a, sizeof a, sizeof a.struct_size, given) != AMP_OK) return NULL;
    amp_apex *apex = initialize(&a);
    if (apex) amp_registration_take(apex->properties.enabled);
    return apex;
}

/* ---- Masters -------------------------------------------------------------------------------------------------------- */
amp_parameters *amp_master_params(amp_optimizer *o) {
    if (amp_failed()) return NULL;
    if (!o) {
        (void)amp_fail(AMP_ERROR_INVALID, "master_params: the optimizer is NULL");
        return NULL;
    }
    amp_parameters *list = amp_parameters_create();
    for (int64_t i = 0; list && i < o->count; i++) {
        if (amp_parameters_add(list, o->items[i].name, amp_optimizer_master(o, i))) continue;
        amp_parameters_destroy(list);
        return NULL;
    }
    return list;
}

/* ---- State of scalers ---------------------------------------------------------------------------------------------------------- */
int amp_apex_loss_count(const amp_apex *apex) {
    return apex ? apex->properties.num_losses : 0;
}

amp_loss_scaler_state amp_apex_loss_scaler(const amp_apex *apex, int loss_id) {
    if (apex && loss_id >= 0 && loss_id < apex->properties.num_losses)
        return (amp_loss_scaler_state){apex->scalers[loss_id].scale, apex->scalers[loss_id].unskipped};
    (void)amp_fail(AMP_ERROR_INVALID, "apex_loss_scaler: %s %d; there are %d",
                   apex ? "no loss has number" : "NULL, loss", loss_id, amp_apex_loss_count(apex));
    return (amp_loss_scaler_state){-1, -1};
}

int amp_apex_load_loss_scalers(amp_apex *apex, const amp_loss_scaler_state *states, int count) {
    static const char what[] = "apex_load_loss_scalers";
    const int own = amp_apex_loss_count(apex), used = count < own ? count : own;
    if (!apex || count < 0 || (count > 0 && !states)) {
        (void)amp_fail(AMP_ERROR_INVALID, "%s: %s", what, apex ? "no states were given" : "the handle is NULL");
        return -1;
    }
    for (int i = 0; i < used; i++) {
        if (states[i].loss_scale > 0 && isfinite(states[i].loss_scale) && states[i].unskipped >= 0) continue;
        (void)amp_fail(AMP_ERROR_INVALID, "%s: state %d has scale %g after %lld steps; expected a finite scale above 0",
                       what, i, states[i].loss_scale, (long long)states[i].unskipped);
        return -1;
    }
    for (int i = 0; i < used; i++) {
        apex->scalers[i].scale = states[i].loss_scale;
        apex->scalers[i].unskipped = states[i].unskipped;
    }
    return count - used;
}
