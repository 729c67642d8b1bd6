/* The library's locks. A fork takes them all first, so that what they guard is whole in the child. */
#ifndef AMP_CORE_LOCK_H
#define AMP_CORE_LOCK_H

#include <pthread.h>

/* In the order in which one thread may take several. */
typedef enum amp_lock_name {
    AMP_LOCK_GRAPHS, /* the nets of graphs */
    AMP_LOCK_USER_FUNCTIONS,
    AMP_LOCK_USER_OPS,
    AMP_LOCK_RULES,       /* the list of amp_autocast_rules */
    AMP_LOCK_SAFETENSORS, /* the tensors that files have given out */
    AMP_LOCK_EXPLAIN,
    AMP_LOCK_KERNELS,     /* recursive: a self-test may select kernels of other families */
    AMP_LOCK_DNNL_MAKING, /* held while oneDNN makes a primitive: it has locks of its own */
    AMP_LOCK_DNNL,
    AMP_LOCK_FFT,
    AMP_LOCK_ISA,
    AMP_LOCK_GENERATORS,
    AMP_LOCK_CASTS,
    AMP_LOCK_BLAS,     /* packed operands of libamp_blas.so's calls */
    AMP_LOCK_ELEMENTS, /* where the bytes of storages over files lie */
    AMP_LOCK_HEADERS,
    AMP_LOCK_MEMORY,
    AMP_LOCK_ERROR_HOOK, /* innermost: an error may be found under any other */
    AMP_LOCK_COUNT
} amp_lock_name;

extern pthread_mutex_t amp_locks[AMP_LOCK_COUNT];

static inline void amp_lock(amp_lock_name name) {
    pthread_mutex_lock(&amp_locks[name]);
}

static inline void amp_unlock(amp_lock_name name) {
    pthread_mutex_unlock(&amp_locks[name]);
}

#endif /* AMP_CORE_LOCK_H */
