/* all-MiniLM-L6-v2 over the public API: six BERT layers, mean pooling, a normalised embedding for each sentence. */
#include "minilm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The weight and bias of a linear layer or a layer norm. */
typedef struct affine {
    amp_tensor *weight, *bias;
} affine;

typedef struct encoder_layer {
    affine projections, output, output_norm; /* attention; query, key and value are one layer of 3 · 384 */
    affine up, down, norm;                   /* feed-forward */
} encoder_layer;

struct minilm {
    amp_tensor *words, *positions, *types; /* embedding tables: [30522, 384], [512, 384], [2, 384] */
    affine norm;
    encoder_layer layers[MINILM_LAYERS];
    size_t bytes, linear_bytes;
};

/* ---- The model: f32 as it stands here; an autocast region around it makes it mixed precision --------------------- */

static amp_tensor *linear(amp_tensor *x, affine a) {
    return amp_linear(x, a.weight, a.bias);
}

static amp_tensor *linear_gelu(amp_tensor *x, affine a) {
    return amp_linear_pointwise(x, a.weight, a.bias, "gelu");
}

static amp_tensor *linear_add(amp_tensor *x, affine a, amp_tensor *residual) {
    return amp_linear_pointwise_binary(x, residual, a.weight, a.bias, "add");
}

static amp_tensor *layer_norm(amp_tensor *x, affine a) {
    return amp_layer_norm(x, AMP_DIMS(MINILM_WIDTH), a.weight, a.bias, .eps = AMP_SET(1e-12));
}

/* One of three of [B, T, 3 · 384] → [B, 12, T, 32] */
static amp_tensor *heads(amp_tensor *x, int which) {
    amp_tensor *one = amp_narrow(x, 2, which * MINILM_WIDTH, MINILM_WIDTH);
    return amp_transpose(amp_view(one, AMP_DIMS(amp_tensor_size(x, 0), -1, MINILM_HEADS, MINILM_WIDTH / MINILM_HEADS)),
                         1, 2);
}

/* [B, 12, T, 32] → [B, T, 384] */
static amp_tensor *join_heads(amp_tensor *x) {
    return amp_flatten(amp_transpose(x, 1, 2), 2);
}

static amp_tensor *attention(const encoder_layer *l, amp_tensor *x, amp_tensor *mask) {
    amp_tensor *all = linear(x, l->projections), *q = heads(all, 0), *k = heads(all, 1), *v = heads(all, 2);
    return join_heads(amp_scaled_dot_product_attention(q, k, v, .attn_mask = mask));
}

static amp_tensor *encode(const encoder_layer *l, amp_tensor *x, amp_tensor *mask) {
    x = layer_norm(linear_add(attention(l, x, mask), l->output, x), l->output_norm);
    return layer_norm(linear_add(linear_gelu(x, l->up), l->down, x), l->norm);
}

static amp_tensor *embed_tokens(const minilm *m, amp_tensor *ids) {
    amp_tensor *positions = amp_narrow(m->positions, 0, 0, amp_tensor_size(ids, 1));
    amp_tensor *type = amp_select(m->types, 0, 0); /* one sentence: every token is of type 0 */
    return layer_norm(amp_add(amp_add(amp_embedding(ids, m->words), type), positions), m->norm);
}

/* The mean over the tokens that are no padding, brought to length 1. `tokens` is [B, T, 1]: 1 or 0. */
static amp_tensor *pool(amp_tensor *x, amp_tensor *tokens) {
    return amp_normalize(amp_div(amp_sum(amp_mul(x, tokens), AMP_DIMS(1)), amp_sum(tokens, AMP_DIMS(1))));
}

/* ids [B, T], mask [B, 1, 1, T] or NULL where nothing is padded, tokens [B, T, 1] → [B, 384] */
static amp_tensor *forward(const minilm *m, amp_tensor *ids, amp_tensor *mask, amp_tensor *tokens) {
    amp_tensor *x = amp_keep(embed_tokens(m, ids));
    for (int i = 0; i < MINILM_LAYERS; i++) {
        amp_scope_here(); /* a layer's intermediate results go as soon as it is done: the next one takes their place */
        amp_tensor *y = amp_keep(encode(&m->layers[i], x, mask));
        amp_release(x);
        x = y;
    }
    amp_tensor *pooled = pool(x, tokens);
    amp_release(x);
    return pooled;
}

/* ---- From arrays and back ---------------------------------------------------------------------------------------- */

/* Fills [count, longest] masks; returns whether anything is padded. */
static bool fill_masks(const int *lengths, int count, int longest, bool *attend, float *tokens) {
    bool padded = false;
    for (int i = 0; i < count; i++) {
        for (int t = 0; t < longest; t++) {
            const bool real = t < lengths[i];
            attend[i * longest + t] = real;
            tokens[i * longest + t] = real;
            padded |= !real;
        }
    }
    return padded;
}

static void embed_batch(const minilm *m, const int64_t *ids, const int *lengths, int count, int longest, bool *attend,
                        float *tokens, float *embeddings) {
    const int64_t shape[] = {count, longest}, mask_shape[] = {count, 1, 1, longest},
                  token_shape[] = {count, longest, 1};
    const bool padded = fill_masks(lengths, count, longest, attend, tokens);
    amp_scope_here();
    amp_tensor *mask = padded ? amp_from_memory(attend, AMP_BOOL, 4, mask_shape, NULL, NULL, NULL) : NULL;
    amp_tensor *result = forward(m, amp_from_memory((void *)ids, AMP_I64, 2, shape, NULL, NULL, NULL), mask,
                                 amp_from_memory(tokens, AMP_F32, 3, token_shape, NULL, NULL, NULL));
    (void)amp_read(result, AMP_F32, embeddings, sizeof(float) * (size_t)count * MINILM_WIDTH);
}

amp_status minilm_embed(const minilm *m, const int64_t *ids, const int *lengths, int count, int longest,
                        float *embeddings) {
    const size_t elements = (size_t)count * (size_t)longest;
    bool *attend = malloc(elements * sizeof *attend);
    float *tokens = malloc(elements * sizeof *tokens);
    if (attend && tokens) embed_batch(m, ids, lengths, count, longest, attend, tokens, embeddings);
    const bool enough_memory = attend && tokens;
    free(attend);
    free(tokens);
    return enough_memory ? amp_last_status() : AMP_ERROR_MEMORY;
}

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

static size_t bytes_of(const amp_tensor *t) {
    return (size_t)amp_tensor_numel(t) * amp_dtype_size(amp_tensor_dtype(t));
}

static amp_tensor *take(minilm *m, amp_safetensors *file, const char *name) {
    amp_tensor *t = amp_keep(amp_safetensors_get(file, name));
    m->bytes += bytes_of(t);
    return t;
}

/* PREFIX + PART + ".weight" and ".bias" */
static affine take_affine(minilm *m, amp_safetensors *file, const char *prefix, const char *part) {
    char weight[128], bias[128];
    snprintf(weight, sizeof weight, "%s%s.weight", prefix, part);
    snprintf(bias, sizeof bias, "%s%s.bias", prefix, part);
    const affine a = {take(m, file, weight), take(m, file, bias)};
    if (amp_tensor_rank(a.weight) == 2) m->linear_bytes += bytes_of(a.weight);
    return a;
}

/* Layers of one input as one layer: their rows, one after the other, in memory of their own. */
static amp_tensor *joined(amp_tensor *a, amp_tensor *b, amp_tensor *c) {
    amp_tensor *all = amp_keep(amp_cat(AMP_LIST(a, b, c)));
    amp_tensor_mark_parameter(all); /* no op's result, but a weight: its bf16 form is kept */
    amp_tensor *const parts[] = {a, b, c};
    for (int i = 0; i < 3; i++) amp_release(parts[i]);
    return all;
}

static affine take_projections(minilm *m, amp_safetensors *file, const char *prefix) {
    const affine q = take_affine(m, file, prefix, "attention.self.query");
    const affine k = take_affine(m, file, prefix, "attention.self.key");
    const affine v = take_affine(m, file, prefix, "attention.self.value");
    return (affine){joined(q.weight, k.weight, v.weight), joined(q.bias, k.bias, v.bias)};
}

static encoder_layer take_layer(minilm *m, amp_safetensors *file, int index) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "encoder.layer.%d.", index);
    return (encoder_layer){
        .projections = take_projections(m, file, prefix),
        .output = take_affine(m, file, prefix, "attention.output.dense"),
        .output_norm = take_affine(m, file, prefix, "attention.output.LayerNorm"),
        .up = take_affine(m, file, prefix, "intermediate.dense"),
        .down = take_affine(m, file, prefix, "output.dense"),
        .norm = take_affine(m, file, prefix, "output.LayerNorm"),
    };
}

static void take_all(minilm *m, amp_safetensors *file) {
    m->words = take(m, file, "embeddings.word_embeddings.weight");
    m->positions = take(m, file, "embeddings.position_embeddings.weight");
    m->types = take(m, file, "embeddings.token_type_embeddings.weight");
    m->norm = take_affine(m, file, "embeddings.", "LayerNorm");
    for (int i = 0; i < MINILM_LAYERS; i++) m->layers[i] = take_layer(m, file, i);
}

minilm *minilm_open(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    minilm *m = calloc(1, sizeof *m);
    amp_safetensors *file = m ? amp_safetensors_open(path) : NULL;
    if (file) {
        amp_scope_here();
        take_all(m, file);
    }
    amp_safetensors_close(file); /* the tensors keep the mapping */
    if (file && amp_last_status() == AMP_OK) return m;
    minilm_close(m);
    return NULL;
}

static void release(affine a) {
    amp_release(a.weight);
    amp_release(a.bias);
}

void minilm_close(minilm *m) {
    if (!m) return;
    amp_release(m->words);
    amp_release(m->positions);
    amp_release(m->types);
    release(m->norm);
    for (int i = 0; i < MINILM_LAYERS; i++) {
        const encoder_layer *l = &m->layers[i];
        const affine all[] = {l->projections, l->output, l->output_norm, l->up, l->down, l->norm};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) release(all[k]);
    }
    free(m);
}

size_t minilm_weight_bytes(const minilm *m) {
    return m->bytes;
}
size_t minilm_linear_bytes(const minilm *m) {
    return m->linear_bytes;
}
