/* OpenBLAS's choice of kernels, looked over. It chooses when it is loaded, by family numbers: what calls itself an
 * Opteron gets kernels with 3DNow!, which virtual machines of that name (qemu64, qemu's default, is one) do not
 * have. */
#include "machine/openblas_core.h"

#include <cblas.h>
#include <cpuid.h>
#include <stdint.h>
#include <string.h>

const char *amp_blas_judge(const char *core, bool has_3dnow) {
    if (has_3dnow || !core || strncmp(core, "Opteron", strlen("Opteron")) != 0) return NULL;
    return "OpenBLAS takes this CPU for an Opteron and would use 3DNow!, which it has not: set "
           "OPENBLAS_CORETYPE=Prescott before the program starts";
}

const char *amp_blas_fault(void) {
    static _Thread_local const char *fault;
    static _Thread_local bool known;
    if (!known) {
        uint32_t a, b, c, d = 0;
        const bool has_3dnow = __get_cpuid(0x80000001u, &a, &b, &c, &d) && d >> 31 & 1;
        fault = amp_blas_judge(openblas_get_corename(), has_3dnow);
        known = true;
    }
    return fault;
}
