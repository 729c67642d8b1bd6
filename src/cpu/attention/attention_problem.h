/* scaled_dot_product_attention in terms of heads, between its checks and its kernels. */
#ifndef AMP_CPU_ATTENTION_PROBLEM_H
#define AMP_CPU_ATTENTION_PROBLEM_H

#include "cpu/registry/attention.h"
#include "steps/attention_heads.h"

/* Head number `index`, its query rows from `row` on. */
amp_attention_head amp_attention_head_at(const amp_attention *t, int64_t index, int64_t row, int64_t rows);

/* Where the matrix of head `index` begins in x; `group` heads in a row share one. */
const char *amp_attention_matrix(const amp_attention *t, const amp_tensor *x, int64_t index, int64_t group);

/* A mask to add, dense and of the user's own extents: 0 and −inf for a bool one; NULL of none. */
amp_status amp_attention_mask(const amp_call *call, const amp_tensor *mask, amp_dtype dtype, amp_tensor **prepared);
/* Elements of a row must be dense: the input as it is, or a copy in the dtype. */
amp_status amp_attention_input(const amp_call *call, amp_tensor *input, amp_dtype dtype, amp_tensor **prepared);

/* So few rows that packing the keys would cost more than it saves; `packs_bf16`: the kernel that would is for bf16. */
bool amp_attention_is_short(const amp_attention *t, bool packs_bf16);

/* Runs such a one: the keys in parts of a fixed length, which threads share; the parts' results are put together in
 * order. q, k and v are f32 or bf16, out is theirs. */
amp_status amp_attention_run_parts(amp_call *call, const amp_attention *t);

#endif /* AMP_CPU_ATTENTION_PROBLEM_H */
