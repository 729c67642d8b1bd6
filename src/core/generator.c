/* Generators: a seed and a place, behind one lock for all of them, which is held for a few instructions. */
#include "core/generator.h"

#include "core/fail.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/struct_size.h"

struct amp_generator {
    amp_device device;
    amp_random_place next; /* under AMP_LOCK_GENERATORS */
};

static amp_generator defaults[AMP_DEVICE_COUNT] = {
    [AMP_DEVICE_CPU] = {AMP_DEVICE_CPU, {AMP_DEFAULT_SEED, 0}},
    [AMP_DEVICE_CUDA] = {AMP_DEVICE_CUDA, {AMP_DEFAULT_SEED, 0}},
};

static bool is_default(const amp_generator *generator) {
    return generator >= defaults && generator < defaults + AMP_DEVICE_COUNT;
}

static void move_to(amp_generator *generator, amp_random_place place) {
    amp_lock(AMP_LOCK_GENERATORS);
    generator->next = place;
    amp_unlock(AMP_LOCK_GENERATORS);
}

static amp_status check_device(const char *what, amp_device device) {
    if ((unsigned)device < AMP_DEVICE_COUNT) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "%s: 'device' is %d; expected AMP_DEVICE_CPU or AMP_DEVICE_CUDA", what,
                    (int)device);
}

static amp_status check_given(const char *what, const char *argument, const void *given) {
    if (given) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the argument '%s' is NULL", what, argument);
}

void amp_manual_seed(uint64_t seed) {
    for (int i = 0; i < AMP_DEVICE_COUNT; i++) move_to(&defaults[i], (amp_random_place){.seed = seed});
}

amp_generator *amp_generator_create(amp_device device) {
    if (amp_failed() || check_device("generator_create", device) != AMP_OK) return NULL;
    amp_generator *generator = amp_alloc(sizeof *generator);
    if (!generator) amp_fail(AMP_ERROR_MEMORY, "generator_create: out of memory");
    if (generator) *generator = (amp_generator){.device = device, .next = {AMP_DEFAULT_SEED, 0}};
    return generator;
}

void amp_generator_destroy(amp_generator *generator) {
    if (!is_default(generator)) amp_free(generator);
}

amp_generator *amp_generator_default(amp_device device) {
    if (amp_failed() || check_device("generator_default", device) != AMP_OK) return NULL;
    return &defaults[device];
}

amp_status amp_generator_manual_seed(amp_generator *generator, uint64_t seed) {
    AMP_TRY(amp_pending_error());
    AMP_TRY(check_given("generator_manual_seed", "generator", generator));
    move_to(generator, (amp_random_place){.seed = seed});
    return AMP_OK;
}

/* The three fields that there were from the first on; a longer struct is of a later libamp. */
static amp_status check_state(const char *what, const amp_generator *generator, const amp_generator_state *state) {
    amp_generator_state known;
    AMP_TRY(amp_pending_error());
    AMP_TRY(check_given(what, "generator", generator));
    return amp_struct_read(what, "amp_generator_state", &known, sizeof known, sizeof known, state);
}

amp_status amp_generator_get_state(amp_generator *generator, amp_generator_state *state) {
    AMP_TRY(check_state("generator_get_state", generator, state));
    amp_lock(AMP_LOCK_GENERATORS);
    state->seed = generator->next.seed;
    state->offset = generator->next.offset;
    amp_unlock(AMP_LOCK_GENERATORS);
    return AMP_OK;
}

amp_status amp_generator_set_state(amp_generator *generator, const amp_generator_state *state) {
    AMP_TRY(check_state("generator_set_state", generator, state));
    move_to(generator, (amp_random_place){state->seed, state->offset});
    return AMP_OK;
}

amp_status amp_generator_take(amp_generator *generator, amp_device device, const char *op, uint64_t groups,
                              amp_random_place *place) {
    amp_generator *from = generator ? generator : &defaults[device];
    if (from->device != device) {
        return amp_fail(AMP_ERROR_DEVICE, "%s: 'generator' is for %s, the op runs on %s; both must be the same", op,
                        amp_device_name(from->device), amp_device_name(device));
    }
    amp_lock(AMP_LOCK_GENERATORS);
    *place = from->next;
    from->next.offset += groups;
    amp_unlock(AMP_LOCK_GENERATORS);
    return AMP_OK;
}
