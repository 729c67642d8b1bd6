/* Tensors and storages: making, sharing, looking at, releasing. */
#include "core/tensor_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/counters.h"
#include "core/debug.h"
#include "core/hot.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/thread.h"

/* ---- Headers --------------------------------------------------------------------------------------------------
 * A released header keeps its memory in a free list, so that a use after release reads AMP_TENSOR_DEAD, not someone
 * else's bytes. AMP_DEBUG=1 delays its reuse by QUARANTINE releases of the thread; without it, the last one released is
 * the next one used. A thread that releases more than it makes hands headers on to those that make more: so there are
 * never many more than ever lived at once. */
enum { QUARANTINE = 4096, BATCH = 64 };

typedef struct header_list {
    amp_tensor *first, *last;
    int count;
} header_list;

static __thread header_list free_headers AMP_INITIAL_EXEC;
static header_list spare_headers; /* for any thread */

static amp_tensor *pop_header(header_list *list) {
    amp_tensor *t = list->first;
    if (!t || (amp_debug && list->count <= QUARANTINE)) return NULL;
    list->first = t->scope_next;
    if (!list->first) list->last = NULL;
    list->count--;
    return t;
}

static void push_header(header_list *list, amp_tensor *t) {
    t->scope_next = NULL;
    if (!list->first) {
        list->first = list->last = t;
    } else if (amp_debug) { /* first in, first out */
        list->last->scope_next = t;
        list->last = t;
    } else {
        t->scope_next = list->first;
        list->first = t;
    }
    list->count++;
}

/* Up to a batch, from a list to another. */
static void hand_on(header_list *from, header_list *to) {
    amp_lock(AMP_LOCK_HEADERS);
    for (int i = 0; i < BATCH; i++) {
        amp_tensor *t = pop_header(from);
        if (!t) break;
        push_header(to, t);
    }
    amp_unlock(AMP_LOCK_HEADERS);
}

void amp_headers_end_thread(void) {
    amp_lock(AMP_LOCK_HEADERS);
    while (free_headers.first) {
        amp_tensor *t = free_headers.first;
        free_headers.first = t->scope_next;
        push_header(&spare_headers, t);
    }
    free_headers = (header_list){0};
    amp_unlock(AMP_LOCK_HEADERS);
}

static amp_tensor *take_header(void) {
    amp_tensor *t = pop_header(&free_headers);
    if (t) return t;
    amp_thread_watch_end();
    hand_on(&spare_headers, &free_headers);
    t = pop_header(&free_headers);
    return t ? t : amp_alloc(amp_debug_header_bytes());
}

static void keep_header(amp_tensor *t) {
    amp_thread_watch_end();
    push_header(&free_headers, t);
    if (free_headers.count > (amp_debug ? QUARANTINE : 0) + 2 * BATCH) hand_on(&free_headers, &spare_headers);
}

static void free_header_list(header_list *list) {
    for (amp_tensor *t = list->first, *next = NULL; t; t = next) {
        next = t->scope_next;
        amp_free(t);
    }
    *list = (header_list){0};
}

/* Not with AMP_DEBUG: a released tensor stays recognisable there. */
void amp_tensor_trim(void) {
    if (amp_debug) return;
    free_header_list(&free_headers);
    amp_lock(AMP_LOCK_HEADERS);
    header_list spare = spare_headers;
    spare_headers = (header_list){0};
    amp_unlock(AMP_LOCK_HEADERS);
    free_header_list(&spare);
}

/* Field by field: clearing all of it, shape and strides beyond the rank included, would cost more than the rest. */
static void init_header(amp_tensor *t, amp_dtype dtype, int rank, const int64_t *shape) {
    t->magic = AMP_TENSOR_LIVE;
    atomic_init(&t->references, 1);
    t->storage = NULL;
    t->dtype = dtype;
    t->rank = rank;
    for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
    t->offset = 0;
    t->is_view = t->requires_grad = false;
    t->is_leaf = true;
    t->source = NULL;
    t->cast_life = AMP_CAST_ONCE;
    t->scope = NULL;
    t->scope_next = t->scope_previous = NULL;
    t->mark = 0;
    t->history = NULL;
}

AMP_HOT static amp_tensor *new_header(const char *op, amp_dtype dtype, int rank, const int64_t *shape) {
    amp_tensor *t = take_header();
    if (!t) {
        amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a tensor", op);
        return NULL;
    }
    init_header(t, dtype, rank, shape);
    amp_count(&amp_counters_mine()->live_tensors, 1);
    amp_scope_adopt(t, amp_this_thread.scope);
    if (__builtin_expect(amp_debug, 0)) amp_debug_made(t, op);
    return t;
}

/* ---- Storages ------------------------------------------------------------------------------------------------- */
enum { STORAGE_BYTES = 128 };
_Static_assert(sizeof(amp_storage) <= STORAGE_BYTES, "owned data follows the storage in the same block");

/* A storage with `bytes` of its own right behind it (one block for both), or none where borrow is set. */
AMP_HOT static amp_storage *new_storage(size_t bytes, bool borrow) {
    if (bytes > SIZE_MAX / 4) return NULL;
    amp_storage *s = amp_alloc(STORAGE_BYTES + (borrow ? 0 : bytes));
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    atomic_init(&s->references, 1);
    s->device = AMP_DEVICE_CPU;
    s->bytes = bytes;
    s->owned = !borrow;
    s->data = borrow ? NULL : (char *)s + STORAGE_BYTES;
    return s;
}

amp_storage *amp_storage_retain(amp_storage *s) {
    atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);
    return s;
}

static void (*drop_hooks[AMP_KEEPERS])(amp_storage *storage);

void amp_storage_on_drop(amp_keeper keeper, void (*forget)(amp_storage *storage)) {
    drop_hooks[keeper] = forget;
}

void amp_storage_watch(amp_storage *s, amp_keeper keeper) {
    atomic_fetch_or_explicit(&s->kept_by, 1u << keeper, memory_order_relaxed);
}

AMP_APART static void tell_keepers(amp_storage *s) {
    const unsigned kept_by = atomic_load_explicit(&s->kept_by, memory_order_relaxed);
    for (int i = 0; i < AMP_KEEPERS; i++) {
        if (kept_by >> i & 1) drop_hooks[i](s);
    }
}

AMP_HOT void amp_storage_drop(amp_storage *s) {
    if (!s || !amp_is_last_reference(&s->references)) return;
    if (__builtin_expect(atomic_load_explicit(&s->kept_by, memory_order_relaxed) != 0, 0)) tell_keepers(s);
    if (s->deleter) s->deleter(s->deleter_context);
    amp_free(s);
}

/* ---- Shapes --------------------------------------------------------------------------------------------------- */
static amp_status negative_extent(const char *op, int rank, const int64_t *shape, int dim) {
    return amp_fail(AMP_ERROR_INVALID, "%s: shape %s has a negative extent in dimension %d", op,
                    amp_describe_shape(rank, shape), dim);
}

AMP_HOT amp_status amp_shape_elements(const char *op, int rank, const int64_t *shape, int64_t *elements) {
    if (rank < 0 || rank > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: a tensor has 0 to %d dimensions, not %d", op, AMP_MAX_RANK, rank);
    }
    int64_t total = 1;
    bool empty = false, overflow = false;
    for (int i = 0; i < rank; i++) {
        if (__builtin_expect(shape[i] <= 0, 0)) {
            if (shape[i] < 0) return negative_extent(op, rank, shape, i);
            empty = true;
            continue;
        }
        overflow |= __builtin_mul_overflow(total, shape[i], &total);
    }
    if (__builtin_expect(overflow, 0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: shape %s has more elements than an int64 can count", op,
                        amp_describe_shape(rank, shape));
    }
    *elements = empty ? 0 : total;
    return AMP_OK;
}

void amp_dense_strides(int rank, const int64_t *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape[i] > 1 ? shape[i] : 1;
    }
}

int64_t amp_tensor_elements(const amp_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

bool amp_tensor_is_dense(const amp_tensor *t) {
    int64_t expected = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] == 0) return true;
        if (t->shape[i] != 1 && t->strides[i] != expected) return false;
        expected *= t->shape[i];
    }
    return true;
}

/* Addresses from the first to behind the last byte that the elements reach. */
static void address_range(const amp_tensor *t, uintptr_t *first, uintptr_t *end) {
    const int64_t size = (int64_t)amp_dtype_size(t->dtype);
    *first = *end = (uintptr_t)amp_tensor_pointer(t);
    for (int i = 0; i < t->rank; i++) {
        const int64_t reach = (t->shape[i] - 1) * t->strides[i] * size;
        *(reach < 0 ? first : end) += (uintptr_t)reach;
    }
    *end += (uintptr_t)size;
}

static bool ranges_meet(const amp_tensor *a, const amp_tensor *b) {
    uintptr_t first_a, end_a, first_b, end_b;
    address_range(a, &first_a, &end_a);
    address_range(b, &first_b, &end_b);
    return first_a < end_b && first_b < end_a;
}

/* Dense in some order of its dimensions. */
static bool fills_its_range(const amp_tensor *t) {
    uintptr_t first, end;
    address_range(t, &first, &end);
    return end - first == (uintptr_t)amp_tensor_elements(t) * amp_dtype_size(t->dtype);
}

static bool holds_first_of(const amp_tensor *dense, const amp_tensor *t) {
    uintptr_t first, end;
    address_range(dense, &first, &end);
    const uintptr_t at = (uintptr_t)amp_tensor_pointer(t);
    return fills_its_range(dense) && first <= at && at < end;
}

bool amp_tensor_shares_elements(const amp_tensor *a, const amp_tensor *b) {
    if (amp_tensor_elements(a) == 0 || amp_tensor_elements(b) == 0 || !ranges_meet(a, b)) return false;
    return amp_same_elements(a, b) || holds_first_of(a, b) || holds_first_of(b, a);
}

/* One storage counts whole. Two may be the same memory only where a user lent it twice. */
bool amp_tensor_overlaps(const amp_tensor *a, const amp_tensor *b) {
    if (!a->storage || !b->storage || amp_tensor_elements(a) == 0 || amp_tensor_elements(b) == 0) return false;
    if (a->storage == b->storage) return true;
    if (!a->storage->user_memory && !b->storage->user_memory) return false;
    return ranges_meet(a, b);
}

/* ---- Descriptions --------------------------------------------------------------------------------------------- */
enum {
    DESCRIPTIONS = sizeof((amp_thread_text *)0)->descriptions / sizeof((amp_thread_text *)0)->descriptions[0],
    DESCRIPTION_BYTES = sizeof((amp_thread_text *)0)->descriptions[0]
};

static char *next_description(void) {
    amp_thread_text *text = amp_this_thread_text();
    return text->descriptions[text->next_description++ % DESCRIPTIONS];
}

static size_t print_shape(char *text, int rank, const int64_t *shape) {
    size_t used = 0;
    text[used++] = '[';
    for (int i = 0; i < rank && i < AMP_MAX_RANK; i++) {
        used += (size_t)snprintf(text + used, DESCRIPTION_BYTES - used, i ? ", %lld" : "%lld", (long long)shape[i]);
    }
    used += (size_t)snprintf(text + used, DESCRIPTION_BYTES - used, rank > AMP_MAX_RANK ? ", …]" : "]");
    return used;
}

const char *amp_describe_shape(int rank, const int64_t *shape) {
    char *text = next_description();
    print_shape(text, rank, shape);
    return text;
}

const char *amp_describe(const amp_tensor *t) {
    if (!t) return "absent";
    char *text = next_description();
    const size_t used = print_shape(text, t->rank, t->shape);
    const int more = snprintf(text + used, DESCRIPTION_BYTES - used, " %s", amp_dtype_name(t->dtype));
    if (!t->source) return text;
    snprintf(text + used + more, DESCRIPTION_BYTES - used - (size_t)more, " (cast from %s)",
             amp_dtype_name(t->source->dtype));
    return text;
}

/* ---- Making tensors ------------------------------------------------------------------------------------------- */
static amp_status check_dtype(const char *op, amp_dtype dtype) {
    if (__builtin_expect((unsigned)dtype < AMP_DTYPE_COUNT && dtype != AMP_DTYPE_NONE, 1)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: %d is no dtype", op, (int)dtype);
}

AMP_HOT static amp_status data_bytes(const char *op, amp_dtype dtype, int rank, const int64_t *shape, size_t *bytes) {
    int64_t elements = 0;
    AMP_TRY(check_dtype(op, dtype));
    if (rank > 0 && !shape) return amp_fail(AMP_ERROR_INVALID, "%s: shape is NULL for rank %d", op, rank);
    AMP_TRY(amp_shape_elements(op, rank, shape, &elements));
    if (__builtin_mul_overflow((size_t)elements, (size_t)amp_element_sizes[dtype], bytes)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: shape %s of %s has more bytes than memory has addresses", op,
                        amp_describe_shape(rank, shape), amp_dtype_name(dtype));
    }
    return AMP_OK;
}

/* One of the two is missing. */
AMP_APART static amp_tensor *give_up(const char *op, amp_tensor *t, amp_storage *s, size_t bytes) {
    if (t) {
        amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %zu bytes (%s)", op, bytes, amp_describe(t));
        amp_tensor_drop(t);
    }
    if (s) {
        s->deleter = NULL; /* the memory stays with its owner */
        amp_storage_drop(s);
    }
    return NULL;
}

static inline amp_tensor *with_storage(const char *op, amp_tensor *t, amp_storage *s, size_t bytes) {
    if (__builtin_expect(!t || !s, 0)) return give_up(op, t, s, bytes);
    t->storage = s;
    return t;
}

AMP_HOT amp_tensor *amp_tensor_new(const char *op, amp_dtype dtype, int rank, const int64_t *shape) {
    size_t bytes = 0;
    if (data_bytes(op, dtype, rank, shape, &bytes) != AMP_OK) return NULL;
    amp_tensor *t = new_header(op, dtype, rank, shape);
    if (!t) return NULL;
    amp_dense_strides(rank, shape, t->strides);
    return with_storage(op, t, new_storage(bytes, false), bytes);
}

amp_tensor *amp_tensor_view(const char *op, amp_tensor *base, int rank, const int64_t *shape, const int64_t *strides,
                            int64_t offset) {
    amp_tensor *t = new_header(op, base->dtype, rank, shape);
    if (!t) return NULL;
    for (int i = 0; i < rank; i++) t->strides[i] = strides[i];
    t->offset = offset;
    t->is_view = true;
    t->is_leaf = false;
    t->storage = amp_storage_retain(base->storage);
    return t;
}

amp_tensor *amp_tensor_same(const char *op, amp_tensor *t) {
    amp_tensor *same = amp_tensor_view(op, t, t->rank, t->shape, t->strides, t->offset);
    if (same) same->mark = t->mark;
    return same;
}

/* The geometry whole, beyond the rank too: two copies of known length are shorter than two loops. */
static void init_pending_cast(amp_tensor *t, amp_tensor *source) {
    memcpy(t->shape, source->shape, sizeof t->shape);
    memcpy(t->strides, source->strides, sizeof t->strides);
    t->rank = source->rank;
    t->source = source;
    t->requires_grad = source->requires_grad;
    t->is_leaf = false;
}

amp_tensor *amp_tensor_pending_cast(const char *op, amp_tensor *source, amp_dtype dtype) {
    amp_tensor *t = new_header(op, dtype, 0, NULL);
    if (t) init_pending_cast(t, source);
    return t;
}

AMP_HOT void amp_tensor_pending_cast_at(amp_tensor *t, amp_tensor *source, amp_dtype dtype) {
    init_header(t, dtype, 0, NULL);
    init_pending_cast(t, source);
}

AMP_HOT void amp_tensor_end_at(amp_tensor *t) {
    amp_storage_drop(t->storage);
    t->magic = AMP_TENSOR_DEAD;
}

/* Lowest and highest element offset that a geometry reaches. */
static amp_status check_strides(amp_dtype dtype, int rank, const int64_t *shape, const int64_t *strides) {
    const int64_t size = (int64_t)amp_dtype_size(dtype);
    int64_t low = 0, high = 0, bytes;
    for (int i = 0; i < rank; i++) {
        int64_t reach = 0;
        if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high) ||
            __builtin_mul_overflow(low, size, &bytes) || __builtin_mul_overflow(high, size, &bytes)) {
            return amp_fail(AMP_ERROR_INVALID, "from_memory: strides %s of shape %s reach beyond all memory",
                            amp_describe_shape(rank, strides), amp_describe_shape(rank, shape));
        }
    }
    return AMP_OK;
}

/* A stride over which no step is taken says nothing, and may be anything (DLPack); but it is read and multiplied like
 * the others. What reaches further than memory does gives way to the stride of a dense tensor. */
static bool is_stride_of_memory(int64_t extent, int64_t stride) {
    const int64_t most = INT64_C(1) << 47;
    int64_t reach;
    return !__builtin_mul_overflow(extent > 1 ? extent : 1, stride, &reach) && reach >= -most && reach <= most;
}

static void take_strides(amp_tensor *t, const int64_t *strides, bool is_empty) {
    for (int i = 0; i < t->rank; i++) {
        const bool stepped = t->shape[i] > 1 && !is_empty;
        if (stepped || is_stride_of_memory(t->shape[i], strides[i])) t->strides[i] = strides[i];
    }
}

amp_tensor *amp_from_memory(void *data, amp_dtype dtype, int rank, const int64_t *shape, const int64_t *strides,
                            void (*deleter)(void *context), void *context) {
    size_t bytes = 0;
    if (amp_failed() || data_bytes("from_memory", dtype, rank, shape, &bytes) != AMP_OK) return NULL;
    if (strides && bytes > 0 && check_strides(dtype, rank, shape, strides) != AMP_OK) return NULL;
    if (!data && bytes > 0) {
        amp_fail(AMP_ERROR_INVALID, "from_memory: data is NULL, but shape %s of %s has %zu bytes",
                 amp_describe_shape(rank, shape), amp_dtype_name(dtype), bytes);
        return NULL;
    }
    const size_t alignment = amp_dtype_size(dtype) / (amp_dtype_is_complex(dtype) ? 2 : 1);
    if (bytes > 0 && (uintptr_t)data % alignment != 0) {
        amp_fail(AMP_ERROR_INVALID, "from_memory: the data of %s %s is not aligned to %zu bytes: copy it first",
                 amp_describe_shape(rank, shape), amp_dtype_name(dtype), alignment);
        return NULL;
    }
    amp_tensor *t = new_header("from_memory", dtype, rank, shape);
    if (!t) return NULL;
    amp_dense_strides(rank, shape, t->strides);
    if (strides) take_strides(t, strides, bytes == 0);
    amp_storage *s = new_storage(bytes, true);
    if (s) {
        s->data = data;
        s->user_memory = true;
        s->deleter = deleter;
        s->deleter_context = context;
    }
    return with_storage("from_memory", t, s, bytes);
}

amp_tensor *amp_from_data(const void *data, amp_dtype dtype, int rank, const int64_t *shape) {
    if (amp_failed()) return NULL;
    amp_tensor *t = amp_tensor_new("from_data", dtype, rank, shape);
    if (!t || t->storage->bytes == 0) return t;
    if (!data) {
        amp_fail(AMP_ERROR_INVALID, "from_data: data is NULL, but the tensor is %s", amp_describe(t));
        amp_tensor_drop(t);
        return NULL;
    }
    memcpy(t->storage->data, data, t->storage->bytes);
    return t;
}

/* ---- Ownership ------------------------------------------------------------------------------------------------ */
AMP_HOT static void end_tensor(amp_tensor *t) {
    if (__builtin_expect(amp_debug, 0)) amp_debug_gone(t);
    if (__builtin_expect(t->history != NULL, 0)) amp_tensor_on_history_end(t->history);
    amp_storage_drop(t->storage);
    t->magic = AMP_TENSOR_DEAD;
    amp_count(&amp_counters_mine()->live_tensors, SIZE_MAX);
    keep_header(t);
}

AMP_HOT void amp_tensor_drop(amp_tensor *t) {
    amp_scope_move(t, NULL);
    if (amp_is_last_reference(&t->references)) end_tensor(t);
}

static amp_status check_live(const char *what, const amp_tensor *t) {
    if (amp_tensor_is_live(t)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the tensor was released before (a scope that ended, or amp_release)", what);
}

/* A cast on the dispatcher's stack has no owner that could give it away. */
static amp_status check_owned(const char *what, const amp_tensor *t, const char *instead) {
    AMP_TRY(check_live(what, t));
    if (!t->source) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the tensor is an argument of the op that is running, and not yours%s", what,
                    instead);
}

amp_tensor *amp_keep(amp_tensor *t) {
    if (!t || check_owned("keep", t, ": keep a view or clone of it") != AMP_OK) return NULL;
    if (t->scope) amp_scope_move(t, NULL);
    return t;
}

amp_tensor *amp_retain(amp_tensor *t) {
    if (!t || check_owned("retain", t, ": retain a view or clone of it") != AMP_OK) return NULL;
    atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
    return t;
}

AMP_HOT void amp_release(amp_tensor *t) {
    if (!t || check_owned("release", t, "") != AMP_OK) return;
    if (!amp_is_last_reference(&t->references)) return;
    /* Of several owners, the scope goes last. One of another thread lets go at its own end: its list is that thread's,
     * which counts on the reference that is put back here. */
    if (__builtin_expect(t->scope && !amp_scope_is_here(t->scope), 0)) {
        atomic_store_explicit(&t->references, 1, memory_order_release);
        return;
    }
    amp_scope_move(t, NULL);
    end_tensor(t);
}

/* The array of a returned list lives in the storage of a tensor of its own, its holder. */
void amp_list_release(amp_tensor_list list) {
    if (!list.holder || check_live("list_release", list.holder) != AMP_OK) return;
    for (int64_t i = 0; i < list.count; i++) amp_release(list.items[i]);
    amp_tensor_drop(list.holder);
}

/* ---- Looking at tensors --------------------------------------------------------------------------------------- */
static bool usable(const char *what, const amp_tensor *t) {
    return t && check_live(what, t) == AMP_OK;
}

amp_dtype amp_tensor_dtype(const amp_tensor *t) {
    return usable("tensor_dtype", t) ? t->dtype : AMP_DTYPE_NONE;
}

amp_device amp_tensor_device(const amp_tensor *t) {
    return usable("tensor_device", t) && t->storage ? t->storage->device : AMP_DEVICE_CPU;
}

int amp_tensor_rank(const amp_tensor *t) {
    return usable("tensor_rank", t) ? t->rank : 0;
}

const int64_t *amp_tensor_shape(const amp_tensor *t) {
    return usable("tensor_shape", t) ? t->shape : NULL;
}

const int64_t *amp_tensor_strides(const amp_tensor *t) {
    return usable("tensor_strides", t) ? t->strides : NULL;
}

int64_t amp_tensor_size(const amp_tensor *t, int dim) {
    if (!usable("tensor_size", t)) return 0;
    const int d = dim < 0 ? dim + t->rank : dim;
    if (d < 0 || d >= t->rank) {
        amp_fail(AMP_ERROR_INVALID, "tensor_size: dimension %d is out of range for %s", dim, amp_describe(t));
        return 0;
    }
    return t->shape[d];
}

int64_t amp_tensor_numel(const amp_tensor *t) {
    return usable("tensor_numel", t) ? amp_tensor_elements(t) : 0;
}

bool amp_tensor_is_contiguous(const amp_tensor *t) {
    return usable("tensor_is_contiguous", t) && amp_tensor_is_dense(t);
}

static bool on_cpu(const char *what, const amp_tensor *t) {
    if (!usable(what, t)) return false;
    if (t->storage->device == AMP_DEVICE_CPU) return true;
    amp_fail(AMP_ERROR_DEVICE, "%s: the tensor is on %s; copy it to the cpu first (amp_to_device)", what,
             amp_device_name(t->storage->device));
    return false;
}

/* ---- Bytes of files ------------------------------------------------------------------------------------------- */

amp_tensor *amp_tensor_over_file(const char *op, const void *data, amp_dtype dtype, int rank, const int64_t *shape,
                                 void (*release)(void *context), void *context) {
    size_t bytes = 0;
    if (data_bytes(op, dtype, rank, shape, &bytes) != AMP_OK) return NULL;
    amp_tensor *t = new_header(op, dtype, rank, shape);
    if (!t) return NULL;
    amp_dense_strides(rank, shape, t->strides);
    if (!with_storage(op, t, new_storage(bytes, true), bytes)) return NULL;
    const size_t alignment = amp_dtype_size(dtype) / (amp_dtype_is_complex(dtype) ? 2 : 1);
    amp_storage *s = t->storage;
    s->data = (void *)(uintptr_t)data;
    s->deleter = release;
    s->deleter_context = context;
    s->read_only = true;
    atomic_init(&s->in_file, true);
    atomic_init(&s->unaligned, (uintptr_t)data % alignment != 0);
    return t;
}

/* What an aligned storage holds: the file's bytes stay, for a thread may be reading them. */
typedef struct aligned_bytes {
    void (*release)(void *context);
    void *context;
    _Alignas(STORAGE_BYTES / 2) char bytes[];
} aligned_bytes;

static void release_aligned(void *context) {
    aligned_bytes *a = context;
    if (a->release) a->release(a->context);
    amp_free(a);
}

static bool align(amp_storage *s) {
    aligned_bytes *a = amp_alloc(sizeof *a + s->bytes);
    if (!a) return false;
    memcpy(a->bytes, s->data, s->bytes);
    amp_pages_let_go(s->data, s->bytes);
    a->release = s->deleter;
    a->context = s->deleter_context;
    s->data = a->bytes;
    s->deleter = release_aligned;
    s->deleter_context = a;
    atomic_store_explicit(&s->in_file, false, memory_order_relaxed);
    atomic_store_explicit(&s->unaligned, false, memory_order_release);
    return true;
}

amp_status amp_storage_align(amp_storage *s) {
    amp_lock(AMP_LOCK_ELEMENTS);
    const bool done = !amp_storage_is_unaligned(s) || align(s);
    amp_unlock(AMP_LOCK_ELEMENTS);
    return done ? AMP_OK : amp_fail(AMP_ERROR_MEMORY, "a tensor of a file: no memory for %zu bytes", s->bytes);
}

const void *amp_storage_bytes(amp_storage *s) {
    amp_lock(AMP_LOCK_ELEMENTS);
    const void *bytes = s->data;
    amp_unlock(AMP_LOCK_ELEMENTS);
    return bytes;
}

void amp_storage_let_go(amp_storage *s) {
    amp_lock(AMP_LOCK_ELEMENTS); /* what aligning puts in their place is no file's */
    if (atomic_load_explicit(&s->in_file, memory_order_relaxed)) amp_pages_let_go(s->data, s->bytes);
    amp_unlock(AMP_LOCK_ELEMENTS);
}

void amp_storage_bring_in(amp_storage *s) {
#ifdef MADV_POPULATE_READ
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)amp_storage_bytes(s),
                    first = at / page * page;
    (void)madvise((char *)(uintptr_t)first, at + s->bytes - first, MADV_POPULATE_READ); /* older systems refuse */
#else
    (void)s;
#endif
}

void amp_pages_let_go(const void *data, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    const uintptr_t first = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    if (end > first) (void)madvise((char *)(uintptr_t)data + (first - at), end - first, MADV_DONTNEED);
}

bool (*amp_tensor_on_read)(const amp_tensor *tensor, bool decides);
void (*amp_tensor_on_history_end)(struct amp_history *history);
bool (*amp_tensor_on_write)(const amp_tensor *tensor, bool is_done);

static bool tell_of_writing(const amp_tensor *t, bool is_done) {
    const bool is_noted = amp_this_thread.layers & AMP_LAYER_CAPTURE;
    return __builtin_expect(!is_noted, 1) || amp_tensor_on_write(t, is_done);
}

const void *amp_data(const amp_tensor *t) {
    return on_cpu("data", t) && amp_tensor_read(t) ? amp_tensor_pointer(t) : NULL;
}

void amp_tensor_written(amp_tensor *t) {
    atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_release);
}

amp_status amp_tensor_check_writable(const char *op, const char *name, const amp_tensor *t) {
    if (!t->storage || !t->storage->read_only) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: %s is %s over memory that its owner shared read-only; write to a copy of it", op, name,
                    amp_describe(t));
}

amp_status amp_tensor_fail_shared(const char *op, const char *of, const char *name, const amp_tensor *t) {
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: %s'%s' is %s with elements that share memory (an expanded view); write to a copy of it", op,
                    of, name, amp_describe(t));
}

void *amp_data_mut(amp_tensor *t) {
    if (!on_cpu("data_mut", t) || amp_tensor_check_writable("data_mut", "the tensor", t) != AMP_OK) return NULL;
    if (!tell_of_writing(t, false)) return NULL;
    amp_tensor_written(t);
    return amp_tensor_pointer(t);
}

amp_status amp_tensor_mark_dirty(amp_tensor *t) {
    if (!t) return amp_fail(AMP_ERROR_INVALID, "tensor_mark_dirty: the tensor is NULL");
    AMP_TRY(check_live("tensor_mark_dirty", t));
    (void)tell_of_writing(t, true);
    amp_tensor_written(t);
    return amp_pending_error();
}

uint64_t amp_tensor_version(const amp_tensor *t) {
    return usable("tensor_version", t) ? atomic_load_explicit(&t->storage->version, memory_order_acquire) : 0;
}

amp_status amp_tensor_mark_parameter(amp_tensor *t) {
    if (!t) return amp_fail(AMP_ERROR_INVALID, "tensor_mark_parameter: the tensor is NULL");
    AMP_TRY(check_live("tensor_mark_parameter", t));
    atomic_store_explicit(&t->storage->parameter, true, memory_order_relaxed);
    return amp_pending_error();
}
