/* Under which sanitizer a test is compiled: gcc says it by a macro, clang by a feature. */
#ifndef AMP_TESTS_SANITIZERS_H
#define AMP_TESTS_SANITIZERS_H

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

namespace amp_test {

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr bool under_asan = true;
#else
constexpr bool under_asan = false;
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
constexpr bool under_tsan = true;
#else
constexpr bool under_tsan = false;
#endif

} // namespace amp_test

#endif /* AMP_TESTS_SANITIZERS_H */
