/* The table of plans: open addressing over a few places, of which the one that was not used for longest is given up. */
#include "cuda/module/plans.h"

#include <stdlib.h>
#include <string.h>

enum { PROBES = 8 };

static bool is_for(const amp_cuda_plans *plans, const amp_cuda_plan *plan, const void *key) {
    return plan->made && memcmp((const char *)plan + plans->key_at, key, plans->key_size) == 0;
}

/* By words: keys have some hundred bytes, and are looked for at every call. */
static uint64_t hash_of(const void *key, size_t size) {
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < size; i += sizeof hash) {
        uint64_t word = 0;
        memcpy(&word, (const char *)key + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32; /* a product carries nothing downwards, and the place is its low bits */
    }
    return hash;
}

/* The key's plan, or the place for it. */
static amp_cuda_plan *place_of(const amp_cuda_plans *plans, char *memory, const void *key) {
    const uint64_t hash = hash_of(key, plans->key_size);
    amp_cuda_plan *oldest = NULL;
    for (uint64_t i = 0; i < PROBES; i++) {
        amp_cuda_plan *at = (void *)(memory + (hash + i) % (uint64_t)plans->places * plans->plan_size);
        if (is_for(plans, at, key)) return at;
        if (!oldest || at->last_use < oldest->last_use) oldest = at; /* free ones were never used */
    }
    return oldest;
}

static void clear(const amp_cuda_plans *plans, amp_cuda_plan *plan) {
    if (plan->made && !plan->refused) plans->clear(plan);
    memset(plan, 0, plans->plan_size);
}

amp_cuda_result amp_cuda_plan_failed(amp_cuda_plans *plans, void *failed, amp_cuda_result result) {
    amp_cuda_plan *plan = failed;
    if (!plan->refused) plans->clear(plan);
    plan->refused = true; /* it holds nothing any more */
    if (result == AMP_CUDA_REFUSED) return amp_cuda_say(result, "%s", plans->refusal);
    clear(plans, plan);
    return result;
}

static amp_cuda_result make(amp_cuda_plans *plans, amp_cuda_plan *plan, const void *key, const void *request) {
    clear(plans, plan);
    memcpy((char *)plan + plans->key_at, key, plans->key_size);
    plan->made = true;
    const amp_cuda_result result = plans->make(plan, request);
    return result == AMP_CUDA_OK ? result : amp_cuda_plan_failed(plans, plan, result);
}

void *amp_cuda_plan_for(amp_cuda_plans *plans, const void *key, const void *request, amp_cuda_result *result) {
    char **memory = &plans->of_device[amp_cuda_selected()];
    if (!*memory) *memory = calloc((size_t)plans->places, plans->plan_size);
    if (!*memory) {
        *result = amp_cuda_say(AMP_CUDA_NO_MEMORY, "the host has no memory for plans of a library's");
        return NULL;
    }
    amp_cuda_plan *plan = place_of(plans, *memory, key);
    if (!is_for(plans, plan, key)) {
        *result = make(plans, plan, key, request);
    } else {
        *result = plan->refused ? amp_cuda_say(AMP_CUDA_REFUSED, "%s", plans->refusal) : AMP_CUDA_OK;
    }
    if (plan->made) plan->last_use = ++plans->uses;
    return *result == AMP_CUDA_OK ? plan : NULL;
}
