/* Recomputation: a function of the program runs unrecorded, and once more, recorded, when a backward comes to it. */
#include "amp/grad.h"

#include "amp/random.h"
#include "core/memory.h"
#include "grad/history.h"
#include "grad/program.h"
#include "grad/record.h"
#include "grad/regions.h"

typedef struct checkpoint {
    amp_checkpoint_function function;
    void *context;
    amp_autocast_state regions; /* when it was called … */
    amp_generator_state random; /* … of the CPU's default generator */
    int input_count, output_count;
} checkpoint;

static amp_status check_tensors(const char *role, amp_tensor *const *tensors, int count) {
    for (int i = 0; i < count; i++) {
        if (!tensors || !tensors[i]) return amp_fail(AMP_ERROR_INVALID, "checkpoint: %s %d is NULL", role, i);
        if (!amp_tensor_is_live(tensors[i]))
            return amp_fail(AMP_ERROR_INVALID, "checkpoint: %s %d was released before", role, i);
    }
    return AMP_OK;
}

static amp_status call(const checkpoint *c, amp_tensor *const *inputs, amp_tensor **outputs) {
    const amp_grad_around before = amp_grad_look_around();
    AMP_TRY(amp_grad_settle("checkpoint", "the function", before, c->function(c->context, inputs, outputs)));
    return check_tensors("result", outputs, c->output_count);
}

/* ---- Again -------------------------------------------------------------------------------------------------------- */
/* In the regions, and from the random numbers, of the first time. */
static amp_status run_again(const checkpoint *c, amp_tensor *const *inputs, amp_tensor **outputs) {
    amp_generator *generator = amp_generator_default(AMP_DEVICE_CPU);
    amp_generator_state now = {.struct_size = sizeof now};
    AMP_TRY(amp_generator_get_state(generator, &now));
    AMP_TRY(amp_generator_set_state(generator, &c->random));
    const unsigned layers = amp_grad_regions_enter(&c->regions);
    const bool was_on = amp_grad_set_enabled(true);
    const amp_status status = call(c, inputs, outputs);
    (void)amp_grad_set_enabled(was_on);
    amp_grad_regions_leave(layers);
    const amp_status restored = amp_generator_set_state(generator, &now);
    return status != AMP_OK ? status : restored;
}

/* Goes back from the outputs that have a gradient; what the function took from elsewhere gets its own there and
 * then. */
static amp_status go_back(const checkpoint *c, amp_gradient *g, amp_tensor *const *outputs, amp_tensor **room) {
    amp_tensor **roots = room, **gradients = room + c->output_count;
    int64_t count = 0;
    for (int i = 0; i < c->output_count; i++) {
        if (!g->of[i] || !amp_tensor_requires_grad(outputs[i])) continue;
        roots[count] = outputs[i];
        gradients[count++] = g->of[i];
    }
    if (count == 0) return AMP_OK;
    return amp_backward_all_call(&(const amp_backward_all_args){.struct_size = sizeof(amp_backward_all_args),
                                                                .outputs = {roots, count, NULL},
                                                                .gradients = {gradients, count, NULL}});
}

static amp_status recompute(const checkpoint *c, amp_gradient *g, amp_tensor **room) {
    amp_tensor **outputs = room;
    for (int i = 0; i < c->input_count; i++) {
        if (g->wanted[i]) AMP_TRY(amp_tensor_set_requires_grad(g->saved[i], true));
    }
    AMP_TRY(run_again(c, g->saved, outputs));
    AMP_TRY(go_back(c, g, outputs, room + c->output_count));
    for (int i = 0; i < c->input_count; i++) {
        amp_tensor *gradient = g->wanted[i] ? amp_tensor_grad(g->saved[i]) : NULL;
        if (gradient) g->given[i] = amp_tensor_same("checkpoint", gradient);
    }
    return AMP_OK;
}

static void gradient_of_checkpoint(amp_gradient *g) {
    const checkpoint *c = g->args;
    amp_tensor **room = amp_alloc_zeroed(3 * (size_t)c->output_count * sizeof *room);
    if (!room) {
        (void)amp_fail(AMP_ERROR_MEMORY, "checkpoint: no memory for %d results", c->output_count);
        return;
    }
    (void)recompute(c, g, room);
    amp_free(room);
}

static const amp_gradient_row row = {.function = gradient_of_checkpoint};

/* ---- The first time ----------------------------------------------------------------------------------------------- */
static amp_status fill(amp_grad_node *node, const checkpoint *c, amp_tensor *const *inputs) {
    node->row = &row;
    node->name = "checkpoint";
    node->reaches_leaves = true;
    *(checkpoint *)node->args = *c;
    for (int i = 0; i < c->input_count; i++) {
        amp_grad_node_lead(node, i, inputs[i]);
        amp_grad_node_save(node, i, inputs[i]);
    }
    amp_grad_node_number(node);
    return amp_pending_error();
}

static amp_status run_recorded(const checkpoint *c, amp_tensor *const *inputs, amp_tensor **outputs) {
    amp_grad_install();
    amp_grad_node *node = amp_grad_node_new(c->input_count, c->output_count, sizeof *c);
    if (!node) return amp_fail(AMP_ERROR_MEMORY, "checkpoint: no memory to record the call");
    amp_status status = fill(node, c, inputs);
    (void)amp_grad_set_enabled(false);
    if (status == AMP_OK) status = call(c, inputs, outputs);
    (void)amp_grad_set_enabled(true);
    if (status == AMP_OK) status = amp_grad_begin_results(node, outputs);
    amp_grad_node_drop(node);
    return status;
}

/* In a scope of its own, of which the results are left. */
static amp_status run_scoped(const checkpoint *c, amp_tensor *const *inputs, amp_tensor **outputs) {
    amp_scope_frame frame;
    amp_scope_push(&frame);
    amp_status status = amp_grad_is_enabled() ? run_recorded(c, inputs, outputs) : call(c, inputs, outputs);
    for (int i = 0; i < c->output_count; i++) {
        if (status == AMP_OK && outputs[i]->scope == &frame) amp_scope_move(outputs[i], frame.outer);
        if (status != AMP_OK) outputs[i] = NULL;
    }
    amp_scope_pop(&frame);
    return status;
}

static amp_status check(const checkpoint *c, amp_tensor *const *inputs, amp_tensor **outputs) {
    AMP_TRY(amp_pending_error());
    if (!c->function || c->input_count < 0 || c->output_count < 1 || !outputs)
        return amp_fail(AMP_ERROR_INVALID,
                        "checkpoint: it takes a function, its inputs, and room for at least one result");
    return check_tensors("input", inputs, c->input_count);
}

/* The function reads a list of its own: the caller's inputs may lie where the outputs go. */
static amp_status run(checkpoint *c, amp_tensor *const *given, amp_tensor **outputs) {
    const size_t bytes = (size_t)c->input_count * sizeof *given;
    amp_tensor **inputs = amp_alloc(bytes);
    if (!inputs) return amp_fail(AMP_ERROR_MEMORY, "checkpoint: no memory for a list of %d inputs", c->input_count);
    if (bytes > 0) memcpy(inputs, given, bytes);
    for (int i = 0; i < c->output_count; i++) outputs[i] = NULL;
    c->random.struct_size = sizeof c->random;
    amp_status status = amp_autocast_get_state(&c->regions, sizeof c->regions);
    if (status == AMP_OK) status = amp_generator_get_state(amp_generator_default(AMP_DEVICE_CPU), &c->random);
    if (status == AMP_OK) status = run_scoped(c, inputs, outputs);
    amp_free(inputs);
    return status;
}

amp_status amp_checkpoint(amp_checkpoint_function function, void *context, amp_tensor *const *inputs, int input_count,
                          amp_tensor **outputs, int output_count) {
    checkpoint c = {.function = function, .context = context, .input_count = input_count, .output_count = output_count};
    amp_status status = check(&c, inputs, outputs);
    if (status == AMP_OK) status = run(&c, inputs, outputs);
    for (int i = 0; outputs && i < output_count && status != AMP_OK; i++) outputs[i] = NULL;
    return status;
}
