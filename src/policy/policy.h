/* Which policy holds for a call: table version, overrides, and the predicate of the table cell. */
#ifndef AMP_POLICY_POLICY_H
#define AMP_POLICY_POLICY_H

#include "core/fail.h"
#include "policy/op_table.h"

/* What decided, for the explain report and amp_autocast_dtype_for. */
typedef struct amp_policy_choice {
    amp_policy policy;
    bool overridden; /* by API or environment, not the table */
} amp_policy_choice;

/* args: the op's argument struct, for predicates; NULL: assume that they hold. */
amp_policy_choice amp_policy_of(const amp_op_info *op, amp_device device, amp_table table, const void *args);

/* Changes with every override and registration. */
unsigned amp_policy_version(void);

/* From now on the op has this policy on every device and in every table, below overrides. */
void amp_policy_register(const amp_op_info *op, amp_policy policy);

const char *amp_policy_name(amp_policy policy);
const char *amp_table_name(amp_table table);
/* The table of a name, the process's default for NULL; an error naming the tables if there is none such. */
amp_status amp_table_from_name(const char *name, amp_table *table);

/* Reads AMP_ALLOW, AMP_DENY, AMP_CLEAR and AMP_TABLE, once; a name in them that is unknown is an error each time. */
amp_status amp_policy_environment(void);

amp_status amp_device_check(const char *what, amp_device device);

#endif /* AMP_POLICY_POLICY_H */
