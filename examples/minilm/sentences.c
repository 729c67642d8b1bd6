/* Sentences from arguments or lines, batched by length so that little is padding. */
#include "sentences.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_TOKENS = 1024, /* a larger batch runs no faster, and takes more memory */
    BATCH_OVERHEAD = 16  /* what another pass over the weights costs, in tokens */
};

static bool fail(wordpiece_error *error, const char *sentence) {
    snprintf(error->sentence, sizeof error->sentence, "%s", sentence);
    return false;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

bool sentences_from_array(sentences *out, char *const *texts, int count, wordpiece_error *error) {
    *out = (sentences){.origin = "argument", .items = calloc((size_t)count + 1, sizeof *out->items)};
    if (!out->items) return fail(error, "no memory for the sentences");
    for (out->count = 0; out->count < count; out->count++) {
        const char *text = texts[out->count];
        out->items[out->count] = (sentence){.text = text, .bytes = strlen(text), .number = out->count + 1};
    }
    return true;
}

static char *read_all(FILE *stream, size_t *length) {
    char *bytes = NULL;
    size_t capacity = 0, n = 1;
    for (*length = 0; n > 0; *length += n) {
        if (*length == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *more = realloc(bytes, capacity);
            if (!more) {
                free(bytes);
                return NULL;
            }
            bytes = more;
        }
        n = fread(bytes + *length, 1, capacity - *length, stream);
    }
    return bytes;
}

static bool is_blank(const char *text, size_t bytes) {
    while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t' || text[bytes - 1] == '\r')) bytes--;
    return bytes == 0;
}

static void split_lines(sentences *s, size_t length) {
    int number = 0;
    for (const char *line = s->storage, *end = line + length; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((next ? next : end) - line);
        const char *text = line;
        line = next ? next + 1 : end;
        number++;
        if (is_blank(text, n)) {
            s->blank++;
            continue;
        }
        if (text[n - 1] == '\r') n--;
        s->items[s->count++] = (sentence){.text = text, .bytes = n, .number = number};
    }
}

bool sentences_from_stream(sentences *out, FILE *stream, wordpiece_error *error) {
    size_t length = 0, lines = 1;
    *out = (sentences){.origin = "line", .storage = read_all(stream, &length)};
    if (!out->storage) return fail(error, "no memory for what standard input says");
    if (ferror(stream)) {
        snprintf(error->sentence, sizeof error->sentence, "standard input cannot be read: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < length; i++) lines += out->storage[i] == '\n';
    if (lines > INT_MAX / 2) return fail(error, "standard input has more than a thousand million lines");
    out->items = calloc(lines, sizeof *out->items);
    if (!out->items) return fail(error, "no memory for the sentences");
    split_lines(out, length);
    return true;
}

bool sentences_tokenize(sentences *s, const wordpiece *tokenizer, int max_tokens, wordpiece_error *error) {
    int64_t *ids = malloc((size_t)max_tokens * sizeof *ids);
    bool good = ids != NULL || fail(error, "no memory for the token ids");
    for (int i = 0; good && i < s->count; i++) {
        sentence *item = &s->items[i];
        wordpiece_error reason;
        const size_t n = wordpiece_encode(tokenizer, item->text, item->bytes, ids, (size_t)max_tokens, &reason);
        if (n == 0) {
            snprintf(error->sentence, sizeof error->sentence, "%s %d: %.400s", s->origin, item->number,
                     reason.sentence);
            good = false;
            break;
        }
        item->count = (int)n;
        item->ids = malloc(n * sizeof *ids);
        if (item->ids)
            memcpy(item->ids, ids, n * sizeof *ids);
        else
            good = fail(error, "no memory for the token ids");
    }
    free(ids);
    return good;
}

void sentences_free(sentences *s) {
    for (int i = 0; i < s->count; i++) free(s->items[i].ids);
    free(s->items);
    free(s->storage);
    *s = (sentences){0};
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

typedef struct sort_key {
    int tokens, index;
} sort_key;

static int longest_first(const void *a, const void *b) {
    const sort_key *x = a, *y = b;
    return x->tokens != y->tokens ? (x->tokens < y->tokens ? 1 : -1) : x->index - y->index;
}

static bool sort_by_length(const sentences *s, int *sorted) {
    sort_key *keys = malloc(((size_t)s->count + 1) * sizeof *keys);
    if (!keys) return false;
    for (int i = 0; i < s->count; i++) keys[i] = (sort_key){s->items[i].count, i};
    qsort(keys, (size_t)s->count, sizeof *keys, longest_first);
    for (int i = 0; i < s->count; i++) sorted[i] = keys[i].index;
    free(keys);
    return true;
}

/* Fills a batch as long as its padding costs less than another batch would. */
static batch next_batch(const sentences *s, const int *sorted, int first) {
    batch b = {.first = first, .longest = s->items[sorted[first]].count};
    for (int padding = 0; first + b.count < s->count; b.count++) {
        padding += b.longest - s->items[sorted[first + b.count]].count;
        if (padding > BATCH_OVERHEAD || (b.count > 0 && (b.count + 1) * b.longest > BATCH_TOKENS)) break;
    }
    return b;
}

bool batch_plan_make(batch_plan *out, const sentences *s, wordpiece_error *error) {
    const size_t count = (size_t)s->count + 1;
    *out = (batch_plan){.sorted = malloc(count * sizeof *out->sorted), .batches = malloc(count * sizeof *out->batches)};
    if (!out->sorted || !out->batches || !sort_by_length(s, out->sorted)) {
        batch_plan_free(out);
        return fail(error, "no memory for the batches");
    }
    for (int first = 0; first < s->count; first += out->batches[out->count++].count) {
        const batch b = out->batches[out->count] = next_batch(s, out->sorted, first);
        out->padded_tokens += (int64_t)b.count * b.longest;
    }
    for (int i = 0; i < s->count; i++) out->tokens += s->items[i].count;
    return true;
}

void batch_plan_free(batch_plan *plan) {
    free(plan->sorted);
    free(plan->batches);
    *plan = (batch_plan){0};
}
