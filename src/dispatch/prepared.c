/* The short way: from arguments that are laid out to the device's row. */
#include "dispatch/prepared.h"

#include <string.h>

#include "core/hot.h"
#include "policy/regions.h"

amp_backend_op amp_prepared_row(const amp_op_info *op) {
    const amp_op_info *runs = op->alias_of ? amp_op_find(op->alias_of) : op;
    return runs ? amp_cpu_backend.find(runs) : (amp_backend_op){0};
}

static amp_status begin_casts(amp_call *call, const amp_prepared *p) {
    for (int i = 0; i < p->cast_count; i++) {
        const amp_prepared_cast *c = &p->casts[i];
        amp_tensor_pending_cast_at(c->tensor, c->source, c->dtype);
        c->tensor->cast_life = c->life;
    }
    for (int i = 0; i < p->cast_count && !p->row.takes_pending_casts; i++)
        AMP_TRY(amp_call_materialize(call, p->casts[i].tensor));
    return AMP_OK;
}

static amp_status run_row(amp_call *call, const amp_prepared *p) {
    const unsigned layers = amp_this_thread.layers;
    amp_this_thread.layers = AMP_INSIDE_OP;
    amp_this_thread.note = &call->note;
    amp_status status = __builtin_expect(call->has_unaligned, 0) ? amp_call_align(call, &p->row) : AMP_OK;
    if (status == AMP_OK) status = p->row.run(call);
    amp_this_thread.note = NULL;
    amp_this_thread.layers = layers;
    return status == AMP_OK ? amp_pending_error() : status;
}

/* An implementation may hand out a view of what it was given. */
static bool is_in_place(const amp_tensor *made, amp_tensor *place) {
    if (__builtin_expect(made == place, 1)) return true;
    if (!made || made->storage != place->storage) return false;
    place->dtype = made->dtype;
    place->rank = made->rank;
    place->offset = made->offset;
    memcpy(place->shape, made->shape, (size_t)made->rank * sizeof *made->shape);
    memcpy(place->strides, made->strides, (size_t)made->rank * sizeof *made->strides);
    return true;
}

AMP_HOT amp_status amp_prepared_run(const amp_prepared *p, bool *in_place) {
    amp_call call = {.op = p->op, .form = AMP_FORM_FUNCTION, .device = AMP_DEVICE_CPU, .args = p->args};
    amp_scope_frame frame;
    call.places = p->places;
    call.may_cache = amp_region_states[AMP_DEVICE_CPU].cache_enabled;
    call.has_unaligned = p->has_unaligned;
    call.note.in_region = amp_region_states[AMP_DEVICE_CPU].enabled;
    call.frame = &frame;
    amp_scope_push(&frame);
    amp_status status = p->cast_count > 0 ? begin_casts(&call, p) : AMP_OK;
    if (status == AMP_OK) status = run_row(&call, p);
    for (int i = 0; i < p->output_count && status == AMP_OK; i++)
        *in_place &= !p->places[i] || is_in_place(call.outputs[i], p->places[i]);
    amp_scope_pop(&frame);
    for (int i = 0; i < p->cast_count; i++) amp_tensor_end_at(p->casts[i].tensor);
    if (__builtin_expect(status != AMP_OK, 0)) amp_fail_within(p->op->name);
    return status;
}
