/* Keeping nets, and finding the one for a run. */
#include "graph/nets.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/lock.h"
#include "core/memory.h"
#include "core/thread.h"
#include "core/verbose.h"
#include "graph/capture.h"
#include "graph/passes.h"
#include "policy/place.h"
#include "policy/regions.h"
#include "policy/rules.h"

enum { WORDS_OF_REGION = 5, WORDS_OF_INPUT = 3 + AMP_MAX_RANK, MOST_READ_BYTES = 8192 };

/* What a net is for, and the net. */
typedef struct entry {
    int64_t *key;   /* the region's words, then each input's */
    uint64_t reads; /* the inputs whose elements the net hangs on: bits as in amp_net_value.depends … */
    char *elements; /* … and those elements, one input after the other */
    size_t element_bytes;
    size_t large_bytes;   /* of the net: amp_capture_large_bytes */
    amp_net *net;         /* NULL: the source computes, each time, … */
    const char *why, *at; /* … because of this, at this op */
    int users;            /* runs that go on */
    uint64_t used;        /* when, by count of runs */
    bool gone;            /* the last user frees it */
} entry;

/* Guarded by AMP_LOCK_GRAPHS. */
struct amp_nets {
    entry *entries[AMP_NETS];
    uint64_t runs;
};

amp_nets *amp_nets_new(void) {
    return amp_alloc_zeroed(sizeof(amp_nets));
}

static void free_entry(entry *e) {
    if (!e) return;
    amp_net_free(e->net);
    amp_free(e->elements);
    amp_free(e->key);
    amp_free(e);
}

void amp_nets_free(amp_nets *nets) {
    if (!nets) return;
    for (int i = 0; i < AMP_NETS; i++) free_entry(nets->entries[i]);
    amp_free(nets);
}

/* ---- Keys ------------------------------------------------------------------------------------------------------ */

static size_t key_words(const amp_graph_source *s) {
    return WORDS_OF_REGION + (size_t)s->input_count * WORDS_OF_INPUT;
}

static amp_device device_of(const amp_graph_source *s, amp_tensor *const *inputs) {
    return s->input_count > 0 ? amp_tensor_device(inputs[0]) : AMP_DEVICE_CPU;
}

/* FNV-1a of where a function is called, which is part of its calls' places; nodes of models have names of their own. */
static int64_t place_key(const amp_graph_source *s, const amp_autocast_rules *rules) {
    uint64_t hash = 0xcbf29ce484222325u;
    if (!s->is_programs || !amp_rules_have_places(rules)) return 0;
    for (const char *c = amp_place ? amp_place : amp_label_path(); *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    return (int64_t)hash;
}

static void write_key(const amp_graph_source *s, amp_tensor *const *inputs, int64_t *key) {
    const amp_device device = device_of(s, inputs);
    const amp_region_state *region = &amp_region_states[device];
    memset(key, 0, key_words(s) * sizeof *key);
    key[0] = region->enabled;
    key[1] = region->enabled ? (int64_t)region->dtype : 0;
    key[2] = region->enabled ? (int64_t)region->table : 0;
    key[3] = amp_rules_number(amp_region_rules(device));
    key[4] = place_key(s, amp_region_rules(device));
    for (int i = 0; i < s->input_count; i++) {
        int64_t *at = key + WORDS_OF_REGION + (size_t)i * WORDS_OF_INPUT;
        at[0] = inputs[i]->dtype;
        at[1] = device;
        at[2] = inputs[i]->rank;
        memcpy(at + 3, inputs[i]->shape, (size_t)inputs[i]->rank * sizeof *at);
    }
}

/* ---- Inputs on whose elements a net hangs ---------------------------------------------------------------------- */

static size_t bytes_of(const amp_tensor *t) {
    return (size_t)amp_tensor_elements(t) * amp_dtype_size(t->dtype);
}

/* One input behind another lies aligned for every type. */
static size_t room_of(const amp_tensor *t) {
    enum { ALIGNMENT = 8 };
    return (bytes_of(t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Of the inputs that `reads` names; SIZE_MAX: too many. */
static size_t count_read_bytes(uint64_t reads, amp_tensor *const *inputs, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count && i < 63; i++) {
        if (reads >> i & 1) bytes += room_of(inputs[i]);
        if (bytes > MOST_READ_BYTES) return SIZE_MAX;
    }
    return reads >> 63 ? SIZE_MAX : bytes;
}

static amp_status read_elements(uint64_t reads, amp_tensor *const *inputs, int count, char *to) {
    for (int i = 0; i < count && i < 63; i++) {
        if (!(reads >> i & 1)) continue;
        const size_t bytes = bytes_of(inputs[i]), room = room_of(inputs[i]);
        AMP_TRY(amp_read(inputs[i], inputs[i]->dtype, to, bytes));
        memset(to + bytes, 0, room - bytes);
        to += room;
    }
    return AMP_OK;
}

/* Reads elements, which may compute them: no lock is held meanwhile. */
static bool has_elements(const entry *e, amp_tensor *const *inputs, int count) {
    alignas(max_align_t) char elements[MOST_READ_BYTES];
    if (e->element_bytes == 0) return true;
    return read_elements(e->reads, inputs, count, elements) == AMP_OK &&
           memcmp(elements, e->elements, e->element_bytes) == 0;
}

/* ---- The table ------------------------------------------------------------------------------------------------- */

static void give_back(entry *e) {
    amp_lock(AMP_LOCK_GRAPHS);
    const bool frees = --e->users == 0 && e->gone;
    amp_unlock(AMP_LOCK_GRAPHS);
    if (frees) free_entry(e);
}

/* The next entry from place *i on that is for this region and these shapes, in use; *i: behind it. If it hangs on no
 * elements, it is the one. */
static entry *take_next(amp_nets *nets, const amp_graph_source *s, const int64_t *key, int *i) {
    entry *found = NULL;
    amp_lock(AMP_LOCK_GRAPHS);
    nets->runs += *i == 0;
    while (*i < AMP_NETS && !found) {
        entry *e = nets->entries[(*i)++];
        if (e && memcmp(e->key, key, key_words(s) * sizeof *key) == 0) found = e;
    }
    if (found) found->users++;
    if (found && found->element_bytes == 0) found->used = nets->runs;
    amp_unlock(AMP_LOCK_GRAPHS);
    return found;
}

static void note_used(amp_nets *nets, entry *e) {
    amp_lock(AMP_LOCK_GRAPHS);
    e->used = nets->runs;
    amp_unlock(AMP_LOCK_GRAPHS);
}

/* The net's source has written what it uses: it goes, and is captured anew. Its last user frees it. */
static void drop_stale(amp_nets *nets, int place, entry *e) {
    amp_lock(AMP_LOCK_GRAPHS);
    if (nets->entries[place] == e) nets->entries[place] = NULL;
    e->gone = true;
    amp_unlock(AMP_LOCK_GRAPHS);
}

/* For give_back; NULL: there is none. */
static entry *take(amp_nets *nets, const amp_graph_source *s, const int64_t *key, amp_tensor *const *inputs) {
    int i = 0;
    entry *e;
    while ((e = take_next(nets, s, key, &i)) != NULL) {
        const bool fits = has_elements(e, inputs, s->input_count);
        const bool is_stale = fits && s->is_programs && e->net && !amp_net_is_fresh(e->net);
        if (fits && !is_stale) break;
        if (is_stale) drop_stale(nets, i - 1, e);
        give_back(e);
    }
    if (e && e->element_bytes > 0) note_used(nets, e);
    return e;
}

/* Into an empty place, or that of the one unused for longest. */
static void keep(amp_nets *nets, entry *e) {
    amp_lock(AMP_LOCK_GRAPHS);
    int place = 0;
    for (int i = 0; i < AMP_NETS && nets->entries[place]; i++) {
        if (!nets->entries[i] || nets->entries[i]->used < nets->entries[place]->used) place = i;
    }
    entry *old = nets->entries[place];
    nets->entries[place] = e;
    e->used = nets->runs;
    if (old) old->gone = true;
    const bool frees = old && old->users == 0;
    amp_unlock(AMP_LOCK_GRAPHS);
    if (frees) free_entry(old);
}

/* ---- The first run --------------------------------------------------------------------------------------------- */

static entry *make_entry(const amp_graph_source *s, const int64_t *key, amp_tensor *const *inputs, amp_net *net,
                         uint64_t reads) {
    entry *e = amp_alloc_zeroed(sizeof *e);
    const size_t words = key_words(s), bytes = count_read_bytes(reads, inputs, s->input_count);
    if (e) e->key = amp_alloc(words * sizeof *key);
    if (e && bytes != SIZE_MAX) e->elements = amp_alloc(bytes);
    if (!e || !e->key || (bytes != SIZE_MAX && !e->elements)) {
        amp_net_free(net);
        free_entry(e);
        return NULL;
    }
    memcpy(e->key, key, words * sizeof *key);
    e->net = net;
    if (bytes == SIZE_MAX) { /* what it hangs on is too much to compare */
        amp_net_free(e->net);
        e->net = NULL;
        return e;
    }
    if (net) e->large_bytes = amp_capture_large_bytes(net);
    e->reads = reads;
    e->element_bytes = bytes;
    if (read_elements(reads, inputs, s->input_count, e->elements) == AMP_OK) return e;
    free_entry(e);
    return NULL;
}

static amp_status compute(const amp_graph_source *s, const entry *e, amp_tensor *const *inputs, amp_tensor *const *into,
                          amp_tensor **outputs) {
    return e->net ? amp_net_execute(e->net, inputs, into, outputs) : s->compute(s->context, inputs, outputs);
}

typedef enum aim { AIM_RUN, AIM_PREPARE } aim; /* whether outputs are wanted */

/* What is made of zeros may be refused where the elements are not. */
static amp_status execute(amp_net *net, aim aim, amp_tensor *const *inputs, amp_tensor **outputs) {
    if (aim == AIM_PREPARE) {
        if (amp_net_prepare(net, inputs) == AMP_OK) return AMP_OK;
        amp_clear_error();
    }
    return amp_net_execute(net, inputs, NULL, outputs);
}

/* Elements may be such that an op refuses them: then the source computes, which knows where it was, and says so. */
static amp_status compute_or_say(const amp_graph_source *s, amp_net *net, aim aim, amp_tensor *const *inputs,
                                 amp_tensor **outputs) {
    const bool was_trying = amp_this_thread.is_trying; /* a graph inside of another's run */
    amp_this_thread.is_trying = true;
    const amp_status status = execute(net, aim, inputs, outputs);
    amp_this_thread.is_trying = was_trying;
    if (status == AMP_OK) return AMP_OK;
    amp_clear_error();
    return s->compute(s->context, inputs, outputs);
}

/* The passes ask for the region's rules, which may go before the net. */
static void improve(amp_net *net, const amp_graph_source *s, amp_tensor *const *inputs) {
    net->rules = amp_region_rules(device_of(s, inputs));
    amp_net_improve(net, s->name, s->exact);
    net->rules = NULL;
    amp_net_compact(net);
}

/* Of large results of constants, in all nets. */
static size_t count_large_bytes(amp_nets *nets) {
    size_t bytes = 0;
    amp_lock(AMP_LOCK_GRAPHS);
    for (int i = 0; i < AMP_NETS; i++) {
        if (nets->entries[i]) bytes += nets->entries[i]->large_bytes;
    }
    amp_unlock(AMP_LOCK_GRAPHS);
    return bytes;
}

/* Every run gives the same bits, the first too: it is the net that computes, not what was captured. */
static amp_status compute_first(amp_nets *nets, const amp_graph_source *s, const int64_t *key, aim aim,
                                amp_tensor *const *inputs, amp_tensor **outputs) {
    amp_capture c;
    AMP_TRY(amp_capture_run(&c, AMP_CAPTURE_FOLDED, count_large_bytes(nets), s, inputs, outputs));
    if (c.net && count_read_bytes(c.reads, inputs, s->input_count) == SIZE_MAX)
        c.failed = "what the function looks at is too much to compare";
    if (c.net && !c.failed) improve(c.net, s, inputs);
    if (c.failed && amp_verbose("graph"))
        fprintf(stderr, "graph %s: runs op by op: %s%s%s\n", s->name, c.failed, *c.at ? ": " : "", c.at);
    const amp_status status = c.net ? compute_or_say(s, c.net, aim, inputs, outputs) : AMP_OK;
    entry *e = status == AMP_OK ? make_entry(s, key, inputs, c.net, c.reads) : NULL;
    if (status != AMP_OK) amp_net_free(c.net);
    if (!e) return amp_pending_error(); /* without memory for a net there is none; its error may stand */
    e->why = c.failed;
    e->at = c.at;
    keep(nets, e);
    return AMP_OK;
}

amp_status amp_nets_compute(amp_nets *nets, const amp_graph_source *s, amp_tensor *const *inputs,
                            amp_tensor *const *into, amp_tensor **outputs) {
    int64_t *key = amp_alloc(key_words(s) * sizeof *key);
    if (!key) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a run", s->name);
    write_key(s, inputs, key);
    entry *e = take(nets, s, key, inputs);
    amp_status status;
    if (e) {
        status = compute(s, e, inputs, into, outputs);
        give_back(e);
    } else {
        status = compute_first(nets, s, key, AIM_RUN, inputs, outputs);
    }
    amp_free(key);
    return status;
}

/* ---- Before it ------------------------------------------------------------------------------------------------- */

static amp_status prepare(amp_nets *nets, const amp_graph_source *s, const int64_t *key, amp_tensor *const *inputs,
                          amp_tensor **outputs) {
    entry *e = take(nets, s, key, inputs);
    if (!e) return compute_first(nets, s, key, AIM_PREPARE, inputs, outputs);
    const amp_status status =
        e->net ? compute_or_say(s, e->net, AIM_PREPARE, inputs, outputs) : s->compute(s->context, inputs, outputs);
    give_back(e);
    return status;
}

amp_status amp_nets_prepare(amp_nets *nets, const amp_graph_source *s, amp_tensor *const *inputs) {
    amp_scope_frame frame;
    int64_t *key = amp_alloc(key_words(s) * sizeof *key);
    amp_tensor **outputs = amp_alloc_zeroed((size_t)s->output_count * sizeof *outputs);
    amp_status status = AMP_ERROR_MEMORY;
    if (!key || !outputs) {
        (void)amp_fail(status, "%s: no memory for a run", s->name);
    } else {
        write_key(s, inputs, key);
        amp_scope_push(&frame);
        status = prepare(nets, s, key, inputs, outputs);
        amp_scope_pop(&frame);
    }
    amp_free(outputs);
    amp_free(key);
    return status;
}

/* ---- With a watcher -------------------------------------------------------------------------------------------- */

static amp_status watch_net(const amp_graph_source *s, const entry *e, amp_tensor *const *inputs, amp_tensor **outputs,
                            const amp_graph_watcher *watcher) {
    if (e->net) return amp_net_watch(e->net, inputs, outputs, watcher);
    const amp_status status = strcmp(e->why, "no memory") == 0 ? AMP_ERROR_MEMORY : AMP_ERROR_NOT_IMPLEMENTED;
    return amp_fail(status, "%s: there are no steps to watch, it is run op by op: %s%s%s", s->name, e->why,
                    *e->at ? ": " : "", e->at);
}

/* The first run, whose results go. */
static amp_status make_net(amp_nets *nets, const amp_graph_source *s, const int64_t *key, amp_tensor *const *inputs) {
    amp_scope_frame frame;
    amp_tensor **outputs = amp_alloc_zeroed((size_t)s->output_count * sizeof *outputs);
    if (!outputs) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %d outputs", s->name, s->output_count);
    amp_scope_push(&frame);
    const amp_status status = compute_first(nets, s, key, AIM_RUN, inputs, outputs);
    amp_scope_pop(&frame);
    amp_free(outputs);
    return status;
}

amp_status amp_nets_watch(amp_nets *nets, const amp_graph_source *s, amp_tensor *const *inputs, amp_tensor **outputs,
                          const amp_graph_watcher *watcher) {
    int64_t *key = amp_alloc(key_words(s) * sizeof *key);
    if (!key) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a run", s->name);
    write_key(s, inputs, key);
    entry *e = take(nets, s, key, inputs);
    amp_status status = e ? AMP_OK : make_net(nets, s, key, inputs);
    if (!e && status == AMP_OK) e = take(nets, s, key, inputs);
    if (e) {
        status = watch_net(s, e, inputs, outputs, watcher);
        give_back(e);
    } else if (status == AMP_OK) { /* or other threads' runs have driven it out, or write weights */
        status = amp_fail(AMP_ERROR_MEMORY, "%s: there is no memory for its steps", s->name);
    }
    amp_free(key);
    return status;
}
