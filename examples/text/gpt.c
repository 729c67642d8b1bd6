#include "gpt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Parameters ----------------------------------------------------------------------------------------------------- */
enum { NAME = 64 };

static amp_tensor *add(const gpt *m, amp_parameters *group, int layer, const char *what, amp_tensor *values) {
    char name[NAME];
    if (layer < 0)
        snprintf(name, sizeof name, "%s", what);
    else
        snprintf(name, sizeof name, "layers.%d.%s", layer, what);
    return amp_parameters_add(group, name, amp_parameters_add(m->parameters, name, values));
}

static amp_tensor *matrix(gpt *m, int layer, const char *what, int64_t rows, int64_t columns, double deviation) {
    return add(m, m->decayed, layer, what, amp_normal_(amp_empty(AMP_DIMS(rows, columns)), 0, AMP_SET(deviation)));
}

static amp_tensor *vector(gpt *m, int layer, const char *what, int64_t length, double value) {
    return add(m, m->others, layer, what, amp_full(AMP_DIMS(length), amp_float(value)));
}

/* What is added to the stream is made smaller, the more layers add to it. */
static void create_layer(gpt *m, int i) {
    const int64_t width = GPT_WIDTH;
    const double deviation = 0.02, added = deviation / sqrt(2.0 * GPT_LAYERS);
    m->layers[i] = (gpt_layer){.norm1_weight = vector(m, i, "norm1.weight", width, 1),
                               .norm1_bias = vector(m, i, "norm1.bias", width, 0),
                               .qkv_weight = matrix(m, i, "qkv.weight", 3 * width, width, deviation),
                               .qkv_bias = vector(m, i, "qkv.bias", 3 * width, 0),
                               .out_weight = matrix(m, i, "out.weight", width, width, added),
                               .out_bias = vector(m, i, "out.bias", width, 0),
                               .norm2_weight = vector(m, i, "norm2.weight", width, 1),
                               .norm2_bias = vector(m, i, "norm2.bias", width, 0),
                               .up_weight = matrix(m, i, "up.weight", 4 * width, width, deviation),
                               .up_bias = vector(m, i, "up.bias", 4 * width, 0),
                               .down_weight = matrix(m, i, "down.weight", width, 4 * width, added),
                               .down_bias = vector(m, i, "down.bias", width, 0)};
}

amp_status gpt_create(gpt *m) {
    amp_scope_here();
    *m = (gpt){
        .parameters = amp_parameters_create(), .decayed = amp_parameters_create(), .others = amp_parameters_create()};
    m->tokens = matrix(m, -1, "tokens.weight", GPT_VOCABULARY, GPT_WIDTH, 0.02);
    m->positions = matrix(m, -1, "positions.weight", GPT_CONTEXT, GPT_WIDTH, 0.02);
    for (int i = 0; i < GPT_LAYERS; i++) create_layer(m, i);
    m->norm_weight = vector(m, -1, "norm.weight", GPT_WIDTH, 1);
    m->norm_bias = vector(m, -1, "norm.bias", GPT_WIDTH, 0);
    return amp_last_status();
}

void gpt_destroy(gpt *m) {
    amp_parameters_destroy(m->parameters);
    amp_parameters_destroy(m->decayed);
    amp_parameters_destroy(m->others);
}

int64_t gpt_count(const gpt *m) {
    int64_t count = 0;
    for (int64_t i = 0; i < amp_parameters_count(m->parameters); i++)
        count += amp_tensor_numel(amp_parameters_at(m->parameters, i));
    return count;
}

/* ---- Forward -------------------------------------------------------------------------------------------------------- */
static amp_tensor *norm(amp_tensor *x, amp_tensor *weight, amp_tensor *bias) {
    return amp_layer_norm(x, AMP_DIMS(GPT_WIDTH), weight, bias);
}

/* [B, T, width] as [B, heads, T, width / heads] */
static amp_tensor *heads_of(amp_tensor *x) {
    const amp_dims shape = AMP_DIMS(amp_tensor_size(x, 0), amp_tensor_size(x, 1), GPT_HEADS, GPT_WIDTH / GPT_HEADS);
    return amp_transpose(amp_reshape(x, shape), 1, 2);
}

static amp_tensor *attend(const gpt_layer *l, amp_tensor *x) {
    const amp_tensor_list qkv = amp_chunk(amp_linear(x, l->qkv_weight, l->qkv_bias), 3, .dim = -1);
    if (qkv.count != 3) return NULL;
    amp_tensor *q = heads_of(qkv.items[0]), *k = heads_of(qkv.items[1]), *v = heads_of(qkv.items[2]);
    amp_tensor *mixed = amp_transpose(amp_scaled_dot_product_attention(q, k, v, .is_causal = true), 1, 2);
    return amp_linear(amp_flatten(mixed, .start_dim = 2), l->out_weight, l->out_bias);
}

static amp_tensor *think(const gpt_layer *l, amp_tensor *x) {
    return amp_linear(amp_gelu(amp_linear(x, l->up_weight, l->up_bias), .approximate = "tanh"), l->down_weight,
                      l->down_bias);
}

amp_tensor *gpt_forward(const gpt *m, amp_tensor *bytes) {
    amp_tensor *positions = amp_narrow(m->positions, 0, 0, amp_tensor_size(bytes, 1));
    amp_tensor *x = amp_add(amp_embedding(bytes, m->tokens), positions);
    for (int i = 0; i < GPT_LAYERS; i++) {
        const gpt_layer *l = &m->layers[i];
        x = amp_add(x, attend(l, norm(x, l->norm1_weight, l->norm1_bias)));
        x = amp_add(x, think(l, norm(x, l->norm2_weight, l->norm2_bias)));
    }
    return amp_linear(norm(x, m->norm_weight, m->norm_bias), m->tokens);
}

amp_tensor *gpt_loss(const gpt *m, amp_tensor *bytes, amp_tensor *targets) {
    amp_tensor *scores = amp_flatten(gpt_forward(m, bytes), 0, AMP_SET(1));
    return amp_cross_entropy(scores, amp_flatten(targets));
}

/* ---- Writing -------------------------------------------------------------------------------------------------------- */
/* One byte behind text[0 … length − 1]. */
static char next_byte(const gpt *m, const char *text, int length, double temperature) {
    amp_scope_here();
    int64_t context[GPT_CONTEXT];
    const int seen = length < GPT_CONTEXT ? length : GPT_CONTEXT;
    for (int i = 0; i < seen; i++) context[i] = (unsigned char)text[length - seen + i];
    amp_tensor *scores = gpt_forward(m, amp_from_data(context, AMP_I64, 2, (const int64_t[]){1, seen}));
    amp_tensor *last = amp_to(amp_select(amp_select(scores, 1, -1), 0, 0), AMP_F32);
    amp_tensor *chances = amp_softmax(amp_div_scalar(last, amp_float(temperature)), -1);
    return (char)amp_item(amp_multinomial(chances, 1));
}

amp_status gpt_write(const gpt *m, char *text, int given, int count, double temperature) {
    amp_no_grad_here();
    for (int i = given; i < given + count && amp_last_status() == AMP_OK; i++)
        text[i] = next_byte(m, text, i, temperature);
    return amp_last_status();
}
