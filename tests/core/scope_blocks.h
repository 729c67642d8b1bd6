/* What test_scope.cc has done in C. */
#ifndef AMP_TESTS_SCOPE_BLOCKS_H
#define AMP_TESTS_SCOPE_BLOCKS_H

#ifdef __cplusplus
extern "C" {
#endif

/* NULL, or what went wrong. */
const char *scope_blocks_failure(void);

#ifdef __cplusplus
}
#endif

#endif /* AMP_TESTS_SCOPE_BLOCKS_H */
