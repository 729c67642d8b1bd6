/* scaled_dot_product_attention in terms of heads, between its checks and its kernels. */
#ifndef AMP_CPU_ATTENTION_PROBLEM_H
#define AMP_CPU_ATTENTION_PROBLEM_H

#include "cpu/attention/attention.h"
#include "steps/attention_heads.h"

/* Head number `index`, its query rows from `row` on. */
amp_attention_head amp_attention_head_at(const amp_attention *t, int64_t index, int64_t row, int64_t rows);

/* So few rows that packing the keys would cost more than it saves; `packs_bf16`: the kernel that would is for bf16. */
bool amp_attention_is_short(const amp_attention *t, bool packs_bf16);

/* Runs such a one: the keys in parts of a fixed length, which threads share; the parts' results are put together in
 * order. q, k and v are f32 or bf16, out is theirs. */
amp_status amp_attention_run_parts(amp_call *call, const amp_attention *t);

#endif /* AMP_CPU_ATTENTION_PROBLEM_H */
