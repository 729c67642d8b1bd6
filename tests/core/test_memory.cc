// The allocator: a steady loop costs the system nothing, the hook sees everything, and any allocation may fail.
#include "amp_test.h"
#include "sanitizers.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>

#include "amp/dlpack.h"

extern "C" {
#include "core/memory.h"
}

using namespace amp_test;

namespace {

const bool caching = !under_asan; // which is to see every use after free

// A hook that counts, checks what comes back, and fails on request.
struct Hook {
    std::mutex lock;
    std::map<void *, size_t> out;
    long requests = 0;
    long fail_at = -1;       // this request, counted from 0; -1: none
    bool fail_after = false; // … and all that follow
    size_t failed_bytes = 0; // of the request that failed last: it fails once more, as memory is given back between
    size_t limit = SIZE_MAX; // bytes that may be out at once
    size_t bytes_out = 0;
    long failed = 0;

    static void *allocate(void *context, size_t bytes, size_t alignment) {
        Hook *hook = static_cast<Hook *>(context);
        const std::lock_guard<std::mutex> guard(hook->lock);
        const long request = hook->requests++;
        const bool again = hook->failed_bytes == bytes;
        const bool fails =
            hook->fail_at >= 0 && (hook->fail_after ? request >= hook->fail_at : request == hook->fail_at || again);
        hook->failed_bytes = fails && !again ? bytes : 0;
        if (fails || bytes > hook->limit - hook->bytes_out) {
            hook->failed++;
            return nullptr;
        }
        EXPECT_GE(alignment, 64u);
        EXPECT_EQ(alignment & (alignment - 1), 0u);
        void *block = nullptr;
        if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
        hook->out[block] = bytes;
        hook->bytes_out += bytes;
        return block;
    }

    static void release(void *context, void *block, size_t bytes) {
        Hook *hook = static_cast<Hook *>(context);
        const std::lock_guard<std::mutex> guard(hook->lock);
        const auto found = hook->out.find(block);
        EXPECT_NE(found, hook->out.end()) << "a block that this hook never gave";
        if (found == hook->out.end()) return;
        EXPECT_EQ(found->second, bytes);
        hook->bytes_out -= bytes;
        hook->out.erase(found);
        free(block);
    }

    amp_allocator allocator() {
        return {allocate, release, this};
    }
};

class Memory : public testing::Test {
  protected:
    void SetUp() override {
        amp_clear_error();
        live_before_ = amp_memory_statistics().live_tensors;
    }
    void TearDown() override {
        EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
        EXPECT_TRUE(no_error());
        EXPECT_EQ(amp_memory_statistics().live_tensors, live_before_);
    }

  private:
    size_t live_before_ = 0;
};

std::string scratch(const char *name) {
    const char *folder = getenv("TMPDIR");
    return std::string(folder && *folder ? folder : "/tmp") + "/amp_test_memory_" + std::to_string(getpid()) + name;
}

// What a model's step does, and every other part of the API that allocates. Goes on after a failure, as a program whose
// author checks for errors at the end only.
double many_calls(const std::string &npy, const std::string &safetensors) {
    double result = 0;
    amp_scope_enter();
    amp_tensor *x = random_tensor(AMP_F32, {4, 64}, 1), *w = random_tensor(AMP_F32, {48, 64}, 2);
    amp_tensor *b = random_tensor(AMP_F32, {48}, 3), *one = tensor(AMP_F32, {48});
    amp_tensor *f32 = op("linear", {x, w, b});
    amp_tensor *kept = nullptr;
    const amp_autocast_args args = region_args();
    amp_autocast_enter(&args);
    amp_scope_enter();
    amp_tensor *h = op("linear", {x, w, b});
    h = op("layer_norm", {op("add", {h, f32}), AMP_DIMS(48), one, b});
    h = op("softmax", {op("matmul", {h, op("t", {h})}), -1});
    h = op("cat", {std::vector<amp_tensor *>{h, f32}, 1});
    kept = amp_keep(op("sum", {h}));
    amp_scope_exit();
    const amp_autocast_state state = amp_autocast_capture();
    amp_autocast_restore(&state);
    std::vector<amp_tensor *> rows;
    call("unbind", {f32}, {}, &rows);
    op("stack", {rows});
    amp_autocast_restore_end();
    amp_autocast_exit(AMP_DEVICE_CPU);
    op("add_", {f32, 1.0});
    op("mul_out", {f32, f32}, {{"out", op("t", {tensor(AMP_F32, {48, 4})})}});
    op("add_", {op("narrow", {f32, 0, 0, 2}), op("narrow", {f32, 0, 1, 2})}); // overlaps: a temporary
    op("to", {op("expand", {one, AMP_DIMS(4, 48)}), AMP_F16});
    amp_save_npy(npy.c_str(), f32);
    amp_load_npy(npy.c_str());
    const char *names[2] = {"x", "w"};
    amp_tensor *both[2] = {x, w};
    amp_save_safetensors(safetensors.c_str(), names, both, 2, nullptr);
    amp_safetensors *file = amp_safetensors_open(safetensors.c_str());
    op("mm", {amp_safetensors_get(file, "x"), op("t", {amp_safetensors_get(file, "w")})});
    amp_safetensors_close(file);
    DLManagedTensorVersioned *managed = amp_to_dlpack(x);
    amp_tensor *imported = amp_from_dlpack(managed);
    if (managed && !imported) managed->deleter(managed);
    amp_explain_begin();
    op("add", {imported, x});
    amp_explain_free(amp_explain_report(AMP_EXPLAIN_JSON));
    amp_explain_free(amp_explain_report(AMP_EXPLAIN_TABLE));
    amp_explain_end();
    amp_explain_reset();
    if (kept) result = amp_item(kept);
    amp_release(kept);
    amp_scope_exit();
    amp_cast_cache_clear();
    return result;
}

} // namespace

TEST_F(Memory, ASteadyLoopAllocatesNothingFromTheSystem) {
    if (!caching) GTEST_SKIP() << "nothing is kept under AddressSanitizer";
    amp_tensor *x = random_tensor(AMP_F32, {32, 64}, 1), *w = random_tensor(AMP_F32, {64, 64}, 2);
    const auto step = [&] {
        Scope scope;
        Region region;
        amp_tensor *h = op("softmax", {op("linear", {op("add", {x, 1.0}), w}), -1});
        op("cat", {std::vector<amp_tensor *>{h, h}});
        op("layer_norm", {op("to", {h, AMP_F32}), AMP_DIMS(64)});
        EXPECT_TRUE(no_error());
    };
    for (int i = 0; i < 5; i++) step();
    const size_t before = amp_memory_statistics().system_allocations;
    for (int i = 0; i < 200; i++) step();
    EXPECT_EQ(amp_memory_statistics().system_allocations, before);
    amp_release(x);
    amp_release(w);
    amp_cast_cache_clear();
}

TEST_F(Memory, BlocksAreAlignedReusedAndCounted) {
    const amp_memory_stats before = amp_memory_statistics();
    std::vector<std::pair<char *, size_t>> blocks;
    for (size_t bytes :
         {size_t(0), size_t(1), size_t(63), size_t(64), size_t(65), size_t(1000), size_t(131072), size_t(5000000)}) {
        char *block = static_cast<char *>(amp_alloc(bytes));
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(uintptr_t(block) % 64, 0u) << bytes;
        std::memset(block, 0x5a, bytes); // AddressSanitizer watches
        blocks.emplace_back(block, bytes);
    }
    EXPECT_GE(amp_memory_statistics().live_bytes - before.live_bytes, size_t(5131193));
    for (const auto &block : blocks) amp_free(block.first);
    amp_free(nullptr);
    EXPECT_EQ(amp_memory_statistics().live_bytes, before.live_bytes);
    if (!caching) return;
    EXPECT_GT(amp_memory_statistics().cached_bytes, before.cached_bytes);
    const size_t system_before = amp_memory_statistics().system_allocations;
    for (const auto &block : blocks) amp_free(amp_alloc(block.second));
    EXPECT_EQ(amp_memory_statistics().system_allocations, system_before);
    amp_memory_trim();
    EXPECT_EQ(amp_memory_statistics().cached_bytes, 0u) << "no other thread keeps any";
}

TEST_F(Memory, EverySizeGetsItsBytes) {
    for (size_t bytes = 0; bytes < 70000; bytes += bytes < 1200 ? 1 : 997) {
        unsigned char *block = static_cast<unsigned char *>(amp_alloc_zeroed(bytes));
        ASSERT_NE(block, nullptr);
        for (size_t i = 0; i < bytes; i += 61) ASSERT_EQ(block[i], 0);
        std::memset(block, 0xff, bytes);
        amp_free(block);
    }
}

// 768 × 768 and 3072 × 768 of f32 are just above a power of two and a quarter's step from it.
TEST_F(Memory, LargeBlocksAreHardlyLargerThanAskedFor) {
    const size_t slack = 128 << 10; // the rest of a kept block that would be too small to be cut off
    for (size_t bytes : {size_t(8) << 20, size_t(3072 * 768 * 4), size_t(10'500'001), size_t(40'000'000)}) {
        const size_t before = amp_memory_statistics().live_bytes;
        void *block = amp_alloc(bytes);
        const size_t taken = amp_memory_statistics().live_bytes - before;
        amp_free(block);
        EXPECT_GE(taken, bytes);
        EXPECT_LE(taken, bytes + bytes / 64 + slack) << bytes;
    }
}

TEST_F(Memory, LargeBlocksBeginAtAHugePage) {
    constexpr size_t huge = size_t(2) << 20;
    for (const size_t bytes : {huge, 2 * huge - 64, 2 * huge, 5 * huge + 1}) {
        auto *p = static_cast<char *>(amp_alloc(bytes));
        ASSERT_NE(p, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % huge, 64u) << bytes;
        p[bytes - 1] = 1;
        amp_free(p);
    }
}

TEST_F(Memory, AbsurdSizesGiveNull) {
    for (int shift = 48; shift < 64; shift++) {
        EXPECT_EQ(amp_alloc(size_t(1) << shift), nullptr) << shift;
        EXPECT_EQ(amp_alloc((size_t(1) << shift) - 1), nullptr) << shift;
    }
    EXPECT_EQ(amp_alloc(SIZE_MAX), nullptr);
    EXPECT_EQ(amp_alloc_zeroed(SIZE_MAX - 63), nullptr);
}

TEST_F(Memory, FreeInAnotherThreadIsFine) {
    const size_t before = amp_memory_statistics().live_bytes;
    for (int round = 0; round < 10; round++) {
        std::vector<void *> blocks;
        for (int i = 0; i < 100; i++) blocks.push_back(amp_alloc(500));
        std::thread([&] {
            for (void *block : blocks) amp_free(block);
        }).join();
    }
    EXPECT_EQ(amp_memory_statistics().live_bytes, before);
}

// ---- What is kept ---------------------------------------------------------------------------------------------------
TEST_F(Memory, WhatIsKeptGoesBackBeforeARequestFails) {
    if (!caching) GTEST_SKIP() << "nothing is kept under AddressSanitizer";
    Hook hook;
    const amp_allocator allocator = hook.allocator();
    ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
    hook.limit = size_t(110) << 20;
    std::vector<void *> blocks;
    for (int mb : {17, 20, 25, 28}) blocks.push_back(amp_alloc(size_t(mb) << 20));
    for (int i = 0; i < 100; i++) blocks.push_back(amp_alloc(1000));
    for (void *block : blocks) {
        EXPECT_NE(block, nullptr);
        amp_free(block);
    }
    void *one = amp_alloc(size_t(60) << 20);
    EXPECT_NE(one, nullptr) << "nothing is live";
    EXPECT_EQ(amp_alloc(size_t(60) << 20), nullptr) << "there is no more";
    amp_free(one);
    ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
}

// Encoder layers over batches of 1 to 8 texts of 1 to 512 tokens: no two passes have the same shapes.
TEST_F(Memory, ChangingShapesHoldLittleMoreThanTheyNeed) {
    if (!caching) GTEST_SKIP() << "nothing is kept under AddressSanitizer";
    amp_memory_trim();
    const size_t width = 256;
    size_t needed = 0, held = 0, before = amp_memory_statistics().live_bytes;
    std::minstd_rand random(7);
    for (int pass = 0; pass < 300; pass++) {
        const size_t tokens = 1 + random() % 512, texts = 1 + random() % 8, row = texts * tokens;
        std::vector<void *> blocks;
        for (size_t columns : {width, width, width, 4 * tokens, 4 * tokens, width, 4 * width, 4 * width, width}) {
            blocks.push_back(amp_alloc(row * columns * 4));
            ASSERT_NE(blocks.back(), nullptr);
        }
        const amp_memory_stats stats = amp_memory_statistics();
        needed = std::max(needed, stats.live_bytes - before);
        held = std::max(held, stats.live_bytes - before + stats.cached_bytes);
        std::shuffle(blocks.begin(), blocks.end(), random);
        for (void *block : blocks) amp_free(block);
    }
    EXPECT_GT(needed, size_t(50) << 20);
    EXPECT_LE(held, needed + needed / 4 + (size_t(20) << 20));
}

TEST_F(Memory, LargeBlocksDoNotMeetHoweverTheyAreCut) {
    struct Piece {
        unsigned char *at;
        size_t bytes;
        unsigned char mark;
    };
    std::vector<Piece> pieces;
    std::minstd_rand random(1);
    const auto give_back = [&](size_t i) {
        const Piece piece = pieces[i];
        for (size_t k : {size_t(0), piece.bytes / 2, piece.bytes - 1}) ASSERT_EQ(piece.at[k], piece.mark);
        amp_free(piece.at);
        pieces.erase(pieces.begin() + long(i));
    };
    for (int step = 0; step < 3000; step++) {
        if (pieces.size() > 20 || (random() % 2 && !pieces.empty())) {
            give_back(random() % pieces.size());
            continue;
        }
        const size_t bytes = (size_t(100) << 10) + random() % (size_t(1) << (17 + random() % 6));
        auto *at = static_cast<unsigned char *>(amp_alloc(bytes));
        ASSERT_NE(at, nullptr);
        ASSERT_EQ(uintptr_t(at) % 64, 0u);
        std::memset(at, step & 255, bytes);
        pieces.push_back({at, bytes, static_cast<unsigned char>(step)});
    }
    while (!pieces.empty()) give_back(0);
    amp_memory_trim();
    EXPECT_EQ(amp_memory_statistics().cached_bytes, 0u) << "all parts found together again";
}

TEST_F(Memory, PartsOfABlockGoBackTogetherToTheHookThatTheyCameFrom) {
    if (!caching) GTEST_SKIP() << "nothing is cut under AddressSanitizer";
    Hook hook;
    const amp_allocator allocator = hook.allocator();
    ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
    amp_free(amp_alloc(size_t(40) << 20));
    std::vector<void *> parts;
    for (int i = 0; i < 3; i++) parts.push_back(amp_alloc(size_t(8) << 20));
    EXPECT_EQ(hook.requests, 1);
    amp_free(parts[1]);
    ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
    void *other = amp_alloc(size_t(8) << 20);
    amp_free(parts[0]);
    EXPECT_EQ(hook.out.size(), 1u) << "one part is still out";
    amp_free(parts[2]);
    EXPECT_EQ(hook.out.size(), 0u);
    amp_free(other);
    amp_memory_trim();
    EXPECT_EQ(amp_memory_statistics().cached_bytes, 0u);
}

// ---- The hook ------------------------------------------------------------------------------------------------------
TEST_F(Memory, TheHookSeesEveryRequestAndGetsEverythingBack) {
    Hook hook;
    const amp_allocator allocator = hook.allocator();
    ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
    amp_tensor *made_before = nullptr;
    {
        Scope scope;
        amp_tensor *a = tensor(AMP_F32, {1000});
        op("add", {a, a});
        made_before = amp_keep(a);
    }
    EXPECT_GT(hook.requests, 0);
    ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
    EXPECT_GE(hook.out.size(), 2u) << "the kept tensor and its memory";
    amp_release(made_before);
    amp_memory_trim();
    EXPECT_EQ(hook.out.size(), 0u) << "they went back to where they came from";
    const long requests = hook.requests;
    amp_release(tensor(AMP_F32, {1000}));
    EXPECT_EQ(hook.requests, requests) << "the hook is gone";
}

TEST_F(Memory, ABlockOfTheDefaultAllocatorGoesBackToIt) {
    amp_tensor *a = tensor(AMP_F32, {1000});
    Hook hook;
    const amp_allocator allocator = hook.allocator();
    ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
    amp_release(a);
    amp_release(tensor(AMP_F32, {1000}));
    EXPECT_GT(hook.requests, 0) << "the freed block was not handed out again";
    ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
    EXPECT_EQ(hook.out.size(), 0u);
}

TEST_F(Memory, AnIncompleteHookIsAnError) {
    amp_allocator half = {Hook::allocate, nullptr, nullptr};
    EXPECT_EQ(amp_set_allocator(&half), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"set_allocator", "release"}));
}

// ---- Failure -------------------------------------------------------------------------------------------------------
class Failure : public Memory {
  protected:
    void SetUp() override {
        Memory::SetUp();
        npy_ = scratch(".npy");
        safetensors_ = scratch(".safetensors");
        expected_ = many_calls(npy_, safetensors_); // warms what lives as long as the process
        ASSERT_TRUE(no_error());
        ASSERT_NE(expected_, 0);
    }
    void TearDown() override {
        unlink(npy_.c_str());
        unlink(safetensors_.c_str());
        Memory::TearDown();
    }

    // One run whose request number `n` fails (and the later ones, if `all`); false when there are no so many.
    bool run(long n, bool all) {
        Hook hook;
        const amp_allocator allocator = hook.allocator();
        EXPECT_EQ(amp_set_allocator(&allocator), AMP_OK);
        const size_t live_tensors = amp_memory_statistics().live_tensors;
        const size_t live_bytes = amp_memory_statistics().live_bytes;
        hook.fail_at = n;
        hook.fail_after = all;
        const double got = many_calls(npy_, safetensors_);
        hook.fail_at = -1;
        const long failed = hook.failed;
        if (failed == 0) {
            EXPECT_TRUE(no_error());
        } else if (amp_last_status() != AMP_OK) {
            EXPECT_EQ(amp_last_status(), AMP_ERROR_MEMORY) << amp_last_error();
            EXPECT_NE(std::string(amp_last_error()).find("no memory"), std::string::npos) << amp_last_error();
        } else {
            EXPECT_EQ(got, expected_) << "a failure that nobody heard of has no effect";
            silent_++;
        }
        amp_clear_error();
        EXPECT_EQ(amp_memory_statistics().live_tensors, live_tensors);
        EXPECT_EQ(amp_autocast_nesting(), 0);
        EXPECT_EQ(many_calls(npy_, safetensors_), expected_) << "the next call works";
        EXPECT_TRUE(no_error());
        amp_memory_trim();
        EXPECT_LE(amp_memory_statistics().live_bytes, live_bytes) << "bytes leaked";
        EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
        // What an OpenMP thread keeps for itself is not back yet; it must not outlive the hook, so it stays with us.
        EXPECT_EQ(hook.out.size(), 0u) << "blocks leaked";
        return failed > 0;
    }

    std::string npy_, safetensors_;
    double expected_ = 0;
    int silent_ = 0; // runs whose failure had no effect: a record of the explain report that could not be added
};

TEST_F(Failure, OfTheNthAllocationForEveryN) {
    long n = 0;
    while (run(n, false) && !HasFailure()) n++;
    EXPECT_GT(n, caching ? 40 : 80) << "the script allocates all along";
    EXPECT_LE(silent_, 3);
    RecordProperty("allocations", int(n));
}

TEST_F(Failure, OfAllAllocationsFromTheNthOn) {
    long n = 0;
    while (run(n, true) && !HasFailure()) n += 5;
    EXPECT_GT(n, caching ? 40 : 80);
}

// ---- AMP_DEBUG=1, in a child process --------------------------------------------------------------------------------
class Debug : public testing::Test {
  protected:
    void SetUp() override {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        setenv("AMP_DEBUG", "1", 1);
    }
    void TearDown() override {
        unsetenv("AMP_DEBUG");
    }
};

TEST_F(Debug, TensorsThatWereNeverReleasedAreNamedAtTheEnd) {
    EXPECT_EXIT(
        {
            amp_tensor *x = tensor(AMP_F32, {2, 3});
            op("to", {x, AMP_BF16});
            amp_release(tensor(AMP_F64, {5}));
            std::exit(0);
        },
        testing::ExitedWithCode(0),
        "libamp: AMP_DEBUG: 2 tensors were never released:\n  \\[2, 3\\] f32, made by from_[a-z]+\n"
        "  \\[2, 3\\] bf16, made by to\n$");
}

TEST_F(Debug, OnlyTheFirstOfManyAreNamed) {
    EXPECT_EXIT(
        {
            for (int64_t i = 0; i < 30; i++) tensor(AMP_F32, {i});
            std::exit(0);
        },
        testing::ExitedWithCode(0), "30 tensors were never released:\n  \\[0\\] f32.*\n  … and 20 more\n$");
}

TEST_F(Debug, ReleasedMemoryIsNaN) {
    if (!caching) GTEST_SKIP() << "AddressSanitizer says more";
    EXPECT_EXIT(
        {
            for (const int64_t elements : {4, 1 << 20}) {
                amp_tensor *t = op("zeros", {AMP_DIMS(elements)});
                const void *data = amp_data(t);
                amp_release(t);
                float as_f32;
                uint16_t as_16;
                std::memcpy(&as_f32, static_cast<const char *>(data) + 4 * elements - 8, sizeof as_f32);
                std::memcpy(&as_16, static_cast<const char *>(data) + 4 * elements - 8, sizeof as_16);
                if (!std::isnan(as_f32) || !std::isnan(from_bf16(as_16)) || !std::isnan(from_f16(as_16))) std::_Exit(1);
            }
            std::_Exit(0);
        },
        testing::ExitedWithCode(0), "");
}

// ---- Programs compiled with older and newer headers ------------------------------------------------------------------
TEST(MemoryStatistics, AnOlderProgramGetsWhatItKnowsAndANewerOneZeros) {
    const Scope scope;
    ASSERT_NE(tensor(AMP_F32, {3}), nullptr);
    struct Newer {
        amp_memory_stats known;
        size_t more = 7;
    } newer;
    ASSERT_EQ(amp_memory_get_statistics(&newer.known, sizeof newer), AMP_OK);
    EXPECT_EQ(newer.known.live_tensors, amp_memory_statistics().live_tensors);
    EXPECT_EQ(newer.more, 0u);
    amp_memory_stats older;
    older.live_tensors = 12345;
    ASSERT_EQ(amp_memory_get_statistics(&older, offsetof(amp_memory_stats, live_tensors)), AMP_OK);
    EXPECT_EQ(older.system_allocations, newer.known.system_allocations);
    EXPECT_EQ(older.live_tensors, 12345u) << "behind the end of the older struct";
    EXPECT_EQ(amp_memory_get_statistics(nullptr, sizeof older), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"memory_get_statistics", "NULL"}));
    EXPECT_EQ(amp_memory_get_statistics(&older, 0), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"memory_get_statistics", "bytes is 0"}));
}

// 0, or the number of what was not as it should be.
int write_lent_memory() {
    static float numbers[2 * 64 * 64];
    const int64_t shape[] = {64, 64};
    for (const int64_t row : {64, 128}) { // dense, and with gaps that are not the tensor's
        const int64_t strides[] = {row, 1};
        amp_tensor *w = amp_from_memory(numbers, AMP_F32, 2, shape, strides, nullptr, nullptr);
        amp_tensor *x = random_tensor(AMP_F32, {4, 64}, 1);
        Region region;
        const auto works = [&] { return op("linear", {x, w}) != nullptr; };
        if (!works() || !works()) return 1;
        numbers[64 * 64 + 70] += 1; // in a gap of the second
        if (!works()) return 2;
        numbers[3 * row + 5] += 1;
        if (works()) return 3;
        if (row == 64) std::fprintf(stderr, "%s\n", amp_last_error());
        amp_clear_error();
        if (!works()) return 4;
        numbers[3 * row + 6] += 1;
        if (amp_tensor_mark_dirty(w) != AMP_OK || !works()) return 5;
    }
    return 0;
}

TEST_F(Debug, LentMemoryThatWasWrittenUnderACachedCastIsFound) {
    EXPECT_EXIT(std::_Exit(write_lent_memory()), testing::ExitedWithCode(0),
                "linear: cast: the memory lent as \\[64, 64\\] f32 was written after its cast to bf16 was cached.*"
                "amp_tensor_mark_dirty");
}
