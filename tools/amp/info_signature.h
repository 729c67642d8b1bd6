/* An op as it is written in C: what amp info --ops NAME prints of it. */
#ifndef AMP_TOOL_INFO_SIGNATURE_H
#define AMP_TOOL_INFO_SIGNATURE_H

#include <stdio.h>

#include "policy/op_table.h"

/* "amp_softmax(input, dim, .dtype = AMP_DTYPE_NONE)": the required arguments, then each option with its default. What
 * is absent by default shows how a value is given: ".dim = AMP_SET(…)". */
void amp_write_call(FILE *out, const amp_op_info *op);

/* "amp_add_(…)", "amp_topk_out(values, indices, …)": the names of the other forms; nothing where there are none. */
void amp_write_forms(FILE *out, const amp_op_info *op);

#endif /* AMP_TOOL_INFO_SIGNATURE_H */
