/* Small requests are cut from chunks, large ones are blocks of their own. */
#include "onnx/read/arena.h"

#include <string.h>

#include "core/memory.h"

enum { CHUNK = 1 << 16, LARGE = 1 << 13, ALIGNMENT = 16 };

typedef struct amp_onnx_block {
    struct amp_onnx_block *next;
    size_t bytes;
    _Alignas(ALIGNMENT) char memory[];
} block;

static block *new_block(amp_onnx_arena *arena, block **list, size_t bytes) {
    arena->over |= bytes > arena->most || arena->taken > arena->most - bytes;
    block *b = arena->over ? NULL : amp_alloc(sizeof *b + bytes);
    arena->failed |= !b;
    if (!b) return NULL;
    arena->taken += bytes;
    *b = (block){.next = *list, .bytes = bytes};
    return *list = b;
}

void *amp_onnx_take(amp_onnx_arena *arena, size_t bytes) {
    if (bytes >= LARGE) {
        block *b = new_block(arena, &arena->blocks, bytes);
        return b ? b->memory : NULL;
    }
    bytes = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    if (bytes > arena->left) {
        if (!new_block(arena, &arena->chunks, CHUNK)) return NULL;
        arena->left = CHUNK;
    }
    arena->left -= bytes;
    return arena->chunks->memory + arena->left;
}

void *amp_onnx_take_zeroed(amp_onnx_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    void *memory = amp_onnx_take(arena, bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

/* Few are asked for: lists of scanned members, which protobuf-c drops soon, and the numbers of tensors. Once something
 * was refused all of it will go. */
void amp_onnx_give_back(amp_onnx_arena *arena, void *memory) {
    if (!memory || arena->failed) return;
    for (block **at = &arena->blocks; *at; at = &(*at)->next) {
        block *b = *at;
        if (b->memory != memory) continue;
        *at = b->next;
        arena->taken -= b->bytes;
        amp_free(b);
        return;
    }
}

static void free_list(block *b) {
    for (block *next = NULL; b; b = next) {
        next = b->next;
        amp_free(b);
    }
}

void amp_onnx_arena_end(amp_onnx_arena *arena) {
    free_list(arena->chunks);
    free_list(arena->blocks);
    *arena = (amp_onnx_arena){0};
}
