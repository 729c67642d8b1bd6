/* What a Fourier kernel must pass before its first use: every radix, every step, against the reference, and nothing
 * beside the buffers written. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { LONGEST = 120, NUMBER = 2 * AMP_FFT_LANES, SIZE = (LONGEST + 1) * NUMBER, GUARD = 8, TABLE = 2048 };
static const double guard_value = 77.0;

typedef struct buffers {
    double data[SIZE + GUARD], spare[SIZE + GUARD];
} buffers;

static const double *run(const amp_kernel *kernel, const amp_fft_stage *stages, int count, buffers *b) {
    uint32_t state = 4711;
    for (int i = 0; i < SIZE; i++) {
        state = state * 1664525u + 1013904223u;
        b->data[i] = (double)(state >> 8) / 16777216.0 - 0.5;
    }
    for (int i = 0; i < GUARD; i++) b->data[SIZE + i] = b->spare[SIZE + i] = guard_value;
    return ((amp_fft_function *)kernel->function)(stages, count, b->data, b->spare);
}

static bool has_guards(const buffers *b) {
    for (int i = SIZE; i < SIZE + GUARD; i++) {
        if (b->data[i] != guard_value || b->spare[i] != guard_value) return false;
    }
    return true;
}

/* A program with every step around a transform of that length; the table serves them all. */
static int write_program(int64_t n, amp_fft_stage *stages, double *table) {
    const amp_fft_stage step = {.count = n, .fill = n + 1, .sign_before = -1, .sign_after = 1, .table = table};
    stages[0] = stages[1] = step;
    stages[0].step = AMP_FFT_STEP_MULTIPLY;
    stages[1].step = AMP_FFT_STEP_PACK;
    const int count = amp_fft_write_stages(n, stages + 2, table);
    stages[count + 2] = stages[count + 3] = step;
    stages[count + 2].step = AMP_FFT_STEP_UNPACK;
    stages[count + 3].step = AMP_FFT_STEP_MULTIPLY;
    stages[count + 3].sign_after = -1;
    return count + 4;
}

bool amp_fft_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    static const int64_t lengths[] = {2, 12, 56, 64, 66, 75, 94, LONGEST};
    /* Static: no failing allocation may quarantine a kernel. The registry's lock keeps other threads out. */
    static _Alignas(64) buffers got, want;
    static double table[TABLE];
    static amp_fft_stage stages[AMP_FFT_STAGES];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t n = lengths[i];
        if (amp_fft_table_size(n) > TABLE) {
            snprintf(message, size, "the self-test's table is too small");
            return false;
        }
        const int count = write_program(n, stages, table);
        const double *y = run(kernel, stages, count, &got), *z = run(reference, stages, count, &want);
        for (int64_t k = 0; k < n * NUMBER; k++) {
            if (fabs(y[k] - z[k]) <= 1e-11) continue;
            snprintf(message, size, "length %lld: element %lld of lane %lld is %a, the reference gives %a",
                     (long long)n, (long long)(k / NUMBER), (long long)(k % AMP_FFT_LANES), y[k], z[k]);
            return false;
        }
        if (!has_guards(&got)) {
            snprintf(message, size, "length %lld: writes beside its buffers", (long long)n);
            return false;
        }
    }
    return true;
}
