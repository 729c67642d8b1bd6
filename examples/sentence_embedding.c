/* Sentence embeddings with all-MiniLM-L6-v2, in f32 and in bf16: the same model, outside and inside an autocast
 * region. */
#include <amp/amp.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measuring.h"
#include "minilm.h"
#include "report.h"
#include "sentences.h"
#include "terminal.h"
#include "wordpiece.h"

static const char usage[] =
    "Usage: sentence_embedding [OPTION]... [SENTENCE]...\n"
    "Embeds sentences with all-MiniLM-L6-v2, in f32 and, under autocast, in bf16, and shows how alike they are,\n"
    "how long each precision takes, and how near their answers are.\n"
    "\n"
    "Without a SENTENCE, or with -, one sentence is read from each line of standard input; where that is a terminal\n"
    "or empty, eight examples are embedded. Blank lines are skipped; an empty SENTENCE is embedded, as the model can.\n"
    "Text must be UTF-8: if any of it is not, nothing is embedded.\n"
    "\n"
    "  --json           print a list of {\"text\", \"ids\", \"embedding_f32\", \"embedding_bf16\"} and nothing else\n"
    "  --model DIR      folder with model.safetensors and vocab.txt [.deps/models/all-MiniLM-L6-v2]\n"
    "  --threads N      threads to compute with [one for each core]\n"
    "  --max-tokens N   cut longer sentences, 2 to 512 [256, as sentence-transformers does]\n"
    "  --help           print this\n"
    "\n"
    "Exit status: 0 if all went well, 1 if something failed, 2 for a wrong command line.\n";

static char *const examples[] = {
    "The cat sits outside",
    "A man is playing guitar",
    "The new movie is awesome",
    "The new movie is so great!",
    "A woman watches TV while her dog sleeps",
    "The dog plays in the garden",
    "Naïve café déjà vu: 東京 2026",
    "bfloat16 keeps the range of float32 and halves its bytes.",
};

enum { F32, BF16, PRECISIONS, MIN_ROUNDS = 5, MAX_ROUNDS = 31, FAILED = 1, WRONG_USAGE = 2 };

typedef struct options {
    const char *model;
    int max_tokens, threads;
    bool json;
    char *const *texts;
    int text_count;
} options;

/* Everything that the demo holds; free_all releases it, however far it got. */
typedef struct demo {
    minilm *model;
    wordpiece *tokenizer;
    sentences texts;
    batch_plan plan;
    measurement result;
    double *times; /* [batches, MAX_ROUNDS, PRECISIONS] seconds */
} demo;

/* ---- The point of it all ----------------------------------------------------------------------------------------- */

static amp_status embed(const minilm *model, amp_dtype precision, const int64_t *ids, const int *lengths, batch b,
                        float *embeddings) {
    amp_status status = AMP_OK;
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(precision == AMP_BF16)) {
        status = minilm_embed(model, ids, lengths, b.count, b.longest, embeddings);
    }
    return status;
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

/* A batch as the model takes it. */
typedef struct workspace {
    int64_t *ids;      /* [count, longest], padded with 0 */
    int *lengths;      /* [count] */
    float *embeddings; /* [count, MINILM_WIDTH] */
} workspace;

static void free_workspace(workspace *w) {
    free(w->ids);
    free(w->lengths);
    free(w->embeddings);
}

static bool make_workspace(workspace *w, const batch_plan *plan) {
    size_t ids = 1, count = 1;
    for (int i = 0; i < plan->count; i++) {
        const batch b = plan->batches[i];
        const size_t n = (size_t)b.count, padded = n * (size_t)b.longest;
        if (n > count) count = n;
        if (padded > ids) ids = padded;
    }
    *w = (workspace){malloc(ids * sizeof *w->ids), malloc(count * sizeof *w->lengths),
                     malloc(count * MINILM_WIDTH * sizeof *w->embeddings)};
    return w->ids && w->lengths && w->embeddings;
}

static void fill_workspace(workspace *w, const demo *d, batch b) {
    memset(w->ids, 0, (size_t)b.count * (size_t)b.longest * sizeof *w->ids);
    for (int i = 0; i < b.count; i++) {
        const sentence *s = &d->texts.items[d->plan.sorted[b.first + i]];
        memcpy(w->ids + (size_t)i * (size_t)b.longest, s->ids, (size_t)s->count * sizeof *w->ids);
        w->lengths[i] = s->count;
    }
}

/* Embeds one batch, and puts the rows where its sentences stand in the input. Returns the seconds; below 0: failed. */
static double run_batch(demo *d, workspace *w, batch b, int precision) {
    const double start = measuring_now();
    if (embed(d->model, precision == BF16 ? AMP_BF16 : AMP_F32, w->ids, w->lengths, b, w->embeddings)) return -1;
    const double seconds = measuring_now() - start;
    for (int i = 0; i < b.count; i++) {
        float *row = d->result.embeddings[precision] + (size_t)d->plan.sorted[b.first + i] * MINILM_WIDTH;
        memcpy(row, w->embeddings + (size_t)i * MINILM_WIDTH, MINILM_WIDTH * sizeof *row);
    }
    return seconds;
}

/* One pass over all batches; f32 and bf16 take turns at going first. */
static bool run_round(demo *d, workspace *w, int round) {
    int64_t tokens = 0;
    for (int i = 0; i < d->plan.count; i++) {
        const batch b = d->plan.batches[i];
        double *times = &d->times[(i * MAX_ROUNDS + round) * PRECISIONS];
        fill_workspace(w, d, b);
        for (int turn = 0; turn < PRECISIONS; turn++) {
            const int precision = (turn + i + round) % PRECISIONS;
            times[precision] = run_batch(d, w, b, precision);
            if (times[precision] < 0) return false;
        }
        tokens += (int64_t)b.count * b.longest;
        if (d->plan.count > 8) report_progress(tokens, d->plan.padded_tokens);
    }
    return true;
}

/* What the explain report of one pass says of the linear layers: the kernel, and a better one that was refused. */
static bool note_kernel(demo *d, workspace *w, int precision) {
    measurement *m = &d->result;
    amp_explain_reset();
    amp_explain_begin();
    const bool good = run_batch(d, w, d->plan.batches[0], precision) >= 0;
    amp_explain_end();
    char *report = good ? amp_explain_report(AMP_EXPLAIN_JSON) : NULL;
    const char *linear = report ? strstr(report, "\"op\": \"linear\"") : NULL;
    const char *rest = measuring_copy_string(linear, "kernel", m->kernel[precision], sizeof *m->kernel);
    const char *refused = rest ? strstr(rest, "\"refused\": [") : NULL;
    if (refused && strcspn(refused, "{") < strcspn(refused, "]")) {
        rest = measuring_copy_string(refused, "kernel", m->refused[precision], sizeof *m->refused);
        measuring_copy_string(rest, "reason", m->reason[precision], sizeof *m->reason);
    }
    amp_explain_free(report);
    return good;
}

/* The first batch, in both precisions: packs the weights, fills the caches. */
static bool warm_up(demo *d, workspace *w) {
    fill_workspace(w, d, d->plan.batches[0]);
    for (int precision = 0; precision < PRECISIONS; precision++) {
        const size_t before = amp_cast_cache_statistics().bytes;
        if (!note_kernel(d, w, precision)) return false;
        d->result.packed_bytes[precision] = amp_cast_cache_statistics().bytes - before;
        if (run_batch(d, w, d->plan.batches[0], precision) < 0) return false;
    }
    return true;
}

/* Sum over the batches of the median over the rounds. */
static double total_seconds(const demo *d, int precision) {
    const int n = d->result.rounds;
    double total = 0, sorted[MAX_ROUNDS];
    for (int i = 0; i < d->plan.count; i++) {
        for (int k = 0; k < n; k++) sorted[k] = d->times[(i * MAX_ROUNDS + k) * PRECISIONS + precision];
        total += measuring_median(sorted, n);
    }
    return total;
}

/* The 75th by the 25th percentile of the times of whole rounds. */
static double spread(const demo *d, int precision) {
    const int n = d->result.rounds;
    double sorted[MAX_ROUNDS] = {0};
    for (int k = 0; k < n; k++)
        for (int i = 0; i < d->plan.count; i++) sorted[k] += d->times[(i * MAX_ROUNDS + k) * PRECISIONS + precision];
    return measuring_spread(sorted, n);
}

/* A round that only warms up, then rounds for about a second, but as many as a median needs. One round is all if nobody
 * asks for the time. */
static bool measure(demo *d, bool once) {
    workspace w = {0};
    bool good = make_workspace(&w, &d->plan) && warm_up(d, &w) && run_round(d, &w, 0);
    const double end = measuring_now() + 1;
    int round = 0;
    while (good && !once && round < MAX_ROUNDS && (round < MIN_ROUNDS || measuring_now() < end))
        good = run_round(d, &w, round++);
    free_workspace(&w);
    if (!good || once) return good;
    d->result.rounds = round;
    for (int precision = 0; precision < PRECISIONS; precision++) {
        d->result.seconds[precision] = total_seconds(d, precision);
        const double varied = spread(d, precision);
        if (varied > d->result.spread) d->result.spread = varied;
    }
    return true;
}

/* ---- From the command line to the report ------------------------------------------------------------------------- */

/* A whole number from `least` to `most`; -1 if the text is none. */
static int parse_number(const char *text, int least, int most) {
    char *end;
    const long n = strtol(text, &end, 10);
    return *text == '\0' || *end != '\0' || n < least || n > most ? -1 : (int)n;
}

/* 0 to go on; else the exit status, plus 1. */
static int parse_options(options *o, int argc, char **argv) {
    enum { JSON = 256, MODEL, THREADS, MAX_TOKENS, HELP };
    static const struct option known[] = {{"json", no_argument, NULL, JSON},
                                          {"model", required_argument, NULL, MODEL},
                                          {"threads", required_argument, NULL, THREADS},
                                          {"max-tokens", required_argument, NULL, MAX_TOKENS},
                                          {"help", no_argument, NULL, HELP},
                                          {NULL, 0, NULL, 0}};
    *o = (options){.model = ".deps/models/all-MiniLM-L6-v2", .max_tokens = MINILM_USUAL_MAX_TOKENS};
    for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        if (c == JSON)
            o->json = true;
        else if (c == MODEL)
            o->model = optarg;
        else if (c == THREADS)
            o->threads = parse_number(optarg, 1, 4096);
        else if (c == MAX_TOKENS)
            o->max_tokens = parse_number(optarg, 2, MINILM_MAX_TOKENS);
        else if (c == HELP || c == 'h')
            return fputs(usage, stdout), 1;
        else
            return terminal_complain("sentence_embedding", WRONG_USAGE, "--help tells what there is") + 1;
        if (o->threads < 0)
            return terminal_complain("sentence_embedding", WRONG_USAGE,
                                     "--threads takes a number from 1 to 4096, not '%s'", optarg) +
                   1;
        if (o->max_tokens < 0)
            return terminal_complain("sentence_embedding", WRONG_USAGE,
                                     "--max-tokens takes a number from 2 to %d, not '%s'", MINILM_MAX_TOKENS, optarg) +
                   1;
    }
    o->texts = argv + optind;
    o->text_count = argc - optind;
    return 0;
}

/* The arguments; or the lines of standard input; or, where there are none, the examples. */
static bool read_texts(sentences *out, const options *o, wordpiece_error *error) {
    const bool dash = o->text_count == 1 && strcmp(o->texts[0], "-") == 0;
    if (o->text_count > 0 && !dash) return sentences_from_array(out, o->texts, o->text_count, error);
    if (dash || !isatty(STDIN_FILENO)) {
        if (!sentences_from_stream(out, stdin, error)) return false;
        if (out->blank > 0)
            fprintf(stderr, "sentence_embedding: %d blank line%s skipped\n", out->blank, out->blank == 1 ? "" : "s");
        if (out->count > 0 || dash) return true;
        sentences_free(out);
    }
    return sentences_from_array(out, examples, sizeof examples / sizeof *examples, error);
}

/* The usual reason why the model cannot be opened is that the program runs elsewhere. */
static int complain_of_model(const options *o, const char *sentence) {
    const char *hint = access(o->model, F_OK) != 0 ? "; run from the repository's root, or give --model DIR" : "";
    return terminal_complain("sentence_embedding", FAILED, "%s%s", sentence, hint);
}

static bool prepare(demo *d, const options *o, wordpiece_error *error) {
    char vocabulary[4096];
    snprintf(vocabulary, sizeof vocabulary, "%s/vocab.txt", o->model);
    if (!read_texts(&d->texts, o, error)) return false;
    d->tokenizer = wordpiece_open(vocabulary, error);
    return d->tokenizer && sentences_tokenize(&d->texts, d->tokenizer, o->max_tokens, error) &&
           batch_plan_make(&d->plan, &d->texts, error);
}

static bool allocate_results(demo *d) {
    const size_t numbers = ((size_t)d->texts.count + 1) * MINILM_WIDTH, batches = (size_t)d->plan.count + 1;
    d->times = calloc(batches * MAX_ROUNDS * PRECISIONS, sizeof *d->times);
    for (int p = 0; p < PRECISIONS; p++) d->result.embeddings[p] = malloc(numbers * sizeof(float));
    return d->times && d->result.embeddings[F32] && d->result.embeddings[BF16];
}

static void report(const demo *d) {
    const batch_plan *plan = &d->plan;
    printf("\nall-MiniLM-L6-v2: %d sentence%s, %lld tokens, %lld with padding, in %d batch%s\n\n", d->texts.count,
           d->texts.count == 1 ? "" : "s", (long long)plan->tokens, (long long)plan->padded_tokens, plan->count,
           plan->count == 1 ? "" : "es");
    report_similarity(&d->texts, d->result.embeddings[BF16]);
    putchar('\n');
    report_precisions(&d->texts, plan, d->model, &d->result);
}

static int run(demo *d, const options *o) {
    wordpiece_error error = {""};
    if (o->threads > 0) amp_set_num_threads(o->threads);
    if (!prepare(d, o, &error))
        return d->texts.items && !d->tokenizer ? complain_of_model(o, error.sentence)
                                               : terminal_complain("sentence_embedding", FAILED, "%s", error.sentence);
    d->model = minilm_open(o->model);
    if (!d->model) return terminal_complain("sentence_embedding", FAILED, "%s", amp_last_error());
    if (!allocate_results(d)) return terminal_complain("sentence_embedding", FAILED, "no memory for the embeddings");
    if (d->texts.count > 0 && !measure(d, o->json))
        return terminal_complain("sentence_embedding", FAILED, "%s",
                                 *amp_last_error() ? amp_last_error() : "no memory for a batch");
    if (o->json)
        report_json(&d->texts, &d->result);
    else if (d->texts.count > 0)
        report(d);
    if (fflush(stdout) != 0 || ferror(stdout))
        return terminal_complain("sentence_embedding", FAILED, "the output cannot be written");
    return 0;
}

static void free_all(demo *d) {
    minilm_close(d->model);
    wordpiece_close(d->tokenizer);
    batch_plan_free(&d->plan);
    sentences_free(&d->texts);
    for (int p = 0; p < PRECISIONS; p++) free(d->result.embeddings[p]);
    free(d->times);
}

int main(int argc, char **argv) {
    options o;
    argv[0] = "sentence_embedding"; /* for the messages of getopt_long */
    const int done = parse_options(&o, argc, argv);
    if (done) return done - 1;
    demo d = {0};
    const int status = run(&d, &o);
    free_all(&d);
    return status;
}
