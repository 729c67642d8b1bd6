/* AMP_UNROLL before a loop of a constant count keeps its arrays in registers: -O2 alone leaves them in memory. */
#ifndef AMP_CPU_UNROLL_H
#define AMP_CPU_UNROLL_H

#if defined(__clang__)
#define AMP_UNROLL _Pragma("unroll")
#else
#define AMP_UNROLL _Pragma("GCC unroll 16")
#endif
#define AMP_ALWAYS_INLINE static inline __attribute__((always_inline))

#endif /* AMP_CPU_UNROLL_H */
