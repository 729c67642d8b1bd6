/* What the demo prints: tables for people, JSON for programs, a progress bar for the patient. */
#ifndef REPORT_H
#define REPORT_H

#include "minilm.h"
#include "sentences.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was measured; index 0 is f32, index 1 bf16. */
typedef struct measurement {
    float *embeddings[2];   /* [sentences, MINILM_WIDTH] */
    double seconds[2];      /* for all sentences */
    int rounds;             /* passes over all sentences, in each precision */
    double spread;          /* 75th by 25th percentile of the passes' times, of the precision where that is larger */
    size_t packed_bytes[2]; /* what the weights take in their kernels' layout */
    char kernel[2][64];     /* that the linear layers ran in */
    char refused[2][64];    /* a better one that could not run, "" if there is none … */
    char reason[2][256];    /* … and why */
} measurement;

/* The similarity of every pair, or, where that is too much to look at, the closest pairs. */
void report_similarity(const sentences *s, const float *embeddings);
/* Speed, size and agreement of the two precisions, and what they ran in. */
void report_precisions(const sentences *s, const batch_plan *plan, const minilm *model, const measurement *m);
/* A list of {"text", "ids", "embedding_f32", "embedding_bf16"}, numbers with 9 significant digits. */
void report_json(const sentences *s, const measurement *m);

/* A bar on standard error, if that is a terminal. done == total wipes it out. */
void report_progress(int64_t done, int64_t total);

#ifdef __cplusplus
}
#endif

#endif /* REPORT_H */
