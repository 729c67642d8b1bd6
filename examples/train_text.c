/* A small GPT learns to write in the manner of a folder's files, by default of this project's own sources. What is of
 * libamp here is in text/gpt.c and in `step`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpt.h"
#include "measuring.h"
#include "options.h"
#include "terminal.h"
#include "text_files.h"

static const char usage[] = "Usage: train_text [OPTION]... [FOLDER]\n"
                            "Trains a small GPT on the text below a folder [.], byte by byte, and lets it write.\n"
                            "\n"
                            "  --dtype TYPE   f32, bf16 or f16 [bf16]\n"
                            "  --steps N      steps of training [500]\n"
                            "  --batch N      pieces of 128 bytes in a step [16]\n"
                            "  --lr X         the highest learning rate [0.002]\n"
                            "  --write N      bytes to write at the end [400]\n"
                            "  --seed N       where random numbers begin [1]\n"
                            "  --threads N    threads to compute with [one for each core]\n"
                            "  --help         print this\n"
                            "\n"
                            "Exit status: 0 if all went well, 1 if something failed, 2 for a wrong command line.\n";

enum { FAILED = 1, WRONG_USAGE = 2, SENTENCE = 1024, MOST_TEXT = 16 << 20, HELD_BACK = 10, SHOWN_EACH = 10 };

typedef struct options {
    amp_dtype dtype;
    double steps, batch, lr, written, seed, threads; /* whole numbers but lr */
    const char *folder;
} options;

typedef struct trainer {
    const options *options;
    gpt model;
    amp_optimizer *optimizer;
    amp_scheduler *scheduler;
    amp_grad_scaler *scaler;
    amp_tensor *text, *held; /* bytes, as i64; the last tenth is held back */
} trainer;

/* ---- Training ------------------------------------------------------------------------------------------------------- */
/* Up for the first twentieth of the steps, then down to a tenth as a cosine. */
static double rate_at(void *context, int64_t step) {
    const double steps = ((const options *)context)->steps, warm = fmax(1, steps / 20), at = (double)step;
    return at < warm ? (at + 1) / warm : 0.55 + 0.45 * cos(acos(-1) * (at - warm) / fmax(1, steps - warm));
}

static amp_tensor *numbers_of(const char *text, size_t bytes) {
    const int64_t count = (int64_t)bytes;
    return amp_keep(amp_to(amp_from_data(text, AMP_U8, 1, &count), AMP_I64));
}

static amp_status trainer_create(trainer *t, options *o, const char *text, size_t bytes) {
    amp_scope_here();
    *t = (trainer){.options = o};
    amp_manual_seed((uint64_t)o->seed);
    const size_t held = bytes / HELD_BACK;
    t->text = numbers_of(text, bytes - held);
    t->held = numbers_of(text + bytes - held, held);
    (void)gpt_create(&t->model);
    t->optimizer =
        amp_adamw(t->model.decayed, .lr = AMP_SET(o->lr), .weight_decay = AMP_SET(0.1), .beta2 = AMP_SET(0.95));
    amp_optimizer_add_group(t->optimizer, t->model.others, .weight_decay = AMP_SET(0));
    t->scheduler = amp_lambda_lr(t->optimizer, .function = rate_at, .context = o);
    t->scaler = amp_grad_scaler_create(AMP_DEVICE_CPU, .enabled = AMP_SET(o->dtype == AMP_F16));
    return amp_last_status();
}

static void trainer_destroy(trainer *t) {
    amp_grad_scaler_destroy(t->scaler);
    amp_scheduler_destroy(t->scheduler);
    amp_optimizer_destroy(t->optimizer);
    gpt_destroy(&t->model);
    amp_release(t->text);
    amp_release(t->held);
}

/* The loss of `batch` pieces from anywhere in a text. */
static amp_tensor *loss_of(const trainer *t, amp_tensor *text) {
    const options *o = t->options;
    amp_tensor *starts = amp_randint(amp_tensor_size(text, 0) - GPT_CONTEXT, AMP_DIMS((int64_t)o->batch, 1));
    amp_tensor *places = amp_add(starts, amp_arange(amp_int(GPT_CONTEXT + 1)));
    amp_tensor *pieces = amp_reshape(amp_index_select(text, 0, amp_flatten(places)), AMP_DIMS((int64_t)o->batch, -1));
    amp_autocast_here(AMP_DEVICE_CPU, .dtype = o->dtype == AMP_F16 ? AMP_F16 : AMP_BF16,
                      .enabled = AMP_SET(o->dtype != AMP_F32));
    return gpt_loss(&t->model, amp_narrow(pieces, 1, 0, GPT_CONTEXT), amp_narrow(pieces, 1, 1, GPT_CONTEXT));
}

static double step(trainer *t) {
    amp_scope_here();
    amp_tensor *loss = loss_of(t, t->text);
    amp_backward(amp_grad_scaler_scale(t->scaler, loss));
    amp_grad_scaler_unscale(t->scaler, t->optimizer);
    amp_clip_grad_norm(t->model.parameters, 1.0);
    (void)amp_grad_scaler_step(t->scaler, t->optimizer);
    amp_grad_scaler_update(t->scaler);
    amp_optimizer_zero_grad(t->optimizer);
    amp_scheduler_step(t->scheduler);
    return amp_item(loss);
}

/* Bits for each byte of what was held back, from 20 batches. */
static double held_back_bits(const trainer *t) {
    amp_no_grad_here();
    double sum = 0;
    for (int i = 0; i < 20; i++) {
        amp_scope_here();
        sum += amp_item(loss_of(t, t->held));
    }
    return sum / 20 / log(2);
}

/* On a terminal one line that is written over; else ten in all. */
static void show(const trainer *t, int done, double loss, double seconds) {
    const int steps = (int)t->options->steps;
    const bool live = isatty(STDOUT_FILENO), is_last = done == steps;
    if (!is_last && (live ? done % SHOWN_EACH : done % ((steps + 9) / 10)) != 0) return;
    const double rate = (double)done * t->options->batch * GPT_CONTEXT / seconds;
    printf("%sstep %5d of %d   %.3f bits a byte   %8.0f bytes/s   %5.0f s%s", live ? "\r" : "", done, steps,
           loss / log(2), rate, seconds, !live || is_last ? "\n" : "");
    fflush(stdout);
}

static amp_status train(trainer *t) {
    const double start = measuring_now();
    double mean = NAN;
    for (int i = 0; i < t->options->steps && amp_last_status() == AMP_OK; i++) {
        const double loss = step(t);
        mean = i == 0 ? loss : 0.95 * mean + 0.05 * loss;
        show(t, i + 1, mean, measuring_now() - start);
    }
    return amp_last_status();
}

/* ---- What it writes ------------------------------------------------------------------------------------------------- */
static amp_status write_text(const trainer *t) {
    static const char given[] = "/* ";
    const int count = (int)t->options->written, known = (int)sizeof given - 1;
    char *text = malloc((size_t)(known + count));
    if (!text) return AMP_ERROR_MEMORY;
    memcpy(text, given, (size_t)known);
    const amp_status status = gpt_write(&t->model, text, known, count, 0.7);
    for (int i = 0; i < known + count && status == AMP_OK; i++) /* control characters could move a terminal's cursor */
        putchar((unsigned char)text[i] < ' ' && text[i] != '\n' ? ' ' : text[i]);
    putchar('\n');
    free(text);
    return status;
}

static int run(options *o, const char *text, size_t bytes, int files) {
    trainer t;
    amp_status status = trainer_create(&t, o, text, bytes);
    if (status == AMP_OK) {
        printf("%.1f MB of %d files; %lld parameters, %s, %d threads, %s\n\n", 1e-6 * (double)bytes, files,
               (long long)gpt_count(&t.model), amp_dtype_name(o->dtype), amp_get_num_threads(),
               amp_isa_name(amp_isa_best()));
        status = train(&t);
    }
    if (status == AMP_OK) {
        printf("\nOf what was held back: %.3f bits a byte. It writes:\n\n", held_back_bits(&t));
        status = write_text(&t);
    }
    trainer_destroy(&t);
    return status == AMP_OK ? 0 : terminal_complain("train_text", FAILED, "%s", amp_last_error());
}

/* ---- Command line --------------------------------------------------------------------------------------------------- */
static bool read_type(const char *text, amp_dtype *dtype) {
    static const amp_dtype types[] = {AMP_F32, AMP_BF16, AMP_F16};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, amp_dtype_name(types[i])) != 0) continue;
        *dtype = types[i];
        return true;
    }
    return false;
}

/* OPTIONS_GO_ON, or the exit status. */
static int read_options(int argc, char **argv, options *o) {
    const char *dtype = "bf16";
    const option_row rows[] = {{.name = "dtype", .word = &dtype},
                               {.name = "steps", .number = &o->steps, .least = 1, .most = 1000000},
                               {.name = "batch", .number = &o->batch, .least = 1, .most = 1024},
                               {.name = "lr", .number = &o->lr, .least = 0, .most = 1, .is_real = true},
                               {.name = "write", .number = &o->written, .least = 0, .most = 100000},
                               {.name = "seed", .number = &o->seed, .least = 0, .most = 1000000},
                               {.name = "threads", .number = &o->threads, .least = 1, .most = 4096},
                               {0}};
    const int status = options_read("train_text", usage, argc, argv, rows, &o->folder, 1);
    if (status != OPTIONS_GO_ON || read_type(dtype, &o->dtype)) return status;
    return terminal_complain("train_text", WRONG_USAGE, "--dtype is '%s'; expected f32, bf16 or f16", dtype);
}

int main(int argc, char **argv) {
    options o = {.steps = 500, .batch = 16, .lr = 0.002, .written = 400, .seed = 1, .folder = "."};
    int status = read_options(argc, argv, &o);
    if (status != OPTIONS_GO_ON) return status;
    if (o.threads > 0) amp_set_num_threads((int)o.threads);
    char why[SENTENCE];
    size_t bytes = 0;
    int files = 0;
    char *text = text_files_read(o.folder, MOST_TEXT, &bytes, &files, why, sizeof why);
    if (!text) return terminal_complain("train_text", FAILED, "%s", why);
    if (bytes / HELD_BACK > GPT_CONTEXT)
        status = run(&o, text, bytes, files);
    else
        status = terminal_complain("train_text", FAILED, "%s: %zu bytes of text are too few; expected more than %d",
                                   o.folder, bytes, HELD_BACK * (GPT_CONTEXT + 1));
    free(text);
    return status;
}
