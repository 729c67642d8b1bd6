/* Data-parallel training: a model that is in every rank, and the backward that all ranks do together. */
#include "distributed/data_parallel.h"

#include <stdlib.h>
#include <time.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "core/thread.h"
#include "grad/history.h"
#include "train/parameters.h"

static const char what_create[] = "data_parallel_create", what_backward[] = "data_parallel_backward";

enum { BUCKET_BYTES = 25 << 20 };

double amp_distributed_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

amp_status amp_data_parallel_enter(const char *what, const amp_data_parallel *d, const amp_world **group) {
    AMP_TRY(amp_world_enter(what, group));
    if (!d) return amp_fail(AMP_ERROR_INVALID, "%s: the ddp is NULL", what);
    if (d->size == (*group)->size) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the ddp was made in a group of %d, and this one has %d", what, d->size,
                    (*group)->size);
}

/* ---- Arriving ---------------------------------------------------------------------------------------------------- */
/* A plain backward is about to add to what is there; amp_grad looks the same from here. */
static void note_local(amp_reduced *r) {
    const amp_tensor *there = amp_tensor_grad(r->tensor);
    if (!there) r->is_asked = false; /* it begins anew */
    if (r->is_asked || !r->placed || there != r->placed) return;
    r->is_asked = true;
    r->version = amp_tensor_version(r->placed);
}

/* The gradient that came before this one lies at its leaf by now, and in its bucket: once is enough. */
static void let_go_of_last(amp_data_parallel *d, amp_reduced *next) {
    if (d->last) (void)amp_tensor_zero_grad(d->last->tensor);
    d->last = next;
}

static amp_tensor *hook(void *context, amp_tensor *gradient) {
    amp_reduced *r = context;
    amp_data_parallel *d = r->ddp;
    if (!d->is_active) note_local(r);
    if (!d->is_active || !d->overlaps) return NULL;
    let_go_of_last(d, r);
    if (r->is_given) {
        (void)amp_fail(AMP_ERROR_INVALID,
                       "%s: the gradient of '%.200s' arrives twice; pass .overlap = AMP_SET(false) to "
                       "amp_data_parallel_create",
                       what_backward, r->name);
        return NULL;
    }
    if (amp_bucket_give(d, r, gradient) == AMP_OK) (void)amp_buckets_advance(d, false);
    return NULL;
}

static void remove_hook(amp_reduced *r) {
    if (!r->node) return;
    amp_grad_hook_remove(r->node, hook, r);
    amp_grad_node_drop(r->node);
    r->node = NULL;
}

/* At the node that the leaf has now: one that was frozen, or is trained again, has another. Behind the program's hooks. */
static amp_status follow_leaf(amp_reduced *r) {
    int output = 0;
    amp_grad_node *node = amp_history_node(r->tensor, &output);
    if (node == r->node) return AMP_OK;
    remove_hook(r);
    if (!node) return AMP_OK;
    if (!amp_grad_hook_add_last(node, output, hook, r))
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a hook", what_backward);
    r->node = amp_grad_node_retain(node);
    return AMP_OK;
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */
void amp_data_parallel_destroy(amp_data_parallel *d) {
    if (!d) return;
    for (int i = 0; i < d->count; i++) {
        amp_reduced *r = &d->items[i];
        remove_hook(r);
        amp_free(r->name);
        amp_release(r->tensor);
        amp_release(r->placed);
    }
    for (int64_t i = 0; i < d->buffer_count; i++) amp_release(d->buffers[i]);
    amp_free(d->items);
    amp_free(d->buffers);
    amp_buckets_free(d);
    amp_free(d);
}

static amp_status read_options(amp_data_parallel *d, const amp_data_parallel_args *a) {
    AMP_TRY(amp_struct_mark(what_create, "bucket_bytes", a->bucket_bytes.set, a->bucket_bytes.value == 0));
    AMP_TRY(amp_struct_mark(what_create, "overlap", a->overlap.set, !a->overlap.value));
    d->wire = a->dtype == AMP_DTYPE_NONE ? AMP_F32 : a->dtype;
    d->reduction = a->reduction;
    d->bucket_bytes = a->bucket_bytes.set ? a->bucket_bytes.value : BUCKET_BYTES;
    d->overlaps = !a->overlap.set || a->overlap.value;
    if (d->wire != AMP_F32 && d->wire != AMP_BF16)
        return amp_fail(AMP_ERROR_DTYPE, "%s: dtype is %s; expected f32 or bf16", what_create, amp_dtype_name(d->wire));
    if (d->reduction != AMP_GRADIENT_MEAN && d->reduction != AMP_GRADIENT_SUM)
        return amp_fail(AMP_ERROR_INVALID, "%s: there is no reduction %d", what_create, (int)d->reduction);
    if (d->bucket_bytes > 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: bucket_bytes is %lld; expected at least 1", what_create,
                    (long long)d->bucket_bytes);
}

static amp_status check_parameter(amp_data_parallel *d, const amp_parameter *p) {
    char name[240];
    snprintf(name, sizeof name, "%s '%.200s'", p->is_buffer ? "buffer" : "parameter", p->name);
    AMP_TRY(amp_world_check_tensor(what_create, name, p->tensor));
    AMP_TRY(amp_place_add(what_create, &d->place, name, p->tensor));
    AMP_TRY(amp_tensor_check_writable(what_create, name, p->tensor));
    if (p->is_buffer || !amp_dtype_is_complex(p->tensor->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: %s is %s; complex gradients are not reduced", what_create, name,
                    amp_describe(p->tensor));
}

/* The last parameter is the first whose gradient comes. */
static amp_status take_parameters(amp_data_parallel *d, const amp_parameters *list) {
    d->items = amp_alloc_zeroed((size_t)list->count * sizeof *d->items);
    d->buffers = amp_alloc((size_t)list->count * sizeof(amp_tensor *));
    if (!d->items || !d->buffers) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_create);
    for (int64_t i = list->count - 1; i >= 0; i--) {
        const amp_parameter *p = &list->items[i];
        AMP_TRY(check_parameter(d, p));
        if (p->is_buffer) {
            d->buffers[d->buffer_count++] = amp_retain(p->tensor);
            continue;
        }
        amp_reduced *r = &d->items[d->count++];
        r->count = amp_tensor_elements(p->tensor);
        r->tensor = amp_retain(p->tensor);
        r->name = amp_text_copy(p->name);
        if (!r->name) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_create);
    }
    return AMP_OK;
}

static amp_status add_hooks(amp_data_parallel *d) {
    for (int i = 0; i < d->count; i++) {
        amp_reduced *r = &d->items[i];
        r->ddp = d;
        AMP_TRY(follow_leaf(r));
    }
    return AMP_OK;
}

static amp_status fill(amp_data_parallel *d, const amp_data_parallel_args *given, amp_data_parallel_args *a) {
    AMP_TRY(amp_pending_error());
    AMP_TRY(amp_struct_read(what_create, "amp_data_parallel_args", a, sizeof *a, sizeof a->struct_size, given));
    if (!a->parameters || a->parameters->count == 0)
        return amp_fail(AMP_ERROR_INVALID, "%s: the list of parameters is %s", what_create,
                        a->parameters ? "empty" : "NULL");
    if (a->parameters->count > INT32_MAX)
        return amp_fail(AMP_ERROR_INVALID, "%s: the list has too many parameters", what_create);
    AMP_TRY(read_options(d, a));
    AMP_TRY(take_parameters(d, a->parameters));
    AMP_TRY(amp_buckets_lay_out(d));
    return add_hooks(d);
}

/* ---- One model in all ranks -------------------------------------------------------------------------------------- */
static uint64_t mark_of(const amp_parameter *p) {
    uint64_t mark = amp_world_mix((uint64_t)p->is_buffer + 1, (uint64_t)p->tensor->dtype);
    for (const char *c = p->name; *c; c++) mark = amp_world_mix(mark, (unsigned char)*c);
    for (int i = 0; i < p->tensor->rank; i++) mark = amp_world_mix(mark, (uint64_t)p->tensor->shape[i] + 1);
    return mark;
}

static uint64_t mark_of_options(const amp_data_parallel *d) {
    return amp_world_mix(amp_world_mix((uint64_t)d->wire * 4 + (uint64_t)d->reduction, (uint64_t)d->bucket_bytes), 7);
}

/* The first place where two ranks differ, in words for both. */
static amp_status compare_marks(const amp_world *g, const amp_parameters *list, const uint64_t *all, int64_t room) {
    for (int r = 1; r < g->size; r++) {
        const uint64_t *theirs = all + r * room;
        if (theirs[0] != all[0])
            return amp_fail(AMP_ERROR_INVALID, "%s: rank %d has other options than rank 0", what_create, r);
        for (int64_t i = 1; i < room; i++) {
            if (theirs[i] == all[i]) continue;
            const amp_parameter *own = i <= list->count ? &list->items[i - 1] : NULL;
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: the models of ranks 0 and %d differ from tensor %lld on; rank %d has '%.200s' there, "
                            "%s",
                            what_create, r, (long long)(i - 1), g->rank, own ? own->name : "nothing",
                            own ? amp_describe(own->tensor) : "its list ends before");
        }
    }
    return AMP_OK;
}

/* How many there are at most, over all ranks. */
static amp_status longest_list(const amp_world *g, int64_t count, int64_t *longest) {
    int64_t *counts = amp_alloc((size_t)g->size * sizeof *counts);
    if (!counts) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_create);
    const amp_status status = amp_world_gather(what_create, &count, counts, sizeof count);
    for (int r = 0; r < g->size && status == AMP_OK; r++) *longest = counts[r] > *longest ? counts[r] : *longest;
    amp_free(counts);
    return status;
}

static amp_status check_models(const amp_world *g, const amp_data_parallel *d, const amp_parameters *list) {
    int64_t room = 0;
    AMP_TRY(longest_list(g, list->count, &room));
    room++; /* the options are the first */
    uint64_t *own = amp_alloc_zeroed((size_t)room * sizeof *own);
    uint64_t *all = amp_alloc((size_t)(room * g->size) * sizeof *all);
    amp_status status = own && all ? AMP_OK : amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_create);
    if (status == AMP_OK) {
        own[0] = mark_of_options(d);
        for (int64_t i = 0; i < list->count; i++) own[i + 1] = mark_of(&list->items[i]);
        status = amp_world_gather(what_create, own, all, (size_t)room * sizeof *own);
    }
    if (status == AMP_OK) status = compare_marks(g, list, all, room);
    amp_free(own);
    amp_free(all);
    return status;
}

static amp_status broadcast_all(const char *what, const amp_data_parallel *d) {
    for (int i = d->count - 1; i >= 0; i--) AMP_TRY(amp_world_broadcast_tensor(what, &d->place, d->items[i].tensor, 0));
    for (int64_t i = d->buffer_count - 1; i >= 0; i--)
        AMP_TRY(amp_world_broadcast_tensor(what, &d->place, d->buffers[i], 0));
    return AMP_OK;
}

static amp_status create(amp_data_parallel *d, const amp_world *g, const amp_data_parallel_args *given) {
    amp_data_parallel_args a = {.parameters = NULL};
    d->size = g->size;
    const amp_status filled = fill(d, given, &a), agreed = amp_world_agree(what_create, filled, 0);
    if (filled != AMP_OK || agreed != AMP_OK) return agreed;
    AMP_TRY(check_models(g, d, a.parameters));
    AMP_TRY(amp_place_connect(what_create, &d->place));
    return amp_place_settle(what_create, &d->place, broadcast_all(what_create, d));
}

amp_data_parallel *amp_data_parallel_create_call(const amp_data_parallel_args *given) {
    const amp_world *g = NULL;
    if (amp_world_enter(what_create, &g) != AMP_OK) return NULL;
    amp_data_parallel *d = amp_alloc_zeroed(sizeof *d);
    if (!d) (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_create);
    if (d && create(d, g, given) == AMP_OK) return d;
    amp_data_parallel_destroy(d);
    return NULL;
}

/* A program may have given it other memory since. */
static amp_status check_again(const char *what, amp_data_parallel *d, amp_tensor *t) {
    AMP_TRY(amp_world_check_tensor(what, "a tensor of the model", t));
    AMP_TRY(amp_place_add(what, &d->place, "a tensor of the model", t));
    return amp_tensor_check_writable(what, "a tensor of the model", t);
}

amp_status amp_data_parallel_broadcast(amp_data_parallel *d) {
    static const char what[] = "data_parallel_broadcast";
    const amp_world *g = NULL;
    AMP_TRY(amp_data_parallel_enter(what, d, &g));
    amp_status status = amp_pending_error();
    for (int i = 0; i < d->count && status == AMP_OK; i++) status = check_again(what, d, d->items[i].tensor);
    for (int64_t i = 0; i < d->buffer_count && status == AMP_OK; i++) status = check_again(what, d, d->buffers[i]);
    AMP_TRY(amp_world_agree(what, status, 0));
    AMP_TRY(amp_place_renew(what, &d->place));
    return amp_place_settle(what, &d->place, broadcast_all(what, d));
}

/* ---- A backward -------------------------------------------------------------------------------------------------- */
static amp_held held_by(const amp_reduced *r) {
    if (!r->before) return AMP_HELD_NOTHING;
    if (r->before != r->placed) return r->is_asked ? AMP_HELD_MIXED : AMP_HELD_LOCAL; /* create_graph adds elsewhere */
    const bool is_mixed = r->is_asked && amp_tensor_version(r->placed) != r->version;
    return is_mixed ? AMP_HELD_MIXED : AMP_HELD_REDUCED;
}

/* Leaves are empty meanwhile. */
static amp_status begin_parameter(amp_reduced *r) {
    amp_tensor *there = amp_tensor_grad(r->tensor);
    r->before = there ? amp_retain(there) : NULL;
    r->held = held_by(r);
    r->is_given = r->is_there = false;
    if (r->placed && r->before != r->placed) {
        amp_release(r->placed);
        r->placed = NULL;
        if (r->held != AMP_HELD_MIXED) r->is_asked = false;
    }
    (void)amp_tensor_zero_grad(r->tensor);
    AMP_TRY(follow_leaf(r));
    if (r->held != AMP_HELD_MIXED) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: since the last one a plain amp_backward has added to the reduced gradient of '%.200s'; plain "
                    "ones come first, from a gradient that was taken away (amp_optimizer_zero_grad)",
                    what_backward, r->name);
}

static void begin(amp_data_parallel *d) {
    amp_buckets_begin(d);
    for (int i = 0; i < d->count; i++) (void)begin_parameter(&d->items[i]);
}

static amp_status go_back(const amp_backward_args *given) {
    amp_backward_args a;
    AMP_TRY(amp_struct_read(what_backward, "amp_backward_args", &a, sizeof a, sizeof a.struct_size, given));
    if (a.create_graph)
        (void)amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: create_graph; gradients of reduced gradients are not recorded",
                       what_backward);
    return amp_backward_call(&a); /* which spends the record, also after an error */
}

/* What no hook has given: local gradients of parameters that this backward did not reach, and all where nothing
 * overlaps. */
static amp_status give_rest(amp_data_parallel *d) {
    for (int i = 0; i < d->count; i++) {
        amp_reduced *r = &d->items[i];
        amp_tensor *there = amp_tensor_grad(r->tensor);
        if (!there && r->held == AMP_HELD_LOCAL) there = r->before;
        if (there && !r->is_given) AMP_TRY(amp_bucket_give(d, r, there));
        (void)amp_tensor_zero_grad(r->tensor);
        AMP_TRY(amp_buckets_advance(d, false));
    }
    return AMP_OK;
}

/* Which gradients the ranks hold is a part of the sum, and must be the same. */
static uint64_t mark_of_held(const amp_data_parallel *d) {
    uint64_t mark = (uint64_t)d->stats.backwards + 1;
    for (int i = 0; i < d->count; i++) mark = amp_world_mix(mark, d->items[i].held == AMP_HELD_REDUCED ? 2 : 1);
    return mark;
}

/* What may need memory comes before the ranks agree. */
static void make_results(const amp_data_parallel *d) {
    for (int i = 0; i < d->count && !amp_failed(); i++) {
        amp_scope_here();
        amp_reduced *r = &d->items[i];
        amp_tensor *made = r->is_there ? amp_bucket_result(d, r) : NULL;
        r->made = made ? amp_retain(made) : NULL;
    }
}

static amp_status put(amp_reduced *r) {
    AMP_TRY(amp_tensor_set_grad(r->tensor, r->made));
    amp_release(r->placed);
    r->placed = r->made ? amp_retain(amp_tensor_grad(r->tensor)) : NULL;
    r->is_asked = false;
    return AMP_OK;
}

static void restore(amp_reduced *r) {
    (void)amp_tensor_set_grad(r->tensor, r->before);
    amp_release(r->placed);
    r->placed = NULL;
    if (r->held == AMP_HELD_REDUCED || r->held == AMP_HELD_MIXED) r->placed = amp_retain(amp_tensor_grad(r->tensor));
    if (r->held == AMP_HELD_MIXED) r->version = UINT64_MAX; /* and stays so */
}

/* Gradients are those of all ranks, or as they were. */
static amp_status end(amp_data_parallel *d, amp_status status) {
    if (status != AMP_OK) amp_place_part(&d->place);
    for (int i = 0; i < d->count && status == AMP_OK; i++) status = put(&d->items[i]);
    for (int i = 0; i < d->count; i++) {
        amp_reduced *r = &d->items[i];
        if (status != AMP_OK) restore(r);
        amp_release(r->before);
        amp_release(r->made);
        r->before = r->made = NULL;
    }
    amp_buckets_end(d);
    d->stats.backwards++;
    return status;
}

static amp_status finish(amp_data_parallel *d, amp_status status) {
    if (status == AMP_OK) (void)give_rest(d);
    if (!d->is_broken) (void)amp_buckets_advance(d, true);
    if (!d->is_broken) make_results(d);
    (void)amp_place_check(what_backward, &d->place);
    const amp_status own = amp_failed() ? amp_last_status() : AMP_OK; /* whatever it was that failed first */
    return d->is_broken ? own : amp_world_agree(what_backward, own, mark_of_held(d));
}

amp_status amp_data_parallel_backward_call(amp_data_parallel *d, const amp_backward_args *given) {
    const amp_world *g = NULL;
    AMP_TRY(amp_data_parallel_enter(what_backward, d, &g));
    AMP_TRY(amp_place_renew(what_backward, &d->place));
    begin(d);
    const double start = amp_distributed_now();
    d->is_active = true;
    amp_status status = go_back(given);
    d->is_active = false;
    const double went = amp_distributed_now();
    const unsigned layers = amp_this_thread.layers; /* sums are in no region */
    amp_this_thread.layers = 0;
    status = end(d, finish(d, status));
    amp_this_thread.layers = layers;
    d->stats.backward_seconds += went - start;
    d->stats.waiting_seconds += amp_distributed_now() - went;
    return status;
}

/* ---- Figures ----------------------------------------------------------------------------------------------------- */
amp_status amp_data_parallel_get_stats(const amp_data_parallel *d, amp_data_parallel_stats *stats) {
    static const char what[] = "data_parallel_get_stats";
    if (!d || !stats) return amp_fail(AMP_ERROR_INVALID, "%s: %s is NULL", what, d ? "the struct" : "the ddp");
    amp_data_parallel_stats made = d->stats;
    made.struct_size = stats->struct_size;
    made.buckets = d->bucket_count;
    return amp_struct_write(what, stats, stats->struct_size, &made, sizeof made);
}
