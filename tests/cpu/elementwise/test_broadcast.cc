// The shape that two shapes broadcast to.
#include "internals.h"

#include <gtest/gtest.h>

extern "C" {
#include "core/layout.h"
}

TEST(Broadcast, ResultMayReplaceTheShorterShape) {
    int64_t shape[AMP_MAX_RANK] = {3};
    const int64_t other[2] = {2, 3};
    int rank = 1;
    ASSERT_TRUE(amp_broadcast_shapes(1, shape, 2, other, &rank, shape));
    EXPECT_EQ(rank, 2);
    EXPECT_EQ(shape[0], 2);
    EXPECT_EQ(shape[1], 3);
}

TEST(Broadcast, EmptyDoesNotFitTwo) {
    int64_t shape[AMP_MAX_RANK] = {0};
    const int64_t other[2] = {1, 2};
    int rank = 1;
    EXPECT_FALSE(amp_broadcast_shapes(1, shape, 2, other, &rank, shape));
}
