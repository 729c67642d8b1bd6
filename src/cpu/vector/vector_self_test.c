/* What each row of the dense families must pass before its first use: every tail length, neighbours untouched, a
 * NaN in one lane seen in that lane alone, values as the reference has them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { LENGTH = 67, GUARD = 4 };
static const float guard_value = 12345.5f;

/* Values of every kind: signs, subnormals, large, infinities, one NaN. */
static void fill(float *x, int seed) {
    uint32_t state = 12345u + (uint32_t)seed;
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) / 16777216.0f - 0.5f) * (i % 3 ? 6.0f : 60.0f);
    }
    const float special[] = {0.0f, -0.0f, 1e-40f, -1e-40f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 1.0f};
    for (int i = 0; i < 10; i++) x[(i * 7 + seed) % LENGTH] = special[i];
}

/* Finite values of ordinary size, for rows that a NaN would fill whole. */
static void fill_plain(float *x, int seed) {
    uint32_t state = 777u + (uint32_t)seed;
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ((float)(state >> 8) / 16777216.0f - 0.5f) * 8.0f;
    }
}

static bool same(float a, float b) {
    return (a != a && b != b) || !memcmp(&a, &b, sizeof a);
}

static bool near(float a, float b) {
    return (a != a && b != b) || a == b || fabsf(a - b) <= 2e-6f * fmaxf(1.0f, fabsf(b));
}

/* Where sums of another order may round to the next bf16. */
static bool near_bf16(float a, float b) {
    return near(a, b) || fabsf(a - b) <= 0x1p-7f * fabsf(b);
}

static void prepare(float *out) {
    for (int i = 0; i < LENGTH + GUARD; i++) out[i] = guard_value;
}

static bool agree_by(bool (*like)(float, float), const float *got, const float *want, int n, char *message,
                     size_t size) {
    for (int i = 0; i < n; i++) {
        if (like(got[i], want[i])) continue;
        snprintf(message, size, "element %d of %d is %a, the reference gives %a", i, n, (double)got[i],
                 (double)want[i]);
        return false;
    }
    for (int i = n; i < LENGTH + GUARD; i++) {
        if (got[i] == guard_value) continue;
        snprintf(message, size, "it wrote element %d of %d", i, n);
        return false;
    }
    return true;
}

static bool agree(const float *got, const float *want, int n, bool exact, char *message, size_t size) {
    return agree_by(exact ? same : near, got, want, n, message, size);
}

/* ---- Families of f32 and bf16 --------------------------------------------------------------------------------- */

/* Room for elements of either dtype. */
typedef union elements {
    float f32[LENGTH + GUARD];
    uint16_t bf16[LENGTH + GUARD];
} elements;

/* Cut off, not rounded: any values do. */
static void pack(elements *to, amp_dtype dtype, const float *from, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        if (dtype == AMP_BF16)
            to->bf16[i] = (uint16_t)(bits >> 16);
        else
            to->f32[i] = from[i];
    }
}

static void unpack(float *to, const elements *from, amp_dtype dtype) {
    for (int i = 0; i < LENGTH + GUARD; i++) {
        const uint32_t bits = (uint32_t)from->bf16[i] << 16;
        if (dtype == AMP_BF16)
            memcpy(&to[i], &bits, sizeof bits);
        else
            to[i] = from->f32[i];
    }
}

/* What a row makes of n elements of its operands; `out` holds guards. */
typedef void run_row(amp_kernel_function *function, elements *out, const elements *in, int n);

/* Compares an elementwise row with the reference at every length: of which the longest has all that it says. */
static bool check_each(const amp_kernel *kernel, const amp_kernel *reference, run_row *run, char *message,
                       size_t size) {
    elements in[3], got, want, fresh;
    float values[LENGTH + GUARD], got_values[LENGTH + GUARD], want_values[LENGTH + GUARD];
    const float guard = kernel->out == AMP_BF16 ? 12288.0f : guard_value;
    for (int k = 0; k < 3; k++) {
        fill(values, k);
        pack(&in[k], kernel->in, values, LENGTH);
    }
    prepare(values);
    pack(&fresh, kernel->out, values, LENGTH + GUARD);
    want = fresh;
    run(reference->function, &want, in, LENGTH);
    unpack(want_values, &want, kernel->out);
    for (int n = 0; n <= LENGTH; n++) {
        got = fresh;
        run(kernel->function, &got, in, n);
        unpack(got_values, &got, kernel->out);
        for (int i = n; i < LENGTH + GUARD; i++) got_values[i] = got_values[i] == guard ? guard_value : NAN;
        if (!agree_by(same, got_values, want_values, n, message, size)) return false;
    }
    return true;
}

/* Compares a row with the reference at every length from 1 on; in[] holds three operands. */
static bool check_row(const amp_kernel *kernel, const amp_kernel *reference, run_row *run, char *message, size_t size) {
    elements in[3], got, want;
    float values[LENGTH + GUARD], got_values[LENGTH + GUARD], want_values[LENGTH + GUARD];
    bool (*like)(float, float) = kernel->out == AMP_BF16 ? near_bf16 : near;
    const float guard = kernel->out == AMP_BF16 ? 12288.0f : guard_value;
    for (int n = 1; n <= LENGTH; n++) {
        for (int k = 0; k < 3; k++) {
            fill_plain(values, k ? 99 + k : n);
            if (!k && n % 7 == 6) values[n / 2] = NAN; /* a NaN would fill the whole row */
            pack(&in[k], kernel->in, values, LENGTH);
        }
        prepare(values);
        pack(&got, kernel->out, values, LENGTH + GUARD);
        want = got;
        run(kernel->function, &got, in, n);
        run(reference->function, &want, in, n);
        unpack(got_values, &got, kernel->out);
        unpack(want_values, &want, kernel->out);
        for (int i = n; i < LENGTH + GUARD; i++) got_values[i] = got_values[i] == guard ? guard_value : NAN;
        if (!agree_by(like, got_values, want_values, n, message, size)) return false;
    }
    return true;
}

static void run_unary(amp_kernel_function *function, elements *out, const elements *in, int n) {
    ((amp_unary_function *)function)(out, &in[0], n);
}
bool amp_unary_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    return check_each(kernel, reference, run_unary, message, size);
}

static void run_unary_with(amp_kernel_function *function, elements *out, const elements *in, int n) {
    ((amp_unary_with_function *)function)(out, &in[0], n, 0.75f, 2.5f);
}
bool amp_unary_with_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    return check_each(kernel, reference, run_unary_with, message, size);
}

static void run_binary(amp_kernel_function *function, elements *out, const elements *in, int n) {
    ((amp_binary_function *)function)(out, &in[1], &in[2], n, 0.75f);
}
static void run_number_first(amp_kernel_function *function, elements *out, const elements *in, int n) {
    ((amp_binary_function *)function)(out, NULL, &in[2], n, 0.75f);
}
static void run_number_last(amp_kernel_function *function, elements *out, const elements *in, int n) {
    ((amp_binary_function *)function)(out, &in[1], NULL, n, 0.75f);
}
bool amp_binary_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    if (!check_each(kernel, reference, run_binary, message, size)) return false;
    if (kernel->family == AMP_KERNEL_ADD_SCALED) return true;
    return check_each(kernel, reference, run_number_first, message, size) &&
           check_each(kernel, reference, run_number_last, message, size);
}

static void run_ternary(amp_kernel_function *function, elements *out, const elements *in, int n) {
    ((amp_ternary_function *)function)(out, &in[0], &in[1], &in[2], n, 0.75f);
}
static void run_lerp_number(amp_kernel_function *function, elements *out, const elements *in, int n) {
    ((amp_ternary_function *)function)(out, &in[0], &in[1], NULL, n, 0.75f);
}
bool amp_ternary_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    return check_each(kernel, reference, run_ternary, message, size) &&
           (kernel->family != AMP_KERNEL_LERP || check_each(kernel, reference, run_lerp_number, message, size));
}

bool amp_compare_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float values[2][LENGTH];
    elements in[2];
    for (int k = 0; k < 2; k++) {
        fill(values[k], k);
        for (int i = 0; k && i < LENGTH; i += 3) values[1][i] = values[0][i]; /* equal ones */
        pack(&in[k], kernel->in, values[k], LENGTH);
    }
    for (int n = 0; n <= LENGTH; n++) {
        uint8_t got[LENGTH + GUARD], want[LENGTH + GUARD];
        memset(got, 7, sizeof got);
        memset(want, 7, sizeof want);
        const void *b = n % 2 ? &in[1] : NULL;
        ((amp_compare_function *)kernel->function)(got, &in[0], b, n, 1.0f);
        ((amp_compare_function *)reference->function)(want, &in[0], b, n, 1.0f);
        if (!memcmp(got, want, sizeof got)) continue;
        snprintf(message, size, "of %d elements some differ from the reference", n);
        return false;
    }
    return true;
}

bool amp_reduce_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float values[LENGTH];
    elements in;
    for (int n = 0; n <= LENGTH; n++) {
        fill_plain(values, n);
        if (n % 5 == 4) values[n / 2] = NAN;
        pack(&in, kernel->in, values, LENGTH);
        const float got = (float)((amp_reduce_function *)kernel->function)(&in, n);
        const float want = (float)((amp_reduce_function *)reference->function)(&in, n);
        if (near(got, want)) continue;
        snprintf(message, size, "%d elements give %a, the reference %a", n, (double)got, (double)want);
        return false;
    }
    return true;
}

bool amp_centred_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float values[LENGTH];
    elements in;
    for (int n = 0; n <= LENGTH; n++) {
        double got[2] = {0.0, 0.0}, want[2] = {0.0, 0.0};
        fill_plain(values, n);
        if (n % 5 == 4) values[n / 2] = NAN;
        pack(&in, kernel->in, values, LENGTH);
        ((amp_centred_function *)kernel->function)(got, &in, n, 0.25f);
        ((amp_centred_function *)reference->function)(want, &in, n, 0.25f);
        if (near((float)got[0], (float)want[0]) && near((float)got[1], (float)want[1])) continue;
        snprintf(message, size, "%d elements give %a, %a, the reference %a, %a", n, got[0], got[1], want[0], want[1]);
        return false;
    }
    return true;
}

static void run_softmax(amp_kernel_function *function, elements *out, const elements *in, int n) {
    ((amp_row_function *)function)(out, &in[0], n);
}
bool amp_row_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    return check_row(kernel, reference, run_softmax, message, size);
}

/* Weight and bias are f32 whatever the row is. */
static void run_norm(amp_kernel_function *function, elements *out, const elements *in, int n) {
    float weight[LENGTH], bias[LENGTH];
    fill_plain(weight, 100);
    fill_plain(bias, 101);
    ((amp_norm_function *)function)(out, &in[0], n % 3 ? weight : NULL, n % 2 ? bias : NULL, n, 1e-5);
}
bool amp_norm_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    return check_row(kernel, reference, run_norm, message, size);
}

bool amp_columns_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    enum { ROWS = 6, WIDTH = LENGTH }; /* vectors of every size, and what they leave */
    float values[LENGTH];
    elements in[ROWS];
    for (int r = 0; r < ROWS; r++) {
        fill(values, 3 + r);
        pack(&in[r], kernel->in, values, LENGTH);
    }
    for (int rows = 0; rows <= ROWS; rows++) {
        double fresh[WIDTH + 1], all[WIDTH + 1], got[WIDTH + 1];
        for (int i = 0; i <= WIDTH; i++) fresh[i] = all[i] = 0.25 * i;
        ((amp_columns_function *)reference->function)(all, in, sizeof *in, rows, WIDTH);
        for (int n = 0; n <= WIDTH; n++) {
            memcpy(got, fresh, sizeof got);
            ((amp_columns_function *)kernel->function)(got, in, sizeof *in, rows, n);
            for (int i = 0; i <= WIDTH; i++) {
                const double want = i < n ? all[i] : fresh[i];
                if ((got[i] != got[i] && want != want) || got[i] == want) continue;
                snprintf(message, size, "column %d of %d, %d rows, gives %a, the reference %a", i, n, rows, got[i],
                         want);
                return false;
            }
        }
    }
    return true;
}

/* Rows of a matrix, one in each of `rows`, with something of its own in every column. */
enum { COLUMN_ROWS = 70 }; /* more than are summed in f32, and than are about one maximum */
static void fill_rows(elements *rows, amp_dtype dtype, int seed) {
    float values[LENGTH];
    for (int r = 0; r < COLUMN_ROWS; r++) {
        fill_plain(values, seed + r);
        if (r % 9 == 4) values[5] = NAN;
        if (r % 9 == 5) values[11] = -INFINITY;
        values[17] = -INFINITY;
        pack(&rows[r], dtype, values, LENGTH);
    }
}

bool amp_softmax_columns_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    elements in[COLUMN_ROWS], got[COLUMN_ROWS], want[COLUMN_ROWS];
    float terms[COLUMN_ROWS * AMP_SOFTMAX_COLUMNS], values[LENGTH + GUARD], got_values[LENGTH + GUARD],
        want_values[LENGTH + GUARD];
    const float guard = kernel->out == AMP_BF16 ? 12288.0f : guard_value;
    prepare(values);
    for (int n = 1; n <= LENGTH; n++) {
        const int rows = 1 + n % 7 * 11;
        fill_rows(in, kernel->in, n);
        for (int r = 0; r < COLUMN_ROWS; r++) pack(&got[r], kernel->out, values, LENGTH + GUARD);
        ((amp_softmax_columns_function *)kernel->function)(got, sizeof *got, in, sizeof *in, rows, n, terms);
        ((amp_softmax_columns_function *)reference->function)(want, sizeof *want, in, sizeof *in, rows, n, terms);
        for (int r = 0; r < rows; r++) {
            unpack(got_values, &got[r], kernel->out);
            unpack(want_values, &want[r], kernel->out);
            for (int i = n; i < LENGTH + GUARD; i++) got_values[i] = got_values[i] == guard ? guard_value : NAN;
            if (!agree_by(kernel->out == AMP_BF16 ? near_bf16 : near, got_values, want_values, n, message, size))
                return false;
        }
    }
    return true;
}

bool amp_exponentials_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    elements in[COLUMN_ROWS];
    for (int n = 1; n <= LENGTH; n++) {
        const int rows = 1 + n % 7 * 11, before = n % 2 ? rows / 2 : 0;
        float max[2][LENGTH + 1];
        double sum[2][LENGTH + 1];
        fill_rows(in, kernel->in, n);
        for (int k = 0; k < 2; k++) {
            amp_exponentials_function *f = (amp_exponentials_function *)(k ? reference : kernel)->function;
            for (int i = 0; i <= LENGTH; i++) sum[k][i] = max[k][i] = guard_value;
            if (before) f(max[k], sum[k], in, sizeof *in, before, n, true);
            f(max[k], sum[k], in + before, sizeof *in, rows - before, n, !before);
        }
        for (int i = 0; i <= LENGTH; i++) {
            if (same(max[0][i], max[1][i]) && near((float)sum[0][i], (float)sum[1][i])) continue;
            snprintf(message, size, "column %d of %d, %d rows, gives %a and %a, the reference %a and %a", i, n, rows,
                     (double)max[0][i], sum[0][i], (double)max[1][i], sum[1][i]);
            return false;
        }
    }
    return true;
}

/* ---- f32 only ------------------------------------------------------------------------------------------------- */

bool amp_dot_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float a[LENGTH], b[LENGTH];
    for (int n = 0; n <= LENGTH; n++) {
        fill_plain(a, n);
        fill_plain(b, 200 + n);
        if (n % 5 == 4) a[n / 2] = NAN;
        const double got = ((amp_dot_function *)kernel->function)(a, b, n);
        const double want = ((amp_dot_function *)reference->function)(a, b, n);
        if ((got != got && want != want) || fabs(got - want) <= 1e-4) continue; /* of at most 67 products up to 16 */
        snprintf(message, size, "%d elements give %a, the reference %a", n, got, want);
        return false;
    }
    return true;
}

bool amp_accumulate_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH];
    fill(in, 3);
    for (int n = 0; n <= LENGTH; n++) {
        double got[LENGTH + 1], want[LENGTH + 1];
        for (int i = 0; i <= LENGTH; i++) got[i] = want[i] = 0.25 * i;
        ((amp_accumulate_function *)kernel->function)(got, in, n);
        ((amp_accumulate_function *)reference->function)(want, in, n);
        for (int i = 0; i <= LENGTH; i++) {
            if ((got[i] != got[i] && want[i] != want[i]) || got[i] == want[i]) continue;
            snprintf(message, size, "element %d of %d is %a, the reference gives %a", i, n, got[i], want[i]);
            return false;
        }
    }
    return true;
}

enum { LINES = 5 };

bool amp_lines_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float lines[LINES][LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    const float weights[LINES] = {0.75f, -1.5f, 3.0f, 0.0f, 1e-3f};
    const float *in[LINES];
    for (int k = 0; k < LINES; k++) {
        fill(lines[k], k);
        in[k] = lines[k];
    }
    for (int n = 0; n <= LENGTH; n++) {
        const int64_t count = 1 + n % LINES;
        prepare(got);
        ((amp_lines_function *)kernel->function)(got, in, weights, count, n);
        ((amp_lines_function *)reference->function)(want, in, weights, count, n);
        if (!agree(got, want, n, true, message, size)) return false;
    }
    return true;
}

/* Maxima are compared as they lie: of any dtype, with its bits. */
typedef struct line_set {
    elements lines[4];
    const void *in[LINES];
} line_set;

static void fill_lines(line_set *set, amp_dtype dtype) {
    static const int order[LINES] = {0, 1, 2, 1, 3}; /* equal ones too */
    float values[LENGTH];
    for (int k = 0; k < 4; k++) {
        fill(values, k);
        pack(&set->lines[k], dtype, values, LENGTH); /* of f16 the upper half of f32: any values do */
    }
    for (int k = 0; k < LINES; k++) set->in[k] = &set->lines[order[k]];
}

static bool is_nan_of(amp_dtype dtype, const elements *e, int i) {
    const int bits = e->bf16[i] & 0x7fff;
    return dtype == AMP_F32 ? e->f32[i] != e->f32[i] : bits > (dtype == AMP_BF16 ? 0x7f80 : 0x7c00);
}

static bool same_elements(amp_dtype dtype, const elements *got, const elements *want, int n, char *message,
                          size_t size) {
    for (int i = 0; i < LENGTH + GUARD; i++) {
        const bool equal = dtype == AMP_F32 ? same(got->f32[i], want->f32[i]) : got->bf16[i] == want->bf16[i];
        if (equal || (is_nan_of(dtype, got, i) && is_nan_of(dtype, want, i))) continue;
        snprintf(message, size, "element %d of %d differs from the reference's", i, n);
        return false;
    }
    return true;
}

static void prepare_elements(elements *out) {
    memset(out, 0x5a, sizeof *out);
}

bool amp_max_lines_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    line_set set;
    elements got, want;
    fill_lines(&set, kernel->in == AMP_F32 ? AMP_F32 : AMP_BF16);
    for (int n = 0; n <= LENGTH; n++) {
        const int64_t count = 1 + n % LINES;
        prepare_elements(&got);
        prepare_elements(&want);
        ((amp_max_lines_function *)kernel->function)(&got, set.in, count, n);
        ((amp_max_lines_function *)reference->function)(&want, set.in, count, n);
        if (!same_elements(kernel->in, &got, &want, n, message, size)) return false;
    }
    return true;
}

bool amp_argmax_lines_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    line_set set;
    elements got, want;
    float got_which[LENGTH + GUARD], want_which[LENGTH + GUARD];
    fill_lines(&set, kernel->in == AMP_F32 ? AMP_F32 : AMP_BF16);
    for (int n = 0; n <= LENGTH; n++) {
        const int64_t count = 1 + n % LINES;
        prepare_elements(&got);
        prepare_elements(&want);
        prepare(got_which);
        ((amp_argmax_lines_function *)kernel->function)(&got, got_which, set.in, count, n);
        ((amp_argmax_lines_function *)reference->function)(&want, want_which, set.in, count, n);
        if (!same_elements(kernel->in, &got, &want, n, message, size) ||
            !agree(got_which, want_which, n, true, message, size))
            return false;
    }
    return true;
}

bool amp_gather_taps_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    float in[LENGTH], weights[LINES * LENGTH], got[LENGTH + GUARD], want[LENGTH + GUARD];
    int32_t index[LINES * LENGTH];
    fill(in, 0);
    for (int i = 0; i < LINES * LENGTH; i++) {
        index[i] = i % 11 ? i * 31 % LENGTH : -1 - i;
        weights[i] = (float)(i % 7) - 3.0f;
    }
    for (int n = 0; n <= LENGTH; n++) {
        const int64_t count = 1 + n % LINES;
        prepare(got);
        ((amp_gather_taps_function *)kernel->function)(got, in, index, weights, count, n);
        ((amp_gather_taps_function *)reference->function)(want, in, index, weights, count, n);
        if (!agree(got, want, n, true, message, size)) return false;
    }
    return true;
}
