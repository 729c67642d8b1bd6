/* The cast cache: casts of weights and parameters, plain or packed, kept until their source changes or goes. */
#ifndef AMP_POLICY_CAST_CACHE_H
#define AMP_POLICY_CAST_CACHE_H

#include "core/tensor_impl.h"

/* What the cached bytes are. One cast per (source geometry, dtype, layout). A kernel family that packs its weights
 * adds a layout here. */
typedef enum amp_layout {
    AMP_LAYOUT_DENSE = 0,     /* row-major in the logical shape */
    AMP_LAYOUT_BLOCKED_B,     /* [N/32][K/32][16][32][2], cpu/registry/gemm.h */
    AMP_LAYOUT_BLOCKED_B_F32, /* [N/32][K/32][32][32] f32, cpu/registry/gemm.h */
    AMP_LAYOUT_CONV,          /* [groups] of blocked B, taps before channels in K, cpu/conv/conv_gemm.c */
    AMP_LAYOUT_CONV_RUNS,     /* the same where the taps of a line lie together, and pairs of bf16 straddle them */
    AMP_LAYOUT_CONV_F32,
    AMP_LAYOUT_CONV_TAPS,   /* [taps][channels] f32 of a depthwise convolution, rounded to the dtype */
    AMP_LAYOUT_CONV_PAIRS,  /* … as pairs of bf16, cpu/registry/depthwise.h */
    AMP_LAYOUT_CONV_BLOCKS, /* blocked B for each line of taps, cpu/conv/conv_transposed.c */
    AMP_LAYOUT_CONV_DNNL    /* and the numbers behind it: oneDNN's formats, cpu/conv/conv_dnnl.c; so it comes last */
} amp_layout;

/* One cached cast. Held by the cache and by every call that uses it. */
typedef struct amp_cast {
    amp_storage *memory; /* the bytes, on the source's device; a tensor that takes a reference may outlive the entry */
    /* the rest is the cache's own */
    atomic_int references;
    amp_storage *storage;             /* of the source; NULL once the entry has left the cache */
    uint64_t version, memory_version; /* of the source, and of the memory, when the cast was made */
    amp_dtype source_dtype, dtype;
    amp_layout layout;
    int rank;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK], offset;
    bool persistent; /* survives the end of the outermost region */
    uint64_t sum;    /* AMP_DEBUG: of the lent bytes that it was made of, else 0 */
    struct amp_cast *next_of_storage;
    struct amp_cast *newer, *older; /* order of use */
} amp_cast;

/* Makes the cast of `source`: a tensor of any dtype and shape whose fresh storage holds the bytes; NULL with an
 * error. */
typedef amp_tensor *(*amp_cast_builder)(const amp_tensor *source, amp_dtype dtype, void *context);

/* The cast of `source` (a tensor with memory) to `dtype` in `layout`: from the cache if the storage still has the
 * version that it was made from, else built, and kept as `life` says. NULL with an error. Release it after use. */
amp_cast *amp_cast_obtain(const amp_tensor *source, amp_dtype dtype, amp_layout layout, amp_cast_life life,
                          amp_cast_builder build, void *context, bool *was_cached);
void amp_cast_release(amp_cast *cast);

/* PERSISTENT for a parameter, and for a tensor in a weight position that no op made; else ONCE. */
amp_cast_life amp_cast_life_of(const amp_tensor *source, bool weight_position);

/* The outermost region ends: drops the casts of non-persistent sources that were cached since the last time. */
void amp_cast_cache_end_region(void);

#endif /* AMP_POLICY_CAST_CACHE_H */
