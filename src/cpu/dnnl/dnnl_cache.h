/* Primitives of oneDNN, made once for each description and kept: one bounded table for all users. Making one costs more
 * than a small product.
 *
 * oneDNN blocks its work, and so orders its sums, by the number of threads that it is to run on. Here that is always
 * one: users cut their work into slices, by its extents alone, which our threads share out. */
#ifndef AMP_CPU_DNNL_CACHE_H
#define AMP_CPU_DNNL_CACHE_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AMP_DNNL_KEY_WORDS = 24, AMP_DNNL_OPERANDS = 8 };

/* A kind of primitive; keys are words, zeroed before they are filled, the first of which tells the kinds apart. */
typedef struct amp_dnnl_kind {
    size_t key_bytes; /* whole words, at most AMP_DNNL_KEY_WORDS */
    /* Under AMP_LOCK_DNNL_MAKING; dnnl_unimplemented where oneDNN has none. */
    dnnl_status_t (*describe)(const void *key, dnnl_primitive_desc_t *descriptor);
    /* The DNNL_ARG_… whose memory each run names, in that order; returns how many. */
    int (*arguments)(const void *key, int list[AMP_DNNL_OPERANDS]);
    /* Whether plain loops of oneDNN's will not do: then there is no primitive. */
    bool (*refuses_loops)(const void *key);
} amp_dnnl_kind;

typedef struct amp_dnnl_operands amp_dnnl_operands;

/* Read-only for its users. */
typedef struct amp_dnnl_primitive {
    dnnl_primitive_t primitive; /* NULL: oneDNN has none */
    dnnl_primitive_desc_t descriptor;
    size_t scratch_bytes; /* of a run, in whole cache lines */
    size_t weight_bytes;  /* of the weights as it wants them, in whole cache lines */
    int format;           /* a number for how those are blocked, whatever their extents; -1: it has none */
    const char *name;     /* "dnnl:…", valid for ever */
} amp_dnnl_primitive;

/* The primitive, with the caller among its users until it is given back; NULL: no memory, or oneDNN failed in another
 * way than saying that it has none, and `status` says how. Failures are not kept. */
amp_dnnl_primitive *amp_dnnl_take(const amp_dnnl_kind *kind, const void *key, dnnl_status_t *status);
void amp_dnnl_give_back(amp_dnnl_primitive *p); /* may be NULL */

/* A run on the memory that `data` names in the order of the kind's arguments. */
dnnl_status_t amp_dnnl_execute(const amp_dnnl_primitive *p, const amp_dnnl_operands *o, void *const data[]);

/* Work that is cut into slices: which primitive computes one, and a run of it, with memory objects of that and memory
 * of the thread's own. */
typedef struct amp_dnnl_slices {
    int64_t count;
    size_t own_bytes; /* for each thread, in whole cache lines */
    amp_dnnl_primitive *(*primitive)(const void *work, int64_t slice);
    dnnl_status_t (*run)(const void *work, int64_t slice, const amp_dnnl_operands *o, char *own);
    const void *work;
} amp_dnnl_slices;

/* Shares them out among our threads, each of which oneDNN takes for the only one. One failure of those that there
 * were. */
dnnl_status_t amp_dnnl_run_slices(const amp_dnnl_slices *s);

/* Bytes in whole cache lines. */
static inline size_t amp_dnnl_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* For reports and tests. */
typedef struct amp_dnnl_cache_stats {
    int64_t hits, misses, entries, evictions;
} amp_dnnl_cache_stats;
amp_dnnl_cache_stats amp_dnnl_cache_statistics(void);

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_DNNL_CACHE_H */
