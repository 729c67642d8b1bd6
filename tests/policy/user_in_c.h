/* The C part of test_user.cc. */
#ifndef AMP_TESTS_USER_IN_C_H
#define AMP_TESTS_USER_IN_C_H

#include "amp/amp.h"

#ifdef __cplusplus
extern "C" {
#endif

amp_tensor *half_product(amp_tensor *x, amp_tensor *y);
amp_tensor *float_product(amp_tensor *x, amp_tensor *y);
amp_tensor *promoted_second(amp_tensor *x, amp_tensor *y);

/* NAME(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor */
typedef struct twice_args {
    size_t struct_size;
    amp_tensor *input;
    amp_opt_float factor;
    bool by_ops;
} twice_args;
const amp_op *define_twice(const char *schema, const char *policy);

#ifdef __cplusplus
}
#endif

#endif /* AMP_TESTS_USER_IN_C_H */
