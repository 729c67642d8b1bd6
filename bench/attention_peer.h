/* Attention of oneDNN's primitives, for bench_attention: a product for the scores, a softmax in place, a product with
 * the values.
 *
 * Keys and values are brought into the layouts that the products ask for, once per call; that is timed, as ours is. */
#ifndef AMP_BENCH_ATTENTION_PEER_H
#define AMP_BENCH_ATTENTION_PEER_H

#include <math.h>
#include <oneapi/dnnl/dnnl.h>

#include "bench_common.h"

enum { PEER_Q, PEER_K, PEER_V, PEER_Y, PEER_SCORES, PEER_K_PACKED, PEER_V_PACKED, PEER_MEMORIES };

/* `heads` of all heads × batches and `rows` of their rows at a time. */
typedef struct attention_peer {
    int64_t heads, rows, all_heads, all_rows, keys, depth;
    size_t value; /* bytes */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t scores, softmax, mix, pack_k, pack_v;
    dnnl_memory_t memory[PEER_MEMORIES];
    char *data[PEER_MEMORIES]; /* of q, k and v the caller's */
} attention_peer;

static inline void peer_require(dnnl_status_t status) {
    bench_require(status == dnnl_success, "oneDNN");
}

static inline dnnl_memory_desc_t peer_matrix(const attention_peer *p, int64_t rows, int64_t columns, bool transposed,
                                             bool any) {
    const dnnl_data_type_t type = p->value == 2 ? dnnl_bf16 : dnnl_f32;
    const dnnl_format_tag_t tag = any ? dnnl_format_tag_any : transposed ? dnnl_acb : dnnl_abc;
    dnnl_memory_desc_t d;
    peer_require(dnnl_memory_desc_create_with_tag(&d, 3, (dnnl_dims_t){p->heads, rows, columns}, type, tag));
    return d;
}

static inline dnnl_primitive_desc_t peer_product(const attention_peer *p, const_dnnl_memory_desc_t a,
                                                 const_dnnl_memory_desc_t b, const_dnnl_memory_desc_t c, float scale) {
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t after;
    dnnl_primitive_desc_t made = NULL;
    peer_require(dnnl_primitive_attr_create(&attributes));
    peer_require(dnnl_post_ops_create(&after));
    if (scale != 1.0f) peer_require(dnnl_post_ops_append_eltwise(after, dnnl_eltwise_linear, scale, 0.0f));
    peer_require(dnnl_primitive_attr_set_post_ops(attributes, after));
    peer_require(dnnl_matmul_primitive_desc_create(&made, p->engine, a, b, NULL, c, attributes));
    dnnl_post_ops_destroy(after);
    dnnl_primitive_attr_destroy(attributes);
    return made;
}

/* Memory of the layout that a product wants for `which`, and what fills it from the plain one. */
static inline dnnl_primitive_t peer_packing(attention_peer *p, int which, const_dnnl_memory_desc_t plain,
                                            const_dnnl_primitive_desc_t product) {
    const const_dnnl_memory_desc_t wanted = dnnl_primitive_desc_query_md(product, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_t descriptor = NULL;
    dnnl_primitive_t made = NULL;
    p->data[which] = aligned_alloc(64, (dnnl_memory_desc_get_size(wanted) + 63) / 64 * 64);
    bench_require(p->data[which] != NULL, "allocation");
    peer_require(dnnl_memory_create(&p->memory[which], wanted, p->engine, p->data[which]));
    peer_require(dnnl_reorder_primitive_desc_create(&descriptor, plain, p->engine, wanted, p->engine, NULL));
    peer_require(dnnl_primitive_create(&made, descriptor));
    dnnl_primitive_desc_destroy(descriptor);
    return made;
}

static inline void peer_make_softmax(attention_peer *p, const_dnnl_memory_desc_t scores) {
    dnnl_primitive_desc_t descriptor = NULL;
    peer_require(dnnl_softmax_forward_primitive_desc_create(&descriptor, p->engine, dnnl_forward_inference,
                                                            dnnl_softmax_accurate, scores, scores, 2, NULL));
    peer_require(dnnl_primitive_create(&p->softmax, descriptor));
    dnnl_primitive_desc_destroy(descriptor);
}

/* Its extents are set, and data[] of q, k and v. */
static inline void make_attention_peer(attention_peer *p) {
    peer_require(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    peer_require(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    dnnl_memory_desc_t q = peer_matrix(p, p->rows, p->depth, false, false);
    dnnl_memory_desc_t k = peer_matrix(p, p->depth, p->keys, true, false);
    dnnl_memory_desc_t v = peer_matrix(p, p->keys, p->depth, false, false);
    dnnl_memory_desc_t s = peer_matrix(p, p->rows, p->keys, false, false);
    dnnl_memory_desc_t any_k = peer_matrix(p, p->depth, p->keys, false, true);
    dnnl_memory_desc_t any_v = peer_matrix(p, p->keys, p->depth, false, true);
    dnnl_primitive_desc_t scores = peer_product(p, q, any_k, s, 1.0f / sqrtf((float)p->depth));
    dnnl_primitive_desc_t mix = peer_product(p, s, any_v, q, 1.0f);
    peer_require(dnnl_primitive_create(&p->scores, scores));
    peer_require(dnnl_primitive_create(&p->mix, mix));
    peer_make_softmax(p, s);
    p->pack_k = peer_packing(p, PEER_K_PACKED, k, scores);
    p->pack_v = peer_packing(p, PEER_V_PACKED, v, mix);
    p->data[PEER_Y] = malloc((size_t)(p->all_heads * p->all_rows * p->depth) * p->value);
    p->data[PEER_SCORES] = aligned_alloc(64, ((size_t)(p->heads * p->rows * p->keys) * p->value + 63) / 64 * 64);
    bench_require(p->data[PEER_Y] && p->data[PEER_SCORES], "allocation");
    const const_dnnl_memory_desc_t plain[] = {
        [PEER_Q] = q, [PEER_K] = k, [PEER_V] = v, [PEER_Y] = q, [PEER_SCORES] = s};
    for (int i = 0; i <= PEER_SCORES; i++)
        peer_require(dnnl_memory_create(&p->memory[i], plain[i], p->engine, p->data[i]));
    dnnl_primitive_desc_destroy(scores);
    dnnl_primitive_desc_destroy(mix);
    dnnl_memory_desc_t all[] = {q, k, v, s, any_k, any_v};
    for (int i = 0; i < 6; i++) dnnl_memory_desc_destroy(all[i]);
}

static inline void free_attention_peer(attention_peer *p) {
    const dnnl_primitive_t all[] = {p->scores, p->softmax, p->mix, p->pack_k, p->pack_v};
    for (int i = 0; i < 5; i++) dnnl_primitive_destroy(all[i]);
    for (int i = 0; i < PEER_MEMORIES; i++) dnnl_memory_destroy(p->memory[i]);
    for (int i = PEER_Y; i < PEER_MEMORIES; i++) free(p->data[i]);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
}

static inline void peer_execute(const attention_peer *p, dnnl_primitive_t primitive, int count,
                                const dnnl_exec_arg_t *arguments) {
    peer_require(dnnl_primitive_execute(primitive, p->stream, count, arguments));
}

static inline void peer_pack(const attention_peer *p, dnnl_primitive_t packing, int from, int to, int64_t head) {
    const size_t bytes = (size_t)(p->keys * p->depth) * p->value;
    peer_require(dnnl_memory_set_data_handle(p->memory[from], p->data[from] + (size_t)head * bytes));
    peer_execute(p, packing, 2,
                 (const dnnl_exec_arg_t[]){{DNNL_ARG_FROM, p->memory[from]}, {DNNL_ARG_TO, p->memory[to]}});
}

static inline void peer_rows(const attention_peer *p, int64_t head, int64_t row) {
    const dnnl_memory_t *m = p->memory;
    const size_t at = (size_t)((head * p->all_rows + row) * p->depth) * p->value;
    peer_require(dnnl_memory_set_data_handle(m[PEER_Q], p->data[PEER_Q] + at));
    peer_require(dnnl_memory_set_data_handle(m[PEER_Y], p->data[PEER_Y] + at));
    peer_execute(p, p->scores, 3,
                 (const dnnl_exec_arg_t[]){
                     {DNNL_ARG_SRC, m[PEER_Q]}, {DNNL_ARG_WEIGHTS, m[PEER_K_PACKED]}, {DNNL_ARG_DST, m[PEER_SCORES]}});
    peer_execute(p, p->softmax, 2,
                 (const dnnl_exec_arg_t[]){{DNNL_ARG_SRC, m[PEER_SCORES]}, {DNNL_ARG_DST, m[PEER_SCORES]}});
    peer_execute(p, p->mix, 3,
                 (const dnnl_exec_arg_t[]){
                     {DNNL_ARG_SRC, m[PEER_SCORES]}, {DNNL_ARG_WEIGHTS, m[PEER_V_PACKED]}, {DNNL_ARG_DST, m[PEER_Y]}});
}

static inline void run_attention_peer(const attention_peer *p) {
    for (int64_t head = 0; head < p->all_heads; head += p->heads) {
        peer_pack(p, p->pack_k, PEER_K, PEER_K_PACKED, head);
        peer_pack(p, p->pack_v, PEER_V, PEER_V_PACKED, head);
        for (int64_t row = 0; row < p->all_rows; row += p->rows) peer_rows(p, head, row);
    }
    peer_require(dnnl_stream_wait(p->stream));
}

#endif /* AMP_BENCH_ATTENTION_PEER_H */
