/* A call on its way: to libamp where it is worth it, else to the function that was there; with a check to both. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "blas/module/module.h"

double amp_blas_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Why the engine need not be asked, and so not be opened; NULL: it is to be. */
static const char *reason_against(const amp_blas_call *call, const amp_blas_request *r) {
    if (call->count == 0) return "nothing to multiply, or arguments that BLAS refuses";
    if (r->precision == AMP_BLAS_F32) return "f32 is asked for";
    double work = 0; /* of the largest */
    for (const amp_blas_product *p = call->products; p < call->products + call->count; p++)
        work = fmax(work, (double)p->m * (double)p->n * (double)p->k);
    return r->everything || work >= AMP_BLAS_LEAST_WORK ? NULL : "small, or this machine has no faster way";
}

static void try_engine(amp_blas_call *call, const amp_blas_settings *s, const void *caller) {
    const amp_blas_engine *engine = NULL;
    call->outcome.why = reason_against(call, &s->request);
    if (!call->outcome.why) engine = amp_blas_engine_get(&call->outcome.why);
    if (!engine) return;
    amp_blas_request request = s->request;
    request.over_loops = amp_blas_is_over_loops(call->symbol, caller);
    if (s->check && !amp_blas_check_begin(call)) return;
    call->began = amp_blas_now();
    engine->run(call->products, call->count, &request, &call->outcome);
    call->seconds = amp_blas_now() - call->began;
}

static void end(amp_blas_call *call) {
    amp_blas_check_drop(call);
    if (call->products != &call->one) free(call->products);
}

bool amp_blas_enter(amp_blas_call *call, amp_blas_symbol *symbol, const void *caller) {
    const amp_blas_settings *s = amp_blas_settings_get();
    call->symbol = symbol;
    try_engine(call, s, caller);
    if (call->outcome.way && !call->before) {
        if (s->report) amp_blas_count(call, 0, NULL);
        end(call);
        return false;
    }
    if (call->outcome.way) amp_blas_check_swap(call);
    amp_blas_original(symbol, caller);
    call->began = s->report ? amp_blas_now() : 0;
    return true;
}

void amp_blas_leave(amp_blas_call *call) {
    const amp_blas_settings *s = amp_blas_settings_get();
    const double original = s->report ? amp_blas_now() - call->began : 0;
    if (call->outcome.way) {
        const amp_blas_errors errors = amp_blas_check_end(call);
        if (s->report) amp_blas_count(call, original, &errors);
    } else if (s->report) {
        amp_blas_count(call, original, NULL);
    }
    end(call);
}
