/* Functions of one or two f32 that are computed in f64 lanes and rounded once, so that the rounding is all but their
 * only error (2^-35 of the value beside it), on every ISA alike.
 *
 * The names in these lists make the functions amp_<name>_f32_<isa>, compiled from formula_body.h once per ISA. */
#ifndef AMP_CPU_FORMULA_H
#define AMP_CPU_FORMULA_H

#include "cpu/vector/vector.h"

/* Of one operand: amp_unary_function of vector.h. */
#define AMP_FORMULAS(X)                                                                                                \
    X(SINC, sinc)                                                                                                      \
    X(ERFINV, erfinv)

/* Of two: amp_binary_function. */
#define AMP_FORMULAS2(X)                                                                                               \
    X(DIV_TRUNC, div_trunc)                                                                                            \
    X(DIV_FLOOR, div_floor)                                                                                            \
    X(POW, pow)                                                                                                        \
    X(FMOD, fmod)                                                                                                      \
    X(REMAINDER, remainder)                                                                                            \
    X(ATAN2, atan2)                                                                                                    \
    X(LOGADDEXP, logaddexp)

#endif /* AMP_CPU_FORMULA_H */
