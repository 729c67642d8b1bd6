/* Whether OpenBLAS, which picks its kernels by the name of the processor, picked some that run. */
#ifndef AMP_MACHINE_OPENBLAS_CORE_H
#define AMP_MACHINE_OPENBLAS_CORE_H

#include <stdbool.h>

/* NULL where its kernels run; else why they do not, and what to do, as the end of a sentence. */
const char *amp_blas_fault(void);

/* The same from facts: what OpenBLAS calls the processor, and whether that has 3DNow! (CPUID 80000001 EDX bit 31). */
const char *amp_blas_judge(const char *core, bool has_3dnow);

#endif /* AMP_MACHINE_OPENBLAS_CORE_H */
