/* Loads that happen as a whole or not at all. */
#include "train/loading.h"

#include <stdlib.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "call/backend.h"
#include "core/memory.h"
#include "train/parameters.h"

static amp_status note(amp_loading *l, amp_noted noted) {
    if (!amp_make_room((void **)&l->items, l->count, &l->capacity, sizeof *l->items))
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", l->what);
    l->items[l->count++] = noted;
    return AMP_OK;
}

amp_status amp_loading_set(amp_loading *l, void *to, amp_loading_setter set, const void *value, size_t bytes) {
    amp_noted noted = {.to = to, .set = set, .bytes = bytes};
    memcpy(noted.value, value, bytes);
    return note(l, noted);
}

amp_status amp_loading_bytes(amp_loading *l, void *to, const void *value, size_t bytes) {
    return amp_loading_set(l, to, NULL, value, bytes);
}

amp_status amp_loading_nothing(amp_loading *l, amp_tensor **place) {
    return note(l, (amp_noted){.place = place});
}

/* What is copied later stays where it is, as long as its dtype and device are right; what becomes the place's own is
 * memory like `like`. */
static amp_tensor *fitted(bool is_copied, amp_tensor *like, amp_tensor *from) {
    amp_tensor *here = amp_to_device(from, (int)amp_tensor_device(like), .dtype = like->dtype);
    if (!here || is_copied) return here;
    amp_tensor *own = amp_empty_like(like);
    return own && amp_copy_(own, here) ? own : NULL;
}

amp_status amp_loading_tensor(amp_loading *l, amp_tensor **place, amp_tensor *like, amp_tensor *from) {
    amp_no_grad_here();
    amp_scope_here();
    if (*place) {
        AMP_TRY(amp_tensor_check_writable(l->what, "what is loaded into", *place));
        AMP_TRY(amp_tensor_check_separate(l->what, "", "what is loaded into", *place));
    }
    amp_tensor *fits = fitted(*place != NULL, like, from);
    if (!fits) return amp_pending_error();
    AMP_TRY(note(l, (amp_noted){.place = place, .from = fits}));
    (void)amp_retain(fits);
    return AMP_OK;
}

static void put(amp_noted *n) {
    if (n->set) {
        n->set(n->to, n->value);
    } else if (n->to) {
        memcpy(n->to, n->value, n->bytes);
    } else if (*n->place && n->from) {
        (void)amp_copy_tensor(*n->place, n->from);
        (void)amp_tensor_mark_dirty(*n->place);
    } else {
        amp_release(*n->place);
        *n->place = n->from;
        n->from = NULL;
    }
}

/* ---- Sources that lie in memory that is written --------------------------------------------------------------------- */
static bool is_copied(const amp_noted *n) {
    return n->place && *n->place && n->from;
}

static int by_address(const void *a, const void *b) {
    const uintptr_t first = (uintptr_t) * (amp_storage *const *)a, second = (uintptr_t) * (amp_storage *const *)b;
    return (first > second) - (first < second);
}

static amp_status take_apart(amp_noted *n) {
    amp_no_grad_here();
    amp_scope_here();
    amp_tensor *copy = amp_clone(n->from);
    if (!copy) return amp_pending_error();
    amp_release(n->from);
    n->from = amp_keep(copy);
    return AMP_OK;
}

/* `written` has room for the storages of all places. */
static amp_status read_first(amp_loading *l, amp_storage **written) {
    size_t count = 0;
    for (int64_t i = 0; i < l->count; i++) {
        if (is_copied(&l->items[i])) written[count++] = (*l->items[i].place)->storage;
    }
    if (count > 0) qsort(written, count, sizeof *written, by_address);
    for (int64_t i = 0; i < l->count; i++) {
        amp_noted *n = &l->items[i];
        if (is_copied(n) && bsearch(&n->from->storage, written, count, sizeof *written, by_address))
            AMP_TRY(take_apart(n));
    }
    return AMP_OK;
}

amp_status amp_loading_prepare(amp_loading *l) {
    amp_storage **written = amp_alloc((size_t)l->count * sizeof(amp_storage *));
    const amp_status status = written ? read_first(l, written) : amp_fail(AMP_ERROR_MEMORY, "%s: no memory", l->what);
    amp_free(written);
    return status;
}

void amp_loading_put(amp_loading *l) {
    for (int64_t i = 0; i < l->count; i++) put(&l->items[i]);
}

amp_status amp_loading_write(amp_loading *l) {
    AMP_TRY(amp_loading_prepare(l));
    amp_loading_put(l);
    return AMP_OK;
}

void amp_loading_free(amp_loading *l) {
    for (int64_t i = 0; i < l->count; i++) amp_release(l->items[i].from);
    amp_free(l->items);
    *l = (amp_loading){.what = l->what};
}
