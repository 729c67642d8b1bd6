/* All names under which programs call BLAS: the two texts, once for each way to make a name of a routine's. */
#include "blas/module/module.h"

#define EXPORT __attribute__((visibility("default")))
#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(name) #name
/* ISO C has no cast from an object to a function pointer; POSIX has. */
#define ORIGINAL(type) (*(type *)(uintptr_t)symbol.original)

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* ---- Fortran, 32-bit integers: everybody; the BLAS in SciPy's packages ------------------------------------------- */
#define INTEGER int32_t
#define NAME(routine) routine##_
#include "blas/module/fortran.inc"
#undef NAME
#define NAME(routine) scipy_##routine##_
#include "blas/module/fortran.inc"
#undef NAME

/* ---- CBLAS, 32-bit integers -------------------------------------------------------------------------------------- */
#define NAME(routine) cblas_##routine
#include "blas/module/cblas.inc"
#undef NAME
#define NAME(routine) scipy_cblas_##routine
#include "blas/module/cblas.inc"
#undef NAME
#undef INTEGER

/* ---- Fortran, 64-bit integers: OpenBLAS and Julia, MKL, builds by hand, the BLAS in NumPy's packages ------------- */
#define INTEGER int64_t
#define NAME(routine) routine##_64_
#include "blas/module/fortran.inc"
#undef NAME
#define NAME(routine) routine##_64
#include "blas/module/fortran.inc"
#undef NAME
#define NAME(routine) routine##64_
#include "blas/module/fortran.inc"
#undef NAME
#define NAME(routine) scipy_##routine##_64_
#include "blas/module/fortran.inc"
#undef NAME

/* ---- CBLAS, 64-bit integers -------------------------------------------------------------------------------------- */
#define NAME(routine) cblas_##routine##64_
#include "blas/module/cblas.inc"
#undef NAME
#define NAME(routine) cblas_##routine##_64
#include "blas/module/cblas.inc"
#undef NAME
#define NAME(routine) scipy_cblas_##routine##64_
#include "blas/module/cblas.inc"
