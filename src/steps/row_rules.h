/* What the arguments of ops on rows, channels and tables may be, with their error messages: the same on every
 * device. */
#ifndef AMP_OPS_ROW_RULES_H
#define AMP_OPS_ROW_RULES_H

#include "amp/ops.h"
#include "call/call.h"

amp_status amp_check_floating(const amp_call *call, const amp_tensor *input);
/* Floating or complex: what has logarithms. */
amp_status amp_check_logarithms(const amp_call *call, const amp_tensor *input);

/* softmax and its kin: the dimension, and the dtype of the result. */
amp_status amp_read_softmax(const amp_call *call, const amp_tensor *input, int64_t dim, amp_dtype given, int *wrapped,
                            amp_dtype *dtype);

/* sum, prod, and what they come to up to each element: the dtype of the result, i64 of integers where none is given. */
amp_dtype amp_total_dtype(const amp_call *call, const amp_tensor *input, amp_dtype given);

/* Extremes along the dimensions of `mask`: there is an order, and an element for each result. */
amp_status amp_check_extreme(const amp_call *call, const amp_tensor *input, unsigned mask);

/* glu's dimension, which has an even extent. */
amp_status amp_read_glu(const amp_call *call, const amp_glu_args *args, int *wrapped);

/* prelu's weight as a tensor that broadcasts along dimension 1 of its input. */
amp_status amp_read_slopes(const amp_call *call, const amp_prelu_args *args, amp_tensor *slopes);

/* A floating input (N, C, …); a number for each channel, of its dtype, or in f32 beside a 16-bit one (NULL: absent);
 * groups of channels. */
amp_status amp_check_channel_input(const amp_call *call, const amp_tensor *input);
amp_status amp_check_channel_numbers(const amp_call *call, const amp_tensor *input, const char *name,
                                     const amp_tensor *t);
/* Both running statistics, where `needed`: where the argument `option` is false. */
amp_status amp_check_running(const amp_call *call, const amp_tensor *input, const amp_tensor *mean,
                             const amp_tensor *variance, const char *option, bool needed);
amp_status amp_check_groups(const amp_call *call, const amp_tensor *input, int64_t groups);

/* embedding: the dtypes and ranks of indices and table. What the indices are, whoever reads them finds. */
amp_status amp_check_table(const amp_call *call, const amp_tensor *index, const amp_tensor *table);
amp_status amp_check_embedding(const amp_call *call, const amp_embedding_args *args);
amp_status amp_check_embedding_backward(const amp_call *call, const amp_embedding_dense_backward_args *args);

#endif /* AMP_OPS_ROW_RULES_H */
