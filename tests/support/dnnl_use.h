// Who computes what oneDNN and our kernels both can, while this lives.
#ifndef AMP_TESTS_DNNL_USE_H
#define AMP_TESTS_DNNL_USE_H

#include "cpu/dnnl/dnnl_engine.h"

namespace amp_test {

class DnnlUse {
  public:
    explicit DnnlUse(amp_dnnl_use use) {
        amp_dnnl_use_for_test(use);
    }
    ~DnnlUse() {
        amp_dnnl_use_for_test(AMP_DNNL_BY_RULE);
    }
    DnnlUse(const DnnlUse &) = delete;
    DnnlUse &operator=(const DnnlUse &) = delete;
};

} // namespace amp_test

#endif // AMP_TESTS_DNNL_USE_H
