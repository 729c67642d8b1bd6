/* Required numbers that the preprocessor cannot count, as C has them: another argument stands in their place. */
#include "error_missing.h"

#include "amp/amp.h"

amp_tensor *topk_without_k(amp_tensor *x) {
    return amp_topk(x, .largest = AMP_SET(false));
}

amp_tensor *narrow_without_start(amp_tensor *x) {
    return amp_narrow(x, .dim = 0, .length = 1, .length = 1);
}

amp_tensor *quantile_without_q(amp_tensor *x) {
    return amp_quantile_scalar(x, .keepdim = true);
}

amp_tensor *softmax_by_name(amp_tensor *x) {
    return amp_softmax(x, .dim = 0);
}
