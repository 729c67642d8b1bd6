/* The library's locks, and what a fork does with them. */
#define _GNU_SOURCE /* PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP */
#include "core/lock.h"

#define OPEN PTHREAD_MUTEX_INITIALIZER
#define LOCKS                                                                                                          \
    {                                                                                                                  \
        [AMP_LOCK_USER_FUNCTIONS] = OPEN, [AMP_LOCK_USER_OPS] = OPEN, [AMP_LOCK_SAFETENSORS] = OPEN,                   \
        [AMP_LOCK_EXPLAIN] = OPEN, [AMP_LOCK_KERNELS] = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,                        \
        [AMP_LOCK_DNNL_MAKING] = OPEN, [AMP_LOCK_DNNL] = OPEN, [AMP_LOCK_FFT] = OPEN, [AMP_LOCK_ISA] = OPEN,           \
        [AMP_LOCK_GENERATORS] = OPEN, [AMP_LOCK_CASTS] = OPEN, [AMP_LOCK_BLAS] = OPEN, [AMP_LOCK_ELEMENTS] = OPEN,     \
        [AMP_LOCK_HEADERS] = OPEN, [AMP_LOCK_MEMORY] = OPEN, [AMP_LOCK_ERROR_HOOK] = OPEN,                             \
    }

static const pthread_mutex_t open_locks[AMP_LOCK_COUNT] = LOCKS;
pthread_mutex_t amp_locks[AMP_LOCK_COUNT] = LOCKS;

static void take_all(void) {
    for (int i = 0; i < AMP_LOCK_COUNT; i++) amp_lock((amp_lock_name)i);
}

static void give_back_all(void) {
    for (int i = AMP_LOCK_COUNT - 1; i >= 0; i--) amp_unlock((amp_lock_name)i);
}

/* New ones in the child: a recursive one belongs to the parent's thread number. */
static void renew_all(void) {
    for (int i = 0; i < AMP_LOCK_COUNT; i++) amp_locks[i] = open_locks[i];
}

__attribute__((constructor)) static void watch_forks(void) {
    (void)pthread_atfork(take_all, give_back_all, renew_all);
}
