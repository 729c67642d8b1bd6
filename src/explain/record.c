/* The explain layer: outermost, so that it sees the call as the user made it, and times all below it. */
#include "explain/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "amp/explain.h"
#include "core/lock.h"
#include "core/memory.h"
#include "dispatch/layers.h"
#include "policy/promotion.h"

enum { BUCKETS = 1024 };

static amp_record *buckets[BUCKETS];
static int recording; /* nested begins */

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Describing the inputs ------------------------------------------------------------------------------------- */
static size_t append_tensor(char *text, size_t used, const amp_tensor *t) {
    static const char rest[] = ", …"; /* of more than there is room for */
    if (used == AMP_INPUTS_BYTES) return used;
    char one[AMP_MAX_RANK * 21 + 16]; /* rank 8 of the longest numbers fits */
    int n = snprintf(one, sizeof one, "%s%s[", used ? ", " : "", amp_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) {
        n += snprintf(one + n, sizeof one - (size_t)n, i ? ", %lld" : "%lld", (long long)t->shape[i]);
    }
    n += snprintf(one + n, sizeof one - (size_t)n, "]");
    if (used + (size_t)n + sizeof rest > AMP_INPUTS_BYTES) {
        memcpy(text + used, rest, sizeof rest);
        return AMP_INPUTS_BYTES;
    }
    memcpy(text + used, one, (size_t)n + 1);
    return used + (size_t)n;
}

/* The inputs in words, and what they promote to. */
typedef struct inputs {
    char *text;
    size_t used;
    amp_dtype dimensioned, numbers;
} inputs;

static void add_input(inputs *in, const amp_tensor *t) {
    if (!t) return;
    amp_dtype *group = t->rank > 0 ? &in->dimensioned : &in->numbers;
    *group = amp_promote(*group, t->dtype);
    in->used = append_tensor(in->text, in->used, t);
}

static void describe_inputs(const amp_call *call, amp_record *key) {
    inputs in = {.text = key->inputs, .dimensioned = AMP_DTYPE_NONE, .numbers = AMP_DTYPE_NONE};
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) add_input(&in, *amp_call_tensor(call, arg));
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) add_input(&in, list->items[k]);
    }
    key->runs_in = amp_raise_category(in.dimensioned, in.numbers);
}

/* ---- Recording ------------------------------------------------------------------------------------------------- */
static bool same(const amp_record *r, const amp_record *key) {
    const amp_call_note *a = &r->note, *b = &key->note;
    return r->hash == key->hash && r->op == key->op && r->form == key->form && r->device == key->device &&
           a->policy == b->policy && a->in_region == b->in_region && a->target == b->target && a->bypass == b->bypass &&
           a->overridden == b->overridden && a->kernel == b->kernel && strcmp(r->inputs, key->inputs) == 0;
}

static amp_record *find_or_add(const amp_record *key) {
    amp_record **bucket = &buckets[key->hash % BUCKETS];
    for (amp_record *r = *bucket; r; r = r->next) {
        if (same(r, key)) return r;
    }
    amp_record *r = amp_alloc(sizeof *r);
    if (!r) return NULL; /* a call that no memory was left to record still succeeds */
    *r = *key;
    r->note.casts_made = r->note.casts_cached = r->note.casts_fused = 0;
    r->next = *bucket;
    return *bucket = r;
}

static void add(amp_record *key, bool failed, uint64_t nanoseconds) {
    key->hash = XXH3_64bits(key->inputs, strlen(key->inputs)) ^ (uint64_t)key->op->id * 0x9E3779B97F4A7C15u;
    amp_lock(AMP_LOCK_EXPLAIN);
    amp_record *r = find_or_add(key);
    if (r) {
        r->calls++;
        r->failures += failed;
        r->nanoseconds += nanoseconds;
        if (r->calls == 1 || nanoseconds < r->fastest) r->fastest = nanoseconds;
        r->note.weight_of_op |= key->note.weight_of_op;
        r->note.casts_made += key->note.casts_made;
        r->note.casts_cached += key->note.casts_cached;
        r->note.casts_fused += key->note.casts_fused;
    }
    amp_unlock(AMP_LOCK_EXPLAIN);
}

amp_status amp_explain_layer(amp_call *call) {
    amp_record key;
    memset(&key, 0, sizeof key);
    describe_inputs(call, &key);
    const uint64_t start = now();
    const amp_status status = amp_call_next(call);
    const uint64_t elapsed = now() - start;
    key.op = call->op;
    key.form = call->form;
    key.device = call->device;
    key.note = call->note;
    if (key.note.target != AMP_DTYPE_NONE) key.runs_in = key.note.target;
    add(&key, status != AMP_OK, elapsed);
    return status;
}

/* ---- Control --------------------------------------------------------------------------------------------------- */
static void set_recording(int change) {
    amp_lock(AMP_LOCK_EXPLAIN);
    if (recording + change >= 0) recording += change;
    const unsigned bit = recording > 0 ? AMP_LAYER_EXPLAIN : 0;
    atomic_store_explicit(&amp_process_layers, bit, memory_order_relaxed);
    amp_unlock(AMP_LOCK_EXPLAIN);
}

void amp_explain_begin(void) {
    set_recording(1);
}

void amp_explain_end(void) {
    set_recording(-1);
}

void amp_explain_reset(void) {
    amp_lock(AMP_LOCK_EXPLAIN);
    for (int i = 0; i < BUCKETS; i++) {
        while (buckets[i]) {
            amp_record *next = buckets[i]->next;
            amp_free(buckets[i]);
            buckets[i] = next;
        }
    }
    amp_unlock(AMP_LOCK_EXPLAIN);
}

void amp_records_for_each(void (*visit)(const amp_record *record, void *context), void *context) {
    amp_lock(AMP_LOCK_EXPLAIN);
    for (int i = 0; i < BUCKETS; i++) {
        for (const amp_record *r = buckets[i]; r; r = r->next) visit(r, context);
    }
    amp_unlock(AMP_LOCK_EXPLAIN);
}

/* ---- AMP_EXPLAIN=FILE ------------------------------------------------------------------------------------------ */
__attribute__((constructor)) static void begin_from_environment(void) {
    const char *path = getenv("AMP_EXPLAIN");
    if (path && *path) amp_explain_begin();
}

/* 0, or the errno that says why not. */
static int write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file) return errno;
    const int error = fputs(text, file) < 0 ? errno : 0;
    return fclose(file) != 0 && error == 0 ? errno : error;
}

__attribute__((destructor)) static void write_from_environment(void) {
    const char *path = getenv("AMP_EXPLAIN");
    if (!path || !*path) return;
    amp_clear_error();
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    const int error = report ? write_file(path, report) : ENOMEM;
    if (error) fprintf(stderr, "libamp: AMP_EXPLAIN: cannot write '%s': %s\n", path, strerror(error));
    amp_explain_free(report);
}
