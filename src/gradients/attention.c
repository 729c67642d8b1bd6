/* The gradient of scaled_dot_product_attention. */
#include "gradients/pieces.h"

void amp_gradient_scaled_dot_product_attention(amp_gradient *g) {
    const amp_scaled_dot_product_attention_args *a = g->args;
    const bool with_mask = a->attn_mask && amp_gradient_wants(g, &a->attn_mask);
    amp_tensor *key = NULL, *value = NULL, *mask = NULL;
    amp_tensor *query = amp_scaled_dot_product_attention_backward(
        g->of[0], a->query, a->key, a->value, .grad_key = &key, .grad_value = &value, .grad_attn_mask = &mask,
        .attn_mask = a->attn_mask, .is_causal = a->is_causal, .with_mask = with_mask, .scale = a->scale,
        .enable_gqa = a->enable_gqa);
    if (!query) return;
    if (amp_gradient_wants(g, &a->query)) amp_gradient_give(g, &a->query, query);
    if (amp_gradient_wants(g, &a->key)) amp_gradient_give(g, &a->key, key);
    if (amp_gradient_wants(g, &a->value)) amp_gradient_give(g, &a->value, value);
    if (with_mask) amp_gradient_give(g, &a->attn_mask, mask);
}
