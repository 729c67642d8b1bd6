// Placing results in one block of memory: what is needed at the same time does not overlap, and the block is hardly
// larger than the most that is needed at once.
#include "graph/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace {

using Blocks = std::vector<amp_arena_block>;

size_t place(Blocks &blocks) {
    size_t bytes = 0;
    EXPECT_TRUE(amp_arena_place(blocks.data(), static_cast<int>(blocks.size()), &bytes));
    return bytes;
}

size_t room(const amp_arena_block &b) {
    return (b.bytes + AMP_ARENA_ALIGNMENT - 1) / AMP_ARENA_ALIGNMENT * AMP_ARENA_ALIGNMENT;
}

size_t most_alive(const Blocks &blocks) {
    size_t most = 0;
    for (const amp_arena_block &at : blocks) {
        size_t alive = 0;
        for (const amp_arena_block &b : blocks) alive += b.first <= at.first && at.first <= b.last ? room(b) : 0;
        most = std::max(most, alive);
    }
    return most;
}

void expect_apart(const Blocks &blocks, size_t bytes) {
    for (size_t i = 0; i < blocks.size(); i++) {
        EXPECT_EQ(blocks[i].offset % AMP_ARENA_ALIGNMENT, 0u);
        EXPECT_LE(blocks[i].offset + blocks[i].bytes, bytes);
        for (size_t k = 0; k < i; k++) {
            const amp_arena_block &a = blocks[i], &b = blocks[k];
            if (a.first > b.last || b.first > a.last) continue;
            EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " and " << k;
        }
    }
}

TEST(Arena, AChainNeedsTwoPlaces) {
    Blocks blocks;
    for (int k = 0; k < 100; k++) blocks.push_back({1000, k, k + 1, 0});
    EXPECT_EQ(place(blocks), 2048u);
    expect_apart(blocks, 2048);
}

TEST(Arena, NothingAndWhatIsEmpty) {
    Blocks none, empty = {{0, 0, 1, 0}, {0, 0, 1, 0}};
    EXPECT_EQ(place(none), 0u);
    EXPECT_EQ(place(empty), 0u);
}

TEST(Arena, WhatIsTooMuchIsRefused) {
    size_t bytes = 0;
    Blocks huge = {{SIZE_MAX / 8, 0, 1, 0}, {SIZE_MAX / 8, 0, 1, 0}, {SIZE_MAX / 8, 0, 1, 0}, {SIZE_MAX - 1, 0, 1, 0}};
    EXPECT_FALSE(amp_arena_place(huge.data(), 4, &bytes));
    Blocks many(AMP_ARENA_MOST_BLOCKS + 1);
    EXPECT_FALSE(amp_arena_place(many.data(), AMP_ARENA_MOST_BLOCKS + 1, &bytes));
}

TEST(Arena, NothingOverlaps) {
    for (unsigned seed = 0; seed < 200; seed++) {
        std::mt19937 random(seed);
        Blocks blocks;
        for (int k = 0; k < 60; k++) {
            const int length = random() % 10 == 0 ? 30 : static_cast<int>(random() % 4);
            blocks.push_back({random() % 5000, k, k + length, 0});
        }
        const size_t bytes = place(blocks);
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        expect_apart(blocks, bytes);
        EXPECT_GE(bytes, most_alive(blocks));
        EXPECT_LE(bytes, most_alive(blocks) * 3 / 2);
    }
}

} // namespace
