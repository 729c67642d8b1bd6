/* Kernels on lines in plain C: the definition of what is right; formulas and order of sums are in lines.h and
 * lines_body.h. f32 sums: errors of at most count ulp of the sum of magnitudes. */
#include "cpu/simd/simd_ref.h"

#include "cpu/plane/lines_body.h"
