// How the fake driver runs one block of a kernel.
#ifndef AMP_TESTS_FAKE_THREADS_H
#define AMP_TESTS_FAKE_THREADS_H

// With so many threads; false: they do not all meet the same barriers.
bool fake_run_block(void (*kernel)(const void *), const void *arguments, int threads);

#endif // AMP_TESTS_FAKE_THREADS_H
