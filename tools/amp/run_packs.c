/* amp run --packs: the model's packed weights, in a file that the first run with that option writes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "run_process.h"

int run_use_packs(run_model *m, const run_options *o) {
    if (!o->packs) return AMP_EXIT_OK;
    const double start = run_figure_milliseconds();
    const amp_status status = amp_graph_load_packs(m->graph, o->packs);
    m->load_ms += run_figure_milliseconds() - start;
    return status == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

/* ---- Writing it -------------------------------------------------------------------------------------------------- */
static int pack_each(const run_model *m, const run_inputs *in, const run_options *o) {
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        if (o->wanted[kind] && run_prepare(m, in, (run_kind)kind, o->device) != AMP_OK) return run_fail_amp();
    }
    return AMP_EXIT_OK;
}

/* In a process of its own: the ones that are timed find nothing packed. */
static int write_packs(void *context, int in_end, int out) {
    const run_options *o = context;
    run_model m = {0};
    run_inputs in = {0};
    (void)in_end;
    int code = run_set_up(o);
    if (!code) code = run_model_load(&m, o->model, o->exact);
    if (!code) code = run_inputs_make(&in, &m, o);
    if (!code) code = pack_each(&m, &in, o);
    if (!code && amp_graph_save_packs(m.graph, o->packs) != AMP_OK) code = run_fail_amp();
    if (!code && write(out, "", 1) != 1) code = AMP_EXIT_FAILED;
    return code; /* the process ends, and its memory with it */
}

int run_make_packs(run_options *o) {
    run_process process;
    char done;
    if (!o->packs || access(o->packs, F_OK) == 0 || errno != ENOENT)
        return AMP_EXIT_OK; /* loading says what is wrong */
    const int code = run_process_start(&process, write_packs, o);
    if (code) return code;
    run_progress("packing the weights into %s", o->packs);
    const bool came = run_process_read(process.from, &done, 1);
    run_progress_end();
    o->packs_written = true;
    return run_process_end(&process, "packing the weights", came, NULL);
}
