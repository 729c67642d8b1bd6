/* What test_error.cc has done in C. */
#ifndef AMP_TESTS_ERROR_MISSING_H
#define AMP_TESTS_ERROR_MISSING_H

#include "amp/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

amp_tensor *topk_without_k(amp_tensor *x);
amp_tensor *narrow_without_start(amp_tensor *x);
amp_tensor *quantile_without_q(amp_tensor *x);
amp_tensor *softmax_by_name(amp_tensor *x);

#ifdef __cplusplus
}
#endif

#endif /* AMP_TESTS_ERROR_MISSING_H */
