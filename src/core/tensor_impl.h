/* What a tensor is made of. Seen by libamp's own code only; kernels below the device table see pointers and strides. */
#ifndef AMP_CORE_TENSOR_IMPL_H
#define AMP_CORE_TENSOR_IMPL_H

#include <stdatomic.h>
#include <string.h>

#include "amp/tensor.h"
#include "core/fail.h"

/* Who above this floor keeps something for a storage: their places in amp_storage.kept, and drop hooks. */
typedef enum amp_keeper { AMP_KEEPER_CASTS, AMP_KEEPER_EXPLAIN, AMP_KEEPER_GRAPHS, AMP_KEEPERS } amp_keeper;

/* How long the cast of a tensor stays in the cast cache. */
typedef enum amp_cast_life {
    AMP_CAST_ONCE = 0,  /* not cached */
    AMP_CAST_REGION,    /* until the outermost region of a thread ends */
    AMP_CAST_PERSISTENT /* until the source changes or goes, or the budget runs out */
} amp_cast_life;

/* Shared memory of one or more tensors. */
typedef struct amp_storage {
    atomic_int references;
    amp_device device;
    void *data;
    size_t bytes;
    _Atomic uint64_t version;       /* bumped by every write */
    _Atomic unsigned kept_by;       /* a bit for each keeper that was ever given something for this storage */
    atomic_bool produced;           /* an op made it: its casts are not cached in weight positions */
    atomic_bool parameter;          /* marked as a parameter: its casts are cached wherever it is used */
    void (*deleter)(void *context); /* frees borrowed memory; NULL: amp_free(data), or nothing if !owned */
    void *deleter_context;
    bool user_memory; /* borrowed by amp_from_memory: its owner may write it unseen */
    bool owned;
    bool is_ahead;           /* its elements are not computed yet: a graph's capture knows how (graph/settle.h) */
    bool read_only;          /* someone else's memory that must not be written (DLPack can say so) */
    atomic_bool in_file;     /* the bytes are those of a mapped file, which has them still when their pages go */
    atomic_bool unaligned;   /* … and lie at an address that is not one of their elements: amp_storage_align */
    atomic_bool is_taken;    /* by a call that the capture of a graph wrote down, and that computes later */
    void *kept[AMP_KEEPERS]; /* the keepers' own */
} amp_storage;

struct amp_scope_frame;

struct amp_tensor {
    uint32_t magic; /* TENSOR_LIVE until released: use after release is caught, not followed */
    atomic_int references;
    amp_storage *storage;
    amp_dtype dtype;
    int rank;
    int64_t shape[AMP_MAX_RANK];
    int64_t strides[AMP_MAX_RANK]; /* in elements; may be 0 or negative */
    int64_t offset;                /* of element [0, …, 0], in elements */
    bool is_view;
    bool requires_grad;
    bool is_leaf;
    /* A pending cast: this tensor stands for `source` cast to `dtype`, and has no storage until a kernel that cannot
     * take the source as it is asks for the data (amp_tensor_materialize). */
    amp_tensor *source;
    amp_cast_life cast_life;       /* of a pending cast: how long the cache may keep it */
    struct amp_scope_frame *scope; /* owner, or NULL: the caller's */
    amp_tensor *scope_next, *scope_previous;
    uint64_t mark; /* whoever writes down what happens to tensors knows this one by it; 0: nobody (graph/capture.h) */
    struct amp_history *history; /* what its gradient is found by (grad/history.h); NULL: it has none */
};

/* Takes the reference of a tensor that goes. Set before anything has a history. */
extern void (*amp_tensor_on_history_end)(struct amp_history *history) __attribute__((visibility("hidden")));

/* ---- Bytes of files ----
 * A tensor over a mapped file costs memory as long as its pages are looked at. Where the file has it at an address that is
 * no element's, whoever reads elements by address aligns it first, which copies it, for good; a call's arguments are aligned before
 * the op runs, but for weights that an op packs itself (amp_backend_op.takes_unaligned). */

/* A dense tensor over bytes of a mapped file, at any address, which nobody may write; `release` is called of the
 * context when the storage goes. NULL with an error; then it is not. */
amp_tensor *amp_tensor_over_file(const char *op, const void *data, amp_dtype dtype, int rank, const int64_t *shape,
                                 void (*release)(void *context), void *context);
/* Gives an unaligned storage memory of its own with its bytes, once. Others may read the old ones meanwhile. */
amp_status amp_storage_align(amp_storage *storage);
/* The bytes as they lie, of a storage that another thread may be aligning. */
const void *amp_storage_bytes(amp_storage *storage);
/* All of a file's bytes are read next: at once, not page by page. */
void amp_storage_bring_in(amp_storage *storage);
/* Where the storage is over a file, its pages need not stay in memory: they come back when they are looked at. */
void amp_storage_let_go(amp_storage *storage);
/* The same of any bytes of a mapped file. */
void amp_pages_let_go(const void *data, size_t bytes);

static inline bool amp_storage_is_unaligned(const amp_storage *s) {
    return s->unaligned;
}
/* Of the tensor's memory; false for pending casts. */
static inline bool amp_tensor_lies_unaligned(const amp_tensor *t) {
    return t->storage && amp_storage_is_unaligned(t->storage);
}

/* Called of every marked tensor whose elements the program looks at, before it does, and whether what it does next may
 * hang on them. False, with an error: there are none. Set before anything is marked. */
extern bool (*amp_tensor_on_read)(const amp_tensor *tensor, bool decides) __attribute__((visibility("hidden")));
static inline bool amp_tensor_read(const amp_tensor *t) {
    if (__builtin_expect(amp_tensor_lies_unaligned(t), 0) && amp_storage_align(t->storage) != AMP_OK) return false;
    return __builtin_expect(t->mark == 0, 1) || amp_tensor_on_read(t, true);
}
/* The same of elements that only leave the program: printed, saved. */
static inline bool amp_tensor_shown(const amp_tensor *t) {
    if (__builtin_expect(amp_tensor_lies_unaligned(t), 0) && amp_storage_align(t->storage) != AMP_OK) return false;
    return __builtin_expect(t->mark == 0, 1) || amp_tensor_on_read(t, false);
}
/* Called while calls are written down, before the program gets at a tensor's elements to write them, or when it says
 * that it has. As above. */
extern bool (*amp_tensor_on_write)(const amp_tensor *tensor, bool is_done) __attribute__((visibility("hidden")));

enum { AMP_TENSOR_LIVE = 0x414d5054u, AMP_TENSOR_DEAD = 0xdeadu };

/* A fresh contiguous tensor on the CPU, in the innermost scope, memory uninitialised; NULL with an error. `op` names
 * the op in messages. */
amp_tensor *amp_tensor_new(const char *op, amp_dtype dtype, int rank, const int64_t *shape);
/* A view of `base`'s storage with its own geometry (offset in elements from the storage's start). */
amp_tensor *amp_tensor_view(const char *op, amp_tensor *base, int rank, const int64_t *shape, const int64_t *strides,
                            int64_t offset);
/* Another header of the same elements, known by the same mark. */
amp_tensor *amp_tensor_same(const char *op, amp_tensor *tensor);
/* A tensor that stands for `source` cast to `dtype` and has no memory yet. It lives as long as the call that it is an
 * argument of, whose caller keeps the source alive. */
amp_tensor *amp_tensor_pending_cast(const char *op, amp_tensor *source, amp_dtype dtype);
/* The same in memory that the caller has, a call's own; it belongs to no scope. Ended by amp_tensor_end_at. */
void amp_tensor_pending_cast_at(amp_tensor *tensor, amp_tensor *source, amp_dtype dtype);
void amp_tensor_end_at(amp_tensor *tensor);
/* Drops the owner's reference and leaves the scope, if one owns it. */
void amp_tensor_drop(amp_tensor *tensor);
#ifndef __cplusplus /* tests are C++, whose atomics are others */
/* Takes a reference away; whether it was the last. The holder of the only one needs no locked instruction, as nobody else
 * can add any; the count stays 1 then. */
static inline bool amp_is_last_reference(atomic_int *references) {
    return atomic_load_explicit(references, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}
#endif

/* One more, and one less, holder of a storage; NULL may be dropped. */
amp_storage *amp_storage_retain(amp_storage *storage);
void amp_storage_drop(amp_storage *storage);
/* `forget` is called of every storage that goes and that the keeper had something for. Set before anything is kept. */
void amp_storage_on_drop(amp_keeper keeper, void (*forget)(amp_storage *storage));
/* From now on the keeper is told when the storage goes. */
void amp_storage_watch(amp_storage *storage, amp_keeper keeper);
/* Bumps the storage version: call it after writing. */
void amp_tensor_written(amp_tensor *tensor);

/* amp_dtype_size of a tensor's dtype, without a call. */
extern const unsigned char amp_element_sizes[AMP_DTYPE_COUNT] __attribute__((visibility("hidden")));

/* The largest finite number of a floating dtype, of a complex one's parts; 0 of the others. */
double amp_dtype_largest(amp_dtype dtype);

/* What a tensor's elements lie in: of a pending cast its source, in the source's dtype. */
static inline const amp_tensor *amp_tensor_memory(const amp_tensor *t) {
    return t->storage ? t : t->source;
}
/* Address of element [0, …, 0]. Not for pending casts. */
static inline void *amp_tensor_pointer(const amp_tensor *t) {
    return (char *)t->storage->data + t->offset * (int64_t)amp_element_sizes[t->dtype];
}
static inline bool amp_tensor_is_live(const amp_tensor *t) {
    return t->magic == AMP_TENSOR_LIVE;
}

/* The first `count` extents, which both have, are the same; `count` may be 0. */
static inline bool amp_same_leading(const amp_tensor *a, const amp_tensor *b, int count) {
    return memcmp(a->shape, b->shape, (size_t)count * sizeof *a->shape) == 0;
}
static inline bool amp_same_shape(const amp_tensor *a, const amp_tensor *b) {
    return a->rank == b->rank && amp_same_leading(a, b, a->rank);
}
/* The same shape and strides. */
static inline bool amp_same_layout(const amp_tensor *a, const amp_tensor *b) {
    return amp_same_shape(a, b) && memcmp(a->strides, b->strides, (size_t)a->rank * sizeof *a->strides) == 0;
}
/* By address: two storages may be lent the same memory. */
static inline bool amp_same_elements(const amp_tensor *a, const amp_tensor *b) {
    return a->dtype == b->dtype && amp_tensor_pointer(a) == amp_tensor_pointer(b) && amp_same_layout(a, b);
}
/* The tensor has just this shape. */
static inline bool amp_has_shape(const amp_tensor *t, int rank, const int64_t *shape) {
    return t->rank == rank && (rank == 0 || memcmp(t->shape, shape, (size_t)rank * sizeof *shape) == 0);
}

/* An error if the tensor must not be written; `op` and `name`, the argument, are for the message. */
amp_status amp_tensor_check_writable(const char *op, const char *name, const amp_tensor *tensor);
amp_status amp_tensor_fail_shared(const char *op, const char *of, const char *name, const amp_tensor *tensor);
/* An error if elements of the tensor share memory: an expanded view, which cannot take a result. The message calls it
 * `of` (a few words, or "") and then 'name'. */
static inline amp_status amp_tensor_check_separate(const char *op, const char *of, const char *name,
                                                   const amp_tensor *tensor) {
    for (int i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] > 1 && tensor->strides[i] == 0) return amp_tensor_fail_shared(op, of, name, tensor);
    }
    return AMP_OK;
}

/* Number of elements. */
int64_t amp_tensor_elements(const amp_tensor *tensor);
bool amp_tensor_is_dense(const amp_tensor *tensor); /* contiguous, row-major */
/* True when the two share memory that both can reach (the same storage: conservative). */
bool amp_tensor_overlaps(const amp_tensor *a, const amp_tensor *b);
/* True when the two surely have an element in common: they are the same elements, or one is dense and meets the first
 * element of the other. False where strides leave it open. Both have memory. */
bool amp_tensor_shares_elements(const amp_tensor *a, const amp_tensor *b);

/* The product of a shape, checked: AMP_ERROR_INVALID on a negative extent, an overflow or a rank above 8. */
amp_status amp_shape_elements(const char *op, int rank, const int64_t *shape, int64_t *elements);
void amp_dense_strides(int rank, const int64_t *shape, int64_t *strides);

/* "[2, 3, 4] f32" for messages, in one of a few rotating per-thread buffers: up to 8 uses in one sentence. */
const char *amp_describe(const amp_tensor *tensor);
const char *amp_describe_shape(int rank, const int64_t *shape);

#endif /* AMP_CORE_TENSOR_IMPL_H */
