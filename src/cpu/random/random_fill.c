/* Random elements on the CPU: a piece at a time through the kernels, which know f32 and words, to any dtype. A piece is
 * whole groups of words, so that it does not matter which thread takes which. */
#include <omp.h>

#include "core/fail.h"
#include "core/parallel.h"
#include "cpu/convert/convert_any.h"
#include "cpu/cpu_steps.h"
#include "cpu/random/random_task.h"
#include "cpu/random/random_wide.h"
#include "cpu/registry/kernels.h"

enum { PIECE_GROUPS = 16, PIECE = PIECE_GROUPS * AMP_RANDOM_WORDS }; /* 4 KiB of words */

typedef struct filling {
    const amp_random_task *task;
    amp_random_function *kernel; /* f32: its elements; else words */
    int64_t per_group;
    amp_dtype computed;         /* f32, f64 or i64 */
    amp_conversion load, store; /* in → computed → out; not asked for where the dtypes are the same */
} filling;

/* Elements [0, n) of a piece, made of its words: quarter k of a group has words 16·k … of it. */
typedef void wide_function(const amp_random_task *task, void *out, const double *in, const uint32_t *words, int64_t n);

static void plain_piece(const amp_random_task *task, void *out, const double *in, const uint32_t *words, int64_t n) {
    (void)task, (void)in;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t *w = words + i / 32 * AMP_RANDOM_WORDS + i % 32;
        ((uint64_t *)out)[i] = word_pair(w[0], w[32]);
    }
}

static void uniform_piece(const amp_random_task *task, void *out, const double *in, const uint32_t *words, int64_t n) {
    (void)in;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t *w = words + i / 32 * AMP_RANDOM_WORDS + i % 32;
        const double x = task->low + wide_unit(word_pair(w[0], w[32])) * task->width;
        ((double *)out)[i] = x < task->below ? x : task->below;
    }
}

/* Block b of a group gives elements b and b + 16. */
static void normal_piece(const amp_random_task *task, void *out, const double *in, const uint32_t *words, int64_t n) {
    double *to = out;
    (void)in;
    for (int64_t begin = 0; begin < n; begin += 32, words += AMP_RANDOM_WORDS) {
        for (int64_t b = 0; b < PHILOX_BLOCKS && begin + b < n; b++) {
            double x, y;
            wide_normal(word_pair(words[b], words[b + 32]), word_pair(words[b + 16], words[b + 48]), &x, &y);
            to[begin + b] = x * task->deviation + task->mean;
            if (begin + b + 16 < n) to[begin + b + 16] = y * task->deviation + task->mean;
        }
    }
}

static void integer_piece(const amp_random_task *task, void *out, const double *in, const uint32_t *words, int64_t n) {
    const int64_t per_group = amp_random_per_group(task);
    (void)in;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t *w = words + i / per_group * AMP_RANDOM_WORDS + i % per_group;
        const uint64_t number = per_group == 32
                                    ? integer_below(word_pair(w[0], w[32]), task->range)
                                    : large_integer_below(word_pair(w[0], w[32]), word_pair(w[16], w[48]), task->range);
        ((int64_t *)out)[i] = (int64_t)((uint64_t)task->first + number);
    }
}

static void keep_piece(const amp_random_task *task, void *out, const double *in, const uint32_t *words, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        ((double *)out)[i] = in[i] * (words[i] <= task->numbers.last ? task->scale : 0.0);
    }
}

static void below_piece(const amp_random_task *task, void *out, const double *in, const uint32_t *words, int64_t n) {
    (void)task;
    for (int64_t i = 0; i < n; i++) ((double *)out)[i] = (double)words[i] * 0x1p-32 < in[i] ? 1.0 : 0.0;
}

static wide_function *const wide_functions[] = {
    [AMP_RANDOM_PLAIN] = plain_piece,     [AMP_RANDOM_UNIFORM] = uniform_piece, [AMP_RANDOM_NORMAL] = normal_piece,
    [AMP_RANDOM_INTEGER] = integer_piece, [AMP_RANDOM_KEEP] = keep_piece,       [AMP_RANDOM_BELOW] = below_piece,
};

static const amp_kernel_family f32_families[] = {
    [AMP_RANDOM_PLAIN] = AMP_KERNEL_RANDOM_WORDS,   [AMP_RANDOM_UNIFORM] = AMP_KERNEL_RANDOM_UNIFORM,
    [AMP_RANDOM_NORMAL] = AMP_KERNEL_RANDOM_NORMAL, [AMP_RANDOM_INTEGER] = AMP_KERNEL_RANDOM_WORDS,
    [AMP_RANDOM_KEEP] = AMP_KERNEL_RANDOM_KEEP,     [AMP_RANDOM_BELOW] = AMP_KERNEL_RANDOM_BELOW,
};

/* Elements begin … begin + n - 1, at most a piece of them, begin a multiple of that. */
static void fill_piece(const filling *f, int64_t begin, int64_t n) {
    const amp_random_task *task = f->task;
    uint32_t words[PIECE];
    union {
        float f32[PIECE];
        double f64[PIECE];
        int64_t i64[PIECE];
    } loaded, made;
    const amp_random_place place = {task->place.seed, task->place.offset + (uint64_t)(begin / f->per_group)};
    char *out = (char *)task->out + begin * (int64_t)amp_dtype_size(task->dtype);
    void *to = f->computed == task->dtype ? (void *)out : &made;
    const void *in = NULL;
    if (task->in) {
        in = (const char *)task->in + begin * (int64_t)amp_dtype_size(task->in_dtype);
        if (f->computed != task->in_dtype) {
            amp_conversion_run(&f->load, &loaded, in, n);
            in = &loaded;
        }
    }
    if (amp_random_is_wide(task)) {
        const int64_t groups = (n + f->per_group - 1) / f->per_group;
        f->kernel(words, NULL, groups * AMP_RANDOM_WORDS, &place, &task->numbers);
        wide_functions[task->kind](task, to, in, words, n);
    } else {
        f->kernel(to, in, n, &place, &task->numbers);
    }
    if (to == &made) amp_conversion_run(&f->store, out, &made, n);
}

static amp_status prepare(filling *f, const char **kernel_name) {
    const amp_random_task *task = f->task;
    const bool wide = amp_random_is_wide(task);
    const bool whole = task->kind == AMP_RANDOM_PLAIN || task->kind == AMP_RANDOM_INTEGER;
    const amp_kernel_family family = wide ? AMP_KERNEL_RANDOM_WORDS : f32_families[task->kind];
    const amp_kernel *kernel = amp_kernel_select(family, AMP_F32, AMP_F32);
    if (!kernel) return amp_pending_error();
    f->kernel = (amp_random_function *)kernel->function;
    *kernel_name = kernel->name;
    f->computed = whole ? AMP_I64 : wide ? AMP_F64 : AMP_F32;
    f->per_group = amp_random_per_group(task);
    if (task->in) AMP_TRY(amp_conversion_find(f->computed, task->in_dtype, &f->load));
    return amp_conversion_find(task->dtype, f->computed, &f->store);
}

amp_status amp_cpu_random(const amp_random_task *task, const char **kernel) {
    filling f = {.task = task};
    AMP_TRY(prepare(&f, kernel));
    const int64_t piece = PIECE_GROUPS * f.per_group;
    const int threads = amp_parallel_threads(task->count, AMP_GRAIN_ELEMENTS);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range part = amp_parallel_part(task->count, piece, omp_get_thread_num(), omp_get_num_threads());
        for (int64_t i = part.begin; i < part.end; i += piece) {
            fill_piece(&f, i, part.end - i < piece ? part.end - i : piece);
        }
    }
    return AMP_OK;
}

amp_status amp_cpu_random_elements(amp_call *call, amp_random_task *task, const amp_tensor *out, const amp_tensor *in) {
    task->out = amp_tensor_pointer(out);
    task->in = in ? amp_tensor_pointer(in) : NULL;
    return amp_cpu_random(task, &call->note.kernel);
}
