/* A network learns handwritten digits, in f32, in bf16 and in f16 with a scaled loss, one after the other from the same
 * beginning. What is of libamp here is in digits/digit_net.c; the rest is for people who watch. Under mpirun the
 * processes share each step's digits, and the first one speaks: mpirun -n 2 build/release/examples/train_digits */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "curves.h"
#include "digit_net.h"
#include "measuring.h"
#include "options.h"
#include "terminal.h"

static const char usage[] =
    "Usage: train_digits [OPTION]...\n"
    "Trains a small convolutional network on 1,437 handwritten digits of 8 x 8 pixels, and tries it on 360 others, in\n"
    "f32, bf16 and f16. `make train` fetches the digits and runs it.\n"
    "\n"
    "  --dtype TYPE   f32, bf16, f16 or all [all]\n"
    "  --epochs N     rounds over all digits [20]\n"
    "  --batch N      digits in a step [64]\n"
    "  --parts N      parts that a step's gradients are added up from: the same numbers in 1, 2 or N processes [one "
    "for each]\n"
    "  --seed N       where random numbers begin [1]\n"
    "  --threads N    threads to compute with [one for each core]\n"
    "  --svg FILE     where the curves of the losses go [build/train_digits.svg]\n"
    "  --data FILE    the digits: lines of 64 pixels and a label [.deps/digits/digits.csv]\n"
    "  --help         print this\n"
    "\n"
    "Exit status: 0 if all went well, 1 if something failed, 2 for a wrong command line.\n";

enum { FAILED = 1, WRONG_USAGE = 2, SENTENCE = 1024, TYPES = 3 };

static const amp_dtype types[TYPES] = {AMP_F32, AMP_BF16, AMP_F16};

typedef struct options {
    bool wanted[TYPES];
    double epochs, batch, parts, seed, threads; /* whole numbers */
    const char *svg, *data;
} options;

typedef struct result {
    double *losses; /* of each step */
    int steps;
    double accuracy, seconds, rate; /* digits a second */
} result;

/* One of several processes is enough. */
static bool speaks(void) {
    return amp_distributed_rank() == 0;
}

/* ---- One network ---------------------------------------------------------------------------------------------------- */
static double mean(const double *values, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += values[i];
    return sum / count;
}

/* On a terminal one line that is written over; else the last one alone. */
static void show(amp_dtype dtype, int epoch, int epochs, double loss, const result *r) {
    const bool live = isatty(STDOUT_FILENO);
    if (!speaks() || (!live && epoch < epochs)) return;
    printf("%s%-5s%5d of %d%12.5f%11.2f %%%12.0f%10.1f s%s", live ? "\r" : "", amp_dtype_name(dtype), epoch, epochs,
           loss, 100 * r->accuracy, r->rate, r->seconds, epoch == epochs ? "\n" : "");
    fflush(stdout);
}

static amp_status train(digit_training *t, int epochs, result *r) {
    for (int epoch = 0; epoch < epochs; epoch++) {
        double *losses = r->losses + r->steps;
        const double start = measuring_now();
        if (digit_training_epoch(t, losses) != AMP_OK) break;
        r->seconds += measuring_now() - start;
        r->steps += t->steps_of_epoch;
        r->rate = (double)r->steps * (double)t->batch / r->seconds;
        r->accuracy = digit_training_accuracy(t);
        show(t->dtype, epoch + 1, epochs, mean(losses, t->steps_of_epoch), r);
    }
    return amp_last_status();
}

static int run_type(const options *o, const digit_data *data, amp_dtype dtype, result *r) {
    digit_training t;
    r->losses = calloc((size_t)o->epochs * (size_t)data->count, sizeof *r->losses);
    if (!r->losses) return terminal_complain("train_digits", FAILED, "no memory");
    amp_status status =
        digit_training_create(&t, data, dtype, (int)o->epochs, (int64_t)o->batch, (int)o->parts, (uint64_t)o->seed);
    if (status == AMP_OK) status = train(&t, (int)o->epochs, r);
    digit_training_destroy(&t);
    return status == AMP_OK ? 0 : terminal_complain("train_digits", FAILED, "%s", amp_last_error());
}

/* ---- All of them ---------------------------------------------------------------------------------------------------- */
static int write_curves(const char *path, const result *results) {
    curve curves[CURVES_MOST];
    int count = 0;
    for (int i = 0; i < TYPES; i++) {
        if (results[i].steps > 0)
            curves[count++] = (curve){amp_dtype_name(types[i]), results[i].losses, results[i].steps};
    }
    if (curves_write_svg(path, "Handwritten digits: loss by step", "cross entropy, log scale; running mean", curves,
                         count) == 0) {
        printf("\nThe losses, step by step: %s\n", path);
        return 0;
    }
    return terminal_complain("train_digits", FAILED, "%s: %s", path, strerror(errno));
}

static void introduce(const options *o, const digit_data *data) {
    if (amp_distributed_size() > 1) printf("%d processes; ", amp_distributed_size());
    printf("%d digits to learn from, %d held back; batches of %d, %d threads, %s\n\n", data->count - DIGITS_HELD_BACK,
           DIGITS_HELD_BACK, (int)o->batch, amp_get_num_threads(), amp_isa_name(amp_isa_best()));
    printf("type        epoch        loss     accuracy    digits/s      time\n");
}

static int run(const options *o, const digit_data *data) {
    result results[TYPES] = {{0}};
    int status = 0;
    if (speaks()) introduce(o, data);
    for (int i = 0; i < TYPES && status == 0; i++) {
        if (o->wanted[i]) status = run_type(o, data, types[i], &results[i]);
    }
    if (status == 0 && speaks()) status = write_curves(o->svg, results);
    for (int i = 0; i < TYPES; i++) free(results[i].losses);
    return status;
}

/* ---- Command line --------------------------------------------------------------------------------------------------- */
static bool read_type(const char *text, bool *wanted) {
    bool any = false;
    for (int i = 0; i < TYPES; i++) {
        wanted[i] = strcmp(text, "all") == 0 || strcmp(text, amp_dtype_name(types[i])) == 0;
        any = any || wanted[i];
    }
    return any;
}

/* OPTIONS_GO_ON, or the exit status. */
static int read_options(int argc, char **argv, options *o) {
    const char *dtype = "all";
    const option_row rows[] = {{.name = "dtype", .word = &dtype},
                               {.name = "svg", .word = &o->svg},
                               {.name = "data", .word = &o->data},
                               {.name = "epochs", .number = &o->epochs, .least = 1, .most = 1000},
                               {.name = "batch", .number = &o->batch, .least = 1, .most = 1024},
                               {.name = "parts", .number = &o->parts, .least = 1, .most = 1024},
                               {.name = "seed", .number = &o->seed, .least = 0, .most = 1000000},
                               {.name = "threads", .number = &o->threads, .least = 1, .most = 4096},
                               {0}};
    const int status = options_read("train_digits", usage, argc, argv, rows, NULL, 0);
    if (status != OPTIONS_GO_ON || read_type(dtype, o->wanted)) return status;
    return terminal_complain("train_digits", WRONG_USAGE, "--dtype is '%s'; expected f32, bf16, f16 or all", dtype);
}

/* Parts that processes and batches can be divided by. */
static int choose_parts(options *o) {
    const int size = amp_distributed_size();
    if (o->parts == 0) o->parts = size;
    if ((int)o->parts % size == 0 && (int)o->batch % (int)o->parts == 0) return 0;
    return terminal_complain("train_digits", WRONG_USAGE,
                             "--parts is %d; expected a divisor of the batch, %d, and a multiple of the number of "
                             "processes, %d",
                             (int)o->parts, (int)o->batch, size);
}

static int read_and_run(options *o) {
    char why[SENTENCE];
    digit_data data;
    int status = choose_parts(o);
    if (status != 0) return status;
    if (digit_data_read(o->data, 1, &data, why, sizeof why) != 0)
        return terminal_complain("train_digits", FAILED, "%s; `make train` fetches the digits", why);
    status = run(o, &data);
    digit_data_free(&data);
    return status;
}

int main(int argc, char **argv) {
    options o = {
        .epochs = 20, .batch = 64, .seed = 1, .svg = "build/train_digits.svg", .data = ".deps/digits/digits.csv"};
    int status = read_options(argc, argv, &o);
    if (status != OPTIONS_GO_ON) return status;
    if (o.threads > 0) amp_set_num_threads((int)o.threads);
    const bool is_launched = amp_distributed_is_launched(); /* by mpirun */
    if (is_launched && amp_distributed_init() != AMP_OK)
        return terminal_complain("train_digits", FAILED, "%s", amp_last_error());
    status = read_and_run(&o);
    if (status == 0 && is_launched) (void)amp_distributed_end(); /* else the others end too */
    return status;
}
