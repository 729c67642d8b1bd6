/* A weight of a recurrent layer, which all steps multiply their rows by. */
#ifndef AMP_CPU_RNN_WEIGHT_H
#define AMP_CPU_RNN_WEIGHT_H

#include "cpu/product/matmul.h"

/* The product of rows by W [k, n], or by Wᵀ of a W [n, k]; rows and result are the caller's to set. */
amp_matmul amp_rnn_product(const amp_tensor *weight, bool transposed, const amp_packed_b *packed);
/* The weight's packed form for that product, for amp_cpu_matmul_unpack; none of NULL. */
amp_status amp_rnn_pack(amp_call *call, amp_tensor *weight, bool transposed, amp_packed_b *packed);

#endif /* AMP_CPU_RNN_WEIGHT_H */
