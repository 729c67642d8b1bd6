/* cpu_ops.def as a table. */
#include "cpu/cpu_table.h"

#define CPU_OP(op, implementation) amp_status implementation(amp_call *call);
#include "cpu/cpu_ops.def"
#undef CPU_OP

const amp_op_function amp_cpu_table[AMP_OP_ID_COUNT + 1] = {
#define CPU_OP(op, implementation) [AMP_OP_ID_##op] = implementation,
#include "cpu/cpu_ops.def"
#undef CPU_OP
    [AMP_OP_ID_COUNT] = NULL,
};
