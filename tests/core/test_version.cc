// The version stands in amp/version.h alone; the library reports what it was built with.
#include "amp/version.h"

#include <gtest/gtest.h>

TEST(Version, LibraryMatchesItsHeaders) {
    EXPECT_EQ(amp_version(), AMP_VERSION);
}

TEST(Version, NumberAndTextAgree) {
    const int v = amp_version();
    const std::string text =
        std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
    EXPECT_EQ(text, amp_version_string());
}
