/* The tensors of a model that training changes. */
#include "train/parameters.h"

#include "amp/grad.h"
#include "core/memory.h"
#include "core/near_name.h"

char *amp_text_copy(const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = amp_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

bool amp_make_room(void **items, int64_t count, int64_t *capacity, size_t bytes) {
    if (count < *capacity) return true;
    const int64_t more = *capacity ? 2 * *capacity : 16;
    void *larger = amp_alloc((size_t)more * bytes);
    if (!larger) return false;
    if (count > 0) memcpy(larger, *items, (size_t)count * bytes);
    amp_free(*items);
    *items = larger;
    *capacity = more;
    return true;
}

amp_parameters *amp_parameters_create(void) {
    if (amp_failed()) return NULL;
    amp_parameters *p = amp_alloc_zeroed(sizeof *p);
    if (!p) (void)amp_fail(AMP_ERROR_MEMORY, "parameters_create: no memory");
    return p;
}

void amp_parameters_destroy(amp_parameters *p) {
    if (!p) return;
    for (int64_t i = 0; i < p->count; i++) {
        amp_free(p->items[i].name);
        amp_release(p->items[i].tensor);
    }
    amp_free(p->items);
    amp_free(p);
}

static amp_status check_new(const char *what, const amp_parameters *p, const char *name, const amp_tensor *t) {
    if (!p || !name || !t)
        return amp_fail(AMP_ERROR_INVALID, "%s: %s is NULL", what, !p ? "the list" : !name ? "the name" : "the tensor");
    if (!amp_tensor_is_live(t)) return amp_fail(AMP_ERROR_INVALID, "%s: '%.200s' was released before", what, name);
    for (int64_t i = 0; i < p->count; i++) {
        if (strcmp(p->items[i].name, name) == 0)
            return amp_fail(AMP_ERROR_INVALID, "%s: there is a parameter '%.200s' already", what, name);
        if (p->items[i].tensor == t)
            return amp_fail(AMP_ERROR_INVALID, "%s: '%.200s' is in the list already, as '%.200s'", what, name,
                            p->items[i].name);
    }
    return AMP_OK;
}

static amp_status append(const char *what, amp_parameters *p, const char *name, amp_tensor *t, bool is_buffer) {
    char *copy = amp_text_copy(name);
    if (!copy || !amp_make_room((void **)&p->items, p->count, &p->capacity, sizeof *p->items)) {
        amp_free(copy);
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    }
    p->items[p->count++] = (amp_parameter){copy, amp_retain(t), is_buffer};
    return AMP_OK;
}

amp_tensor *amp_parameters_add(amp_parameters *p, const char *name, amp_tensor *t) {
    if (amp_failed() || check_new("parameters_add", p, name, t) != AMP_OK) return NULL;
    if (!amp_tensor_is_leaf(t)) {
        (void)amp_fail(AMP_ERROR_INVALID,
                       "parameters_add: '%.200s' is the result of an op that was recorded; only a leaf is a parameter: "
                       "detach it",
                       name);
        return NULL;
    }
    if (amp_tensor_set_requires_grad(t, true) != AMP_OK || amp_tensor_mark_parameter(t) != AMP_OK) return NULL;
    return append("parameters_add", p, name, t, false) == AMP_OK ? t : NULL;
}

amp_tensor *amp_parameters_add_buffer(amp_parameters *p, const char *name, amp_tensor *t) {
    if (amp_failed() || check_new("parameters_add_buffer", p, name, t) != AMP_OK) return NULL;
    if (amp_tensor_requires_grad(t)) {
        (void)amp_fail(AMP_ERROR_INVALID, "parameters_add_buffer: '%.200s' requires gradients; a buffer does not",
                       name);
        return NULL;
    }
    return append("parameters_add_buffer", p, name, t, true) == AMP_OK ? t : NULL;
}

static amp_status check_trained(const char *what, const amp_parameter *p) {
    if (!amp_tensor_is_live(p->tensor))
        return amp_fail(AMP_ERROR_INVALID, "%s: parameter '%.200s' was released before", what, p->name);
    if (amp_dtype_is_floating(p->tensor->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: parameter '%.200s' is %s; expected a floating dtype", what, p->name,
                    amp_describe(p->tensor));
}

amp_status amp_parameters_check_trained(const char *what, const amp_parameters *p) {
    int64_t buffers = 0;
    if (!p || p->count == 0)
        return amp_fail(AMP_ERROR_INVALID, "%s: the list of parameters is %s", what, p ? "empty" : "NULL");
    for (int64_t i = 0; i < p->count; i++) {
        buffers += p->items[i].is_buffer;
        if (!p->items[i].is_buffer) AMP_TRY(check_trained(what, &p->items[i]));
    }
    if (buffers < p->count) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the list has buffers alone; expected a parameter", what);
}

int64_t amp_parameters_count(const amp_parameters *p) {
    return p ? p->count : 0;
}

amp_tensor *amp_parameters_at(const amp_parameters *p, int64_t index) {
    return p && index >= 0 && index < p->count ? p->items[index].tensor : NULL;
}

const char *amp_parameters_name(const amp_parameters *p, int64_t index) {
    return p && index >= 0 && index < p->count ? p->items[index].name : NULL;
}

amp_tensor *amp_parameters_find(const amp_parameters *p, const char *name) {
    if (!p || !name) {
        (void)amp_fail(AMP_ERROR_INVALID, "parameters_find: %s is NULL", p ? "the name" : "the list");
        return NULL;
    }
    amp_near_name near = {.wanted = name};
    for (int64_t i = 0; i < p->count; i++) {
        if (strcmp(p->items[i].name, name) == 0) return p->items[i].tensor;
        amp_near_name_offer(&near, p->items[i].name);
    }
    (void)amp_fail(AMP_ERROR_INVALID, "parameters_find: there is no parameter '%.200s'%s", name,
                   amp_near_name_hint(near.nearest));
    return NULL;
}

amp_status amp_parameters_zero_grad(amp_parameters *p) {
    if (!p) return amp_fail(AMP_ERROR_INVALID, "parameters_zero_grad: the list is NULL");
    for (int64_t i = 0; i < p->count; i++) (void)amp_tensor_zero_grad(p->items[i].tensor);
    return amp_pending_error();
}
