/* What the generated op headers share. */
#ifndef AMP_OPS_ARGS_H
#define AMP_OPS_ARGS_H

#include "amp/types.h"

/* The address of an op's argument struct, its first argument and what follows it as initialisers. */
#define AMP_ARGS_(op, first, ...)                                                                                      \
    (&(const amp_##op##_args){.struct_size = sizeof(amp_##op##_args), .first = __VA_ARGS__})

#endif /* AMP_OPS_ARGS_H */
