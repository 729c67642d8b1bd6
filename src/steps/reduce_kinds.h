/* What a reduction makes of its elements; the CUDA kernels know the same kinds. */
#ifndef AMP_CPU_REDUCE_KINDS_H
#define AMP_CPU_REDUCE_KINDS_H

typedef enum amp_reduction {
    AMP_REDUCE_SUM,
    AMP_REDUCE_SUM_ABS,
    AMP_REDUCE_SUM_SQUARES,
    AMP_REDUCE_SUM_POWERS, /* |x|^power */
    AMP_REDUCE_COUNT,      /* of elements other than zero */
    AMP_REDUCE_PRODUCT,    /* with f32 computed in f64 */
    AMP_REDUCE_MAX,        /* of nothing: −inf, or the smallest integer; a NaN gives NaN */
    AMP_REDUCE_MIN,
    AMP_REDUCE_MAX_ABS,
    AMP_REDUCE_MIN_ABS
} amp_reduction;

#endif /* AMP_CPU_REDUCE_KINDS_H */
