// How the fake driver runs blocks of a kernel with all of their threads.
#ifndef AMP_TESTS_FAKE_THREADS_H
#define AMP_TESTS_FAKE_THREADS_H

#include <cstddef>

// So many blocks of so many threads and bytes of shared memory, in turns; false: the threads of one do not all meet the
// same barriers, need more memory, or end with copies that they did not wait for.
bool fake_run_blocks(void (*kernel)(const void *), const void *arguments, int blocks, int threads, size_t shared);

// For what a warp does together: every lane gives `count` words, at most 8, and gets all lanes' table, until it asks
// again.
struct fake_lane_words {
    unsigned words[8];
};
const fake_lane_words *fake_lend_words(const unsigned *words, int count);

// Copies to shared memory that are under way.
struct fake_copy {
    char *to;
    const void *from; // NULL: zeros
};
void fake_begin_copy(const fake_copy &copy);
void fake_end_copies();

#endif // AMP_TESTS_FAKE_THREADS_H
