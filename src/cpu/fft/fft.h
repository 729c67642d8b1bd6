/* Fourier transforms: plans, and the kernel that runs one on eight transforms at once.
 *
 * A plan is a short program of stages over a work buffer of complex f64 numbers. The buffer holds one transform in each
 * of AMP_FFT_LANES lanes: number i of lane l has its real part at [i·16 + l] and its imaginary part at [i·16 + 8 + l],
 * so that every stage is the same arithmetic on whole vectors, whatever the length. One long transform is cut into many
 * short ones (fft_long.c). Everything is computed in f64, also for f32 data, which is then rounded once. */
#ifndef AMP_CPU_FFT_H
#define AMP_CPU_FFT_H

#include "amp/error.h"

enum { AMP_FFT_LANES = 8, AMP_FFT_STAGES = 80, AMP_FFT_LARGEST_RADIX = 47 };

typedef enum amp_fft_kind {
    AMP_FFT_COMPLEX, /* n complex numbers to n */
    AMP_FFT_UNPACK,  /* n real numbers, n even, as n/2 complex ones (even, odd), to n/2 + 1 frequencies */
    AMP_FFT_PACK     /* the way back, unnormalised, real and imaginary parts exchanged before and after */
} amp_fft_kind;

typedef enum amp_fft_step {
    AMP_FFT_STEP_RADIX,    /* one pass of Stockham's autosorting algorithm, from one buffer into the other */
    AMP_FFT_STEP_MULTIPLY, /* by a table, in place, conjugating before or after */
    AMP_FFT_STEP_UNPACK,   /* from the transform of the packed numbers to the frequencies of the real ones, in place */
    AMP_FFT_STEP_PACK,
    AMP_FFT_STEP_SPLIT /* a whole transform as many of two shorter lengths; long plans only */
} amp_fft_step;

typedef struct amp_fft_stage {
    amp_fft_step step;
    int radix;
    int64_t count;                  /* RADIX: butterflies of one length; else numbers */
    int64_t stride;                 /* RADIX: product of the radices so far */
    int64_t fill;                   /* MULTIPLY: zeros up to this number follow */
    double sign_before, sign_after; /* MULTIPLY: of the imaginary part */
    const double *table;            /* pairs; RADIX: radix − 1 twiddles for each butterfly */
    const double *roots;            /* RADIX: the radix-th roots of one, for a radix without code of its own */
} amp_fft_stage;

/* Runs the stages on `data`, using `spare`, a buffer of the same size; returns the one of the two that has the
 * result. */
typedef double *amp_fft_function(const amp_fft_stage *stages, int count, double *data, double *spare);

typedef struct amp_fft_plan {
    int64_t n;
    amp_fft_kind kind;
    bool is_long; /* for one transform at a time, numbers stored as (real, imaginary) */
    int stages;
    int64_t room; /* complex numbers in a buffer */
    amp_fft_stage stage[AMP_FFT_STAGES];
    double *tables;
    size_t bytes;
    amp_fft_function *function;
    struct amp_fft_split *split; /* of a long plan */
    int users;                   /* under the cache's lock */
    uint64_t last_use;
} amp_fft_plan;

/* n = rows · columns. Number i·columns + j is element j of row i. */
typedef struct amp_fft_split {
    int64_t rows, columns;
    const amp_fft_plan *row_plan, *column_plan; /* of length columns, and of length rows */
    const double *lane_twiddles;                /* W^(k·l) for k < rows and the lanes l: [rows][2][AMP_FFT_LANES] */
    const double *coarse, *fine;                /* W^t = coarse[t >> shift] · fine[t & (2^shift − 1)] */
    int shift;
} amp_fft_split;

/* A plan from the cache, or a new one; NULL with an error. Give it back. */
const amp_fft_plan *amp_fft_plan_take(int64_t n, amp_fft_kind kind, bool is_long);
void amp_fft_plan_give(const amp_fft_plan *plan);

/* Whether one transform of n numbers is worth being cut up: it is long, and its length has a fitting divisor. */
bool amp_fft_is_long(int64_t n, int64_t transforms);

/* Writes the stages of a transform whose length has only small prime factors; returns their number. `tables` has room
 * for amp_fft_table_size(n) doubles. */
int amp_fft_write_stages(int64_t n, amp_fft_stage *stages, double *tables);
int64_t amp_fft_table_size(int64_t n);
/* The k-th power of exp(-2πi/n), correctly rounded up to a last bit. */
void amp_fft_root(int64_t n, int64_t k, double *root);

/* Runs a long plan on `data` (room pairs); `spare` is as large; `lanes` is what amp_fft_long_scratch asks for. Uses
 * threads. Returns the buffer that has the result. */
double *amp_fft_run_long(const amp_fft_plan *plan, double *data, double *spare, double *lanes, int threads);
size_t amp_fft_long_scratch(const amp_fft_plan *plan, int threads); /* in doubles */

#endif /* AMP_CPU_FFT_H */
