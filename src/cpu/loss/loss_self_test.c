/* What each row of the loss families must pass before its first use: every tail length, neighbours untouched, with and
 * without the third input, values of every kind as the reference has them, bit by bit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { LENGTH = 83, GUARD = 4 };
static const float guard_value = 12345.5f;

static void fill(float *x, uint32_t state) {
    static const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 1e-40f};
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] =
            i % 7 == 3 ? special[state >> 16 & 7] : ((float)(state >> 8) / 16777216.0f - 0.5f) * (i % 2 ? 2.0f : 20.0f);
    }
}

bool amp_loss_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float x[LENGTH], t[LENGTH], y[LENGTH];
    fill(x, 1u);
    fill(t, 2u);
    fill(y, 3u);
    for (int n = 0; n <= LENGTH; n++) {
        float got[LENGTH + GUARD], want[LENGTH + GUARD];
        for (int i = 0; i < LENGTH + GUARD; i++) got[i] = want[i] = guard_value;
        ((amp_loss_function *)kernel->function)(got, x, t, n % 3 ? y : NULL, n, 0.5f);
        ((amp_loss_function *)reference->function)(want, x, t, n % 3 ? y : NULL, n, 0.5f);
        for (int i = 0; i < LENGTH + GUARD; i++) {
            if ((got[i] != got[i] && want[i] != want[i]) || !memcmp(&got[i], &want[i], sizeof *got)) continue;
            snprintf(message, size, "element %d of %d is %a, the reference gives %a", i, n, (double)got[i],
                     (double)want[i]);
            return false;
        }
    }
    return true;
}
