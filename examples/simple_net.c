/* The network that PyTorch's documentation shows autocast with, one convolution, called as it stands ("eager"), traced,
 * and traced and improved for its inputs ("frozen"), in f32 and in bf16: simple_net [BATCH [SIZE [ROUNDS]]] */
#include <amp/amp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static amp_status simple_net(void *weight, amp_tensor *const *inputs, amp_tensor **outputs) {
    outputs[0] = amp_conv2d(inputs[0], weight, NULL, .stride = AMP_DIMS(2, 2), .padding = AMP_DIMS(1, 1));
    return amp_last_status();
}

/* Milliseconds of the processor that a pass takes; *y, which is the caller's, becomes its result. */
static double run(amp_graph *graph, amp_tensor *weight, amp_tensor *x, bool bf16, amp_tensor **y) {
    const clock_t start = clock();
    amp_release(*y);
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(bf16)) {
        (void)(graph ? amp_graph_run(graph, &x, 1, y, 1) : simple_net(weight, &x, y));
        amp_keep(*y);
    }
    return 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
}

int main(int argc, char **argv) {
    enum { EAGER, TRACED, FROZEN, WAYS };
    static const char *const names[] = {"eager", "traced", "frozen"};
    const int batch = argc > 1 ? atoi(argv[1]) : 64, size = argc > 2 ? atoi(argv[2]) : 224;
    const int rounds = argc > 3 ? atoi(argv[3]) : 5;
    amp_scope_here();
    amp_tensor *x = amp_rand(AMP_DIMS(batch, 64, size, size)), *y[2][WAYS] = {0};
    amp_tensor *weight = amp_randn(AMP_DIMS(128, 64, 3, 3));
    amp_tensor_mark_parameter(weight); /* cast and packed once, not in each region */
    const amp_graph_options as_written = {sizeof as_written, .exact = true};
    amp_graph *graphs[WAYS] = {NULL, amp_graph_trace("traced", simple_net, weight, 1, 1, &as_written),
                               amp_graph_trace("frozen", simple_net, weight, 1, 1, NULL)};
    double least[2][WAYS] = {{0}};
    for (int round = 0; round <= rounds; round++) { /* the first prepares what the others use */
        for (int i = 0; i < 2 * WAYS; i++) {
            double *best = &least[i / WAYS][i % WAYS];
            const double time = run(graphs[i % WAYS], weight, x, i >= WAYS, &y[i / WAYS][i % WAYS]);
            if (round < 2 || time < *best) *best = time;
        }
    }
    printf("Conv2d(64, 128, 3, stride 2) of %d x 64 x %d x %d; ms of CPU time, the least of %d passes\n", batch, size,
           size, rounds);
    printf("%s, %s\n\n%-8s%10s%10s\n", amp_cpu()->model, amp_isa_name(amp_isa_best()), "", "f32", "bf16");
    for (int i = 0; i < WAYS && amp_last_status() == AMP_OK; i++) {
        const bool same = amp_item(amp_equal(y[0][EAGER], y[0][i])) && amp_item(amp_equal(y[1][EAGER], y[1][i]));
        printf("%-8s%10.2f%10.2f%8.2fx  %s\n", names[i], least[0][i], least[1][i], least[0][i] / least[1][i],
               same ? "the bits of eager" : "not the bits of eager");
    }
    if (amp_last_status() != AMP_OK) fprintf(stderr, "simple_net: %s\n", amp_last_error());
    for (int i = 0; i < 2 * WAYS; i++) amp_release(y[i / WAYS][i % WAYS]);
    for (int i = 0; i < WAYS; i++) amp_graph_release(graphs[i]);
    return amp_last_status() != AMP_OK;
}
