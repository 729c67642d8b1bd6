/* The engine of libamp_blas.so: which products run, in what, and that they do not share more threads than there are. */
#include "blas/engine.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "blas/product.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/registry/kernels.h"

static const char no_memory[] = "there was no memory for it";
static const char out_of_range[] = "an element is not finite, or some are too far apart for bf16";

/* ---- Operands that are no whole matrices ------------------------------------------------------------------------ */

static float element_of(const amp_blas_operand *x, int64_t i, int64_t j) {
    const bool stored = i == j || (j > i) == x->upper;
    if (x->form != AMP_BLAS_WHOLE && i == j && x->unit) return 1.0f;
    if (x->form == AMP_BLAS_TRIANGULAR && !stored) return 0.0f;
    const bool mirrored = x->form == AMP_BLAS_SYMMETRIC && !stored;
    return mirrored ? x->data[j * x->row + i * x->column] : x->data[i * x->row + j * x->column];
}

/* Makes the operand whole, and not C's memory, in a copy that the caller frees. False: no memory. */
static bool make_whole(amp_blas_operand *x, int64_t rows, int64_t columns, const float *c, float **copy) {
    *copy = NULL;
    if (x->form == AMP_BLAS_WHOLE && x->data != c) return true;
    float *to = *copy = amp_alloc((size_t)(rows * columns) * sizeof *to);
    if (!to) return false;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[i * columns + j] = element_of(x, i, j);
    *x = (amp_blas_operand){.data = to, .row = columns, .column = 1};
    return true;
}

/* ---- One product ------------------------------------------------------------------------------------------------ */

static bool in_range(const amp_blas_way *way, amp_blas_range a, amp_blas_range b, int64_t k) {
    int terms = 2; /* log2 of how many there are, and what roundings add */
    while ((int64_t)1 << (terms - 2) < k) terms++;
    const int most = 126;
    if (a.highest > most || b.highest > most || a.highest + b.highest + terms > most) return false;
    return a.lowest >= way->least && b.lowest >= way->least && a.lowest + b.lowest >= way->least_sum;
}

/* Whether each part of each element is what the way takes it for. */
static bool suits(const amp_blas_product *p, const amp_blas_way *way, const amp_blas_packed *packed) {
    if (way->parts == 0) return true;
    const amp_blas_range a = amp_blas_range_of(&p->a, p->m, p->k);
    return in_range(way, a, packed ? packed->range : amp_blas_range_of(&p->b, p->k, p->n), p->k);
}

static const char *run_whole(const amp_blas_product *p, const amp_blas_way *way, size_t cache_bytes) {
    amp_blas_packed packed;
    const bool kept =
        amp_blas_is_one_slab(p, way) && amp_blas_cache_obtain(way, &p->b, p->n, p->k, cache_bytes, &packed);
    const bool suited = suits(p, way, kept ? &packed : NULL);
    if (suited) amp_blas_compute(p, way, kept ? &packed : NULL);
    if (kept) amp_blas_cache_release(&packed);
    return suited ? NULL : out_of_range;
}

static const char *run_triangle(const amp_blas_product *p, const amp_blas_way *way) {
    amp_blas_product whole = *p;
    float *a = NULL, *b = NULL;
    const bool made = make_whole(&whole.a, p->m, p->k, p->c, &a) && make_whole(&whole.b, p->k, p->n, p->c, &b);
    const bool suited = made && suits(&whole, way, NULL);
    if (suited) amp_blas_compute_triangle(&whole, way, p);
    amp_free(a);
    amp_free(b);
    return !made ? no_memory : suited ? NULL : out_of_range;
}

static bool is_whole(const amp_blas_product *p) {
    return p->a.form == AMP_BLAS_WHOLE && p->b.form == AMP_BLAS_WHOLE && p->part == AMP_BLAS_ALL && p->a.data != p->c &&
           p->b.data != p->c;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------ */

/* All or none: nothing is written before it is known that all run. */
static void run_batch(const amp_blas_product *products, int64_t count, const amp_blas_request *r, amp_blas_outcome *o) {
    for (int64_t i = 0; i < count; i++) {
        const amp_blas_way *way = amp_blas_way_of(&products[i], r, &o->why);
        if (!way) return;
        if (!suits(&products[i], way, NULL)) {
            o->why = out_of_range;
            return;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        const amp_blas_way *way = amp_blas_way_of(&products[i], r, &o->why);
        amp_blas_compute(&products[i], way, NULL);
        o->way = way->name;
    }
}

static void run_one(const amp_blas_product *p, const amp_blas_request *r, amp_blas_outcome *o) {
    const amp_blas_way *way = amp_blas_way_of(p, r, &o->why);
    if (!way) return;
    o->why = is_whole(p) ? run_whole(p, way, r->cache_bytes) : run_triangle(p, way);
    if (!o->why) o->way = way->name;
}

/* Calls that run at a time share the threads: each of them would start a team of its own. No result depends on that. */
static atomic_int running;

/* In a child none of them runs. */
static void forget_others(void) {
    atomic_store(&running, 0);
}
static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, forget_others);
}

static void run_all(const amp_blas_product *products, int64_t count, const amp_blas_request *r, amp_blas_outcome *o) {
    fenv_t before;
    const bool held = fegetenv(&before) == 0;
    if (count == 1)
        run_one(products, r, o);
    else if (count > 1)
        run_batch(products, count, r, o);
    const amp_blas_way *way = o->way ? amp_blas_way_named(o->way) : NULL;
    if (held && way && way->parts)
        (void)fesetenv(&before); /* all was in range: what parts leave behind means nothing */
}

static void run(const amp_blas_product *products, int64_t count, const amp_blas_request *r, amp_blas_outcome *o) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
    const int calls = atomic_fetch_add(&running, 1) + 1;
    const int all = r->threads > 0 && r->threads < amp_get_num_threads() ? r->threads : amp_get_num_threads();
    const int before = amp_parallel_limit(all / calls > 1 ? all / calls : 1);
    const bool had_error = amp_last_status() != AMP_OK;
    *o = (amp_blas_outcome){NULL, "there is nothing to multiply"};
    run_all(products, count, r, o);
    if (o->way) o->why = NULL;
    if (!had_error) amp_clear_error(); /* what failed has been done in another way */
    amp_parallel_limit(before);
    atomic_fetch_sub(&running, 1);
}

static const char *kernel_of(const char *name) {
    const amp_blas_way *way = amp_blas_way_named(name);
    const amp_gemm large = {.m = 1024, .n = 1024, .k = 1024, .batch = 1};
    const amp_kernel *kernel =
        way ? amp_kernel_select_for(AMP_KERNEL_GEMM, way->parts ? AMP_BF16 : AMP_F32, AMP_F32, &large) : NULL;
    return kernel ? kernel->name : NULL;
}

/* Tests of kernels, at their first use, meet NaN on purpose: a program that reads the exception flags after a product,
 * as NumPy does, is not to see those. */
static void select_kernels(void) {
    fenv_t before;
    const bool held = feholdexcept(&before) == 0;
    (void)kernel_of("f32");
    (void)kernel_of("bf16");
    (void)amp_kernel_select(AMP_KERNEL_GEMM, AMP_BF16, AMP_F32);
    (void)amp_kernel_select(AMP_KERNEL_GEMM_PACK, AMP_F32, AMP_BF16);
    if (held) (void)fesetenv(&before);
}

const amp_blas_engine *amp_blas_engine_table(void) {
    static const amp_blas_engine table = {AMP_BLAS_ABI, run, kernel_of};
    select_kernels();
    return &table;
}
