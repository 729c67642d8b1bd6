/* Scopes: everything made inside one is released at its end, but what amp_keep took out. */
#ifndef AMP_SCOPE_H
#define AMP_SCOPE_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens and closes a scope on this thread. Every enter needs an exit, also after an error; an exit too many is an
 * error. From C and C++ use the block instead. */
AMP_API amp_status amp_scope_enter(void);
AMP_API amp_status amp_scope_exit(void);

/* How a block macro remembers to close its region; not for direct use. */
typedef struct amp_region {
    int once;
    amp_device device;
} amp_region;

AMP_API amp_region amp_scope_open(void);
AMP_API void amp_scope_close(amp_region *region);

#define AMP_REGION_JOIN_(a, b) a##b
#define AMP_REGION_NAME_(line) AMP_REGION_JOIN_(amp_region_, line)
#define AMP_REGION_BLOCK_(open, close)                                                                                 \
    for (amp_region AMP_REGION_NAME_(__LINE__) __attribute__((cleanup(close))) = (open);                               \
         AMP_REGION_NAME_(__LINE__).once; AMP_REGION_NAME_(__LINE__).once = 0)

/* amp_scope { … }: a block whose tensors are released at its end. It is a `for` loop: `return`, `goto` and `break`
 * out of it close it; `break` and `continue` inside leave only the block, not a loop around it. */
#define amp_scope AMP_REGION_BLOCK_(amp_scope_open(), amp_scope_close)

#ifdef __cplusplus
}
#endif

#endif /* AMP_SCOPE_H */
