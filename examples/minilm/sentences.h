/* Sentences on their way into the model: read, tokenised, and put into batches with little padding. */
#ifndef SENTENCES_H
#define SENTENCES_H

#include <stdbool.h>
#include <stdio.h>

#include "wordpiece.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sentence {
    const char *text; /* `bytes` long; may hold NUL bytes */
    size_t bytes;
    int64_t *ids;
    int count;  /* of ids */
    int number; /* of the argument or line, from 1 */
} sentence;

typedef struct sentences {
    sentence *items;
    int count;
    const char *origin; /* "argument" or "line", for messages */
    int blank;          /* lines that were skipped, as they hold nothing but blanks */
    char *storage;      /* what was read; the texts point into it */
} sentences;

/* Sentences that come next to each other in the order of length: sorted[first], …, sorted[first + count - 1]. */
typedef struct batch {
    int first, count, longest;
} batch;

typedef struct batch_plan {
    int *sorted; /* indices of sentences, the longest first */
    batch *batches;
    int count;
    int64_t tokens, padded_tokens;
} batch_plan;

/* The texts must outlive the result. False with an error: no memory. */
bool sentences_from_array(sentences *out, char *const *texts, int count, wordpiece_error *error);
/* One a line; a line's end, "\n" or "\r\n", is no part of it. Blank lines are skipped and counted. */
bool sentences_from_stream(sentences *out, FILE *stream, wordpiece_error *error);
/* Fills in the ids, at most max_tokens each. An error names the sentence. */
bool sentences_tokenize(sentences *s, const wordpiece *tokenizer, int max_tokens, wordpiece_error *error);
void sentences_free(sentences *s);

bool batch_plan_make(batch_plan *out, const sentences *s, wordpiece_error *error);
void batch_plan_free(batch_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SENTENCES_H */
