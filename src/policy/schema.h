/* A schema in the notation of ops.def, read at run time: what tools/gen_ops.py does for the library's own ops. */
#ifndef AMP_POLICY_SCHEMA_H
#define AMP_POLICY_SCHEMA_H

#include "core/fail.h"
#include "policy/op_table.h"

/* What a schema says. Texts lie in the caller's memory. */
typedef struct amp_schema {
    const char *name, *overload, *key; /* "swiglu", "scalar", "swiglu.scalar" */
    const char *text;                  /* the schema without marks */
    amp_arg_info args[AMP_MAX_ARGS];   /* offsets laid out as C does */
    int arg_count, output_count;
    bool returns_list;
    size_t args_size; /* sizeof the argument struct */
} amp_schema;

/* Bytes of text that a schema of this length needs. */
size_t amp_schema_room(size_t length);
/* Reads `schema` into *parsed; the texts go to `room`. An error that says what cannot be read. */
amp_status amp_schema_parse(const char *schema, char *room, amp_schema *parsed);
/* "struct { size_t struct_size; amp_tensor *input; … }", as much of it as fits. */
void amp_schema_struct(const amp_schema *schema, char *text, size_t bytes);

#endif /* AMP_POLICY_SCHEMA_H */
