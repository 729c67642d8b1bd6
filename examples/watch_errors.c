/* Where bf16 adds its error in a function of the program: the graph of it is watched, with f32 beside, and the place
 * that adds most stays in f32 from there on. `amp audit` does this for a model, and finds the least that has to
 * stay. */
#include <amp/amp.h>
#include <stdio.h>

typedef struct weights {
    amp_tensor *loud, *quiet;
} weights;

static amp_status network(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    const weights *w = context;
    amp_tensor *h = NULL;
    amp_label("encoder") h = amp_add_scalar(amp_linear(inputs[0], w->loud), amp_float(-400));
    amp_label("decoder") outputs[0] = amp_tanh(amp_linear(h, w->quiet));
    return amp_last_status();
}

typedef struct worst {
    char place[AMP_LABEL_BYTES];
    double error;
} worst;

static double distance(amp_tensor *a, amp_tensor *b) {
    return amp_item(amp_linalg_vector_norm(amp_sub(a, b))) / amp_item(amp_linalg_vector_norm(b));
}

static amp_status note(void *context, const amp_graph_step *step) {
    worst *w = context;
    const char *place = step->place_count > 0 ? step->places[0] : "";
    const double adds = distance(step->results[0].local, step->results[0].f32);
    printf("%-8s %-18s adds %.1e, carries %.1e\n", place, step->op, adds,
           distance(step->results[0].tensor, step->results[0].f32));
    if (adds > w->error) {
        w->error = adds;
        snprintf(w->place, sizeof w->place, "%s", place);
    }
    return amp_last_status();
}

/* The graph's result in a region, under the rules. */
static amp_tensor *run(amp_graph *graph, amp_tensor *x, const amp_autocast_rules *rules) {
    amp_tensor *y = NULL;
    amp_autocast(AMP_DEVICE_CPU, .rules = rules) {
        (void)amp_graph_run(graph, &x, 1, &y, 1); /* the error stands */
    }
    return y;
}

int main(void) {
    amp_scope_here();
    amp_manual_seed(1);
    amp_tensor *x = amp_add_scalar(amp_rand(AMP_DIMS(8, 4)), amp_float(0.5)), *exact = NULL, *y = NULL;
    weights w = {amp_add_scalar(amp_randn(AMP_DIMS(16, 4)), amp_float(100)), amp_randn(AMP_DIMS(3, 16))};
    amp_graph *graph = amp_graph_trace("network", network, &w, 1, 1, NULL);
    worst found = {"", 0};
    amp_autocast(AMP_DEVICE_CPU) {
        const amp_graph_watcher watcher = {
            .struct_size = sizeof watcher, .step = note, .context = &found, .beside_f32 = true};
        (void)amp_graph_watch(graph, &x, 1, &y, 1, &watcher);
    }
    (void)amp_graph_run(graph, &x, 1, &exact, 1);

    char policy[256];
    snprintf(policy, sizeof policy, "amp-policy 1\nf32 node \"%s\"\n", found.place);
    amp_autocast_rules *rules = amp_autocast_rules_parse(policy, "policy");
    const double before = distance(y, exact), after = distance(run(graph, x, rules), exact);
    printf("the result is off by %.1e; with '%s' in f32 by %.1e\n", before, found.place, after);
    amp_graph_release(graph);
    amp_autocast_rules_release(rules);
    if (amp_last_status() != AMP_OK) fprintf(stderr, "%s\n", amp_last_error());
    return amp_last_status() != AMP_OK || !(after < before);
}
