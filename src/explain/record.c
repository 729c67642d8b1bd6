/* The explain layer: outermost, so that it sees the call as the user made it, and times all below it. */
#include "explain/record.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#include "amp/explain.h"
#include "core/layout.h"
#include "core/lock.h"
#include "core/memory.h"
#include "dispatch/layers.h"
#include "explain/device_time.h"
#include "explain/followers.h"
#include "explain/operations.h"
#include "policy/promotion.h"

/* A program whose shapes change at every call must not fill memory with its records: MOST rows are 6 MB. */
enum { BUCKETS = 1024, MOST = 4096 };

static amp_record *buckets[BUCKETS];
static int record_count;
static int recording;                      /* nested begins */
static uint64_t recorded, recording_since; /* nanoseconds of the clock: before now, and the start of what runs now */

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- The inputs ------------------------------------------------------------------------------------------------ */
static amp_record_layout layout_of(const amp_tensor *t) {
    if (amp_tensor_is_dense(t)) return AMP_RECORD_CONTIGUOUS;
    return amp_is_channels_last(t) ? AMP_RECORD_CHANNELS_LAST : AMP_RECORD_STRIDED;
}

/* The key in the making, and what its inputs promote to. */
typedef struct inputs {
    amp_record_key *key;
    amp_dtype dimensioned, numbers;
} inputs;

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static void store(amp_record_key *key, amp_record_input input, const amp_tensor *t) {
    if (key->stored_inputs == AMP_RECORD_INPUTS || key->stored_inputs < key->input_count) return;
    if (key->stored_extents + t->rank > AMP_RECORD_EXTENTS) return;
    memcpy(key->extents + key->stored_extents, t->shape, (size_t)t->rank * sizeof *t->shape);
    key->stored_extents += t->rank;
    key->inputs[key->stored_inputs++] = input;
}

static void add_input(inputs *in, int arg, const amp_tensor *t) {
    if (!t) return;
    amp_record_key *key = in->key;
    amp_dtype *group = t->rank > 0 ? &in->dimensioned : &in->numbers;
    *group = amp_promote(*group, t->dtype);
    const amp_record_input input = {(uint8_t)arg, (uint8_t)t->dtype, (uint8_t)layout_of(t), (uint8_t)t->rank};
    uint32_t word;
    memcpy(&word, &input, sizeof word);
    key->hash = mix(key->hash, word);
    for (int i = 0; i < t->rank; i++) key->hash = mix(key->hash, (uint64_t)t->shape[i]);
    store(key, input, t);
    key->input_count++;
}

/* ---- Options ---------------------------------------------------------------------------------------------------- */
static bool is_half_of_the_work(const amp_arg_info *arg) {
    return arg->kind == AMP_ARG_BOOL && strcmp(arg->name, "is_causal") == 0;
}

/* Only of ops with windows (an argument of fixed length, int[2] stride say, or a stride of any), an activation or a
 * causal mask: these decide how much work a call is. Places and sizes of other ops (narrow, select) would make a row of
 * each call. */
static bool has_options(const amp_op_info *op) {
    for (int i = 0; i < op->arg_count; i++) {
        const amp_arg_info *arg = &op->args[i];
        if (arg->kind == AMP_ARG_DIMS && (arg->dims > 0 || strcmp(arg->name, "stride") == 0)) return true;
        if (arg->kind == AMP_ARG_STRING && strcmp(arg->name, "attr") == 0) return true;
        if (is_half_of_the_work(arg)) return true;
    }
    return false;
}

static void add_option(amp_record_key *key, int arg, bool has_default, double default_value, int count,
                       const int64_t *values) {
    bool is_default = has_default;
    for (int i = 0; i < count; i++) is_default = is_default && (double)values[i] == default_value;
    if (is_default || count == 0) return;
    key->hash = mix(key->hash, (uint64_t)arg << 8 | (uint64_t)count);
    for (int i = 0; i < count; i++) key->hash = mix(key->hash, (uint64_t)values[i]);
    if (key->option_words + 2 + count > AMP_RECORD_OPTIONS) return;
    key->options[key->option_words++] = arg;
    key->options[key->option_words++] = count;
    memcpy(key->options + key->option_words, values, (size_t)count * sizeof *values);
    key->option_words += count;
}

/* The same of words, as a negative number of int64s that hold them; what is longer than TEXT_WORDS is cut. */
static void add_text(amp_record_key *key, int arg, const char *text, const char *default_text) {
    enum { TEXT_WORDS = 2 };
    int64_t words[TEXT_WORDS] = {0};
    if (!text || (default_text && strcmp(text, default_text) == 0)) return;
    for (const char *c = text; *c; c++) key->hash = mix(key->hash, (uint64_t)arg << 8 | (unsigned char)*c);
    if (key->option_words + 2 + TEXT_WORDS > AMP_RECORD_OPTIONS) return;
    memcpy(words, text, strnlen(text, sizeof words));
    key->options[key->option_words++] = arg;
    key->options[key->option_words++] = -TEXT_WORDS;
    memcpy(key->options + key->option_words, words, sizeof words);
    key->option_words += TEXT_WORDS;
}

static void note_options(const amp_call *call, amp_record_key *key) {
    key->option_words = 0;
    if (!has_options(call->op)) return;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_DIMS) {
            const amp_dims *dims = amp_call_field(call, arg);
            add_option(key, i, arg->has_default, arg->default_number, dims->count, dims->values);
        } else if (arg->kind == AMP_ARG_OPT_INT) {
            const amp_opt_int *number = amp_call_field(call, arg);
            add_option(key, i, arg->has_default, arg->default_number, number->set != 0, &number->value);
        } else if (is_half_of_the_work(arg)) {
            const int64_t set = *(const bool *)amp_call_field(call, arg);
            add_option(key, i, true, 0, 1, &set);
        } else if (arg->kind == AMP_ARG_STRING) {
            add_text(key, i, *(const char *const *)amp_call_field(call, arg), arg->default_string);
        }
    }
}

/* ---- The key ---------------------------------------------------------------------------------------------------- */
static void note_inputs(const amp_call *call, amp_record_key *key) {
    inputs in = {.key = key, .dimensioned = AMP_DTYPE_NONE, .numbers = AMP_DTYPE_NONE};
    key->hash = mix(0, (uint64_t)call->op->id);
    key->input_count = key->stored_inputs = key->stored_extents = 0;
    key->other_shapes = false;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) add_input(&in, i, *amp_call_tensor(call, arg));
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) add_input(&in, i, list->items[k]);
    }
    key->runs_in = amp_raise_category(in.dimensioned, in.numbers);
}

static void note_label(amp_record_key *key) {
    const char *label = amp_label_path();
    const size_t length = strlen(label);
    memcpy(key->label, label, length + 1);
    for (size_t i = 0; i < length; i++) key->hash = mix(key->hash, (unsigned char)label[i]);
}

/* ---- Recording ------------------------------------------------------------------------------------------------- */
static bool same_inputs(const amp_record_key *a, const amp_record_key *b) {
    return a->input_count == b->input_count && a->stored_inputs == b->stored_inputs &&
           a->stored_extents == b->stored_extents &&
           memcmp(a->inputs, b->inputs, (size_t)a->stored_inputs * sizeof *a->inputs) == 0 &&
           memcmp(a->extents, b->extents, (size_t)a->stored_extents * sizeof *a->extents) == 0 &&
           a->option_words == b->option_words &&
           memcmp(a->options, b->options, (size_t)a->option_words * sizeof *a->options) == 0;
}

static bool same_parts(const amp_call_note *a, const amp_call_note *b) {
    bool same = true;
    for (int i = 0; i < AMP_NOTE_PARTS; i++) same &= a->parts[i] == b->parts[i];
    return same;
}

static bool same(const amp_record_key *r, const amp_record_key *key) {
    const amp_call_note *a = &r->note, *b = &key->note;
    return r->hash == key->hash && r->op == key->op && r->other_shapes == key->other_shapes && r->form == key->form &&
           r->device == key->device && a->policy == b->policy && a->in_region == b->in_region &&
           a->region == b->region && a->target == b->target && a->bypass == b->bypass &&
           a->overridden == b->overridden && a->kernel == b->kernel && same_parts(a, b) &&
           strcmp(r->label, key->label) == 0 && same_inputs(r, key);
}

static amp_record *find(const amp_record_key *key) {
    amp_record *r = buckets[key->hash % BUCKETS];
    while (r && !same(&r->key, key)) r = r->next;
    return r;
}

static amp_record *add_record(const amp_record_key *key) {
    amp_record **bucket = &buckets[key->hash % BUCKETS], *r = amp_alloc(sizeof *r);
    if (!r) return NULL; /* a call that no memory was left to record still succeeds */
    memset(r, 0, offsetof(amp_record, samples));
    r->key = *key;
    r->key.note.casts_made = r->key.note.casts_cached = r->key.note.casts_fused = 0;
    r->next = *bucket;
    r->operations = -1;
    r->may_have_follower = amp_follower_may_have(key);
    record_count++;
    return *bucket = r;
}

/* The row of an op that holds what found no row of its own. */
static amp_record_key key_of_others(const amp_record_key *key) {
    amp_record_key others = *key;
    others.hash = mix(1, (uint64_t)key->op->id);
    others.input_count = others.stored_inputs = others.stored_extents = others.option_words = 0;
    others.other_shapes = true;
    return others;
}

static amp_record *find_or_add(const amp_record_key *key) {
    amp_record *r = find(key);
    if (r || record_count < MOST) return r ? r : add_record(key);
    const amp_record_key others = key_of_others(key);
    r = find(&others);
    return r ? r : add_record(&others);
}

/* A place for sample number `count`, from 1: behind the last of them as long as there is room, then any, or none, so
 * that each call so far is kept with the same probability. */
static uint64_t place_of_sample(amp_record *r, uint64_t count) {
    if (count <= AMP_RECORD_SAMPLES) return count - 1;
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return (r->random >> 32) * (count < UINT32_MAX ? count : UINT32_MAX) >> 32;
}

void amp_record_add_time(amp_record *r, uint64_t nanoseconds) {
    r->calls++;
    r->nanoseconds += nanoseconds;
    if (r->calls == 1 || nanoseconds < r->fastest) r->fastest = nanoseconds;
    if (r->calls == 1) {
        r->first = nanoseconds;
        return;
    }
    const uint64_t place = place_of_sample(r, r->calls - 1);
    if (place < AMP_RECORD_SAMPLES) r->samples[place] = (float)nanoseconds;
}

static void add(const amp_record_key *key, const amp_call *call, bool failed, uint64_t nanoseconds, void *timing) {
    amp_lock(AMP_LOCK_EXPLAIN);
    amp_record *r = find_or_add(key);
    if (timing) amp_device_time_end(key->device, timing, r, nanoseconds);
    amp_device_times_read(false);
    if (r) {
        amp_call_note *sum = &r->key.note;
        if (!timing) amp_record_add_time(r, nanoseconds);
        r->host_nanoseconds += nanoseconds;
        r->failures += failed;
        if (r->operations < 0 && !failed) r->operations = r->key.other_shapes ? 0 : amp_call_operations(call);
        sum->weight_of_op |= key->note.weight_of_op;
        sum->casts_made += key->note.casts_made;
        sum->casts_cached += key->note.casts_cached;
        sum->casts_fused += key->note.casts_fused;
    }
    if (!failed) amp_followers_note(call, r);
    amp_unlock(AMP_LOCK_EXPLAIN);
}

amp_status amp_explain_layer(amp_call *call) {
    amp_record_key key; /* not cleared: what is not stored is not compared */
    note_inputs(call, &key);
    note_options(call, &key);
    note_label(&key);
    void *timing = amp_device_time_begin(call);
    const uint64_t start = now();
    const amp_status status = amp_call_next(call);
    const uint64_t elapsed = now() - start;
    if (call->ahead) return status; /* nothing was computed */
    key.op = call->op;
    key.form = call->form;
    key.device = call->device;
    key.note = call->note;
    if (key.note.target != AMP_DTYPE_NONE) key.runs_in = key.note.target;
    add(&key, call, status != AMP_OK, elapsed, timing);
    return status;
}

/* ---- Control --------------------------------------------------------------------------------------------------- */
static void set_recording(int change) {
    amp_lock(AMP_LOCK_EXPLAIN);
    const bool before = recording > 0;
    if (recording + change >= 0) recording += change;
    if (!before && recording > 0) recording_since = now();
    if (before && recording == 0) {
        recorded += now() - recording_since;
        amp_followers_forget(); /* others may read what they watch now */
    }
    amp_layer_activate_everywhere(AMP_LAYER_EXPLAIN, recording > 0);
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
    amp_device_times_read(true); /* they point to records */
    for (int i = 0; i < BUCKETS; i++) {
        while (buckets[i]) {
            amp_record *next = buckets[i]->next;
            amp_free(buckets[i]);
            buckets[i] = next;
        }
    }
    record_count = 0;
    recorded = 0;
    recording_since = now();
    amp_followers_forget();
    amp_unlock(AMP_LOCK_EXPLAIN);
}

uint64_t amp_records_wall_time(void) {
    amp_lock(AMP_LOCK_EXPLAIN);
    const uint64_t time = recorded + (recording > 0 ? now() - recording_since : 0);
    amp_unlock(AMP_LOCK_EXPLAIN);
    return time;
}

void amp_records_for_each(void (*visit)(const amp_record *record, void *context), void *context) {
    amp_lock(AMP_LOCK_EXPLAIN);
    amp_device_times_read(true);
    for (int i = 0; i < BUCKETS; i++) {
        for (const amp_record *r = buckets[i]; r; r = r->next) visit(r, context);
    }
    amp_unlock(AMP_LOCK_EXPLAIN);
}

/* Here, and not where its work is: of a static library only what is named comes into a program. */
__attribute__((constructor)) static void begin_from_environment(void) {
    amp_explain_begin_from_environment();
}
