/* all-MiniLM-L6-v2 (sentence-transformers): a BERT of 6 layers that turns a sentence into 384 numbers of length 1. */
#ifndef MINILM_H
#define MINILM_H

#include <amp/amp.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MINILM_WIDTH = 384, /* numbers in an embedding */
    MINILM_LAYERS = 6,
    MINILM_HEADS = 12,
    MINILM_MAX_TOKENS = 512,      /* rows of the position table */
    MINILM_USUAL_MAX_TOKENS = 256 /* where sentence-transformers cuts for this model */
};

typedef struct minilm minilm;

/* Maps FOLDER/model.safetensors: no weight is copied but for the projections of attention, which are joined. NULL with
 * an error in amp_last_error(). */
minilm *minilm_open(const char *folder);
void minilm_close(minilm *model);
/* Bytes of the weights in their file's f32: all of them, and those of the linear layers alone. */
size_t minilm_weight_bytes(const minilm *model);
size_t minilm_linear_bytes(const minilm *model);

/* Embeds `count` sentences of up to `longest` tokens (at most MINILM_MAX_TOKENS). ids is [count, longest], what stands
 * behind a sentence's lengths[i] ids is ignored; embeddings, [count, MINILM_WIDTH], is written. Runs in f32, or in
 * whatever the autocast region around it says. */
amp_status minilm_embed(const minilm *model, const int64_t *ids, const int *lengths, int count, int longest,
                        float *embeddings);

#ifdef __cplusplus
}
#endif

#endif /* MINILM_H */
