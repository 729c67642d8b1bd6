/* amp run --numa replicate: the further nodes' processes. Each is bound before libamp starts its threads, so that
 * weights which are loaded and packed there lie on its node; it says what its outputs are, waits for the word, and runs
 * at the same time as all others. */
#include "run_replicas.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amp/amp.h"

static const char go = 'g'; /* the word: to load the model, then to run in turns */

/* What one tells: this, and behind it the times of each kind. */
typedef struct replica_digests {
    uint64_t kinds[RUN_KINDS];
} replica_digests;

/* ---- Outputs, as a number ---------------------------------------------------------------------------------------- */
/* FNV-1a, by words of eight bytes: to tell bits apart, not to withstand anybody. */
static uint64_t digest(uint64_t sum, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (uint64_t word; bytes > 0; at += sizeof word) {
        const size_t part = bytes < sizeof word ? bytes : sizeof word;
        word = 0;
        memcpy(&word, at, part);
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29;
        bytes -= part;
    }
    return sum;
}

static int digest_tensor(uint64_t *sum, const amp_tensor *t) {
    const amp_dtype dtype = amp_tensor_dtype(t);
    const size_t bytes = (size_t)amp_tensor_numel(t) * amp_dtype_size(dtype);
    void *data = malloc(bytes + 1);
    if (!data) return run_no_memory();
    const amp_status status = amp_read(t, dtype, data, bytes);
    *sum = digest(*sum, amp_tensor_shape(t), sizeof(int64_t) * (size_t)amp_tensor_rank(t));
    if (status == AMP_OK) *sum = digest(*sum, data, bytes);
    free(data);
    return status == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

static int digest_outputs(replica_digests *digests, const run_results *results, const run_model *m) {
    int code = AMP_EXIT_OK;
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        digests->kinds[kind] = 0xcbf29ce484222325u;
        for (int i = 0; !code && results->outputs[kind] && i < m->output_count; i++)
            code = digest_tensor(&digests->kinds[kind], results->outputs[kind][i]);
    }
    return code;
}

/* ---- The process ------------------------------------------------------------------------------------------------- */
static int tell(int out, const void *data, size_t bytes) {
    return write(out, data, bytes) == (ssize_t)bytes ? AMP_EXIT_OK : AMP_EXIT_FAILED;
}

static int tell_times(int out, const run_times *times) {
    int code = AMP_EXIT_OK;
    for (int kind = 0; !code && kind < RUN_KINDS; kind++) {
        code = tell(out, &times[kind].count, sizeof times[kind].count);
        if (!code) code = tell(out, times[kind].ms, (size_t)times[kind].count * sizeof *times[kind].ms);
    }
    return code;
}

static bool hear(int in) {
    char word;
    return run_process_read(in, &word, 1) && word == go;
}

/* What stands between the outputs and the turns, on the replica's side. */
typedef struct replica_ends {
    int in, out;
} replica_ends;

static int await(const run_results *results, const run_model *m, void *context) {
    const replica_ends *ends = context;
    replica_digests digests;
    int code = digest_outputs(&digests, results, m);
    if (!code) code = tell(ends->out, &digests, sizeof digests);
    return code || hear(ends->in) ? code : AMP_EXIT_FAILED;
}

static int be_replica(void *context, int in_end, int out) {
    const run_replica *its = context;
    const run_options *o = its->options;
    run_model m = {0};
    run_inputs in = {0};
    replica_ends ends = {in_end, out};
    run_results results = {.before_turns = await, .context = &ends};
    int code = hear(in_end) ? run_node_bind(its->node) : AMP_EXIT_FAILED;
    if (!code) code = run_set_up(o);
    if (!code) code = run_model_load(&m, o->model, o->exact);
    if (!code) code = run_use_packs(&m, o);
    if (!code) code = run_inputs_make(&in, &m, o);
    if (!code) code = run_measure(&results, &m, &in, o);
    if (!code) code = tell_times(out, results.times);
    return code; /* the process ends, and its memory with it */
}

/* ---- Who starts it ----------------------------------------------------------------------------------------------- */
static int fail_at_its_end(run_replica *its) {
    its->is_alive = false;
    const int code = run_process_end(&its->process, "a node's process", false, NULL);
    return code ? code : AMP_EXIT_FAILED;
}

int run_replicas_start(run_replicas *replicas, const run_options *o) {
    const run_nodes *nodes = o->nodes;
    if (nodes->used < 2) return AMP_EXIT_OK;
    replicas->items = calloc((size_t)nodes->used, sizeof *replicas->items);
    if (!replicas->items) return run_no_memory();
    signal(SIGPIPE, SIG_IGN); /* a process that has ended says why itself */
    for (int i = 1; i < nodes->used; i++) {
        run_replica *its = &replicas->items[replicas->count];
        *its = (run_replica){.options = o, .node = &nodes->items[i]};
        const int code = run_process_start(&its->process, be_replica, its);
        if (code) return code;
        its->is_alive = true;
        replicas->count++;
    }
    return AMP_EXIT_OK;
}

static int tell_all(run_replicas *replicas) {
    int code = AMP_EXIT_OK;
    for (int i = 0; !code && i < replicas->count; i++) {
        run_replica *its = &replicas->items[i];
        if (write(its->process.to, &go, 1) != 1) code = fail_at_its_end(its);
    }
    return code;
}

int run_replicas_load(run_replicas *replicas) {
    return tell_all(replicas);
}

int run_replicas_go(run_replicas *replicas, const run_results *results, const run_model *m) {
    replica_digests own, other;
    int code = replicas->count ? digest_outputs(&own, results, m) : AMP_EXIT_OK;
    for (int i = 0; !code && i < replicas->count; i++) {
        run_replica *its = &replicas->items[i];
        if (!run_process_read(its->process.from, &other, sizeof other)) return fail_at_its_end(its);
        if (memcmp(&own, &other, sizeof own) != 0)
            code = run_fail(AMP_EXIT_FAILED, "the outputs on node %d have other bits than those on node %d",
                            its->node->number, its->options->nodes->items->number);
    }
    return code ? code : tell_all(replicas);
}

static bool read_times(run_replica *its) {
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        run_times *t = &its->times[kind];
        if (!run_process_read(its->process.from, &t->count, sizeof t->count)) return false;
        t->ms = calloc((size_t)t->count + 1, sizeof *t->ms);
        if (!t->ms || !run_process_read(its->process.from, t->ms, (size_t)t->count * sizeof *t->ms)) return false;
    }
    return true;
}

int run_replicas_collect(run_replicas *replicas) {
    int code = AMP_EXIT_OK;
    for (int i = 0; !code && i < replicas->count; i++) {
        run_replica *its = &replicas->items[i];
        const bool told = read_times(its);
        its->is_alive = false;
        code = run_process_end(&its->process, "a node's process", told, NULL);
    }
    return code;
}

void run_replicas_end(run_replicas *replicas) {
    for (int i = 0; i < replicas->count; i++) {
        if (replicas->items[i].is_alive) run_process_stop(&replicas->items[i].process);
        for (int kind = 0; kind < RUN_KINDS; kind++) free(replicas->items[i].times[kind].ms);
    }
    if (replicas->items) signal(SIGPIPE, SIG_DFL);
    free(replicas->items);
}
