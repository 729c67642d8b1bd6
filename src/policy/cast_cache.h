/* The cast cache: casts of weights and parameters, plain or packed, kept until their source changes or goes. */
#ifndef AMP_POLICY_CAST_CACHE_H
#define AMP_POLICY_CAST_CACHE_H

#include "core/tensor_impl.h"

/* Goes up with every change of what the bytes of a layout are: files of packed weights (graph/packs.c) name it. */
enum { AMP_LAYOUTS_VERSION = 1 };

/* What the cached bytes are. A kernel family that packs its weights adds one here. */
typedef enum amp_layout_kind {
    AMP_LAYOUT_DENSE = 0,     /* row-major in the logical shape */
    AMP_LAYOUT_BLOCKED_B,     /* [N/32][K/32][16][32][2], cpu/registry/gemm.h */
    AMP_LAYOUT_BLOCKED_B_F32, /* [N/32][K/32][32][32] f32, cpu/registry/gemm.h */
    AMP_LAYOUT_CONV,          /* [groups] of blocked B, taps before channels in K, cpu/conv/conv_gemm.c */
    AMP_LAYOUT_CONV_RUNS,     /* the same where the taps of a line lie together, and pairs of bf16 straddle them */
    AMP_LAYOUT_CONV_F32,
    AMP_LAYOUT_CONV_TAPS,   /* [taps][channels] f32 of a depthwise convolution, rounded to the dtype */
    AMP_LAYOUT_CONV_PAIRS,  /* … as pairs of bf16, cpu/registry/depthwise.h */
    AMP_LAYOUT_CONV_BLOCKS, /* blocked B for each line of taps, cpu/conv/conv_transposed.c */
    AMP_LAYOUT_CONV_DNNL,   /* oneDNN's, cpu/conv/conv_dnnl.c; the variant is its format and the width of slices */
    AMP_LAYOUT_CONV_CUDNN   /* dense, channels first (0) or last (1), cuda/ops/cuda_conv_library.c */
} amp_layout_kind;

typedef struct amp_layout {
    amp_layout_kind kind;
    int variant; /* 0 where the kind has only one */
} amp_layout;

/* One cast for each key: elements of a storage as they were at a version, and what is made of them. The geometry is the
 * caller's reading of them (a matrix, groups apart), which need not be a tensor's. Only the first `rank` extents and
 * strides are set. */
typedef struct amp_cast_key {
    amp_storage *storage;
    uint64_t version;
    int64_t offset; /* of the first element, in elements */
    amp_dtype source_dtype, dtype;
    amp_layout layout;
    bool reads_anywhere; /* whoever builds it: a source at any address, as in a file. Not a part of what is asked for */
    size_t bytes;        /* of the cast; 0: whoever asks does not say, and gets none that was offered */
    int rank;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
} amp_cast_key;

/* One cached cast. Held by the cache and by every call that uses it. */
typedef struct amp_cast {
    amp_storage *memory; /* the bytes, on the source's device; a tensor that takes a reference may outlive the entry */
    /* the rest is the cache's own */
    atomic_int references;
    amp_cast_key key;        /* the storage is NULL as long as, and once, the entry is not in the cache */
    uint64_t memory_version; /* of the memory, when the cast was made */
    bool persistent;         /* survives the end of the outermost region */
    uint64_t sum;            /* AMP_DEBUG: of the lent bytes that it was made of, else 0 */
    struct amp_cast *next_of_storage;
    struct amp_cast *newer, *older; /* order of use */
} amp_cast;

/* Makes the cast that the key asks for: a tensor of any dtype and shape whose fresh storage holds the bytes; NULL with
 * an error. */
typedef amp_tensor *(*amp_cast_builder)(const amp_cast_key *key, void *context);

/* The key's source is the storage of this tensor, which has memory, from its first element on; the version is read now,
 * before the data: a write in between leaves an entry that is stale from the start. Geometry, dtype and layout are left
 * to the caller. */
void amp_cast_key_start(amp_cast_key *key, const amp_tensor *memory);

/* All of the key, for a dense cast of this tensor. */
void amp_cast_key_of(amp_cast_key *key, const amp_tensor *memory, amp_dtype dtype);

/* The first element of the source. */
static inline void *amp_cast_key_pointer(const amp_cast_key *key) {
    return (char *)key->storage->data + key->offset * (int64_t)amp_dtype_size(key->source_dtype);
}

/* The key's cast: from the cache if the storage still has the key's version, else built, and kept as `life` says. NULL
 * with an error. Release it after use. */
amp_cast *amp_cast_obtain(const amp_cast_key *key, amp_cast_life life, amp_cast_builder build, void *context,
                          bool *was_cached);
void amp_cast_release(amp_cast *cast);

/* Memory that holds what the key asks for, all of which is set, as if it had been built; the cache retains it. No
 * error: an equal cast is there, or it is beyond the budget. */
amp_status amp_cast_offer(const amp_cast_key *key, amp_storage *memory);
/* The storage's casts that stay, are up to date and of a size that their key tells: up to `most`, retained. */
int amp_casts_kept_of(amp_storage *storage, amp_cast **casts, int most);

/* Drops the storage's casts. */
void amp_casts_drop_of(amp_storage *storage);

/* PERSISTENT for a parameter, and for a tensor in a weight position that no op made; else ONCE. */
amp_cast_life amp_cast_life_of(const amp_tensor *source, bool weight_position);

/* The outermost region ends: drops the casts of non-persistent sources that were cached since the last time. */
void amp_cast_cache_end_region(void);

#endif /* AMP_POLICY_CAST_CACHE_H */
