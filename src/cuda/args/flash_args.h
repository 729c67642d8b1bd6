/* What the launch of a flash_* kernel needs to know of it: its blocks, and their shared memory. */
#ifndef AMP_CUDA_FLASH_ARGS_H
#define AMP_CUDA_FLASH_ARGS_H

enum {
    AMP_CUDA_FLASH_THREADS = 128,
    AMP_CUDA_FLASH_ROWS = 128, /* query rows of a block */
    AMP_CUDA_FLASH_KEYS = 64   /* of a tile */
};
/* The query rows, and for each stage a tile of keys and one of values, of 16-bit elements. */
#define AMP_CUDA_FLASH_BYTES(depth, stages) ((AMP_CUDA_FLASH_ROWS + (stages)*2 * AMP_CUDA_FLASH_KEYS) * (depth)*2)

#endif /* AMP_CUDA_FLASH_ARGS_H */
