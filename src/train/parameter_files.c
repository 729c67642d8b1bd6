/* Parameters to files and back. */
#include <stdio.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "core/near_name.h"
#include "core/struct_size.h"
#include "train/parameters.h"

/* ---- Saving --------------------------------------------------------------------------------------------------------- */
static amp_tensor *as_saved(const amp_parameter *p, amp_dtype dtype) {
    const bool keeps = dtype == AMP_DTYPE_NONE || !amp_dtype_is_floating(p->tensor->dtype);
    return keeps ? p->tensor : amp_to(p->tensor, dtype);
}

static amp_status gather(const char *what, const amp_parameters *p, amp_dtype dtype, amp_named *list) {
    amp_no_grad_here();
    amp_scope_here();
    for (int64_t i = 0; i < p->count; i++) {
        if (!amp_tensor_is_live(p->items[i].tensor))
            return amp_fail(AMP_ERROR_INVALID, "%s: parameter '%.200s' was released", what, p->items[i].name);
        AMP_TRY(amp_named_add(list, NULL, p->items[i].name, as_saved(&p->items[i], dtype)));
    }
    return AMP_OK;
}

amp_status amp_parameters_save_call(const amp_parameters_save_args *given) {
    static const char what[] = "parameters_save";
    amp_parameters_save_args a;
    amp_named list = {0};
    AMP_TRY(amp_pending_error());
    AMP_TRY(amp_struct_read(what, "amp_parameters_save_args", &a, sizeof a, sizeof a.struct_size, given));
    AMP_TRY(amp_struct_reserved(what, &a.reserved, sizeof a.reserved));
    if (!a.parameters) return amp_fail(AMP_ERROR_INVALID, "%s: the list is NULL", what);
    if (a.dtype != AMP_DTYPE_NONE && !amp_dtype_is_floating(a.dtype))
        return amp_fail(AMP_ERROR_DTYPE, "%s: the dtype is %s; expected a floating one", what, amp_dtype_name(a.dtype));
    amp_status status = gather(what, a.parameters, a.dtype, &list);
    if (status == AMP_OK) status = amp_named_save(&list, what, a.path, a.metadata);
    if (status != AMP_OK) amp_fail_within(what);
    amp_named_free(&list);
    return status;
}

/* ---- Loading -------------------------------------------------------------------------------------------------------- */
static amp_status check_fits(const amp_loading *l, const amp_parameter *p, const amp_tensor *t) {
    const bool is_near = t->dtype == AMP_F32 && amp_dtype_is_floating(p->tensor->dtype);
    if (amp_same_shape(t, p->tensor) && (t->dtype == p->tensor->dtype || is_near)) return AMP_OK;
    return amp_fail(t->dtype == p->tensor->dtype ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE,
                    "%s: '%.200s' is %s in the file; expected %s", l->what, p->name, amp_describe(t),
                    amp_describe(p->tensor));
}

static bool is_there(const amp_parameters *p, const char *name, amp_near_name *near) {
    for (int64_t i = 0; i < p->count; i++) {
        if (strcmp(p->items[i].name, name) == 0) return true;
        amp_near_name_offer(near, p->items[i].name);
    }
    return false;
}

static amp_status check_known(const amp_loading *l, const amp_parameters *p, const amp_named *tensors) {
    for (int64_t i = 0; i < tensors->count; i++) {
        amp_near_name near = {.wanted = tensors->names[i]};
        if (is_there(p, tensors->names[i], &near)) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: the file has '%.200s', which is no parameter here%s", l->what,
                        tensors->names[i], amp_near_name_hint(near.nearest));
    }
    return AMP_OK;
}

static amp_status note(amp_loading *l, amp_parameter *p, const amp_named *tensors) {
    amp_tensor *t = amp_named_find(tensors, p->name);
    if (!amp_tensor_is_live(p->tensor))
        return amp_fail(AMP_ERROR_INVALID, "%s: parameter '%.200s' was released", l->what, p->name);
    if (!t)
        return amp_fail(AMP_ERROR_INVALID, "%s: the file has no '%.200s'%s", l->what, p->name,
                        amp_named_hint(tensors, p->name));
    AMP_TRY(check_fits(l, p, t));
    return amp_loading_tensor(l, &p->tensor, p->tensor, t);
}

amp_status amp_parameters_note(amp_loading *l, amp_parameters *p, const amp_named *tensors) {
    for (int64_t i = 0; i < p->count; i++) AMP_TRY(note(l, &p->items[i], tensors));
    return check_known(l, p, tensors);
}

static amp_status load(amp_loading *l, amp_parameters *p, const char *path) {
    amp_safetensors *file = amp_safetensors_open(path);
    amp_named tensors = {0};
    amp_status status = file ? amp_named_read(&tensors, file, NULL) : amp_pending_error();
    if (status == AMP_OK) status = amp_parameters_note(l, p, &tensors);
    if (status == AMP_OK) status = amp_loading_write(l);
    amp_named_free(&tensors);
    amp_safetensors_close(file);
    return status;
}

amp_status amp_parameters_load(amp_parameters *p, const char *path) {
    char what[200];
    AMP_TRY(amp_pending_error());
    if (!p || !path) return amp_fail(AMP_ERROR_INVALID, "parameters_load: %s is NULL", p ? "the path" : "the list");
    snprintf(what, sizeof what, "parameters_load: %.180s", path);
    amp_loading l = {.what = what};
    const amp_status status = load(&l, p, path);
    if (status != AMP_OK) amp_fail_within("parameters_load");
    amp_loading_free(&l);
    return status;
}
