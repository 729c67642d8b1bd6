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

/* What a block macro has to close; not for direct use, nor are the two functions: amp_scope_enter and amp_scope_exit,
 * whose errors stand as amp/error.h says. */
typedef struct amp_region {
    amp_device device;
    int reserved[3];
} amp_region;

AMP_API amp_region amp_scope_open(void);
AMP_API void amp_scope_close(amp_region *region);

#define AMP_REGION_JOIN_(a, b) a##b
#define AMP_REGION_NAME_(number) AMP_REGION_JOIN_(amp_region_, number)
#define AMP_REGION_DECLARE_(name, open, close) amp_region name __attribute__((cleanup(close), unused)) = (open)
#define AMP_REGION_DECLARE_STEP_(name, open, close) AMP_REGION_DECLARE_(name, open, close)
#define AMP_REGION_HERE_(open, close) AMP_REGION_DECLARE_STEP_(AMP_REGION_NAME_(__COUNTER__), open, close)
#define AMP_REGION_NAMED_(name, open, close)                                                                           \
    for (amp_region name __attribute__((cleanup(close))) = (open), *name##_left = &name; name##_left;                  \
         name##_left = NULL)
#define AMP_REGION_STEP_(name, open, close) AMP_REGION_NAMED_(name, open, close)
/* Through a pointer, so that compilers see the block run: what it sets is not "maybe uninitialized" after it. */
#define AMP_REGION_BLOCK_(open, close) AMP_REGION_STEP_(AMP_REGION_NAME_(__COUNTER__), open, close)

/* amp_scope_here(); is a declaration: a scope from here to the end of the block that it stands in.
 *
 *     for (int i = 0; i < most; i++) {
 *         amp_scope_here(); // what a round makes goes at its end
 *         token = next_token(model, token);
 *         if (token == EOS) break; // leaves the loop, and the scope
 *     }
 *
 * The end of the block, `break`, `continue`, `return`, a `goto` out of it and, in C++, an exception close the scope.
 * What `return` gives back is computed before: `return amp_keep(y);`, `return amp_item(loss);`. Several in a block
 * close in reverse order, scopes and regions alike. Two jumps are the program's mistake, as they are for every variable
 * that is cleaned up: longjmp past an open scope leaves it open (close it where the jump arrives: amp_scope_exit once
 * for each, amp_autocast_exit for each region), and a `goto` or `case` into the block behind the declaration closes a
 * scope that nobody opened. */
#define amp_scope_here() AMP_REGION_HERE_(amp_scope_open(), amp_scope_close)

/* amp_scope { … }: a block of its own. It is a `for` loop of one round: `return`, `goto` and `break` out of it close
 * it, but `break` and `continue` inside leave only the block, not a loop around it. In a loop that ends by `break`
 * write amp_scope_here(). */
#define amp_scope AMP_REGION_BLOCK_(amp_scope_open(), amp_scope_close)

#ifdef __cplusplus
}
#endif

#endif /* AMP_SCOPE_H */
