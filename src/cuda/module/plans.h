/* Plans that libraries make for requests (descriptors, algorithms, handles), kept for the next request of the same
 * shape: a bounded number for each device, by the bytes of their keys. A library's are looked at under its lock. */
#ifndef AMP_CUDA_PLANS_H
#define AMP_CUDA_PLANS_H

#include "cuda/module/driver.h"

/* What every plan begins with. */
typedef struct amp_cuda_plan {
    bool made, refused; /* refused: the library knows no way; it is not asked again */
    uint64_t last_use;
} amp_cuda_plan;

typedef struct amp_cuda_plans {
    int places; /* on each device */
    size_t plan_size, key_at, key_size;
    amp_cuda_result (*make)(void *plan, const void *request); /* in cleared memory that has the key */
    void (*clear)(void *plan);                                /* ends what it holds, which may be a part */
    const char *refusal;                                      /* the clause for AMP_CUDA_REFUSED */
    uint64_t uses;
    char *of_device[AMP_CUDA_MAX_DEVICES];
} amp_cuda_plans;

/* `type` begins with an amp_cuda_plan, and has a member `key`, all bytes of which count. */
#define AMP_CUDA_PLANS(type, number, make_plan, clear_plan, clause)                                                    \
    {                                                                                                                  \
        .places = (number), .plan_size = sizeof(type), .key_at = offsetof(type, key),                                  \
        .key_size = sizeof(((type *)0)->key), .make = (make_plan), .clear = (clear_plan), .refusal = (clause)          \
    }

/* The plan of this key on the selected device, made if there is none; NULL where *result is an error. */
void *amp_cuda_plan_for(amp_cuda_plans *plans, const void *key, const void *request, amp_cuda_result *result);
/* A plan that came to nothing: if it was refused, that is kept. Returns `result`. */
amp_cuda_result amp_cuda_plan_failed(amp_cuda_plans *plans, void *plan, amp_cuda_result result);

#endif /* AMP_CUDA_PLANS_H */
