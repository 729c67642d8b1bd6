/* Work on the elements of many tensors by one parallel region, as if they were one. */
#ifndef AMP_CPU_LISTS_H
#define AMP_CPU_LISTS_H

#include "core/tensor_impl.h"
#include "cpu/elementwise/elementwise.h"

/* Elements [begin, end) of tensor number `index`, counted as they lie in memory. */
typedef void amp_list_piece(void *context, int64_t index, int64_t begin, int64_t end);

typedef struct amp_list_walk {
    amp_tensor_list tensors;
    int64_t
        unit; /* a piece begins at a multiple of so many elements of its tensor, and ends at one, or with the tensor */
    int64_t cost;  /* simple operations for one element; decides how many threads the work is worth */
    bool in_order; /* the tensors one after the other */
    amp_list_piece *piece;
    void *context;
} amp_list_walk;

/* Every element is in one piece. Which pieces there are depends on the number of threads. */
void amp_list_walk_run(const amp_list_walk *walk);

/* Two tensors of the lists may share memory, so that what is written must be written in order: one thread. A list may
 * be empty. */
bool amp_lists_share_memory(const amp_tensor_list *lists, int count);

/* What is done to each element in place, in f32, and in f64 to f64. */
typedef struct amp_list_function {
    amp_dense_function *f32, *f64;
    void *context;
    int64_t cost;
} amp_list_function;

/* Does it to tensors of floating dtypes and any strides. */
void amp_list_apply(const amp_tensor_list *list, const amp_list_function *function);

#endif /* AMP_CPU_LISTS_H */
