/* The table of LAPACK routines: lapack_body.h once for each dtype. */
#include "cpu/linalg/lapack.h"

#include <cblas.h>
#include <complex.h>
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

_Static_assert(sizeof(lapack_int) == sizeof(int), "LAPACK with 32-bit integers");

/* Up to this many rows and columns a matrix is small. */
enum { SMALL_SIDE = 32 };

#define LETTER s
#define T float
#define R float
#define EPSILON FLT_EPSILON
#define C float _Complex
#define COMPLEX 0
#define DTYPE AMP_F32
#define REAL_DTYPE AMP_F32
#define COMPLEX_DTYPE AMP_C64
#include "cpu/linalg/lapack_body.h"

#define LETTER d
#define T double
#define R double
#define EPSILON DBL_EPSILON
#define C double _Complex
#define COMPLEX 0
#define DTYPE AMP_F64
#define REAL_DTYPE AMP_F64
#define COMPLEX_DTYPE AMP_C128
#include "cpu/linalg/lapack_body.h"

#define LETTER c
#define T float _Complex
#define R float
#define EPSILON FLT_EPSILON
#define C float _Complex
#define COMPLEX 1
#define DTYPE AMP_C64
#define REAL_DTYPE AMP_F32
#define COMPLEX_DTYPE AMP_C64
#include "cpu/linalg/lapack_body.h"

#define LETTER z
#define T double _Complex
#define R double
#define EPSILON DBL_EPSILON
#define C double _Complex
#define COMPLEX 1
#define DTYPE AMP_C128
#define REAL_DTYPE AMP_F64
#define COMPLEX_DTYPE AMP_C128
#include "cpu/linalg/lapack_body.h"

const amp_lapack *amp_lapack_of(amp_dtype dtype) {
    static const amp_lapack *const rows[] = {&s_row, &d_row, &c_row, &z_row};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i]->dtype == dtype) return rows[i];
    }
    return NULL;
}

/* As the comments of cgesdd ask for. */
int64_t amp_gesdd_reals(char job, int64_t m, int64_t n) {
    const int64_t small = m < n ? m : n, large = m < n ? n : m;
    if (job == 'N') return 7 * small + 1;
    const int64_t a = 5 * small * small + 5 * small, b = 2 * large * small + 2 * small * small + small;
    return (a > b ? a : b) + 1;
}

/* Complex: 2 n; real: real and imaginary parts, and the packed vectors. */
int64_t amp_geev_reals(char job, int64_t n) {
    return 2 * n + (job == 'V' ? n * n : 0) + 1;
}
