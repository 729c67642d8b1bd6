/* Lists of named tensors, to files and back. */
#include "train/named.h"

#include <stdio.h>

#include "amp/ops.h"
#include "amp/scope.h"
#include "core/memory.h"
#include "core/near_name.h"
#include "train/parameters.h"

static char *joined(const char *first, const char *second) {
    const size_t bytes = (first ? strlen(first) + 1 : 0) + strlen(second) + 1;
    char *name = amp_alloc(bytes);
    if (name) snprintf(name, bytes, "%s%s%s", first ? first : "", first ? "." : "", second);
    return name;
}

amp_status amp_named_add(amp_named *list, const char *first, const char *second, amp_tensor *t) {
    if (!t) return amp_pending_error();
    char *name = joined(first, second);
    if (!name || !amp_make_room((void **)&list->names, list->count, &list->name_room, sizeof *list->names) ||
        !amp_make_room((void **)&list->tensors, list->count, &list->tensor_room, sizeof(amp_tensor *))) {
        amp_free(name);
        return amp_fail(AMP_ERROR_MEMORY, "no memory for a list of tensors");
    }
    list->names[list->count] = name;
    list->tensors[list->count++] = amp_retain(t);
    return AMP_OK;
}

static amp_status add_data(amp_named *list, const char *first, const char *second, const void *data, amp_dtype dtype,
                           int64_t count) {
    amp_scope_here();
    return amp_named_add(list, first, second, amp_from_data(data, dtype, count > 0 ? 1 : 0, &count));
}

amp_status amp_named_add_numbers(amp_named *list, const char *first, const char *second, const double *numbers,
                                 int64_t count) {
    return add_data(list, first, second, numbers, AMP_F64, count);
}

amp_status amp_named_add_wholes(amp_named *list, const char *first, const char *second, const int64_t *wholes,
                                int64_t count) {
    return add_data(list, first, second, wholes, AMP_I64, count);
}

void amp_named_free(amp_named *list) {
    for (int64_t i = 0; i < list->count; i++) {
        amp_free(list->names[i]);
        amp_release(list->tensors[i]);
    }
    amp_free(list->names);
    amp_free(list->tensors);
    *list = (amp_named){0};
}

/* ---- Files ---------------------------------------------------------------------------------------------------------- */
static amp_status save(const amp_named *list, amp_tensor **here, const char *path, const char *const *metadata) {
    for (int64_t i = 0; i < list->count; i++) {
        amp_tensor *t = list->tensors[i];
        here[i] = amp_tensor_device(t) == AMP_DEVICE_CPU ? t : amp_to_device(t, AMP_DEVICE_CPU);
        if (!here[i]) return amp_pending_error();
    }
    return amp_save_safetensors(path, (const char *const *)list->names, here, list->count, metadata);
}

amp_status amp_named_save(const amp_named *list, const char *what, const char *path, const char *const *metadata) {
    amp_scope_here();
    amp_tensor **here = amp_alloc((size_t)list->count * sizeof(amp_tensor *));
    if (!here) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a list of tensors", what);
    const amp_status status = save(list, here, path, metadata);
    amp_free(here);
    if (status != AMP_OK) amp_fail_within(what);
    return status;
}

amp_status amp_named_read(amp_named *list, amp_safetensors *file, const char *first) {
    const size_t length = first ? strlen(first) : 0;
    amp_scope_here();
    for (int64_t i = 0; i < amp_safetensors_count(file); i++) {
        const char *name = amp_safetensors_name(file, i);
        if (first && (strncmp(name, first, length) != 0 || name[length] != '.')) continue;
        AMP_TRY(amp_named_add(list, NULL, first ? name + length + 1 : name, amp_safetensors_get(file, name)));
    }
    return AMP_OK;
}

amp_status amp_named_check(const amp_named *list, const char *what) {
    if (list->count > 0 && (!list->names || !list->tensors))
        return amp_fail(AMP_ERROR_INVALID, "%s: %s is NULL", what, list->names ? "tensors" : "names");
    for (int64_t i = 0; i < list->count; i++) {
        if (!list->names[i] || !list->tensors[i] || !amp_tensor_is_live(list->tensors[i]))
            return amp_fail(AMP_ERROR_INVALID, "%s: number %lld has no %s", what, (long long)i,
                            list->names[i] ? "tensor" : "name");
    }
    return AMP_OK;
}

/* ---- Looking --------------------------------------------------------------------------------------------------------- */
amp_tensor *amp_named_find(const amp_named *list, const char *name) {
    for (int64_t i = 0; i < list->count; i++) {
        if (strcmp(list->names[i], name) == 0) return list->tensors[i];
    }
    return NULL;
}

const char *amp_named_hint(const amp_named *list, const char *wanted) {
    amp_near_name near = {.wanted = wanted};
    for (int64_t i = 0; i < list->count; i++) amp_near_name_offer(&near, list->names[i]);
    return amp_near_name_hint(near.nearest);
}
