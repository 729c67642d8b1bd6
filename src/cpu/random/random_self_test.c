/* What each row of the random families must pass before its first use: every tail length, neighbours untouched, with
 * and without an input, the place far into a sequence, bits as the reference has them. */
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { LENGTH = 2 * AMP_RANDOM_WORDS + 3, GUARD = 4 };

bool amp_random_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    static const amp_random_place place = {.seed = 0x123456789abcdef0u, .offset = 0xfffffffffffffffeu};
    static const amp_random_numbers numbers = {.bits = 24,
                                               .low = -0.5f,
                                               .width = 3.0f,
                                               .below = 2.25f,
                                               .mean = 1.0f,
                                               .deviation = 0.5f,
                                               .last = 0xb0000000u,
                                               .scale = 1.25f};
    float in[LENGTH];
    for (int i = 0; i < LENGTH; i++) in[i] = (float)(i % 33) / 32.0f;
    for (int n = 0; n <= LENGTH; n++) {
        float got[LENGTH + GUARD], want[LENGTH + GUARD];
        for (int i = 0; i < LENGTH + GUARD; i++) got[i] = want[i] = 12345.5f;
        const float *given = n % 2 ? in : NULL;
        ((amp_random_function *)kernel->function)(got, given, n, &place, &numbers);
        ((amp_random_function *)reference->function)(want, given, n, &place, &numbers);
        for (int i = 0; i < LENGTH + GUARD; i++) {
            if (!memcmp(&got[i], &want[i], sizeof *got)) continue;
            snprintf(message, size, "element %d of %d is %a, the reference gives %a", i, n, (double)got[i],
                     (double)want[i]);
            return false;
        }
    }
    return true;
}
