/* A run of training for tests: `ranks_run CASE [FILE]`, in one process or under mpirun. Micro-batch m of a step is the
 * same whoever takes it, and rank r of n takes those with m % n == r, so that the lines "bits …" are the same for any
 * n, and for case `plain`, which knows nothing of ranks. RANKS_DEVICE=cuda: on GPUs, of which rank r has number r. */
#include <amp/amp.h>
#include <amp/cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCHES = 8, STEPS = 5, ROWS = 6, INPUTS = 19, HIDDEN = 37, CLASSES = 7 };

/* What a case does otherwise than the first. */
typedef struct run_case {
    const char *name;
    bool plain;            /* amp_backward, one process */
    bool mean, late;       /* losses as of a mean over ranks; nothing overlaps */
    amp_dtype wire;        /* AMP_F32 */
    int64_t bucket_bytes;  /* 1,000 */
    bool shards, momentum; /* the optimizer's states; SGD with momentum in AdamW's place */
    bool scaled;           /* by a scaler, with an infinity in one gradient of step 2 */
    bool masters;          /* a parameter in bf16 with an f32 master */
    int save_at, load;     /* a checkpoint after this step; the run goes on from one */
    bool local;            /* each rank accumulates alone, and reduces in its last backward */
    const char *trouble;
} run_case;

static const run_case cases[] = {
    {.name = "plain", .plain = true},
    {.name = "sum"},
    {.name = "mean", .mean = true},
    {.name = "late", .late = true},
    {.name = "one_bucket", .bucket_bytes = 1 << 20},
    {.name = "tiny_buckets", .bucket_bytes = 1},
    {.name = "sharded", .shards = true},
    {.name = "bf16_wire", .wire = AMP_BF16},
    {.name = "plain_momentum", .plain = true, .momentum = true},
    {.name = "sharded_momentum", .shards = true, .momentum = true},
    {.name = "plain_masters", .plain = true, .masters = true},
    {.name = "sharded_masters", .shards = true, .masters = true},
    {.name = "plain_scaled", .plain = true, .scaled = true},
    {.name = "scaled", .scaled = true},
    {.name = "scaled_sharded", .scaled = true, .shards = true},
    {.name = "save", .save_at = 2, .shards = true},
    {.name = "resume", .load = 1, .shards = true},
    {.name = "resume_unsharded", .load = 1},
    {.name = "save_masters", .save_at = 2, .shards = true, .masters = true},
    {.name = "resume_masters", .load = 1, .shards = true, .masters = true},
    {.name = "plain_resume", .load = 1, .plain = true},
    {.name = "local", .local = true},
    {.name = "failing", .trouble = "failing"},
    {.name = "carrier", .trouble = "carrier"},
    {.name = "carrier_step", .trouble = "carrier_step", .shards = true},
    {.name = "carrier_save", .trouble = "carrier_save", .shards = true},
    {.name = "no_memory", .trouble = "no_memory"},
    {.name = "no_memory_on_all", .trouble = "no_memory_on_all"},
    {.name = "two_places", .trouble = "two_places"},
    {.name = "other_place", .trouble = "other_place"},
    {.name = "one_gpu", .trouble = "one_gpu"},
    {.name = "collectives", .trouble = "collectives"},
    {.name = "mixed", .trouble = "mixed"},
    {.name = "uneven", .trouble = "uneven"},
    {.name = "mismatch", .trouble = "mismatch"},
    {.name = "other_options", .trouble = "other_options"},
    {.name = "load_one", .trouble = "load_one", .shards = true},
    {.name = "uneven_step", .trouble = "uneven_step", .shards = true},
    {.name = "failing_step", .trouble = "failing_step", .shards = true},
    {.name = "save_alone", .trouble = "save_alone", .shards = true},
    {.name = "killed", .trouble = "killed"},
    {.name = "leaves", .trouble = "leaves"},
    {.name = "leaves_failed", .trouble = "leaves_failed"},
    {.name = "ends_failed", .trouble = "ends_failed"},
    {.name = "thread", .trouble = "thread"},
};

static amp_device device; /* where all lies */

typedef struct run {
    const run_case *of;
    const char *file;
    amp_parameters *p;
    amp_tensor *w1, *b1, *w2, *b2, *odd, *gain, *half, *seen;
    amp_optimizer *optimizer;
    amp_scheduler *scheduler;
    amp_grad_scaler *scaler;
    amp_data_parallel *ddp;
    int64_t step;
    uint64_t waits; /* of the host for a GPU, in backwards of all ranks */
} run;

static bool has_trouble(const run *r, const char *trouble) {
    return r->of->trouble && strcmp(r->of->trouble, trouble) == 0;
}

/* ---- The model --------------------------------------------------------------------------------------------------- */
static amp_tensor *add(run *r, const char *name, amp_dims shape, amp_dtype dtype) {
    amp_tensor *t = amp_to(amp_mul_scalar(amp_randn(shape), amp_float(0.3)), dtype);
    const bool is_here = has_trouble(r, "two_places") && strcmp(name, "gain") == 0;
    const bool all_here = has_trouble(r, "other_place") && amp_distributed_rank() == 1;
    return amp_parameters_add(r->p, name, is_here || all_here ? t : amp_to_device(t, device));
}

static void make_model(run *r) {
    amp_scope_here();
    const bool is_other = has_trouble(r, "mismatch") && amp_distributed_rank() == 1;
    amp_manual_seed((uint64_t)amp_distributed_rank() + 5); /* rank 0's values count */
    r->p = amp_parameters_create();
    r->w1 = add(r, "fc1.weight", AMP_DIMS(HIDDEN, INPUTS), AMP_F32);
    r->b1 = add(r, "fc1.bias", AMP_DIMS(HIDDEN), AMP_F32);
    r->odd = add(r, "odd", AMP_DIMS(HIDDEN), AMP_F32); /* of some micro-batches only */
    r->gain = add(r, "gain", AMP_DIMS(is_other ? 2 : 1), AMP_F64);
    (void)add(r, "unused", AMP_DIMS(3, 5), AMP_F32);
    if (r->of->masters) r->half = add(r, "half", AMP_DIMS(HIDDEN, HIDDEN), AMP_BF16);
    r->w2 = add(r, "fc2.weight", AMP_DIMS(CLASSES, HIDDEN), AMP_F32);
    r->b2 = add(r, "fc2.bias", AMP_DIMS(CLASSES), AMP_F32);
    amp_tensor *seen = amp_full(AMP_DIMS(2), amp_int(amp_distributed_rank()));
    if (!has_trouble(r, "other_place") || amp_distributed_rank() != 1) seen = amp_to_device(seen, device);
    r->seen = amp_parameters_add_buffer(r->p, "seen", seen);
}

static amp_tensor *loss_of(const run *r, int64_t micro_batch) {
    amp_manual_seed(1000 + (uint64_t)micro_batch);
    amp_tensor *x = amp_to_device(amp_randn(AMP_DIMS(ROWS, INPUTS)), device);
    amp_tensor *labels = amp_to_device(amp_randint(CLASSES, AMP_DIMS(ROWS)), device);
    amp_tensor *h = amp_tanh(amp_linear(x, r->w1, r->b1));
    if (micro_batch % 4 == 1) h = amp_mul(h, r->odd);
    if (r->half) h = amp_to(amp_linear(amp_to(h, AMP_BF16), r->half), AMP_F32);
    h = amp_dropout(h, .p = AMP_SET(0.2));
    return amp_cross_entropy(amp_mul(amp_linear(h, r->w2, r->b2), amp_to(r->gain, AMP_F32)), labels);
}

/* ---- A step ------------------------------------------------------------------------------------------------------ */
static uint64_t waits_so_far(void) {
    amp_cuda_counts counts;
    return amp_cuda_get_counters(&counts, sizeof counts) == AMP_OK ? counts.synchronizations : 0;
}

static void go_back_together(run *r, amp_tensor *loss) {
    const uint64_t before = waits_so_far();
    amp_data_parallel_backward(r->ddp, loss);
    r->waits += waits_so_far() - before;
}

static void go_back(run *r, int64_t number, bool is_last) {
    amp_scope_here();
    const int size = amp_distributed_size();
    amp_tensor *loss = loss_of(r, r->step * MICRO_BATCHES + number);
    loss = amp_div_scalar(loss, amp_int(r->of->mean ? MICRO_BATCHES / size : MICRO_BATCHES));
    if (r->of->scaled) loss = amp_grad_scaler_scale(r->scaler, loss);
    if (r->of->scaled && r->step == 2 && number == 5) loss = amp_div_scalar(loss, amp_int(0));
    if (r->of->plain || (r->of->local && !is_last))
        amp_backward(loss);
    else
        go_back_together(r, loss);
}

static void make_step(run *r) {
    const int size = amp_distributed_size(), rank = amp_distributed_rank();
    for (int number = rank; number < MICRO_BATCHES && amp_last_status() == AMP_OK; number += size)
        go_back(r, number, number + size >= MICRO_BATCHES);
    if (amp_tensor_grad(amp_parameters_find(r->p, "unused"))) printf("unused has a gradient\n");
    if (r->of->scaled) {
        (void)amp_grad_scaler_step(r->scaler, r->optimizer);
        (void)amp_grad_scaler_update(r->scaler);
    } else {
        (void)amp_optimizer_step(r->optimizer);
    }
    (void)amp_optimizer_zero_grad(r->optimizer);
    (void)amp_scheduler_step(r->scheduler);
    r->step++;
}

/* ---- What comes out ---------------------------------------------------------------------------------------------- */
static uint64_t bits_of(const amp_parameters *p, bool of_gradients) {
    uint64_t hash = 1469598103934665603u;
    amp_scope_here();
    amp_no_grad_here();
    for (int64_t i = 0; i < amp_parameters_count(p); i++) {
        amp_tensor *t = amp_parameters_at(p, i);
        if (of_gradients) t = amp_tensor_grad(t);
        if (t && device != AMP_DEVICE_CPU) t = amp_to_device(t, AMP_DEVICE_CPU);
        const unsigned char *bytes = t ? amp_data(t) : NULL;
        for (int64_t k = 0; bytes && k < amp_tensor_numel(t) * (int64_t)amp_dtype_size(amp_tensor_dtype(t)); k++)
            hash = (hash ^ bytes[k]) * 1099511628211u;
        hash = hash * 31 + (t != NULL);
    }
    return hash;
}

static double number_of(amp_tensor *t) {
    return amp_item(amp_to_device(t, AMP_DEVICE_CPU));
}

/* Every rank prints; who runs the tests compares. */
static void report(const run *r) {
    amp_scope_here();
    amp_no_grad_here();
    const double loss = number_of(loss_of(r, 7));
    printf("bits %016llx scale %g loss %.6f step %lld seen %g\n", (unsigned long long)bits_of(r->p, false),
           amp_grad_scaler_get_scale(r->scaler), loss, (long long)r->step, number_of(amp_max(r->seen)));
    if (r->of->shards) {
        const amp_state state = amp_optimizer_state(r->optimizer);
        int averages = 0;
        for (int64_t i = 0; i < state.count; i++) averages += strstr(state.names[i], "exp_avg_sq") != NULL;
        printf("states %d\n", averages);
        amp_state_free(state);
    }
    if (!r->of->plain) {
        amp_data_parallel_stats s = {.struct_size = sizeof s};
        (void)amp_data_parallel_get_stats(r->ddp, &s);
        printf("waits %llu\n", (unsigned long long)r->waits);
        printf("stats size %d\n", amp_distributed_size());
        printf("stats backwards %lld buckets %lld bytes %lld overlapped %lld\n", (long long)s.backwards,
               (long long)s.buckets, (long long)s.bytes, (long long)s.bytes_overlapped);
    }
}

/* ---- Trouble ----------------------------------------------------------------------------------------------------- */
static void say_error(const char *about) {
    printf("%s: %s\n", about, amp_last_status() == AMP_OK ? "no error" : amp_last_error());
    amp_clear_error();
}

/* Rank 1 goes back over a record that is gone. */
static void fail_on_one(run *r) {
    go_back(r, amp_distributed_rank(), true);
    const uint64_t before = bits_of(r->p, true);
    amp_scope_here();
    amp_tensor *loss = loss_of(r, 3);
    if (amp_distributed_rank() == 1) amp_backward(loss);
    if (amp_distributed_rank() == 1) {
        (void)amp_parameters_zero_grad(r->p);
        amp_data_parallel_backward(r->ddp, loss);
    } else {
        amp_data_parallel_backward(r->ddp, loss);
    }
    say_error("failing");
    if (amp_distributed_rank() != 1 && bits_of(r->p, true) != before) printf("gradients have changed\n");
    (void)amp_parameters_zero_grad(r->p);
}

static void mix(run *r) {
    amp_scope_here();
    go_back(r, amp_distributed_rank(), true);
    amp_backward(loss_of(r, 3));
    const uint64_t before = bits_of(r->p, true);
    go_back(r, amp_distributed_rank(), true);
    const uint64_t after = bits_of(r->p, true); /* asked for while an error stands */
    say_error("mixed");
    if (after != before) printf("gradients have changed\n");
    (void)amp_parameters_zero_grad(r->p);
}

/* Rank 1 takes its gradients away, the others go on with theirs. */
static void hold_unevenly(run *r) {
    go_back(r, amp_distributed_rank(), true);
    if (amp_distributed_rank() == 1) (void)amp_parameters_zero_grad(r->p);
    go_back(r, amp_distributed_rank(), true);
    say_error("uneven");
    (void)amp_parameters_zero_grad(r->p);
}

/* Of one parameter rank 1 alone has taken the gradient away. */
static void step_unevenly(run *r) {
    go_back(r, amp_distributed_rank(), true);
    const uint64_t before = bits_of(r->p, false);
    if (amp_distributed_rank() == 1) (void)amp_tensor_zero_grad(r->b1);
    (void)amp_optimizer_step(r->optimizer);
    say_error("uneven_step");
    if (bits_of(r->p, false) != before) printf("parameters have changed\n");
    (void)amp_parameters_zero_grad(r->p);
}

/* On rank 1 something else has failed before the step, with a scaler and without. */
static void fail_a_step(run *r) {
    go_back(r, amp_distributed_rank(), true);
    const uint64_t before = bits_of(r->p, false);
    amp_scope_here();
    (void)amp_grad_scaler_scale(r->scaler, amp_full(AMP_DIMS(1), amp_int(1)));
    for (int i = 0; i < 2; i++) {
        if (amp_distributed_rank() == 1) (void)amp_mm(r->w1, r->w1);
        if (i == 0)
            (void)amp_optimizer_step(r->optimizer);
        else
            (void)amp_grad_scaler_step(r->scaler, r->optimizer);
        say_error("failing_step");
    }
    if (bits_of(r->p, false) != before) printf("parameters have changed\n");
    (void)amp_parameters_zero_grad(r->p);
}

/* What carries GPUs' elements fails in the second backward, as who runs this has told it; it is not the third's. */
static void fail_to_carry(run *r) {
    go_back(r, amp_distributed_rank(), true);
    const uint64_t before = bits_of(r->p, true);
    go_back(r, amp_distributed_rank(), true);
    say_error("carrier");
    if (bits_of(r->p, true) != before) printf("gradients have changed\n");
    (void)amp_parameters_zero_grad(r->p);
}

/* … in a step, or a checkpoint; afterwards all have rank 0's values. */
static void fail_in_shards(run *r, const amp_training *t) {
    make_step(r);
    if (has_trouble(r, "carrier_save")) (void)amp_data_parallel_save(r->ddp, t, r->file);
    say_error("carrier");
    (void)amp_data_parallel_broadcast(r->ddp);
    printf("after: %016llx\n", (unsigned long long)bits_of(r->p, false));
    say_error("after");
}

/* The tests' driver has so many bytes more to give; 0: all that it had. */
static void leave_memory(size_t bytes) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    void (*leave)(size_t) = NULL;
    if (driver) *(void **)&leave = dlsym(driver, "fake_cuda_leave");
    if (leave)
        leave(bytes);
    else
        printf("no driver of the tests'\n");
}

/* Rank 1's GPU, or each, has too little memory for a backward, then more and more, until it has enough: every
 * time all ranks fail, or none. */
static void run_out(const run *r) {
    enum { WEIGHTS = 12, MOST = 40 };
    amp_scope_here();
    amp_parameters *p = amp_parameters_create();
    amp_tensor *w[WEIGHTS], *x = amp_to_device(amp_randn(AMP_DIMS(480, 256)), device);
    for (int i = 0; i < WEIGHTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        w[i] = amp_parameters_add(p, name, amp_to_device(amp_randn(AMP_DIMS(480, 256)), device));
    }
    amp_data_parallel *ddp = amp_data_parallel_create(p, .dtype = AMP_BF16, .bucket_bytes = AMP_SET(1 << 19));
    const size_t rank = (size_t)amp_distributed_rank();
    int failures = 0, tries = 0;
    for (bool fails = true; fails && tries < MOST; tries++) {
        amp_scope_here();
        amp_tensor *loss = amp_sum(amp_mul(w[0], x));
        for (int i = 1; i < WEIGHTS; i++) loss = amp_add(loss, amp_sum(amp_mul(w[i], x)));
        if (rank == 1 || has_trouble(r, "no_memory_on_all")) leave_memory(((size_t)tries << 20) + (rank << 19) + 1);
        amp_data_parallel_backward(ddp, loss);
        fails = amp_last_status() != AMP_OK;
        if (fails && !strstr(amp_last_error(), "memory")) printf("another error: %s\n", amp_last_error());
        amp_clear_error();
        leave_memory(0);
        if (fails && amp_tensor_grad(w[0])) printf("gradients have changed\n");
        amp_tensor *failed = amp_full(AMP_DIMS(1), amp_int(fails));
        (void)amp_distributed_all_reduce(failed);
        if (amp_item(failed) != fails * amp_distributed_size()) printf("not all have failed\n");
        failures += fails;
    }
    printf("no_memory: %s, then %s\n", failures > 1 ? "failures" : "no failures", tries < MOST ? "none" : "failures");
    amp_data_parallel_destroy(ddp);
    amp_parameters_destroy(p);
}

static void call_collectives(void) {
    amp_scope_here();
    const int size = amp_distributed_size(), rank = amp_distributed_rank();
    amp_tensor *t = amp_to_device(amp_full(AMP_DIMS(3), amp_int(rank + 1)), device);
    (void)amp_distributed_all_reduce(t);
    const double sum = number_of(amp_max(t));
    (void)amp_add_(t, amp_to_device(amp_full(AMP_DIMS(3), amp_int(rank)), device));
    (void)amp_distributed_broadcast(t, size - 1);
    printf("collectives: %g %g\n", sum, number_of(amp_max(t)));
}

static void load_on_one(run *r, const amp_training *t) {
    (void)amp_data_parallel_save(r->ddp, t, r->file);
    const uint64_t before = bits_of(r->p, false);
    make_step(r);
    const uint64_t after = bits_of(r->p, false);
    (void)amp_data_parallel_load(r->ddp, t, amp_distributed_rank() == 1 ? "/nowhere/at.all" : r->file);
    say_error("load_one");
    if (bits_of(r->p, false) != after || r->step != 1) printf("a load that failed has changed something\n");
    (void)amp_data_parallel_load(r->ddp, t, r->file);
    if (bits_of(r->p, false) != before || r->step != 0) printf("a load has not brought back what was saved\n");
    (void)amp_data_parallel_save(r->ddp, t, amp_distributed_rank() == 0 ? "/nowhere/at.all" : r->file);
    say_error("save");
}

static void *on_thread(void *context) {
    amp_scope_here();
    go_back(context, 0, true);
    say_error("thread");
    return NULL;
}

static void go_elsewhere(run *r) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, on_thread, r) == 0) pthread_join(thread, NULL);
}

static void get_into_trouble(run *r, const amp_training *t) {
    const bool is_one = amp_distributed_rank() == 1;
    if (has_trouble(r, "failing")) fail_on_one(r);
    if (has_trouble(r, "carrier")) fail_to_carry(r);
    if (has_trouble(r, "carrier_step") || has_trouble(r, "carrier_save")) fail_in_shards(r, t);
    if (has_trouble(r, "no_memory") || has_trouble(r, "no_memory_on_all")) run_out(r);
    if (has_trouble(r, "collectives")) call_collectives();
    if (has_trouble(r, "mixed")) mix(r);
    if (has_trouble(r, "uneven")) hold_unevenly(r);
    if (has_trouble(r, "load_one")) load_on_one(r, t);
    if (has_trouble(r, "uneven_step")) step_unevenly(r);
    if (has_trouble(r, "failing_step")) fail_a_step(r);
    if (has_trouble(r, "save_alone")) (void)amp_training_save(t, r->file), say_error("save_alone");
    if (has_trouble(r, "thread")) go_elsewhere(r);
    if (has_trouble(r, "killed") && is_one) raise(SIGKILL);
    if ((has_trouble(r, "leaves_failed") || has_trouble(r, "ends_failed")) && is_one) (void)amp_mm(r->w1, r->w1);
    if (has_trouble(r, "ends_failed") && is_one) exit(amp_distributed_end() == AMP_OK ? 0 : 1);
    if ((has_trouble(r, "leaves") || has_trouble(r, "leaves_failed")) && is_one) exit(0);
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */
static void make_run(run *r) {
    make_model(r);
    if (!r->of->plain)
        r->ddp = amp_data_parallel_create(
            r->p, .dtype = r->of->wire, .reduction = r->of->mean ? AMP_GRADIENT_MEAN : AMP_GRADIENT_SUM,
            .overlap = AMP_SET(!r->of->late),
            .bucket_bytes = AMP_SET((r->of->bucket_bytes ? r->of->bucket_bytes : 1000) +
                                    (has_trouble(r, "other_options") && amp_distributed_rank() == 1)));
    r->optimizer = r->of->momentum ? amp_sgd(r->p, .lr = AMP_SET(0.05), .momentum = AMP_SET(0.9))
                                   : amp_adamw(r->p, .lr = AMP_SET(0.01), .master_weights = r->of->masters);
    r->scheduler = amp_step_lr(r->optimizer, .step_size = AMP_SET(2), .gamma = AMP_SET(0.5));
    r->scaler = amp_grad_scaler_create(device, .init_scale = AMP_SET(1024));
    if (r->of->shards) (void)amp_data_parallel_shard(r->ddp, r->optimizer);
}

static void train(run *r) {
    const amp_training t = AMP_TRAINING(r->p, .optimizers = {r->optimizer}, .schedulers = {r->scheduler},
                                        .scalers = {r->scaler}, .step = &r->step);
    if (r->of->load && r->of->plain) (void)amp_training_load(&t, r->file);
    if (r->of->load && !r->of->plain) (void)amp_data_parallel_load(r->ddp, &t, r->file);
    if (r->of->trouble) get_into_trouble(r, &t);
    while (r->step < STEPS && amp_last_status() == AMP_OK) {
        make_step(r);
        if (r->of->save_at == r->step) (void)amp_data_parallel_save(r->ddp, &t, r->file);
    }
    if (amp_last_status() == AMP_OK) report(r);
}

static int run_one(const run_case *c, const char *file) {
    run r = {.of = c, .file = file};
    make_run(&r);
    if (amp_last_status() == AMP_OK) train(&r);
    amp_grad_scaler_destroy(r.scaler);
    amp_scheduler_destroy(r.scheduler);
    amp_optimizer_destroy(r.optimizer);
    amp_data_parallel_destroy(r.ddp);
    amp_parameters_destroy(r.p);
    const bool has_failed = amp_last_status() != AMP_OK;
    if (has_failed) printf("error: %s\n", amp_last_error());
    amp_clear_error();
    return has_failed ? 1 : 0;
}

int main(int argc, char **argv) {
    const run_case *c = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) c = &cases[i];
    }
    if (!c) return 2;
    amp_set_num_threads(1);
    if (amp_distributed_is_launched() && amp_distributed_init() != AMP_OK) {
        fprintf(stderr, "ranks_run: %s\n", amp_last_error());
        return 3;
    }
    const char *told = getenv("RANKS_DEVICE");
    if (told && strcmp(told, "cuda") == 0) {
        device = AMP_DEVICE_CUDA;
        (void)amp_cuda_set_device(strcmp(c->name, "one_gpu") == 0 ? 0 : amp_distributed_rank());
    }
    const int status = run_one(c, argc > 2 ? argv[2] : "");
    fflush(stdout);
    if (amp_distributed_is_launched() && amp_distributed_end() != AMP_OK)
        fprintf(stderr, "ranks_run: %s\n", amp_last_error());
    amp_cuda_counts counts;
    if (device == AMP_DEVICE_CUDA && amp_cuda_get_counters(&counts, sizeof counts) == AMP_OK)
        printf("left on the GPU: %zu\n", counts.live_blocks);
    fflush(stdout);
    /* Errors are printed; and mpirun takes a second longer where a status is not 0. */
    return device == AMP_DEVICE_CPU ? status : 0;
}
