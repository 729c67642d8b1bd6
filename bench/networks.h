/* Two networks over the public API, with random weights: the encoder of BERT-base, and ResNet-50 (v1.5, as torchvision
 * has it). */
#ifndef AMP_BENCH_NETWORKS_H
#define AMP_BENCH_NETWORKS_H

#include <math.h>

#include "bench_common.h"

typedef struct affine {
    amp_tensor *weight, *bias;
} affine;

/* Uniform within middle ± bound, on the device; kept. */
static amp_tensor *random_parameter(amp_device device, float bound, float middle, amp_dims shape) {
    amp_tensor *t = amp_keep(bench_parameter(device, bound, shape));
    return middle == 0.0f ? t : bench_require_tensor(amp_add_scalar_(t, amp_float(middle)));
}

/* Weights such that values keep their size from layer to layer. */
static affine random_affine(amp_device device, int64_t outputs, int64_t inputs) {
    return (affine){random_parameter(device, sqrtf(3.0f / (float)inputs), 0.0f, AMP_DIMS(outputs, inputs)),
                    random_parameter(device, 0.1f, 0.0f, AMP_DIMS(outputs))};
}

static affine random_norm(amp_device device, int64_t width) {
    return (affine){random_parameter(device, 0.1f, 1.0f, AMP_DIMS(width)),
                    random_parameter(device, 0.1f, 0.0f, AMP_DIMS(width))};
}

/* ---- The encoder of BERT: [batch, tokens, width] → the same ------------------------------------------------------- */

enum { BERT_MOST_LAYERS = 12, BERT_WIDTH = 768, BERT_HEADS = 12 };

typedef struct bert_layer {
    affine query, key, value, output, output_norm, up, down, norm;
} bert_layer;

/* BERT-base: 12 layers, width 768, 12 heads. What stands between two products is four times as wide. */
typedef struct bert {
    int count, width, heads;
    bert_layer layers[BERT_MOST_LAYERS];
} bert;

static void make_bert(bert *b, int layers, int width, int heads, amp_device device) {
    b->count = layers;
    b->width = width;
    b->heads = heads;
    for (int i = 0; i < b->count; i++) {
        bert_layer *l = &b->layers[i];
        affine *const square[] = {&l->query, &l->key, &l->value, &l->output};
        for (int k = 0; k < 4; k++) *square[k] = random_affine(device, width, width);
        l->up = random_affine(device, 4 * width, width);
        l->down = random_affine(device, width, 4 * width);
        l->output_norm = random_norm(device, width);
        l->norm = random_norm(device, width);
    }
}

static amp_tensor *bert_heads(const bert *b, amp_tensor *x, affine a) {
    amp_tensor *y = amp_linear(x, a.weight, a.bias);
    return amp_transpose(amp_view(y, AMP_DIMS(amp_tensor_size(x, 0), -1, b->heads, b->width / b->heads)), 1, 2);
}

static amp_tensor *bert_normed(const bert *b, amp_tensor *x, amp_tensor *y, affine a) {
    return amp_layer_norm(amp_add(x, y), AMP_DIMS(b->width), a.weight, a.bias, .eps = AMP_SET(1e-12));
}

static amp_tensor *run_bert_layer(const bert *b, const bert_layer *l, amp_tensor *x) {
    amp_tensor *a = amp_scaled_dot_product_attention(bert_heads(b, x, l->query), bert_heads(b, x, l->key),
                                                     bert_heads(b, x, l->value));
    a = amp_linear(amp_flatten(amp_transpose(a, 1, 2), 2), l->output.weight, l->output.bias);
    x = bert_normed(b, a, x, l->output_norm);
    a = amp_linear(amp_gelu(amp_linear(x, l->up.weight, l->up.bias)), l->down.weight, l->down.bias);
    return bert_normed(b, a, x, l->norm);
}

/* What a layer makes goes with it, but for its result, and what the tape has saved. */
static amp_tensor *run_bert(const bert *b, amp_tensor *x) {
    for (int i = 0; i + 1 < b->count; i++) {
        amp_tensor *y = NULL;
        amp_scope {
            y = amp_keep(bench_require_tensor(run_bert_layer(b, &b->layers[i], x)));
        }
        if (i > 0) amp_release(x);
        x = y;
    }
    amp_tensor *y = run_bert_layer(b, &b->layers[b->count - 1], x);
    if (b->count > 1) amp_release(x);
    return y;
}

/* ---- ResNet-50: [batch, 3, side, side], channels last → [batch, 1000] -------------------------------------------- */

enum { RESNET_BLOCKS = 16, RESNET_CLASSES = 1000 };

typedef struct conv_bn {
    amp_tensor *window, *mean, *variance;
    affine norm;
    int64_t stride, padding;
} conv_bn;

typedef struct resnet {
    conv_bn first;
    struct {
        conv_bn narrow, middle, wide, shortcut; /* shortcut.window: NULL where the block keeps its shape */
    } blocks[RESNET_BLOCKS];
    affine classifier;
    bool training; /* batch_norm by the statistics of the batch */
} resnet;

static conv_bn make_conv(amp_device device, int64_t out, int64_t in, int64_t kernel, int64_t stride) {
    const float bound = sqrtf(3.0f / (float)(in * kernel * kernel));
    return (conv_bn){.window = random_parameter(device, bound, 0.0f, AMP_DIMS(out, in, kernel, kernel)),
                     .mean = random_parameter(device, 0.1f, 0.0f, AMP_DIMS(out)),
                     .variance = random_parameter(device, 0.5f, 1.0f, AMP_DIMS(out)),
                     .norm = random_norm(device, out),
                     .stride = stride,
                     .padding = kernel / 2};
}

static void make_resnet(resnet *r, amp_device device) {
    static const int blocks[] = {3, 4, 6, 3};
    int64_t in = 64, width = 64;
    r->first = make_conv(device, 64, 3, 7, 2);
    for (int stage = 0, n = 0; stage < 4; stage++, width *= 2) {
        for (int i = 0; i < blocks[stage]; i++, n++) {
            const int64_t stride = stage && !i ? 2 : 1;
            r->blocks[n].narrow = make_conv(device, width, in, 1, 1);
            r->blocks[n].middle = make_conv(device, width, width, 3, stride);
            r->blocks[n].wide = make_conv(device, 4 * width, width, 1, 1);
            r->blocks[n].shortcut = i ? (conv_bn){0} : make_conv(device, 4 * width, in, 1, stride);
            in = 4 * width;
        }
    }
    r->classifier = random_affine(device, RESNET_CLASSES, in);
}

static amp_tensor *run_conv(const resnet *r, const conv_bn *c, amp_tensor *x) {
    amp_tensor *y =
        amp_conv2d(x, c->window, .stride = AMP_DIMS(c->stride, c->stride), .padding = AMP_DIMS(c->padding, c->padding));
    return amp_batch_norm(y, c->mean, c->variance, c->norm.weight, c->norm.bias, .training = r->training);
}

static amp_tensor *run_resnet_stem(const resnet *r, amp_tensor *x) {
    x = amp_relu_(run_conv(r, &r->first, x));
    return amp_max_pool2d(x, AMP_DIMS(3, 3), .stride = AMP_DIMS(2, 2), .padding = AMP_DIMS(1, 1));
}

static amp_tensor *run_resnet_block(const resnet *r, int i, amp_tensor *x) {
    amp_tensor *y = amp_relu_(run_conv(r, &r->blocks[i].narrow, x));
    y = run_conv(r, &r->blocks[i].wide, amp_relu_(run_conv(r, &r->blocks[i].middle, y)));
    return amp_relu_(amp_add_(y, r->blocks[i].shortcut.window ? run_conv(r, &r->blocks[i].shortcut, x) : x));
}

/* As in run_bert, what a block makes goes with it. */
static amp_tensor *run_resnet(const resnet *r, amp_tensor *x) {
    for (int i = -1; i < RESNET_BLOCKS; i++) {
        amp_tensor *y = NULL;
        amp_scope {
            y = amp_keep(bench_require_tensor(i < 0 ? run_resnet_stem(r, x) : run_resnet_block(r, i, x)));
        }
        if (i >= 0) amp_release(x);
        x = y;
    }
    amp_tensor *y = amp_flatten(amp_adaptive_avg_pool2d(x, AMP_DIMS(1, 1)), 1);
    amp_release(x);
    return amp_linear(y, r->classifier.weight, r->classifier.bias);
}

#endif /* AMP_BENCH_NETWORKS_H */
