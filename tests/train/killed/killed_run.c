/* A run of training that may be killed at any moment and started again: killed_run FILE STEPS. It goes on from FILE,
 * which it writes every third step, and prints the bits that it ends with. kill_runs.py kills it. */
#include <amp/amp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 32, WIDTH = 48, CLASSES = 10, EVERY = 3 };

static amp_tensor *forward(const amp_parameters *p, amp_tensor *x, amp_generator *dropped) {
    amp_tensor *h = amp_relu(amp_linear(x, amp_parameters_at(p, 0), amp_parameters_at(p, 1)));
    h = amp_batch_norm(h, amp_parameters_at(p, 4), amp_parameters_at(p, 5), NULL, NULL, .training = true);
    h = amp_dropout(h, .p = AMP_SET(0.3), .training = AMP_SET(true), .generator = dropped);
    return amp_linear(h, amp_parameters_at(p, 2), amp_parameters_at(p, 3));
}

static void build(amp_parameters *p) {
    amp_scope_here();
    amp_parameters_add(p, "in.weight", amp_mul_scalar(amp_randn(AMP_DIMS(WIDTH, WIDTH)), amp_float(0.2)));
    amp_parameters_add(p, "in.bias", amp_zeros(AMP_DIMS(WIDTH)));
    amp_parameters_add(p, "out.weight", amp_mul_scalar(amp_randn(AMP_DIMS(CLASSES, WIDTH)), amp_float(0.2)));
    amp_parameters_add(p, "out.bias", amp_zeros(AMP_DIMS(CLASSES)));
    amp_parameters_add_buffer(p, "bn.running_mean", amp_zeros(AMP_DIMS(WIDTH)));
    amp_parameters_add_buffer(p, "bn.running_var", amp_ones(AMP_DIMS(WIDTH)));
}

/* One step on a random batch, whose classes are the places of the largest numbers; in f16, with scaling. */
static void step_once(const amp_training *run) {
    amp_scope_here();
    amp_tensor *x = amp_randn(AMP_DIMS(ROWS, WIDTH)), *loss = NULL;
    amp_tensor *labels = amp_argmax(amp_narrow(x, 1, 0, CLASSES), .dim = AMP_SET(1));
    amp_autocast(AMP_DEVICE_CPU, .dtype = AMP_F16) {
        loss = amp_cross_entropy(forward(run->parameters, x, run->generators[0]), labels);
    }
    amp_backward(amp_grad_scaler_scale(run->scalers[0], loss));
    amp_grad_scaler_step(run->scalers[0], run->optimizers[0]);
    amp_grad_scaler_update(run->scalers[0]);
    amp_optimizer_zero_grad(run->optimizers[0]);
    amp_scheduler_step(run->schedulers[0]);
    ++*run->step;
}

/* FNV-1a over everything that was trained, and the numbers that come next. */
static uint64_t digest(const amp_parameters *p) {
    uint64_t hash = 14695981039346656037u;
    amp_scope_here();
    for (int64_t i = 0; i <= amp_parameters_count(p); i++) {
        amp_tensor *t = i < amp_parameters_count(p) ? amp_parameters_at(p, i) : amp_rand(AMP_DIMS(4));
        const unsigned char *bytes = amp_data(t);
        for (int64_t k = 0; bytes && k < amp_tensor_numel(t) * 4; k++) hash = (hash ^ bytes[k]) * 1099511628211u;
    }
    return hash;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: killed_run FILE STEPS\n"), 2;
    const int64_t steps = atoll(argv[2]);
    int64_t step = 0;
    amp_manual_seed(11);
    amp_parameters *p = amp_parameters_create();
    build(p);
    amp_optimizer *opt = amp_adamw(p, .lr = AMP_SET(3e-3));
    amp_scheduler *schedule = amp_one_cycle_lr(opt, .max_lr = AMP_SET(1e-2), .total_steps = AMP_SET(steps + 1));
    amp_grad_scaler *scaler = amp_grad_scaler_create(AMP_DEVICE_CPU, .growth_interval = AMP_SET(7));
    amp_generator *dropped = amp_generator_create(AMP_DEVICE_CPU);
    const amp_training run = AMP_TRAINING(p, .optimizers = {opt}, .schedulers = {schedule}, .scalers = {scaler},
                                          .generators = {dropped}, .step = &step);
    if (access(argv[1], F_OK) == 0) amp_training_load(&run, argv[1]);
    while (step < steps && amp_last_status() == AMP_OK) {
        step_once(&run);
        if (step % EVERY == 0) amp_training_save(&run, argv[1]);
    }
    if (amp_last_status() == AMP_OK)
        printf("%016llx scale %g lr %.17g\n", (unsigned long long)digest(p), amp_grad_scaler_get_scale(scaler),
               amp_optimizer_lr(opt, 0));
    if (amp_last_status() != AMP_OK) fprintf(stderr, "killed_run: %s\n", amp_last_error());
    amp_generator_destroy(dropped);
    amp_grad_scaler_destroy(scaler);
    amp_scheduler_destroy(schedule);
    amp_optimizer_destroy(opt);
    amp_parameters_destroy(p);
    return amp_last_status() != AMP_OK;
}
