/* Batched matrix products: packs what the bf16 kernels want packed, hands f32 to oneDNN, loops over the rest. */
#include "cpu/product/matmul.h"

#include <string.h>

#include "amp/ops.h"
#include "core/hot.h"
#include "core/memory.h"
#include "cpu/dnnl/dnnl_engine.h"
#include "cpu/dnnl/dnnl_matmul.h"
#include "cpu/product/blas_matmul.h"
#include "cpu/product/dots.h"
#include "cpu/registry/gemm.h"
#include "machine/isa.h"
#include "policy/cast_cache.h"

/* ---- Operands -------------------------------------------------------------------------------------------------- */

static const char *element_at(const amp_matrix *x, int64_t offset) {
    if (!x->tensor) return NULL;
    const amp_tensor *t = amp_tensor_memory(x->tensor);
    return (const char *)amp_tensor_pointer(t) + offset * (int64_t)amp_element_sizes[t->dtype];
}

/* Offset of a matrix of the batch; `index` counts through all batch dimensions but the last. */
static int64_t outer_offset(const amp_matmul *p, const amp_matrix *x, int64_t index) {
    int64_t offset = 0;
    for (int i = p->batch_rank - 2; i >= 0; i--) {
        offset += index % p->batch_shape[i] * x->batch[i];
        index /= p->batch_shape[i];
    }
    return offset;
}

static int64_t outer_batches(const amp_matmul *p) {
    int64_t n = 1;
    for (int i = 0; i < p->batch_rank - 1; i++) n *= p->batch_shape[i];
    return n;
}

static int64_t inner_batch(const amp_matmul *p) {
    return p->batch_rank > 0 ? p->batch_shape[p->batch_rank - 1] : 1;
}

static int64_t inner_stride(const amp_matmul *p, const amp_matrix *x) {
    return p->batch_rank > 0 && x->tensor ? x->batch[p->batch_rank - 1] : 0;
}

/* Merges two neighbouring batch dimensions where every operand steps through them evenly. */
static bool try_merge(amp_matmul *p, int i) {
    amp_matrix *const all[] = {&p->a, &p->b, &p->c, &p->residual};
    for (int k = 0; k < 4; k++) {
        if (all[k]->tensor && all[k]->batch[i] != all[k]->batch[i + 1] * p->batch_shape[i + 1]) return false;
    }
    p->batch_shape[i] *= p->batch_shape[i + 1];
    for (int k = 0; k < 4; k++) all[k]->batch[i] = all[k]->batch[i + 1];
    for (int d = i + 1; d + 1 < p->batch_rank; d++) {
        p->batch_shape[d] = p->batch_shape[d + 1];
        for (int k = 0; k < 4; k++) all[k]->batch[d] = all[k]->batch[d + 1];
    }
    p->batch_rank--;
    return true;
}

AMP_HOT static void merge_batches(amp_matmul *p) {
    for (int i = p->batch_rank - 2; i >= 0; i--) (void)try_merge(p, i);
}

/* ---- Packed B -------------------------------------------------------------------------------------------------- */

typedef struct packing {
    amp_layout_kind layout;
    size_t (*bytes)(int64_t n, int64_t k);
    amp_status (*pack)(void *destination, const void *source, amp_dtype source_dtype, int64_t n, int64_t k,
                       int64_t stride_n, int64_t stride_k);
} packing;

static amp_status pack_f32(void *destination, const void *source, amp_dtype source_dtype, int64_t n, int64_t k,
                           int64_t stride_n, int64_t stride_k) {
    (void)source_dtype; /* f32 */
    return amp_gemm_f32_pack(destination, source, n, k, stride_n, stride_k);
}

static const packing bf16_packing = {AMP_LAYOUT_BLOCKED_B, amp_gemm_packed_bytes, amp_gemm_pack};
static const packing f32_packing = {AMP_LAYOUT_BLOCKED_B_F32, amp_gemm_f32_packed_bytes, pack_f32};

typedef struct build_context {
    const amp_matmul *problem;
    const packing *packing;
} build_context;

/* Bytes of `count` packed matrices; more than there can be where that overflows (broadcast operands reach any size). */
static size_t packed_total(const amp_matmul *p, size_t bytes, int64_t count) {
    size_t total;
    const bool overflow = (bytes == 0 && p->n > 0 && p->k > 0) || __builtin_mul_overflow(bytes, count, &total);
    return overflow ? SIZE_MAX : total;
}

static amp_tensor *build_packed(const amp_cast_key *key, void *context) {
    const build_context *c = context;
    const amp_matmul *p = c->problem;
    const size_t bytes = packed_total(p, c->packing->bytes(p->n, p->k), 1);
    if (amp_failed()) return NULL;
    const int64_t shape[1] = {bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX};
    amp_tensor *made = amp_tensor_new("matmul: packed weights", AMP_U8, 1, shape);
    if (!made) return NULL;
    if (c->packing->pack(made->storage->data, amp_cast_key_pointer(key), key->source_dtype, p->n, p->k, p->b.column,
                         p->b.row) == AMP_OK) {
        return made;
    }
    amp_tensor_drop(made);
    return NULL;
}

/* Not at all where the region keeps no casts. */
amp_cast_life amp_cpu_weight_life(const amp_call *call, const amp_tensor *weight, bool weight_position) {
    if (weight->source) return weight->cast_life;
    /* Without a cast, nobody expects a copy: one of memory that its owner may write unseen is not kept. */
    const amp_storage *storage = weight->storage;
    if (storage->user_memory && !atomic_load_explicit(&storage->parameter, memory_order_relaxed)) return AMP_CAST_ONCE;
    return call->may_cache ? amp_cast_life_of(weight, weight_position) : AMP_CAST_ONCE;
}

/* Not at all where a batch has several B. */
AMP_HOT static amp_cast_life life_of_b(const amp_call *call, const amp_matmul *p) {
    if (p->batch_rank > 0 || p->n == 0 || p->k == 0) return AMP_CAST_ONCE;
    return amp_cpu_weight_life(call, p->b.tensor, p->b_is_weight);
}

/* The geometry is that of the matrix as N × K rows, so that w and its transpose agree. */
static void set_key(const amp_matmul *p, const packing *packing, amp_cast_key *key) {
    amp_cast_key_start(key, amp_tensor_memory(p->b.tensor));
    key->dtype = p->b.tensor->dtype;
    key->layout = (amp_layout){packing->layout, 0};
    key->reads_anywhere = true;
    key->bytes = packing->bytes(p->n, p->k);
    key->rank = 2;
    key->shape[0] = p->n;
    key->shape[1] = p->k;
    key->strides[0] = p->b.column;
    key->strides[1] = p->b.row;
}

enum { MANY_ROWS = 256 };

/* A trainable weight is written before the next forward reads it, and a backward wants it packed the other way. So its
 * packed form goes with the call, beside whose rows one more packing is little, and the memory of all of them is not
 * wanted at the end of a forward; a second reader of it in the same record says that it is worth keeping. */
static bool goes_with_call(const amp_call *call, const amp_matmul *p) {
    const amp_tensor *weight = amp_tensor_memory(p->b.tensor);
    return call->packs_once && p->m >= MANY_ROWS && weight->requires_grad && weight->is_leaf;
}

AMP_HOT static amp_status cached_b(amp_call *call, const amp_matmul *p, const packing *packing, amp_cast_life life,
                                   amp_packed_b *packed) {
    bool cached = false;
    amp_cast_key key;
    set_key(p, packing, &key);
    build_context context = {p, packing};
    if (goes_with_call(call, p)) life = AMP_CAST_ONCE;
    packed->cast = amp_cast_obtain(&key, life, build_packed, &context, &cached);
    if (!packed->cast) return amp_pending_error();
    packed->data = packed->cast->memory->data;
    call->note.casts_cached += cached;
    call->note.casts_made += !cached;
    return AMP_OK;
}

/* The matrices of the inner batch, packed for this call. */
static amp_status fresh_b(amp_call *call, const amp_matmul *p, const packing *packing, int64_t outer,
                          amp_packed_b *packed) {
    const amp_tensor *memory = amp_tensor_memory(p->b.tensor);
    const int64_t stride = inner_stride(p, &p->b), batch = inner_batch(p);
    const int64_t count = stride == 0 && batch > 0 ? 1 : batch; /* of an empty batch there is none to read */
    const int64_t offset = outer_offset(p, &p->b, outer);
    const size_t bytes = packing->bytes(p->n, p->k);
    if (!packed->scratch) packed->scratch = amp_alloc(packed_total(p, bytes, count));
    if (!packed->scratch) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory to pack %s", amp_call_name(call), amp_describe(p->b.tensor));
    }
    for (int64_t i = 0; i < count; i++) {
        AMP_TRY(packing->pack((char *)packed->scratch + (size_t)i * bytes, element_at(&p->b, offset + i * stride),
                              memory->dtype, p->n, p->k, p->b.column, p->b.row));
    }
    packed->data = packed->scratch;
    packed->batch_stride = stride == 0 ? 0 : (int64_t)bytes;
    return AMP_OK;
}

static const packing *packing_of(const amp_matmul *p) {
    return p->b.tensor->dtype == AMP_BF16 ? &bf16_packing : &f32_packing;
}

/* oneDNN's extents are ints inside: 2³² of them are 0, and it divides by that. */
static bool has_kernel(const amp_matmul *p) {
    if (p->b.tensor->dtype == AMP_BF16) return true;
    return p->b.tensor->dtype == AMP_F32 && p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX;
}

amp_status amp_cpu_matmul_pack(amp_call *call, const amp_matmul *p, amp_packed_b *packed) {
    *packed = (amp_packed_b){0};
    if (!has_kernel(p) || p->n == 0 || p->k == 0) return AMP_OK;
    const amp_cast_life life = life_of_b(call, p);
    const packing *packing = packing_of(p);
    const amp_status status =
        life == AMP_CAST_ONCE ? fresh_b(call, p, packing, 0, packed) : cached_b(call, p, packing, life, packed);
    if (status != AMP_OK) amp_cpu_matmul_unpack(packed);
    return status;
}

void amp_cpu_matmul_unpack(amp_packed_b *packed) {
    amp_cast_release(packed->cast);
    amp_free(packed->scratch);
    *packed = (amp_packed_b){0};
}

/* ---- bf16 and f32 ---------------------------------------------------------------------------------------------- */
/* To batch `outer`, of those that the kernel does not loop over itself. */
AMP_APART static void step_to(const amp_matmul *p, int64_t outer, amp_gemm *g) {
    g->batch = inner_batch(p);
    g->a = element_at(&p->a, outer_offset(p, &p->a, outer));
    g->a_batch_stride = inner_stride(p, &p->a);
    g->c = (void *)element_at(&p->c, outer_offset(p, &p->c, outer));
    g->c_batch_stride = inner_stride(p, &p->c);
    g->residual = element_at(&p->residual, outer_offset(p, &p->residual, outer));
    g->residual_batch_stride = inner_stride(p, &p->residual);
}

AMP_HOT static amp_gemm gemm_at(const amp_matmul *p, const amp_packed_b *b, int64_t outer) {
    const amp_tensor *bias = p->bias, *residual = p->residual.tensor;
    amp_gemm g = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .batch = 1,
        .a = element_at(&p->a, 0),
        .a_dtype = amp_tensor_memory(p->a.tensor)->dtype,
        .a_row_stride = p->a.row,
        .a_column_stride = p->a.column,
        .b = b->data,
        .b_batch_stride = b->batch_stride,
        .c = (void *)element_at(&p->c, 0),
        .c_dtype = p->c.tensor->dtype,
        .c_row_stride = p->c.row,
        .alpha = (float)p->alpha,
        .beta = (float)p->beta,
        .residual = element_at(&p->residual, 0),
        .residual_dtype = residual ? residual->dtype : AMP_F32,
        .residual_row_stride = p->residual.row,
        .residual_column_stride = p->residual.column,
        .bias = bias ? amp_tensor_pointer(bias) : NULL,
        .bias_dtype = bias ? bias->dtype : AMP_F32,
        .activation = p->epilogue.activation,
        .activation_numbers = {(float)p->epilogue.numbers[0], (float)p->epilogue.numbers[1]},
    };
    if (p->batch_rank > 0) step_to(p, outer, &g);
    return g;
}

/* The same product in f32 for oneDNN, of B where it lies or packed. */
static amp_dnnl_matmul dnnl_at(const amp_matmul *p, const amp_gemm *g, int64_t outer) {
    return (amp_dnnl_matmul){
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .batch = g->batch,
        .a = g->a,
        .a_row_stride = g->a_row_stride,
        .a_column_stride = g->a_column_stride,
        .a_batch_stride = g->a_batch_stride,
        .b = (const void *)element_at(&p->b, outer_offset(p, &p->b, outer)),
        .packed_b = g->b,
        .b_row_stride = p->b.row,
        .b_column_stride = p->b.column,
        .b_batch_stride = inner_stride(p, &p->b),
        .c = g->c,
        .c_row_stride = g->c_row_stride,
        .c_batch_stride = g->c_batch_stride,
        .alpha = g->alpha,
        .beta = g->beta,
        .residual = g->residual,
        .residual_row_stride = g->residual_row_stride,
        .residual_column_stride = g->residual_column_stride,
        .residual_batch_stride = g->residual_batch_stride,
        .bias = g->bias,
    };
}

AMP_HOT static amp_status matmul_bf16(amp_call *call, amp_matmul *p) {
    amp_packed_b own = {0};
    const amp_packed_b *b = p->packed ? p->packed : &own;
    call->note.casts_fused += p->a.tensor->storage == NULL;
    merge_batches(p);
    const amp_cast_life life = p->packed ? AMP_CAST_ONCE : life_of_b(call, p);
    amp_status status = life != AMP_CAST_ONCE ? cached_b(call, p, &bf16_packing, life, &own) : AMP_OK;
    const int64_t outer = outer_batches(p);
    for (int64_t i = 0; status == AMP_OK && i < outer; i++) {
        if (!p->packed && !own.cast) status = fresh_b(call, p, &bf16_packing, i, &own);
        if (status != AMP_OK) break;
        const amp_gemm g = gemm_at(p, b, i);
        status = amp_gemm_bf16(&g, &call->note.kernel);
    }
    if (!p->packed && !own.cast && p->b.tensor->source) call->note.casts_made++;
    amp_cpu_matmul_unpack(&own);
    return status;
}

/* oneDNN's kernels for AVX2 read operands where they lie. Where what they read side by side lies a multiple of 2 KB apart,
 * it falls into the same few sets of the first cache. Then packing B and our kernel are, on one core of a Zen 3, 1.1 to
 * 2.4 times as fast: of 32 to 3,072 rows, with rows of B 2, 4, 6, 8, 12 KB apart, or columns of a transposed A 8 and 12
 * (2: 1.05). Elsewhere oneDNN takes 0.7 to 0.97 of our time, of 64 columns down to 0.4. Fewer rows were not tried. */
enum { LEAST_PACKED_ROWS = 32, LEAST_PACKED_COLUMNS = 256, FLOATS_OF_ONE_SET = 2048 / sizeof(float) };

static bool falls_into_few_sets(const amp_matmul *p) {
    if (amp_isa_best() != AMP_ISA_AVX2 || amp_dnnl_use_now() == AMP_DNNL_ALWAYS) return false;
    if (p->m < LEAST_PACKED_ROWS || p->n < LEAST_PACKED_COLUMNS) return false;
    return (p->b.column == 1 && p->b.row % FLOATS_OF_ONE_SET == 0) ||
           (p->a.row == 1 && p->a.column % FLOATS_OF_ONE_SET == 0);
}

enum { LEAST_DNNL_ROWS = 64, MOST_DNNL_WEIGHTS = 1 << 20 };

/* Whether oneDNN computes f32 products with packed weights faster; the matrices of a batch are all alike. Our speed
 * over oneDNN's on one core of a Zen 4, N · K from 256² to 4096²: with AVX-512 0.97 to 1.09; with AVX2 (oneDNN's held
 * down to that) 1.6 of 4 rows, 1.1 of 16, 0.97 of 32, and of 128 rows 0.89 to 0.96 up to 1024² and 0.97 to 1.10 above.
 * What it would compute in one piece, while other threads wait, is ours. */
static bool prefers_dnnl(const amp_matmul *p, const amp_packed_b *b) {
    const amp_dnnl_use use = amp_dnnl_use_now();
    if (use != AMP_DNNL_BY_RULE) return use == AMP_DNNL_ALWAYS;
    if (amp_isa_best() != AMP_ISA_AVX2) return amp_isa_best() < AMP_ISA_AVX2;
    if (p->m < LEAST_DNNL_ROWS || p->n * p->k > MOST_DNNL_WEIGHTS || falls_into_few_sets(p)) return false;
    const amp_gemm g = gemm_at(p, b, 0);
    const amp_dnnl_matmul d = dnnl_at(p, &g, 0);
    return amp_dnnl_matmul_is_shared(&d);
}

static amp_status matmul_f32(amp_call *call, amp_matmul *p) {
    amp_packed_b own = {0};
    const amp_packed_b *b = p->packed ? p->packed : &own;
    merge_batches(p);
    const amp_cast_life life = p->packed ? AMP_CAST_ONCE : life_of_b(call, p);
    if (life != AMP_CAST_ONCE) AMP_TRY(cached_b(call, p, packing_of(p), life, &own));
    const int64_t outer = outer_batches(p);
    const bool packs = !b->data && has_kernel(p) && falls_into_few_sets(p);
    const bool ours = packs || (b->data && (outer == 0 || !prefers_dnnl(p, b)));
    amp_status status = AMP_OK;
    for (int64_t i = 0; status == AMP_OK && i < outer; i++) {
        if (packs) status = fresh_b(call, p, &f32_packing, i, &own);
        if (status != AMP_OK) break;
        const amp_gemm g = gemm_at(p, b, i);
        if (ours) {
            status = amp_gemm_f32(&g, &call->note.kernel);
        } else {
            const amp_dnnl_matmul d = dnnl_at(p, &g, i);
            status = amp_dnnl_matmul_f32(&d, &call->note.kernel);
        }
    }
    amp_cpu_matmul_unpack(&own);
    if (status != AMP_OK || ours) return status;
    return amp_apply_epilogue(p->c.tensor, &p->epilogue);
}

/* ---- Entry ----------------------------------------------------------------------------------------------------- */
AMP_APART static amp_status matmul_loops(amp_call *call, const amp_matmul *p) {
    const int64_t outer = outer_batches(p), inner = inner_batch(p);
    for (int64_t i = 0; i < outer * inner; i++) {
        const int64_t o = i / inner, k = i % inner;
        const amp_loops_matmul one = {
            .m = p->m,
            .n = p->n,
            .k = p->k,
            .a = element_at(&p->a, outer_offset(p, &p->a, o) + k * inner_stride(p, &p->a)),
            .b = element_at(&p->b, outer_offset(p, &p->b, o) + k * inner_stride(p, &p->b)),
            .c = (void *)element_at(&p->c, outer_offset(p, &p->c, o) + k * inner_stride(p, &p->c)),
            .residual = element_at(&p->residual, outer_offset(p, &p->residual, o) + k * inner_stride(p, &p->residual)),
            .bias = p->bias ? amp_tensor_pointer(p->bias) : NULL,
            .a_row = p->a.row,
            .a_column = p->a.column,
            .b_row = p->b.row,
            .b_column = p->b.column,
            .c_row = p->c.row,
            .residual_row = p->residual.row,
            .residual_column = p->residual.column,
            .bias_stride = p->bias && p->bias->rank > 0 ? p->bias->strides[p->bias->rank - 1] : 0,
            .alpha = p->alpha,
            .beta = p->beta,
            .alpha_imaginary = p->alpha_imaginary,
            .beta_imaginary = p->beta_imaginary,
        };
        AMP_TRY(amp_matmul_loops(amp_call_name(call), p->c.tensor->dtype, &one, &call->note.kernel));
    }
    return amp_apply_epilogue(p->c.tensor, &p->epilogue);
}

/* The bf16 kernels read f32 and round it on the way in; what packs B reads f16 too. */
AMP_HOT amp_status amp_cpu_matmul_operand(amp_call *call, amp_tensor *t, bool is_b) {
    const amp_dtype from = t->source ? t->source->dtype : AMP_DTYPE_NONE;
    const bool read_as_is =
        call->device == AMP_DEVICE_CPU && t->dtype == AMP_BF16 && (from == AMP_F32 || (is_b && from == AMP_F16));
    return read_as_is ? AMP_OK : amp_call_materialize(call, t);
}

amp_status amp_cpu_check_product_dtype(const amp_call *call, const char *name, const amp_tensor *t) {
    if (t->dtype != AMP_BOOL) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; there are no products of bool", amp_call_name(call), name,
                    amp_describe(t));
}

/* ---- One row, or one column ------------------------------------------------------------------------------------ */

/* A vector against a matrix that is not kept packed: each result is a dot product, of operands as they lie. */
static bool is_vector_product(const amp_call *call, const amp_matmul *p) {
    const amp_tensor *r = p->residual.tensor, *c = p->c.tensor;
    if ((p->m != 1 && p->n != 1) || p->packed || !p->a.tensor->storage || !p->b.tensor->storage) return false;
    const bool plain = p->alpha == 1 && !r && !p->bias && p->epilogue.activation == AMP_GEMM_NONE;
    const bool scaled = c->dtype == AMP_F32 && p->batch_rank == 0 && !p->bias &&
                        p->epilogue.activation == AMP_GEMM_NONE && !(r && amp_tensor_overlaps(r, c));
    return (plain || scaled) && life_of_b(call, p) == AMP_CAST_ONCE && p->batch_rank + 3 <= AMP_MAX_RANK;
}

/* The operand as (batch…, m, n, k), for the header of a dot product; `row` and `column` are steps along m and n. */
static amp_tensor in_dots(const amp_matmul *p, const amp_matrix *x, int64_t row, int64_t column, int64_t inner) {
    amp_tensor t = *x->tensor;
    const int rank = p->batch_rank;
    memcpy(t.shape, p->batch_shape, sizeof t.shape);
    memcpy(t.strides, x->batch, sizeof t.strides);
    t.rank = rank + 3;
    t.shape[rank] = p->m;
    t.shape[rank + 1] = p->n;
    t.shape[rank + 2] = p->k;
    t.strides[rank] = row;
    t.strides[rank + 1] = column;
    t.strides[rank + 2] = inner;
    return t;
}

AMP_APART static amp_status vector_product(amp_call *call, const amp_matmul *p) {
    const amp_tensor a = in_dots(p, &p->a, p->a.row, 0, p->a.column), b = in_dots(p, &p->b, 0, p->b.column, p->b.row);
    amp_tensor c = in_dots(p, &p->c, p->c.row, p->c.column, 0);
    c.rank--;
    call->note.kernel = "dots";
    AMP_TRY(amp_cpu_dots(amp_call_name(call), &c, &a, &b, false));
    const amp_matrix *r = &p->residual;
    if (p->alpha == 1 && !r->tensor) return AMP_OK;
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    float *to = (float *)(uintptr_t)element_at(&p->c, 0);
    const float *from = (const float *)(const void *)element_at(r, 0);
    const int64_t step = p->m == 1 ? p->c.column : p->c.row, more = p->m == 1 ? r->column : r->row;
    for (int64_t i = 0; i < p->m * p->n; i++)
        to[i * step] = alpha * to[i * step] + (from ? beta * from[i * more] : 0.0f);
    return AMP_OK;
}

static amp_status align(const amp_tensor *t) {
    const amp_tensor *memory = amp_tensor_memory(t);
    return amp_tensor_lies_unaligned(memory) ? amp_storage_align(memory->storage) : AMP_OK;
}

/* Weights may lie unaligned in a file: packing them for good does not mind. */
AMP_APART static amp_status align_operands(const amp_call *call, const amp_matmul *p) {
    AMP_TRY(align(p->a.tensor));
    return !p->packed && (!has_kernel(p) || life_of_b(call, p) == AMP_CAST_ONCE) ? align(p->b.tensor) : AMP_OK;
}

AMP_HOT amp_status amp_cpu_matmul(amp_call *call, amp_matmul *p) {
    if (__builtin_expect(call->has_unaligned, 0)) AMP_TRY(align_operands(call, p));
    if (is_vector_product(call, p)) return vector_product(call, p);
    if (!has_kernel(p)) return matmul_loops(call, p);
    return p->b.tensor->dtype == AMP_BF16 ? matmul_bf16(call, p) : matmul_f32(call, p);
}
