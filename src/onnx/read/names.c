/* Open addressing, at most three quarters full. */
#include "onnx/read/names.h"

#include <string.h>
#include <xxhash.h>

#include "core/memory.h"

typedef struct amp_onnx_slot {
    const char *name; /* NULL: empty */
    uint32_t hash;
    int number;
} slot;

/* Seeded by an address, which a file's author does not know. */
static uint32_t hash_of(const char *name) {
    static const char here;
    return (uint32_t)XXH3_64bits_withSeed(name, strlen(name), (uintptr_t)&here * 0x9e3779b97f4a7c15u);
}

static slot *place_of(slot *slots, size_t room, const char *name, uint32_t hash) {
    for (size_t i = hash & (room - 1);; i = (i + 1) & (room - 1)) {
        slot *s = &slots[i];
        if (!s->name || (s->hash == hash && strcmp(s->name, name) == 0)) return s;
    }
}

int amp_onnx_names_find(const amp_onnx_names *names, const char *name) {
    if (names->count == 0) return -1;
    const slot *s = place_of(names->slots, names->room, name, hash_of(name));
    return s->name ? s->number : -1;
}

static amp_status grow(amp_onnx_names *names) {
    const size_t room = names->room ? 2 * names->room : 16;
    slot *slots = amp_alloc_zeroed(room * sizeof *slots);
    if (!slots) return AMP_ERROR_MEMORY;
    for (size_t i = 0; i < names->room; i++) {
        const slot *s = &names->slots[i];
        if (s->name) *place_of(slots, room, s->name, s->hash) = *s;
    }
    amp_free(names->slots);
    names->slots = slots;
    names->room = room;
    return AMP_OK;
}

amp_status amp_onnx_names_add(amp_onnx_names *names, const char *name, int number) {
    if (4 * (names->count + 1) > 3 * names->room) AMP_TRY(grow(names));
    const uint32_t hash = hash_of(name);
    *place_of(names->slots, names->room, name, hash) = (slot){.name = name, .hash = hash, .number = number};
    names->count++;
    return AMP_OK;
}

void amp_onnx_names_end(amp_onnx_names *names) {
    amp_free(names->slots);
    *names = (amp_onnx_names){0};
}
