/* One filling of dense memory with random elements: what an op asks of a device. */
#ifndef AMP_CPU_RANDOM_TASK_H
#define AMP_CPU_RANDOM_TASK_H

#include "amp/error.h"
#include "cpu/registry/random_kernels.h"

typedef enum amp_random_kind {
    AMP_RANDOM_PLAIN,   /* 64 bits each, i64 */
    AMP_RANDOM_UNIFORM, /* f32, f64, f16, bf16 */
    AMP_RANDOM_NORMAL,  /* the same */
    AMP_RANDOM_INTEGER, /* first + a number below range; any real dtype */
    AMP_RANDOM_KEEP,    /* in, or ones, times the factor of dropout; with ones any real dtype */
    AMP_RANDOM_BELOW    /* 1 with the probability in, else 0; any real dtype */
} amp_random_kind;

typedef struct amp_random_task {
    amp_random_kind kind;
    amp_dtype dtype, in_dtype; /* in_dtype: f32, f64, f16 or bf16; AMP_DTYPE_NONE: no in. Keep: as dtype */
    int64_t count;
    void *out;
    const void *in;
    amp_random_place place;
    amp_random_numbers numbers;                       /* of what is computed in f32 … */
    double low, width, below, mean, deviation, scale; /* … and in f64 */
    int64_t first;
    uint64_t range;
} amp_random_task;

/* Elements are computed in f64 or as integers, not in f32. */
static inline bool amp_random_is_wide(const amp_random_task *task) {
    switch (task->kind) {
    case AMP_RANDOM_PLAIN:
    case AMP_RANDOM_INTEGER: return true;
    case AMP_RANDOM_UNIFORM:
    case AMP_RANDOM_NORMAL: return task->dtype == AMP_F64;
    default: return task->in_dtype == AMP_F64;
    }
}

/* Elements of one group of words. */
static inline int64_t amp_random_per_group(const amp_random_task *task) {
    const bool decision = task->kind == AMP_RANDOM_KEEP || task->kind == AMP_RANDOM_BELOW;
    if (decision || !amp_random_is_wide(task)) return AMP_RANDOM_WORDS;
    const bool large = task->kind == AMP_RANDOM_INTEGER && task->range > (uint64_t)1 << 32;
    return large ? AMP_RANDOM_WORDS / 4 : AMP_RANDOM_WORDS / 2;
}

/* On the CPU; *kernel is the row that ran. */
amp_status amp_cpu_random(const amp_random_task *task, const char **kernel);

#endif /* AMP_CPU_RANDOM_TASK_H */
