#define AMP_EXCEPTIONS
#include "cxx_exceptions.h"

#include "amp/amp.hpp"

std::string what_mm_throws(amp_tensor *x, amp_status *status) {
    try {
        const amp::autocast region(AMP_DEVICE_CPU);
        const amp::tensor mine = amp::tensor::share(x), sum = amp::add(mine, mine);
        (void)amp::mm(sum, mine);
    } catch (const amp::error &thrown) {
        *status = thrown.status();
        return thrown.what();
    }
    return "";
}
