/* If, Loop, Scan: the runner's sub-graphs, and what goes from one round to the next. A round has a frame of its own, so
 * that only what is carried or collected outlives it. */
#include <string.h>

#include "core/memory.h"
#include "core/thread.h"
#include "onnx/ops.h"
#include "onnx/ops/pieces.h"
#include "onnx/run_state.h"

/* ---- If ----------------------------------------------------------------------------------------------------------- */

static amp_status read_condition(const amp_onnx_step *s, const amp_tensor *t, bool *yes) {
    bool value = false;
    if (t->dtype != AMP_BOOL || amp_tensor_elements(t) != 1) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "the condition is %s; expected one bool", amp_describe(t));
    }
    AMP_TRY(amp_read(t, AMP_BOOL, &value, sizeof value));
    *yes = value;
    return AMP_OK;
}

amp_status onnx_if(amp_onnx_step *s) {
    amp_tensor *condition = amp_onnx_required(s, 0), *outputs[AMP_ONNX_MOST_PLACES];
    bool yes = false;
    if (!condition) return amp_pending_error();
    AMP_TRY(read_condition(s, condition, &yes));
    const char *name = yes ? "then_branch" : "else_branch";
    const amp_onnx_graph *branch = amp_onnx_body(s, name);
    if (!branch || branch->input_count != 0 || branch->output_count != s->node->output_count) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute '%s' is no graph of %d outputs and without inputs", name,
                             s->node->output_count);
    }
    AMP_TRY(amp_onnx_run_body(s, branch, NULL, outputs));
    for (int i = 0; i < branch->output_count; i++) AMP_TRY(amp_onnx_set(s, i, outputs[i]));
    return AMP_OK;
}

/* ---- Rounds ------------------------------------------------------------------------------------------------------- */

/* What the rounds of a body give one after another, to be joined. */
typedef struct collection {
    amp_tensor **items;
    int64_t count, room;
} collection;

/* A body that runs again and again. Its inputs are `leading` ones, the states, then elements; its outputs `leading`
 * ones, the states, then what is collected. */
typedef struct rounds {
    amp_onnx_step *step;
    const amp_onnx_graph *body;
    int leading, states, elements, collected;
    amp_tensor *carried[AMP_ONNX_MOST_PLACES]; /* of the node's frame */
    collection *collections;
    amp_scope_frame *home; /* the node's frame */
} rounds;

static amp_status collect(collection *c, amp_tensor *item) {
    if (c->count == c->room) {
        const int64_t room = c->room ? 2 * c->room : 16;
        amp_tensor **more = amp_alloc((size_t)room * sizeof *more);
        if (!more) return amp_fail(AMP_ERROR_MEMORY, "no memory for the results of %lld rounds", (long long)room);
        if (c->count) memcpy(more, c->items, (size_t)c->count * sizeof *more);
        amp_free(c->items);
        c->items = more;
        c->room = room;
    }
    c->items[c->count++] = item;
    return AMP_OK;
}

/* Into the node's frame, if a round made it. */
static amp_tensor *take_home(const rounds *r, amp_tensor *t, const amp_scope_frame *frame) {
    if (t->scope == frame) {
        amp_scope_move(t, r->home);
        return t;
    }
    t = amp_tensor_same(r->step->node->type, t);
    if (t) amp_scope_move(t, r->home);
    return t;
}

/* The results of a round replace the states and join the collections. */
static amp_status keep_results(rounds *r, amp_tensor *const *outputs, const amp_scope_frame *frame) {
    amp_tensor *before[AMP_ONNX_MOST_PLACES];
    memcpy(before, r->carried, sizeof before);
    for (int i = 0; i < r->states + r->collected; i++) {
        amp_tensor *t = take_home(r, outputs[r->leading + i], frame);
        if (!t) return amp_pending_error();
        if (i < r->states) {
            r->carried[i] = t;
        } else {
            AMP_TRY(collect(&r->collections[i - r->states], t));
        }
    }
    for (int i = 0; i < r->states; i++) {
        if (before[i]->scope == r->home) amp_tensor_drop(before[i]);
    }
    return AMP_OK;
}

/* inputs: the leading ones and, behind the states' places, the elements. *condition: of the first output, where there
 * is a leading one. */
static amp_status run_round(rounds *r, amp_tensor **inputs, bool *condition) {
    amp_tensor *outputs[AMP_ONNX_MOST_PLACES];
    for (int i = 0; i < r->states; i++) inputs[r->body->input_count - r->elements - r->states + i] = r->carried[i];
    AMP_TRY(amp_onnx_run_body(r->step, r->body, inputs, outputs));
    if (r->leading) AMP_TRY(read_condition(r->step, outputs[0], condition));
    return keep_results(r, outputs, amp_this_thread.scope);
}

/* States belong to the node's frame from the beginning, as views where they are its inputs. */
static amp_status begin_rounds(rounds *r, int first) {
    r->home = amp_this_thread.scope;
    for (int i = 0; i < r->states; i++) {
        amp_tensor *t = amp_onnx_required(r->step, first + i);
        if (!t) return amp_pending_error();
        r->carried[i] = amp_tensor_same(r->step->node->type, t);
        if (!r->carried[i]) return amp_pending_error();
    }
    r->collections = amp_onnx_memory(AMP_I64, (int64_t)(sizeof *r->collections / 8) * (r->collected + 1));
    return r->collections ? AMP_OK : amp_pending_error();
}

/* Of no round the declared extents, and 0 where they are open. */
static amp_tensor *collect_nothing(const rounds *r, int i, int axis) {
    const amp_onnx_graph *body = r->body;
    const amp_onnx_value *declared = &body->values[body->outputs[r->leading + r->states + i]];
    amp_dims shape = amp_onnx_same_dims(declared->rank < 0 ? 1 : declared->rank + 1, 0);
    if (shape.count > AMP_MAX_RANK || declared->dtype == AMP_DTYPE_NONE || axis >= shape.count) {
        amp_onnx_fail(r->step, AMP_ERROR_INVALID, "no round, and the body says too little of output '%s'",
                      declared->name);
        return NULL;
    }
    for (int d = 0, k = 0; d < shape.count && declared->rank >= 0; d++) {
        if (d == axis) continue;
        if (declared->shape[k] > 0) shape.values[d] = declared->shape[k];
        k++;
    }
    return amp_to_device(amp_zeros(shape, .dtype = declared->dtype), r->step->run->device);
}

static amp_tensor *join(const rounds *r, int i, int64_t axis, bool backward) {
    const collection *c = &r->collections[i];
    if (c->count == 0) return collect_nothing(r, i, axis < 0 ? 0 : (int)axis);
    for (int64_t k = 0; backward && k < c->count / 2; k++) {
        amp_tensor *swapped = c->items[k];
        c->items[k] = c->items[c->count - 1 - k];
        c->items[c->count - 1 - k] = swapped;
    }
    return amp_stack(((amp_tensor_list){.items = c->items, .count = c->count}), .dim = axis);
}

static void end_rounds(rounds *r) {
    for (int i = 0; r->collections && i < r->collected; i++) amp_free(r->collections[i].items);
}

/* States, then what was collected. */
static amp_status hand_over(rounds *r) {
    for (int i = 0; i < r->states; i++) AMP_TRY(amp_onnx_set(r->step, i, r->carried[i]));
    for (int i = 0; i < r->collected; i++) AMP_TRY(amp_onnx_set(r->step, r->states + i, join(r, i, 0, false)));
    return AMP_OK;
}

static amp_status check_body(const rounds *r, int leading_inputs) {
    const amp_onnx_graph *body = r->body;
    if (!body) return amp_onnx_fail(r->step, AMP_ERROR_INVALID, "attribute 'body' is missing");
    const bool fits = r->states >= 0 && r->elements >= 0 && r->collected >= 0 &&
                      body->input_count == leading_inputs + r->states + r->elements &&
                      body->input_count <= AMP_ONNX_MOST_PLACES && body->output_count <= AMP_ONNX_MOST_PLACES &&
                      r->step->node->output_count <= r->states + r->collected;
    if (fits) return AMP_OK;
    return amp_onnx_fail(
        r->step, AMP_ERROR_INVALID, "the body has %d inputs and %d outputs, the node %d and %d: they do not fit",
        body->input_count, body->output_count, r->step->node->input_count, r->step->node->output_count);
}

/* ---- Loop --------------------------------------------------------------------------------------------------------- */

static amp_status run_loop(rounds *r, int64_t most, bool go) {
    amp_tensor *inputs[AMP_ONNX_MOST_PLACES];
    for (int64_t i = 0; go && i < most; i++) {
        if (i >= r->step->run->limits.most_rounds) {
            return amp_onnx_fail(r->step, AMP_ERROR_INVALID, "still running after %lld rounds", (long long)i);
        }
        amp_scope_frame frame;
        amp_scope_push(&frame);
        const int64_t shape[1] = {1};
        const bool yes = true;
        inputs[0] = amp_to_device(amp_from_data(&i, AMP_I64, 0, shape), r->step->run->device);
        inputs[1] = amp_to_device(amp_from_data(&yes, AMP_BOOL, 0, shape), r->step->run->device);
        const amp_status status = amp_failed() ? amp_pending_error() : run_round(r, inputs, &go);
        amp_scope_pop(&frame);
        AMP_TRY(status);
    }
    return AMP_OK;
}

amp_status onnx_loop(amp_onnx_step *s) {
    amp_tensor *most = amp_onnx_input(s, 0), *condition = amp_onnx_input(s, 1);
    rounds r = {.step = s, .body = amp_onnx_body(s, "body"), .leading = 1, .states = s->node->input_count - 2};
    int64_t count = INT64_MAX;
    bool go = true;
    r.collected = r.body ? r.body->output_count - 1 - r.states : 0;
    AMP_TRY(check_body(&r, 2));
    if (most && amp_onnx_read_ints(s, most, &count, 1) != 1) {
        return amp_failed() ? amp_pending_error()
                            : amp_onnx_fail(s, AMP_ERROR_INVALID, "the number of rounds is empty");
    }
    if (condition) AMP_TRY(read_condition(s, condition, &go));
    amp_status status = begin_rounds(&r, 2);
    if (status == AMP_OK) status = run_loop(&r, count, go);
    if (status == AMP_OK) status = hand_over(&r);
    end_rounds(&r);
    return status;
}

/* ---- Scan --------------------------------------------------------------------------------------------------------- */

/* What a Scan goes through, and how. */
typedef struct scan {
    rounds r;
    amp_tensor *through[AMP_ONNX_MOST_PLACES];
    int64_t axes[AMP_ONNX_MOST_PLACES], length;
    bool backward[AMP_ONNX_MOST_PLACES];
} scan;

/* Attribute i of a list that may be absent. */
static int64_t entry(const amp_onnx_step *s, const char *name, int i) {
    int count = 0;
    const int64_t *list = amp_onnx_ints(s, name, &count);
    return i < count ? list[i] : 0;
}

static amp_status read_elements(const amp_onnx_step *s, scan *n, const char *directions) {
    for (int i = 0; i < n->r.elements; i++) {
        amp_tensor *t = n->through[i];
        const int64_t axis = t ? amp_onnx_axis(s, entry(s, "scan_input_axes", i), t->rank) : -1;
        if (axis < 0) return amp_pending_error();
        n->axes[i] = axis;
        n->backward[i] = entry(s, directions, i) != 0;
        if (i > 0 && t->shape[axis] != n->length) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "one input has %lld elements, another %lld",
                                 (long long)n->length, (long long)t->shape[axis]);
        }
        n->length = t->shape[axis];
    }
    return AMP_OK;
}

static amp_status run_scan(scan *n) {
    amp_tensor *inputs[AMP_ONNX_MOST_PLACES];
    bool unused = true; /* a Scan's body has no condition */
    for (int64_t k = 0; k < n->length; k++) {
        if (k >= n->r.step->run->limits.most_rounds) {
            return amp_onnx_fail(n->r.step, AMP_ERROR_INVALID, "still running after %lld rounds", (long long)k);
        }
        amp_scope_frame frame;
        amp_scope_push(&frame);
        for (int i = 0; i < n->r.elements; i++) {
            inputs[n->r.states + i] = amp_select(n->through[i], n->axes[i], n->backward[i] ? n->length - 1 - k : k);
        }
        const amp_status status = amp_failed() ? amp_pending_error() : run_round(&n->r, inputs, &unused);
        amp_scope_pop(&frame);
        AMP_TRY(status);
    }
    return AMP_OK;
}

static amp_status set_up_scan(amp_onnx_step *s, scan *n, int leading) {
    n->r = (rounds){.step = s, .body = amp_onnx_body(s, "body")};
    const int64_t elements = amp_onnx_int(s, "num_scan_inputs", 0);
    if (elements < 1 || elements > s->node->input_count - leading) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'num_scan_inputs' is %lld", (long long)elements);
    }
    n->r.elements = (int)elements;
    n->r.states = s->node->input_count - leading - n->r.elements;
    n->r.collected = n->r.body ? n->r.body->output_count - n->r.states : 0;
    return check_body(&n->r, 0);
}

amp_status onnx_scan(amp_onnx_step *s) {
    scan n;
    AMP_TRY(set_up_scan(s, &n, 0));
    for (int i = 0; i < n.r.elements; i++) n.through[i] = amp_onnx_required(s, n.r.states + i);
    AMP_TRY(read_elements(s, &n, "scan_input_directions"));
    amp_status status = begin_rounds(&n.r, 0);
    if (status == AMP_OK) status = run_scan(&n);
    for (int i = 0; i < n.r.states && status == AMP_OK; i++) status = amp_onnx_set(s, i, n.r.carried[i]);
    for (int i = 0; i < n.r.collected && status == AMP_OK; i++) {
        const bool backward = entry(s, "scan_output_directions", i) != 0;
        status = amp_onnx_set(s, n.r.states + i, join(&n.r, i, entry(s, "scan_output_axes", i), backward));
    }
    end_rounds(&n.r);
    return status;
}

/* One sample of a Scan of opset 8, its results in the places of `results`. */
static amp_status scan_sample(amp_onnx_step *s, int64_t sample, int64_t length, amp_tensor **results) {
    scan n;
    AMP_TRY(set_up_scan(s, &n, 1));
    for (int i = 0; i < n.r.elements; i++) {
        amp_tensor *whole = amp_onnx_required(s, 1 + n.r.states + i);
        n.through[i] = amp_select(whole, 0, sample);
        if (length >= 0) n.through[i] = amp_narrow(n.through[i], 0, 0, length);
    }
    AMP_TRY(read_elements(s, &n, "directions"));
    amp_status status = begin_rounds(&n.r, 1);
    for (int i = 0; i < n.r.states && status == AMP_OK; i++) {
        n.r.carried[i] = amp_select(n.r.carried[i], 0, sample);
        if (!n.r.carried[i]) status = amp_pending_error();
    }
    if (status == AMP_OK) status = run_scan(&n);
    for (int i = 0; i < n.r.states && status == AMP_OK; i++) results[i] = n.r.carried[i];
    for (int i = 0; i < n.r.collected && status == AMP_OK; i++) {
        results[n.r.states + i] = join(&n.r, i, 0, false);
        if (!results[n.r.states + i]) status = amp_pending_error();
    }
    end_rounds(&n.r);
    return status;
}

/* Opset 8: everything has a leading dimension of samples, each scanned by itself, as far as sequence_lens says. */
amp_status onnx_scan_8(amp_onnx_step *s) {
    const amp_tensor *lengths = amp_onnx_input(s, 0);
    const amp_tensor *first = amp_onnx_required(s, 1);
    const int outputs = s->node->output_count;
    if (!first) return amp_pending_error();
    if (first->rank < 1 || first->shape[0] < 1 || (lengths && amp_tensor_elements(lengths) != first->shape[0])) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "an input %s has no samples", amp_describe(first));
    }
    const int64_t samples = first->shape[0];
    int64_t *until = amp_onnx_memory(AMP_I64, samples);
    amp_tensor **results = amp_onnx_memory(AMP_I64, samples * AMP_ONNX_MOST_PLACES);
    amp_tensor **column = amp_onnx_memory(AMP_I64, samples);
    if (!until || !results || !column) return amp_pending_error();
    if (lengths && amp_onnx_read_ints(s, lengths, until, samples) < 0) return amp_pending_error();
    for (int64_t i = 0; i < samples; i++) {
        AMP_TRY(scan_sample(s, i, lengths ? until[i] : -1, results + i * AMP_ONNX_MOST_PLACES));
    }
    for (int k = 0; k < outputs; k++) {
        for (int64_t i = 0; i < samples; i++) column[i] = results[i * AMP_ONNX_MOST_PLACES + k];
        AMP_TRY(amp_onnx_set(s, k, amp_stack(((amp_tensor_list){.items = column, .count = samples}))));
    }
    return AMP_OK;
}
