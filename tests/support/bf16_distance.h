// How many bf16 numbers lie between a result and the rounded f64 one.
#ifndef AMP_TESTS_BF16_DISTANCE_H
#define AMP_TESTS_BF16_DISTANCE_H

#include "amp_test.h"

namespace amp_test {

inline int place_among_bf16(double x) {
    const uint16_t bits = to_bf16(float(x));
    return bits & 0x8000 ? -int(bits & 0x7fff) : int(bits);
}

// At most one, for every element; or an error that is no larger than `absolute`.
inline void expect_within_one_bf16(const amp_tensor *got, const std::vector<double> &want, const std::string &what,
                                   double absolute = 0) {
    ASSERT_NE(got, nullptr) << what << ": " << amp_last_error();
    ASSERT_EQ(amp_tensor_dtype(got), AMP_BF16) << what;
    const std::vector<double> g = numbers_of(got);
    ASSERT_EQ(g.size(), want.size()) << what;
    for (size_t i = 0; i < g.size(); i++) {
        ASSERT_FALSE(std::isnan(g[i])) << what << ", element " << i;
        if (std::fabs(g[i] - want[i]) <= absolute) continue;
        const int apart = place_among_bf16(g[i]) - place_among_bf16(want[i]);
        ASSERT_TRUE(apart >= -1 && apart <= 1)
            << what << ", element " << i << ": " << g[i] << " for " << want[i] << ", " << apart << " ulp";
    }
}

} // namespace amp_test

#endif // AMP_TESTS_BF16_DISTANCE_H
