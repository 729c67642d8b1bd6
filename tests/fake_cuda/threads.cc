// The threads of a block on the host, in turns: each has a stack, and runs until its next barrier. Warps are
// independent of each other between barriers of the block, and so are blocks. Turns go up and down alternately, so that a
// barrier that is missing shows, and what one block does to another.
#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "threads.h"

thread_local int amp_fake_thread, amp_fake_threads;          // what a kernel sees of itself,
extern thread_local int64_t amp_fake_block, amp_fake_blocks; // … and of its grid: driver.cc
void amp_fake_barrier(bool of_block);
double amp_fake_from_lane(double value, int mask);
int amp_fake_of_warp(int value);
char *amp_fake_shared(int64_t bytes);
char *amp_fake_shared_of(const char *variable, int64_t bytes);

namespace {

constexpr int lanes = 32;
constexpr size_t stack_bytes = 128 << 10, shared_align = 1024;
constexpr size_t copied = 16; // bytes of a copy

enum class At { warp, block, end };

struct Thread {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    At at;
    double lent;  // to other lanes
    int meetings; // of fake_lend_words
    std::vector<fake_copy> copies;
};

// A variable of shared memory that a kernel declares.
struct Variable {
    const char *name;
    std::vector<char> memory;
};

struct Block {
    std::vector<Thread> threads;
    At at;
    std::vector<Variable> variables;
    std::vector<char> shared_memory;
    bool too_much_shared;
    std::vector<fake_lane_words> lent_words[2]; // of all threads, by turns: one barrier for each meeting will do
};

thread_local std::vector<Block> blocks;
thread_local Block *now; // whose turn it is
thread_local ucontext_t scheduler;
thread_local void (*kernel)(const void *);
thread_local const void *arguments;
thread_local bool down;

Thread &this_thread() {
    return now->threads[size_t(amp_fake_thread)];
}

char *aligned(std::vector<char> *memory) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory->data());
    return memory->data() + (shared_align - at % shared_align) % shared_align;
}

void body() {
    kernel(arguments);
    this_thread().at = At::end;
}

void prepare(Thread &t) {
    if (!t.stack) t.stack.reset(new char[stack_bytes]);
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = t.stack.get();
    t.context.uc_stack.ss_size = stack_bytes;
    t.context.uc_link = &scheduler;
    t.meetings = 0;
    t.copies.clear();
    makecontext(&t.context, body, 0);
}

// One turn for each thread of [first, last); where they stand then, or nothing if not all at the same.
bool take_turns(int first, int last, At *at) {
    down = !down;
    for (int i = 0; i < last - first; i++) {
        amp_fake_thread = down ? last - 1 - i : first + i;
        swapcontext(&scheduler, &this_thread().context);
    }
    *at = now->threads[size_t(first)].at;
    for (int i = first; i < last; i++) {
        if (now->threads[size_t(i)].at != *at) return false;
    }
    return true;
}

// Every warp up to the next barrier of the block.
bool run_warps(int count, At *at) {
    for (int first = 0; first < count; first += lanes) {
        const int last = first + lanes < count ? first + lanes : count;
        At mine;
        do {
            if (!take_turns(first, last, &mine)) return false;
        } while (mine == At::warp);
        if (first > 0 && mine != *at) return false;
        *at = mine;
    }
    return true;
}

} // namespace

void amp_fake_barrier(bool of_block) {
    Thread &t = this_thread();
    t.at = of_block ? At::block : At::warp;
    swapcontext(&t.context, &scheduler);
}

double amp_fake_from_lane(double value, int mask) {
    this_thread().lent = value;
    amp_fake_barrier(false);
    const double got = now->threads[size_t(amp_fake_thread ^ mask)].lent;
    amp_fake_barrier(false);
    return got;
}

// The first lane's. A lane that does not come here is seen, for it is at another barrier then.
int amp_fake_of_warp(int value) {
    this_thread().lent = value;
    amp_fake_barrier(false);
    const double got = now->threads[size_t(amp_fake_thread / lanes * lanes)].lent;
    amp_fake_barrier(false);
    return int(got);
}

// Memory that nobody wrote to is NaN of both 16-bit types.
char *amp_fake_shared(int64_t bytes) {
    if (size_t(bytes) + shared_align > now->shared_memory.size()) {
        now->too_much_shared = true;
        now->shared_memory.resize(size_t(bytes) + shared_align, char(0xff));
    }
    return aligned(&now->shared_memory);
}

char *amp_fake_shared_of(const char *variable, int64_t bytes) {
    for (Variable &v : now->variables) {
        if (v.name == variable) return aligned(&v.memory);
    }
    now->variables.push_back({variable, std::vector<char>(size_t(bytes) + shared_align, char(0xff))});
    return aligned(&now->variables.back().memory);
}

const fake_lane_words *fake_lend_words(const unsigned *words, int count) {
    Thread &t = this_thread();
    std::vector<fake_lane_words> &table = now->lent_words[t.meetings++ % 2];
    for (int i = 0; i < count; i++) table[size_t(amp_fake_thread)].words[i] = words[i];
    amp_fake_barrier(false);
    return &table[size_t(amp_fake_thread / lanes * lanes)];
}

// Who reads what is being copied reads NaN.
void fake_begin_copy(const fake_copy &copy) {
    std::memset(copy.to, 0xff, copied);
    this_thread().copies.push_back(copy);
}

void fake_end_copies() {
    std::vector<fake_copy> &copies = this_thread().copies;
    for (const fake_copy &c : copies) {
        if (c.from) {
            std::memcpy(c.to, c.from, copied);
        } else {
            std::memset(c.to, 0, copied);
        }
    }
    copies.clear();
}

namespace {

void start(Block *b, int count, size_t shared) {
    now = b;
    b->at = At::block;
    b->variables.clear();
    b->too_much_shared = false;
    b->shared_memory.assign(shared + shared_align, char(0xff));
    for (auto &table : b->lent_words) table.resize(size_t(count));
    if (b->threads.size() < size_t(count)) b->threads.resize(size_t(count));
    for (int i = 0; i < count; i++) prepare(b->threads[size_t(i)]);
}

bool ended_well(const Block &b, int count) {
    for (int i = 0; i < count; i++) {
        if (!b.threads[size_t(i)].copies.empty()) return false;
    }
    return !b.too_much_shared;
}

} // namespace

bool fake_run_blocks(void (*function)(const void *), const void *given, int number, int count, size_t shared) {
    kernel = function;
    arguments = given;
    amp_fake_threads = count;
    if (blocks.size() < size_t(number)) blocks.resize(size_t(number));
    for (int i = 0; i < number; i++) start(&blocks[size_t(i)], count, shared);
    bool upwards = false;
    for (int running = number; running > 0; upwards = !upwards) {
        for (int i = 0; i < number; i++) {
            amp_fake_block = upwards ? i : number - 1 - i;
            now = &blocks[size_t(amp_fake_block)];
            if (now->at == At::end) continue;
            if (!run_warps(count, &now->at)) return false;
            running -= now->at == At::end;
        }
    }
    for (int i = 0; i < number; i++) {
        if (!ended_well(blocks[size_t(i)], count)) return false;
    }
    return true;
}
