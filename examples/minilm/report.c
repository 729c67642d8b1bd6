/* What sentence_embedding prints: similarities, times, the kernels that ran; or JSON. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal.h"

enum {
    MATRIX_MAX = 16, /* sentences; beyond, the closest pairs */
    PAIRS_SHOWN = 10,
    PAIRS_MAX = 4000, /* sentences among which pairs are looked for */
    LABEL_WIDTH = 44,
    BAR_WIDTH = 40
};
static const double SPREAD_MAX = 1.5; /* of the times, beyond which their medians say little */

static double dot(const float *a, const float *b) {
    double sum = 0;
    for (int i = 0; i < MINILM_WIDTH; i++) sum += (double)a[i] * b[i];
    return sum;
}

static double cosine(const float *a, const float *b) {
    return dot(a, b) / sqrt(dot(a, a) * dot(b, b));
}

static const float *row(const float *embeddings, int i) {
    return embeddings + (size_t)i * MINILM_WIDTH;
}

/* ---- Text in columns --------------------------------------------------------------------------------------------- */

static void print_label(const sentence *s, int width) {
    terminal_print(s->text, s->bytes, width);
}

static int label_width(const sentences *s) {
    int widest = 12; /* room for a heading */
    for (int i = 0; i < s->count; i++) {
        const int used = terminal_columns(s->items[i].text, s->items[i].bytes, LABEL_WIDTH);
        if (used > widest) widest = used;
    }
    return widest < LABEL_WIDTH ? widest : LABEL_WIDTH;
}

/* "1 234 567" */
static const char *with_spaces(double number, char out[32]) {
    char digits[32];
    const int n = snprintf(digits, sizeof digits, "%.0f", number);
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) out[k++] = ' ';
        out[k++] = digits[i];
    }
    out[k] = '\0';
    return out;
}

/* ---- Similarity -------------------------------------------------------------------------------------------------- */

/* A shade of green for a likeness from 0 to 1, in the 256 colours of a terminal. */
static void print_cell(double similarity, bool coloured) {
    static const int shades[] = {235, 236, 22, 28, 34, 40};
    const int shade = similarity <= 0 ? 0 : similarity >= 1 ? 5 : (int)(similarity * 6);
    if (coloured)
        printf(" \033[48;5;%dm\033[38;5;%dm%5.2f\033[0m", shades[shade], shade > 3 ? 16 : 255, similarity);
    else
        printf(" %5.2f", similarity);
}

static void print_matrix(const sentences *s, const float *embeddings) {
    const int width = label_width(s);
    const bool coloured = terminal_has_colours();
    printf("%s%-*s", coloured ? "\033[1m" : "", width + 6, "Cosine similarity");
    for (int i = 0; i < s->count; i++) printf("%6d", i + 1);
    printf("%s\n", coloured ? "\033[0m" : "");
    for (int i = 0; i < s->count; i++) {
        printf("  %2d  ", i + 1);
        print_label(&s->items[i], width);
        for (int k = 0; k < s->count; k++) print_cell(cosine(row(embeddings, i), row(embeddings, k)), coloured);
        putchar('\n');
    }
}

typedef struct pair {
    double similarity;
    int a, b;
} pair;

/* Puts a pair in its place among the closest so far. */
static void insert_pair(pair *best, int *count, pair p) {
    if (*count == PAIRS_SHOWN && best[PAIRS_SHOWN - 1].similarity >= p.similarity) return;
    int at = *count < PAIRS_SHOWN ? (*count)++ : PAIRS_SHOWN - 1;
    for (; at > 0 && best[at - 1].similarity < p.similarity; at--) best[at] = best[at - 1];
    best[at] = p;
}

static void print_closest_pairs(const sentences *s, const float *embeddings) {
    pair best[PAIRS_SHOWN];
    const int searched = s->count < PAIRS_MAX ? s->count : PAIRS_MAX, width = label_width(s);
    int count = 0;
    for (int a = 0; a < searched; a++)
        for (int b = a + 1; b < searched; b++)
            insert_pair(best, &count, (pair){dot(row(embeddings, a), row(embeddings, b)), a, b});
    printf("The closest pairs, by cosine similarity");
    if (searched < s->count) printf(" among the first %d sentences", searched);
    putchar('\n');
    for (int i = 0; i < count; i++) {
        printf("  %.3f  %6d  ", best[i].similarity, best[i].a + 1);
        print_label(&s->items[best[i].a], width);
        printf("  %6d  ", best[i].b + 1);
        print_label(&s->items[best[i].b], width);
        putchar('\n');
    }
}

void report_similarity(const sentences *s, const float *embeddings) {
    if (s->count <= MATRIX_MAX)
        print_matrix(s, embeddings);
    else
        print_closest_pairs(s, embeddings);
}

/* ---- f32 beside bf16 --------------------------------------------------------------------------------------------- */

static double smallest_cosine(const sentences *s, const measurement *m) {
    double smallest = 1;
    for (int i = 0; i < s->count; i++)
        smallest = fmin(smallest, cosine(row(m->embeddings[0], i), row(m->embeddings[1], i)));
    return smallest;
}

static void print_row(const char *name, const char *f32, const char *bf16) {
    printf("  %-24s%22s%22s\n", name, f32, bf16);
}

static void print_heading(const char *name, const char *f32, const char *bf16) {
    fputs(terminal_has_colours() ? "\033[1m" : "", stdout);
    print_row(name, f32, bf16);
    fputs(terminal_has_colours() ? "\033[0m" : "", stdout);
}

/* A row of two numbers in one format. */
static void print_numbers(const char *name, const char *format, double f32, double bf16) {
    char a[48], b[48];
    snprintf(a, sizeof a, format, f32);
    snprintf(b, sizeof b, format, bf16);
    print_row(name, a, b);
}

void report_precisions(const sentences *s, const batch_plan *plan, const minilm *model, const measurement *m) {
    char a[48], b[48];
    const double count = s->count, tokens = (double)plan->tokens, mapped = (double)minilm_weight_bytes(model) / 1e6;
    print_heading("", "f32", "bf16");
    print_numbers("ms per sentence", "%.3f", 1e3 * m->seconds[0] / count, 1e3 * m->seconds[1] / count);
    print_row("tokens per second", with_spaces(tokens / m->seconds[0], a), with_spaces(tokens / m->seconds[1], b));
    snprintf(b, sizeof b, "%.2fx", m->seconds[0] / m->seconds[1]);
    print_row("speed-up", "", b);
    snprintf(b, sizeof b, "%.6f", smallest_cosine(s, m));
    print_row("smallest cosine to f32", "", b);
    print_numbers("weights, mapped", "%.1f MB", mapped, mapped);
    print_numbers("weights, packed", "%.1f MB", (double)m->packed_bytes[0] / 1e6, (double)m->packed_bytes[1] / 1e6);
    print_row("linear layers ran in", m->kernel[0], m->kernel[1]);
    const int threads = amp_get_num_threads();
    printf("\n%s, %s, %d thread%s, medians of %d passes", amp_cpu()->model, amp_isa_name(amp_isa_best()), threads,
           threads == 1 ? "" : "s", m->rounds);
    if (m->spread > SPREAD_MAX)
        printf(".\nTimes varied by %.1f× on a busy machine: the speed-up is not a measurement", m->spread);
    for (int i = 0; i < 2; i++)
        if (*m->refused[i]) printf(".\nNot in %s: %s", m->refused[i], m->reason[i]);
    printf(".\n");
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void print_json_embedding(const char *name, const float *embedding) {
    printf(",\n  \"%s\": [", name);
    for (int i = 0; i < MINILM_WIDTH; i++) printf("%s%.9g", i ? ", " : "", (double)embedding[i]);
    putchar(']');
}

void report_json(const sentences *s, const measurement *m) {
    putchar('[');
    for (int i = 0; i < s->count; i++) {
        printf("%s\n {\"text\": ", i ? "," : "");
        terminal_print_json(s->items[i].text, s->items[i].bytes);
        printf(",\n  \"ids\": [");
        for (int k = 0; k < s->items[i].count; k++) printf("%s%lld", k ? ", " : "", (long long)s->items[i].ids[k]);
        putchar(']');
        print_json_embedding("embedding_f32", row(m->embeddings[0], i));
        print_json_embedding("embedding_bf16", row(m->embeddings[1], i));
        putchar('}');
    }
    printf("\n]\n");
}

/* ---- Progress ---------------------------------------------------------------------------------------------------- */

void report_progress(int64_t done, int64_t total) {
    if (!isatty(STDERR_FILENO)) return;
    if (done >= total) {
        fprintf(stderr, "\r\033[K");
        return;
    }
    const int filled = (int)(done * BAR_WIDTH / total);
    fprintf(stderr, "\rembedding [");
    for (int i = 0; i < BAR_WIDTH; i++) fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %3d %%", (int)(done * 100 / total));
    fflush(stderr);
}
