/* Large blocks: cut from what was freed before, joined with their neighbours when they are freed, and bounded. */
#ifndef AMP_CORE_LARGE_BLOCKS_H
#define AMP_CORE_LARGE_BLOCKS_H

#include "core/block.h"

/* A block of a class from AMP_BLOCK_SMALL_CLASSES on: of what is kept, or else NULL. */
amp_block *amp_large_take(unsigned size_class);
/* One from the system; what is kept goes back to it as far as the bound asks for that. NULL where it has none. */
amp_block *amp_large_make(unsigned size_class);
/* The block is free. Kept blocks of an earlier hook go back to it as soon as all of what came at once is free. */
void amp_large_keep(amp_block *block);
/* Gives back what is wholly free; returns the bytes. */
size_t amp_large_trim(void);
/* The hook changes, under AMP_LOCK_MEMORY: what is free in parts only is not handed out again. */
void amp_large_forget(void);

#endif /* AMP_CORE_LARGE_BLOCKS_H */
