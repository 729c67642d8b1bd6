/* What each row of the families of slopes must pass before its first use: every tail length, neighbours untouched,
 * values of every kind as the reference has them, bit by bit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { LENGTH = 83, GUARD = 4 };

static void fill(float *x, uint32_t state) {
    static const float special[] = {0.0f, -0.0f, 3.0f, -3.0f, INFINITY, -INFINITY, NAN, 1e30f};
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        const float even = (float)(state >> 8) / 16777216.0f - 0.5f;
        x[i] = i % 7 == 3 ? special[state >> 16 & 7] : even * (i % 2 ? 2.0f : 40.0f);
    }
}

bool amp_slope_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    static const float numbers[3] = {-0.5f, 1.5f, 1.25f};
    float d[LENGTH], x[LENGTH];
    fill(d, 1u);
    fill(x, 2u);
    for (int n = 0; n <= LENGTH; n++) {
        float got[LENGTH + GUARD], want[LENGTH + GUARD];
        for (int i = 0; i < LENGTH + GUARD; i++) got[i] = want[i] = 12345.5f;
        ((amp_slope_function *)kernel->function)(got, d, x, n, numbers);
        ((amp_slope_function *)reference->function)(want, d, x, n, numbers);
        for (int i = 0; i < LENGTH + GUARD; i++) {
            if ((got[i] != got[i] && want[i] != want[i]) || !memcmp(&got[i], &want[i], sizeof *got)) continue;
            snprintf(message, size, "element %d of %d is %a, the reference gives %a", i, n, (double)got[i],
                     (double)want[i]);
            return false;
        }
    }
    return true;
}
