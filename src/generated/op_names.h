/* The names by which ops are found, in the order of strcmp: "add" (its first overload), "add.scalar",
 * and the same as C writes it, "add_scalar". */
#ifndef AMP_POLICY_OP_NAMES_H
#define AMP_POLICY_OP_NAMES_H

typedef struct amp_op_name {
    const char *name;
    int id;
} amp_op_name;

extern const amp_op_name amp_op_names[];
extern const int amp_op_name_count;

#endif /* AMP_POLICY_OP_NAMES_H */
