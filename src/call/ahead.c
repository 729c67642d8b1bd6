/* Tensors without elements, and the end of calls that ask for no more. */
#include "call/ahead.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "call/backend.h"
#include "call/outputs.h"
#include "core/memory.h"

/* ---- Memory that reads as zeros --------------------------------------------------------------------------------- */

enum { LEAST_LOG = 16, MOST_LOG = 46 };

/* One for all tensors of up to that size, for ever: it is the address space of one page of zeros. */
static void *_Atomic zeros[MOST_LOG];

static void *map(size_t bytes, int protection) {
    void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void *zeros_of(size_t bytes) {
    int log = LEAST_LOG;
    while (log < MOST_LOG && (size_t)1 << log < bytes) log++;
    if (log == MOST_LOG) return NULL;
    void *memory = atomic_load_explicit(&zeros[log], memory_order_acquire);
    if (memory) return memory;
    void *mine = map((size_t)1 << log, PROT_READ);
    if (mine && atomic_compare_exchange_strong(&zeros[log], &memory, mine)) return mine;
    if (mine) munmap(mine, (size_t)1 << log);
    return memory; /* another thread's, or NULL */
}

static amp_tensor *over(const char *op, void *data, amp_dtype dtype, int rank, const int64_t *shape,
                        void (*release)(void *context), void *context) {
    amp_tensor *t = data ? amp_from_memory(data, dtype, rank, shape, NULL, release, context) : NULL;
    if (!t) {
        (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a result of %s %s", op, amp_describe_shape(rank, shape),
                       amp_dtype_name(dtype));
        return NULL;
    }
    t->storage->user_memory = false;
    t->storage->is_ahead = true;
    atomic_store_explicit(&t->storage->produced, true, memory_order_relaxed);
    return t;
}

static amp_status bytes_of(const char *op, amp_dtype dtype, int rank, const int64_t *shape, size_t *bytes) {
    int64_t elements = 0;
    AMP_TRY(amp_shape_elements(op, rank, shape, &elements));
    *bytes = (size_t)elements * amp_dtype_size(dtype);
    return AMP_OK;
}

amp_tensor *amp_ahead_tensor(const char *op, amp_dtype dtype, int rank, const int64_t *shape) {
    size_t bytes = 0;
    if (bytes_of(op, dtype, rank, shape, &bytes) != AMP_OK) return NULL;
    return over(op, zeros_of(bytes), dtype, rank, shape, NULL, NULL);
}

/* ---- Zeros that may be written ----------------------------------------------------------------------------------- */

typedef struct mapping {
    void *memory;
    size_t bytes;
} mapping;

static void unmap(void *context) {
    const mapping *m = context;
    munmap(m->memory, m->bytes);
    amp_free(context);
}

/* For what an implementation may go on with: the results of its own calls, the first of several results. Pages that
 * nobody writes cost nothing. */
static amp_tensor *writable(const char *op, amp_dtype dtype, int rank, const int64_t *shape) {
    size_t bytes = 0;
    if (bytes_of(op, dtype, rank, shape, &bytes) != AMP_OK) return NULL;
    mapping *m = amp_alloc(sizeof *m);
    if (m) *m = (mapping){map(bytes + 1, PROT_READ | PROT_WRITE), bytes + 1};
    amp_tensor *t = over(op, m ? m->memory : NULL, dtype, rank, shape, unmap, m);
    if (t) return t;
    if (m && m->memory) munmap(m->memory, m->bytes);
    amp_free(m);
    return NULL;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static bool has_all(const amp_call *call) {
    if (call->op->flags & AMP_OP_RETURNS_LIST) return false;
    for (int i = 0; i < call->op->output_count; i++) {
        if (!call->outputs[i] && amp_call_wants(call, i)) return false;
    }
    return true;
}

/* The innermost scope may be one that the implementation opened. */
static amp_tensor *into_call(const amp_call *call, amp_tensor *t) {
    if (t && t->scope != call->frame) amp_scope_move(t, call->frame);
    return t;
}

amp_tensor *amp_ahead_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape) {
    const char *const op = call->op->name;
    if (amp_failed()) return NULL;
    if (index == 0 && call->target) {
        if (amp_check_target(call, dtype, rank, shape) != AMP_OK) return NULL;
        call->outputs[0] = call->target;
    } else {
        const bool last = call->op->output_count == 1 && !(call->op->flags & AMP_OP_RETURNS_LIST) && !call->is_part;
        amp_tensor *t = last ? amp_ahead_tensor(op, dtype, rank, shape) : writable(op, dtype, rank, shape);
        call->outputs[index] = into_call(call, t);
    }
    if (!call->outputs[index] || !has_all(call)) return call->outputs[index];
    call->has_ended = true;
    amp_this_thread.error = AMP_ERROR_INTERNAL; /* no sentence: it is nobody's error */
    return NULL;
}

/* ---- Calls on the way -------------------------------------------------------------------------------------------- */

static amp_status find_ahead(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    (void)call;
    (void)arg;
    return amp_tensor_memory(t)->storage->is_ahead ? AMP_ERROR_INVALID : AMP_OK;
}

/* The call whose implementation runs. */
static const amp_call *whole_of_parts(void) {
    return (const amp_call *)(const void *)((const char *)amp_this_thread.note - offsetof(amp_call, note));
}

amp_status amp_ahead_run_part(amp_call *call) {
    const amp_call *whole = whole_of_parts();
    const bool is_there = amp_call_each_tensor(call, find_ahead) == AMP_OK;
    if (is_there && !(call->target && call->target->storage->is_ahead)) return amp_call_next(call);
    if (!(whole->op->flags & AMP_OP_COMPOSED) && !(call->op->flags & AMP_OP_VIEW))
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: what %s makes may be looked at", whole->op->name,
                        call->op->name);
    call->ahead = whole->ahead;
    call->is_part = true;
    return amp_call_next(call);
}

bool amp_ahead_ended(const amp_call *call) {
    if (!call->has_ended) return false;
    amp_this_thread.error = AMP_OK;
    return true;
}
