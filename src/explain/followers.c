/* A result is watched from the call that made it to its end. What reads it is known then: nothing but one activation,
 * and the pair is counted. A view of it, a copy and any other reader end the watch, and so does a program that keeps
 * the tensor: only what is sure is counted. */
#include "explain/followers.h"

#include <pthread.h>
#include <string.h>

#include "core/lock.h"

/* By c_name: what makes a result, and the op that applies an activation to it before it is stored. */
static const struct {
    const char *maker, *fused;
} makers[] = {
    {"linear", "linear_pointwise"},
    {"conv1d", "convolution_pointwise"},
    {"conv2d", "convolution_pointwise"},
    {"conv3d", "convolution_pointwise"},
    {"conv_transpose1d", "convolution_transpose_pointwise"},
    {"conv_transpose2d", "convolution_transpose_pointwise"},
    {"conv_transpose3d", "convolution_transpose_pointwise"},
};

/* The activations that those know, and what they call them. */
static const struct {
    const char *op, *attr;
} activations[] = {
    {"relu", "relu"},       {"gelu", "gelu"},           {"silu", "swish"},        {"tanh", "tanh"},
    {"sigmoid", "sigmoid"}, {"hardswish", "hardswish"}, {"hardtanh", "hardtanh"}, {"leaky_relu", "leaky_relu"},
};

static const char *fused_of(const amp_op_info *maker) {
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].maker, maker->c_name) == 0) return makers[i].fused;
    return NULL;
}

static const char *attr_of(const amp_op_info *op) {
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcmp(activations[i].op, op->c_name) == 0) return activations[i].attr;
    return NULL;
}

const char *amp_follower_fused(const amp_op_info *maker, const amp_op_info *follower, const char **attr) {
    *attr = follower ? attr_of(follower) : NULL;
    return *attr ? fused_of(maker) : NULL;
}

/* ---- Results that are watched ------------------------------------------------------------------------------------ */
enum { WATCHED = 64 };

static struct watched {
    const amp_storage *storage; /* NULL: the place is free */
    amp_record *record;         /* of the call that made it */
    const amp_op_info *reader;  /* the activation that read it; NULL: nobody yet */
} watched[WATCHED];
static int watching; /* places taken */

static struct watched *find(const amp_storage *storage) {
    for (int i = 0; i < WATCHED; i++)
        if (watched[i].storage == storage) return &watched[i];
    return NULL;
}

static void leave(struct watched *w) {
    w->storage = NULL;
    watching--;
}

static void count(struct watched *w) {
    amp_record *r = w->record;
    leave(w);
    if (!r->follower) r->follower = w->reader;
    r->followed += r->follower == w->reader;
}

static void end_of_storage(amp_storage *storage) {
    amp_lock(AMP_LOCK_EXPLAIN);
    struct watched *w = find(storage);
    if (w) (w->reader ? count : leave)(w);
    amp_unlock(AMP_LOCK_EXPLAIN);
}

static void tell_us(void) {
    amp_storage_on_drop(AMP_KEEPER_EXPLAIN, end_of_storage);
}

static void watch(amp_storage *storage, amp_record *record) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct watched *w = find(NULL);
    if (!w) return; /* many are alive at a time: some are not looked at */
    pthread_once(&once, tell_us);
    *w = (struct watched){.storage = storage, .record = record};
    watching++;
    amp_storage_watch(storage, AMP_KEEPER_EXPLAIN);
}

/* It is, or it was. */
static bool is_watched(const amp_storage *storage) {
    return atomic_load_explicit(&storage->kept_by, memory_order_relaxed) & 1u << AMP_KEEPER_EXPLAIN;
}

static void read_by(const amp_call *call, const amp_tensor *t) {
    const amp_tensor *read = t && t->source ? t->source : t; /* a cast that has memory by now was made of it too */
    const amp_storage *storage = read ? read->storage : NULL;
    if (!storage || !is_watched(storage)) return;
    struct watched *w = find(storage);
    if (!w) return;
    const bool alone = !w->reader && attr_of(call->op) && call->form != AMP_FORM_OUT;
    w->reader = call->op;
    if (!alone) {
        leave(w);
    } else if (call->form == AMP_FORM_INPLACE) {
        count(w); /* what others read from now on is the activation's */
    }
}

bool amp_follower_may_have(const amp_record_key *key) {
    return key->form == AMP_FORM_FUNCTION && !key->other_shapes && fused_of(key->op);
}

static void note_readers(const amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) read_by(call, *amp_call_tensor(call, arg));
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) read_by(call, list->items[k]);
    }
}

void amp_followers_note(const amp_call *call, amp_record *record) {
    if (watching) note_readers(call);
    if (!record || !record->may_have_follower) return;
    const amp_tensor *result = call->outputs[0];
    if (result && result->storage && !is_watched(result->storage)) watch(result->storage, record);
}

void amp_followers_forget(void) {
    memset(watched, 0, sizeof watched);
    watching = 0;
}
