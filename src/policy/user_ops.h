/* The ops that programs add (amp/user.h), behind those of ops.def: found by name, never removed. */
#ifndef AMP_POLICY_USER_OPS_H
#define AMP_POLICY_USER_OPS_H

#include "amp/user.h"
#include "generated/op_ids.h"
#include "policy/op_table.h"

enum { AMP_MAX_USER_OPS = 256, AMP_MAX_OP_ID = AMP_OP_ID_COUNT + AMP_MAX_USER_OPS };

/* Their amp_op_info.id is AMP_OP_ID_COUNT and above. */
static inline bool amp_op_is_user(const amp_op_info *op) {
    return op->id >= AMP_OP_ID_COUNT;
}
/* First overload of a name, or the overload itself; NULL if there is none. */
const amp_op_info *amp_user_op_find(const char *name);
/* Number `index` in the order of definition; NULL beyond the last. */
const amp_op_info *amp_user_op_at(int index);
struct amp_gradient_row;
/* How its gradient is made. */
const struct amp_gradient_row *amp_user_op_gradient(const amp_op_info *op);
/* NULL: not implemented there. */
amp_op_implementation amp_user_op_run(const amp_op_info *op, amp_device device);

#endif /* AMP_POLICY_USER_OPS_H */
