/* A model's parameters become half, in place; its inputs and outputs are cast on the way. */
#include <string.h>

#include "amp/autocast.h"
#include "amp/grad.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "train/apex.h"

static const char what[] = "initialize";

/* ---- Which are a batch norm's --------------------------------------------------------------------------------------- */
/* One of the words, parted by commas, stands at the beginning of a part of the name. */
static bool is_named(const char *name, const char *words) {
    for (const char *part = name; part; part = strchr(part, '.') ? strchr(part, '.') + 1 : NULL) {
        for (const char *word = words; *word; word += strcspn(word, ",")) {
            word += *word == ',';
            const size_t length = strcspn(word, ",");
            if (length > 0 && strncmp(part, word, length) == 0) return true;
        }
    }
    return false;
}

static amp_dtype type_of(const amp_parameter *p, const amp_apex_properties *properties, const char *batchnorm) {
    const bool stays = properties->keep_batchnorm == AMP_APEX_YES && is_named(p->name, batchnorm);
    return stays ? AMP_F32 : properties->cast_model_type;
}

/* ---- Casting ----------------------------------------------------------------------------------------------- */
static amp_status check_parameter(const amp_parameter *p, amp_device device) {
    const amp_tensor *t = p->tensor;
    if (!amp_tensor_is_live(t))
        return amp_fail(AMP_ERROR_INVALID, "%s: parameter '%.200s' was released before", what, p->name);
    if (t->dtype == AMP_F16 || t->dtype == AMP_BF16)
        return amp_fail(AMP_ERROR_DTYPE,
                        "%s: parameter '%.200s' is %s already; it is cast here, and must be f32 before", what, p->name,
                        amp_describe(t));
    if (t->storage->device == device) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "%s: parameter '%.200s' is on %s; expected %s", what, p->name,
                    amp_device_name(t->storage->device), amp_device_name(device));
}

amp_status amp_apex_prepare_tensor(amp_tensor *t, amp_dtype dtype, amp_apex_changes *c) {
    if (t->dtype == dtype || !amp_dtype_is_floating(t->dtype)) return AMP_OK;
    if (!amp_make_room((void **)&c->items, c->count, &c->capacity, sizeof *c->items))
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    amp_tensor *gradient = amp_tensor_grad(t);
    amp_tensor *cast = gradient ? amp_to(gradient, dtype) : NULL;
    c->items[c->count++] = (amp_apex_change){t, amp_to(t, dtype), cast ? amp_keep(cast) : NULL};
    return amp_pending_error();
}

void amp_apex_changes_end(amp_apex_changes *c) {
    for (int64_t i = 0; i < c->count; i++) amp_release(c->items[i].gradient);
    amp_free(c->items);
}

static amp_status prepare_model(const amp_parameters *list, const amp_apex_properties *p, amp_device device,
                                const char *batchnorm, amp_apex_changes *changes) {
    for (int64_t i = 0; i < list->count; i++) {
        AMP_TRY(check_parameter(&list->items[i], device));
        if (p->cast_model_type == AMP_DTYPE_NONE) continue;
        AMP_TRY(amp_apex_prepare_tensor(list->items[i].tensor, type_of(&list->items[i], p, batchnorm), changes));
    }
    return AMP_OK;
}

amp_status amp_apex_prepare_models(const amp_model_list *models, const amp_apex_properties *p, amp_device device,
                                   const char *batchnorm, amp_apex_changes *changes) {
    for (int64_t m = 0; m < models->count; m++) {
        if (!models->items[m]) return amp_fail(AMP_ERROR_INVALID, "%s: model %lld is NULL", what, (long long)m);
        AMP_TRY(prepare_model(models->items[m], p, device, batchnorm, changes));
    }
    return AMP_OK;
}

/* ---- The way through a model ---------------------------------------------------------------------------------------- */
amp_region amp_model_region_open(const amp_apex *apex) {
    amp_autocast_args args = {.struct_size = sizeof args, .enabled = AMP_SET(false)};
    if (apex) {
        args.device = apex->device;
        args.dtype = apex->half;
        args.enabled.value = apex->properties.enabled && apex->properties.patch == AMP_APEX_YES;
        args.table = "apex";
        args.allow_banned = apex->allow_banned;
        if (!apex->has_cache) args.cache_enabled = (amp_opt_bool)AMP_SET(false);
    } else {
        (void)amp_fail(AMP_ERROR_INVALID, "model_region: the handle is NULL");
    }
    return amp_autocast_open(&args);
}

static bool is_cast(const amp_apex *apex, const amp_tensor *t, amp_dtype dtype) {
    return t && amp_tensor_is_live(t) && dtype != AMP_DTYPE_NONE && apex->properties.enabled &&
           amp_dtype_is_floating(t->dtype) && t->dtype != dtype;
}

amp_status amp_model_inputs_call(const amp_apex *apex, amp_tensor **const *inputs, int count) {
    AMP_TRY(amp_pending_error());
    if (!apex || (count > 0 && !inputs))
        return amp_fail(AMP_ERROR_INVALID, "model_inputs: %s is NULL", apex ? "the list of inputs" : "the handle");
    for (int i = 0; i < count; i++) {
        if (!inputs[i]) return amp_fail(AMP_ERROR_INVALID, "model_inputs: pointer %d to a tensor is NULL", i);
        if (!is_cast(apex, *inputs[i], apex->properties.cast_model_type)) continue;
        amp_tensor *cast = amp_to(*inputs[i], apex->properties.cast_model_type);
        if (!cast) return amp_pending_error();
        *inputs[i] = cast;
    }
    return AMP_OK;
}

amp_tensor *amp_model_output(const amp_apex *apex, amp_tensor *output) {
    if (amp_failed()) return NULL;
    if (!apex || !output) {
        (void)amp_fail(AMP_ERROR_INVALID, "model_output: %s is NULL", apex ? "the output" : "the handle");
        return NULL;
    }
    const amp_dtype dtype = apex->properties.cast_outputs;
    return is_cast(apex, output, dtype) ? amp_to(output, dtype) : output;
}
