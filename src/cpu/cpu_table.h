/* The CPU's implementations by op id. */
#ifndef AMP_CPU_CPU_TABLE_H
#define AMP_CPU_CPU_TABLE_H

#include "dispatch/call.h"
#include "policy/op_ids.h"

/* Indexed by amp_op_info.id; NULL where the op is not implemented on the CPU. */
extern const amp_op_function amp_cpu_table[AMP_OP_ID_COUNT + 1];

#endif /* AMP_CPU_CPU_TABLE_H */
