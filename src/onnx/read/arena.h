/* Memory that goes as a whole: what a model consists of, and what protobuf-c makes of its file. */
#ifndef AMP_ONNX_ARENA_H
#define AMP_ONNX_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct amp_onnx_arena {
    struct amp_onnx_block *chunks; /* the first is the one that small requests are cut from */
    struct amp_onnx_block *blocks; /* large requests, the last first */
    size_t left;                   /* of the first chunk */
    size_t taken, most;            /* bytes, and how many there may be */
    bool over, failed;             /* a request was refused: there would be too many; there was no memory */
} amp_onnx_arena;

/* Memory aligned to 16 bytes; NULL, without an error, where there is none or `most` is reached. */
void *amp_onnx_take(amp_onnx_arena *arena, size_t bytes);
/* `count` elements, zeroed. */
void *amp_onnx_take_zeroed(amp_onnx_arena *arena, size_t count, size_t size);
/* Frees what was large, and forgets the rest until the end. */
void amp_onnx_give_back(amp_onnx_arena *arena, void *memory);
void amp_onnx_arena_end(amp_onnx_arena *arena);

#endif /* AMP_ONNX_ARENA_H */
