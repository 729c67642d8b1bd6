/* How this code was compiled, as far as its speed depends on it: what is measured in one kind of build says nothing of
 * another. */
#ifndef AMP_CORE_BUILD_H
#define AMP_CORE_BUILD_H

#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define AMP_BUILD_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* gcc */
#define AMP_BUILD_SANITIZED 1
#endif

#if defined(AMP_BUILD_SANITIZED)
#define AMP_BUILD_KIND "sanitized"
#elif !defined(__OPTIMIZE__)
#define AMP_BUILD_KIND "not optimised"
#else
#define AMP_BUILD_KIND "optimised"
#endif

#endif /* AMP_CORE_BUILD_H */
