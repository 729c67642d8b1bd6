/* What the generated op headers share. */
#ifndef AMP_OPS_ARGS_H
#define AMP_OPS_ARGS_H

#include "amp/types.h"

/* A required number that is left out: every op refuses it with a sentence. C++ has it as the member's default. The
 * integer is one that no program means, as the least of all might be. */
#define AMP_MISSING_INT_ (-INT64_C(0x6d697373696e6721))
#define AMP_MISSING_FLOAT_ (-__builtin_inf())
#ifdef __cplusplus
#define AMP_REQUIRED_INT_ = AMP_MISSING_INT_
#define AMP_REQUIRED_FLOAT_ = AMP_MISSING_FLOAT_
#else
#define AMP_REQUIRED_INT_
#define AMP_REQUIRED_FLOAT_
#endif

/* The address of an op's argument struct, its first argument and what follows it as initialisers. */
#define AMP_ARGS_(op, first, ...)                                                                                      \
    (&(const amp_##op##_args){.struct_size = sizeof(amp_##op##_args), .first = __VA_ARGS__})
/* The same of an op with required numbers, which are missing until an initialiser overrides that. */
#define AMP_ARGS_MISSING_(op, missing, first, ...)                                                                     \
    (&(const amp_##op##_args){.struct_size = sizeof(amp_##op##_args), AMP_INITIALISERS_ missing, .first = __VA_ARGS__})
#define AMP_INITIALISERS_(...) __VA_ARGS__

/* A call that is an error when the preprocessor counts too few arguments: `last` is the text of the last required one
 * and of what follows it. Of an op with required numbers, one initialiser may override another. */
#define AMP_COUNTED_CALL_(last, names, ...) AMP_CHECKED_(AMP_NOT_EMPTY_(last, names), __VA_ARGS__)
#define AMP_NUMBERS_CALL_(last, names, ...)                                                                            \
    AMP_CHECKED_(AMP_NOT_EMPTY_(last, names) _Pragma("GCC diagnostic ignored \"-Woverride-init\""), __VA_ARGS__)
#define AMP_NOT_EMPTY_(last, names) _Static_assert(sizeof(last) > 1, "required arguments: " names);

#endif /* AMP_OPS_ARGS_H */
