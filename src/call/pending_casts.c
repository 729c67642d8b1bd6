/* Pending casts: an argument's dtype promised, and its memory given where a kernel does not convert on the way. */
#include "call/pending_casts.h"

#include "call/ahead.h"
#include "call/backend.h"
#include "core/hot.h"
#include "core/layout.h"
#include "policy/cast_cache.h"

typedef struct dense_context {
    const amp_backend *backend;
    const amp_tensor *source;
} dense_context;

static amp_tensor *build_dense(const amp_cast_key *key, void *context) {
    const dense_context *c = context;
    amp_tensor *made = amp_backend_tensor(key->storage->device, "cast", key->dtype, key->rank, key->shape);
    amp_tensor source = *c->source;
    source.storage = key->storage; /* where the elements lie as they are read */
    if (!made || c->backend->copy(made, &source) == AMP_OK) return made;
    amp_tensor_drop(made);
    return NULL;
}

/* The tensor gets memory that holds its elements densely. */
static void give_memory(amp_tensor *t, amp_storage *memory) {
    t->storage = amp_storage_retain(memory);
    t->offset = 0;
    amp_dense_strides(t->rank, t->shape, t->strides);
}

static amp_status materialize_cached(const amp_backend *backend, amp_tensor *t, bool *cached) {
    dense_context context = {backend, t->source};
    amp_cast_key key;
    amp_cast_key_of(&key, t->source, t->dtype);
    amp_cast *cast = amp_cast_obtain(&key, t->cast_life, build_dense, &context, cached);
    if (!cast) return amp_pending_error();
    give_memory(t, cast->memory);
    amp_cast_release(cast);
    return AMP_OK;
}

amp_tensor *amp_cached_cast(const char *op, amp_tensor *source, amp_dtype dtype, amp_cast_life life) {
    const amp_backend *backend = NULL;
    bool cached = false;
    if (amp_backend_for(source->storage->device, op, &backend) != AMP_OK) return NULL;
    amp_tensor *t = amp_tensor_pending_cast(op, source, dtype);
    if (!t) return NULL;
    t->cast_life = life;
    const amp_status status = materialize_cached(backend, t, &cached);
    t->source = NULL;
    if (status == AMP_OK) return t;
    amp_tensor_drop(t);
    return NULL;
}

static amp_status materialize_once(const amp_call *call, const amp_backend *backend, amp_tensor *t) {
    amp_tensor *made = amp_backend_tensor(call->device, call->op->name, t->dtype, t->rank, t->shape);
    if (!made) return amp_pending_error();
    amp_take_layout(made, t->source);
    if (amp_tensor_lies_unaligned(t->source)) AMP_TRY(amp_storage_align(t->source->storage));
    AMP_TRY(backend->copy(made, t->source));
    atomic_store_explicit(&made->storage->produced, true, memory_order_relaxed);
    give_memory(t, made->storage);
    amp_take_layout(t, made);
    amp_tensor_drop(made);
    return AMP_OK;
}

AMP_HOT amp_tensor *amp_call_pending_cast(amp_call *call, amp_tensor *source, amp_dtype dtype) {
    if (!call->casts || call->cast_count == AMP_CALL_CASTS) {
        return amp_tensor_pending_cast(call->op->name, source, dtype);
    }
    amp_tensor *t = &call->casts[call->cast_count++];
    amp_tensor_pending_cast_at(t, source, dtype);
    return t;
}

/* Of a call that will not read it. */
static amp_status materialize_ahead(const amp_call *call, amp_tensor *t) {
    amp_tensor *made = amp_ahead_tensor(call->op->name, t->dtype, t->rank, t->shape);
    if (!made) return amp_pending_error();
    give_memory(t, made->storage);
    amp_take_layout(t, t->source);
    amp_tensor_drop(made);
    return AMP_OK;
}

AMP_HOT amp_status amp_call_materialize(amp_call *call, amp_tensor *t) {
    if (!t->source || t->storage) return AMP_OK;
    if (__builtin_expect(call->ahead != 0, 0)) return materialize_ahead(call, t);
    const amp_backend *backend = NULL;
    bool cached = false;
    AMP_TRY(amp_backend_for(call->device, amp_call_name(call), &backend));
    if (t->cast_life == AMP_CAST_ONCE) {
        AMP_TRY(materialize_once(call, backend, t));
    } else {
        AMP_TRY(materialize_cached(backend, t, &cached));
    }
    call->note.casts_cached += cached;
    call->note.casts_made += !cached;
    return AMP_OK;
}
