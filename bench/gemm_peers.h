/* The products of other libraries, for bench_gemm: oneDNN's in f32 and bf16, and MKL's, loaded by name. */
#ifndef AMP_BENCH_GEMM_PEERS_H
#define AMP_BENCH_GEMM_PEERS_H

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include "bench_common.h"

/* A product C = A · Bᵀ, rows of A and of B along K. */
typedef struct gemm_problem {
    int64_t m, n, k;
    const float *a, *b;
    const uint16_t *a_half, *b_half;
    float *c;
    uint16_t *c_half;
} gemm_problem;

/* ---- oneDNN: weights in the layout that it likes for this very shape --------------------------------------------- */

typedef struct dnnl_peer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
    const char *implementation;
} dnnl_peer;

static inline void run_dnnl(const void *context) {
    const dnnl_peer *d = context;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, d->a}, {DNNL_ARG_WEIGHTS, d->b}, {DNNL_ARG_DST, d->c}};
    bench_require(dnnl_primitive_execute(d->primitive, d->stream, 3, arguments) == dnnl_success, "oneDNN");
    dnnl_stream_wait(d->stream);
}

static inline dnnl_memory_desc_t dnnl_matrix(int64_t rows, int64_t columns, bool half, dnnl_format_tag_t tag) {
    const dnnl_dims_t dims = {rows, columns};
    dnnl_memory_desc_t d;
    bench_require(dnnl_memory_desc_create_with_tag(&d, 2, dims, half ? dnnl_bf16 : dnnl_f32, tag) == dnnl_success,
                  "oneDNN descriptor");
    return d;
}

static inline void reorder_dnnl_weights(dnnl_peer *d, const gemm_problem *g, bool half,
                                        const_dnnl_memory_desc_t wanted) {
    const dnnl_memory_desc_t plain = dnnl_matrix(g->k, g->n, half, dnnl_ba);
    dnnl_memory_t from;
    dnnl_primitive_desc_t descriptor = NULL;
    dnnl_primitive_t reorder = NULL;
    bool ok = dnnl_memory_create(&from, plain, d->engine, half ? (void *)g->b_half : (void *)g->b) == dnnl_success;
    ok = ok && dnnl_memory_create(&d->b, wanted, d->engine, DNNL_MEMORY_ALLOCATE) == dnnl_success;
    ok = ok &&
         dnnl_reorder_primitive_desc_create(&descriptor, plain, d->engine, wanted, d->engine, NULL) == dnnl_success;
    ok = ok && dnnl_primitive_create(&reorder, descriptor) == dnnl_success;
    bench_require(ok, "oneDNN reorder");
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, d->b}};
    bench_require(dnnl_primitive_execute(reorder, d->stream, 2, arguments) == dnnl_success, "oneDNN reorder");
    dnnl_stream_wait(d->stream);
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(descriptor);
    dnnl_memory_destroy(from);
    dnnl_memory_desc_destroy(plain);
}

/* False where this oneDNN has no such product on this CPU. */
static inline bool make_dnnl(dnnl_peer *d, const gemm_problem *g, bool half, bool packed) {
    memset(d, 0, sizeof *d);
    bench_require(dnnl_engine_create(&d->engine, dnnl_cpu, 0) == dnnl_success, "oneDNN engine");
    bench_require(dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags) == dnnl_success,
                  "oneDNN stream");
    const dnnl_memory_desc_t a = dnnl_matrix(g->m, g->k, half, dnnl_ab), c = dnnl_matrix(g->m, g->n, half, dnnl_ab);
    const dnnl_memory_desc_t b = dnnl_matrix(g->k, g->n, half, packed ? dnnl_format_tag_any : dnnl_ba);
    dnnl_primitive_desc_t descriptor = NULL;
    const bool made = dnnl_matmul_primitive_desc_create(&descriptor, d->engine, a, b, NULL, c, NULL) == dnnl_success;
    if (made) {
        void *a_data = half ? (void *)g->a_half : (void *)g->a, *c_data = half ? (void *)g->c_half : (void *)g->c;
        reorder_dnnl_weights(d, g, half, dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0));
        dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &d->implementation);
        bool ok = dnnl_primitive_create(&d->primitive, descriptor) == dnnl_success;
        ok = ok && dnnl_memory_create(&d->a, a, d->engine, a_data) == dnnl_success;
        ok = ok && dnnl_memory_create(&d->c, c, d->engine, c_data) == dnnl_success;
        bench_require(ok, "oneDNN product");
        dnnl_primitive_desc_destroy(descriptor);
    }
    dnnl_memory_desc_destroy(a);
    dnnl_memory_desc_destroy(b);
    dnnl_memory_desc_destroy(c);
    return made;
}

static inline void free_dnnl(dnnl_peer *d) {
    if (d->primitive) dnnl_primitive_destroy(d->primitive);
    if (d->a) dnnl_memory_destroy(d->a);
    if (d->b) dnnl_memory_destroy(d->b);
    if (d->c) dnnl_memory_destroy(d->c);
    if (d->stream) dnnl_stream_destroy(d->stream);
    if (d->engine) dnnl_engine_destroy(d->engine);
}

/* ---- MKL: CBLAS with rows, no transposition of A, B transposed, packed beforehand; f32 results ------------------- */

enum { MKL_ROWS = 101, MKL_PLAIN = 111, MKL_TRANSPOSED = 112, MKL_PACKED = 151, MKL_RIGHT = 162 };

typedef struct mkl_library {
    bool there;
    char version[200];
    void (*set_threads)(int threads);
    size_t (*size_f32)(int which, int m, int n, int k);
    void (*pack_f32)(int layout, int which, int transposed, int m, int n, int k, float alpha, const float *from,
                     int pitch, float *to);
    void (*run_f32)(int layout, int a_is, int b_is, int m, int n, int k, const float *a, int a_pitch, const float *b,
                    int b_pitch, float beta, float *c, int c_pitch);
    size_t (*size_half)(int which, int m, int n, int k);
    void (*pack_half)(int layout, int which, int transposed, int m, int n, int k, const uint16_t *from, int pitch,
                      uint16_t *to);
    void (*run_half)(int layout, int a_is, int b_is, int m, int n, int k, float alpha, const uint16_t *a, int a_pitch,
                     const uint16_t *b, int b_pitch, float beta, float *c, int c_pitch);
} mkl_library;

static mkl_library mkl;

/* From the folder of a Python environment, or from where the loader looks. */
static inline void *open_mkl(const char *environment) {
    static const char *const names[] = {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"};
    char path[4096];
    void *library = NULL;
    setenv("MKL_THREADING_LAYER", "GNU", 0); /* the OpenMP runtime that we have */
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s%s%s", environment ? environment : "", environment ? "/lib/" : "", names[i]);
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return library;
}

static inline void find_mkl(const char *environment) {
    void *library = open_mkl(environment);
    void (*version)(char *text, int size);
    const struct {
        const char *name;
        void *pointer;
    } wanted[] = {
        {"MKL_Get_Version_String", &version},
        {"MKL_Set_Num_Threads", &mkl.set_threads},
        {"cblas_sgemm_pack_get_size", &mkl.size_f32},
        {"cblas_sgemm_pack", &mkl.pack_f32},
        {"cblas_sgemm_compute", &mkl.run_f32},
        {"cblas_gemm_bf16bf16f32_pack_get_size", &mkl.size_half},
        {"cblas_gemm_bf16bf16f32_pack", &mkl.pack_half},
        {"cblas_gemm_bf16bf16f32_compute", &mkl.run_half},
    };
    mkl.there = library != NULL;
    for (size_t i = 0; mkl.there && i < sizeof wanted / sizeof *wanted; i++) {
        void *const symbol = dlsym(library, wanted[i].name);
        memcpy(wanted[i].pointer, &symbol, sizeof symbol);
        mkl.there = symbol != NULL;
    }
    if (mkl.there) version(mkl.version, (int)sizeof mkl.version - 1);
    mkl.version[strcspn(mkl.version, "\"\\\n")] = '\0';
    for (size_t end = strlen(mkl.version); end > 0 && mkl.version[end - 1] == ' ';) mkl.version[--end] = '\0';
}

typedef struct mkl_peer {
    const gemm_problem *problem;
    float *b;
    uint16_t *b_half;
} mkl_peer;

static inline mkl_peer make_mkl(const gemm_problem *g) {
    const int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    mkl_peer p = {.problem = g};
    p.b = aligned_alloc(64, (mkl.size_f32(MKL_RIGHT, m, n, k) + 63) / 64 * 64);
    p.b_half = aligned_alloc(64, (mkl.size_half(MKL_RIGHT, m, n, k) + 63) / 64 * 64);
    if (!p.b || !p.b_half) exit(1);
    mkl.pack_f32(MKL_ROWS, MKL_RIGHT, MKL_TRANSPOSED, m, n, k, 1.0f, g->b, k, p.b);
    mkl.pack_half(MKL_ROWS, MKL_RIGHT, MKL_TRANSPOSED, m, n, k, g->b_half, k, p.b_half);
    return p;
}

static inline void free_mkl(mkl_peer *p) {
    free(p->b);
    free(p->b_half);
}

static inline void run_mkl_f32(const void *context) {
    const mkl_peer *p = context;
    const gemm_problem *g = p->problem;
    const int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    mkl.run_f32(MKL_ROWS, MKL_PLAIN, MKL_PACKED, m, n, k, g->a, k, p->b, k, 0.0f, g->c, n);
}

static inline void run_mkl_bf16(const void *context) {
    const mkl_peer *p = context;
    const gemm_problem *g = p->problem;
    const int m = (int)g->m, n = (int)g->n, k = (int)g->k;
    mkl.run_half(MKL_ROWS, MKL_PLAIN, MKL_PACKED, m, n, k, 1.0f, g->a_half, k, p->b_half, k, 0.0f, g->c, n);
}

#endif /* AMP_BENCH_GEMM_PEERS_H */
