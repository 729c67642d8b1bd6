/* amp_define_op: a checked definition becomes a row like those of ops.def. Rows are only ever added: a writer takes the
 * lock and publishes by the count, a reader takes none. */
#include "policy/user_ops.h"

#include <stdatomic.h>
#include <string.h>

#include "core/lock.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "policy/policy.h"
#include "policy/schema.h"
#include "policy/user_gradients.h"

typedef struct user_op {
    amp_op_info info;
    amp_op_implementation run[AMP_DEVICE_COUNT];
    amp_gradient_row gradient;
    amp_gradient_need needs[AMP_MAX_GRADIENT_NEEDS];
    amp_schema schema;
    char room[]; /* of the schema's texts, then the sentence */
} user_op;

static user_op *ops[AMP_MAX_USER_OPS];
static atomic_int op_count;

const amp_op_info *amp_user_op_at(int index) {
    return index < atomic_load_explicit(&op_count, memory_order_acquire) ? &ops[index]->info : NULL;
}

const amp_op_info *amp_user_op_find(const char *name) {
    const amp_op_info *op;
    for (int i = 0; (op = amp_user_op_at(i)); i++) {
        if (strcmp(op->name, name) == 0 || strcmp(ops[i]->schema.key, name) == 0) return op;
    }
    return NULL;
}

amp_op_implementation amp_user_op_run(const amp_op_info *op, amp_device device) {
    return ops[op->id - AMP_OP_ID_COUNT]->run[device];
}

const amp_gradient_row *amp_user_op_gradient(const amp_op_info *op) {
    return &ops[op->id - AMP_OP_ID_COUNT]->gradient;
}

/* The next overload of the same name: the neighbour in ops.def, any later definition of a program. */
const amp_op_info *amp_op_next_overload(const amp_op_info *op) {
    if (!amp_op_is_user(op)) {
        const amp_op_info *next = op + 1;
        return next < amp_op_table + amp_op_count && strcmp(next->name, op->name) == 0 ? next : NULL;
    }
    const amp_op_info *next;
    for (int i = op->id - AMP_OP_ID_COUNT + 1; (next = amp_user_op_at(i)); i++) {
        if (strcmp(next->name, op->name) == 0) return next;
    }
    return NULL;
}

/* ---- Checking a definition ------------------------------------------------------------------------------------- */
static amp_status check_name(const amp_schema *schema) {
    const char *name = schema->name;
    const size_t length = strlen(name);
    if (name[length - 1] == '_' || (length > 4 && strcmp(name + length - 4, "_out") == 0)) {
        return amp_fail(AMP_ERROR_INVALID, "define_op: '%s' ends like the in-place or out= form of an op", name);
    }
    const amp_op_info *taken = amp_op_find(name);
    if (taken && !amp_op_is_user(taken)) {
        return amp_fail(AMP_ERROR_INVALID, "define_op: '%s' is an op of libamp", name);
    }
    /* Without an overload the key is the name, which also finds the overloads of that name. */
    for (const amp_op_info *op = taken; op; op = amp_op_next_overload(op)) {
        if (strcmp(op->overload, schema->overload) != 0) continue;
        return amp_fail(AMP_ERROR_INVALID, "define_op: '%s' is defined already", schema->key);
    }
    return AMP_OK;
}

static amp_status check_struct(const amp_op_definition *d, const amp_schema *schema) {
    char expected[640];
    if (schema->args_size > AMP_MAX_ARGS_BYTES) {
        return amp_fail(AMP_ERROR_INVALID, "define_op: the arguments of '%s' take %zu bytes; at most %d are allowed",
                        schema->key, schema->args_size, AMP_MAX_ARGS_BYTES);
    }
    if (d->args_size == schema->args_size) return AMP_OK;
    amp_schema_struct(schema, expected, sizeof expected);
    return amp_fail(AMP_ERROR_INVALID, "define_op: the args_size of '%s' is %zu, but the schema makes %zu: %s",
                    schema->key, d->args_size, schema->args_size, expected);
}

static amp_status check_forms(const amp_op_definition *d, const amp_schema *schema) {
    if ((d->in_place || d->out) && (schema->returns_list || schema->output_count > 1)) {
        return amp_fail(AMP_ERROR_INVALID, "define_op: '%s' has several results; in-place and out= forms are for one",
                        schema->key);
    }
    if (d->in_place && schema->args[0].kind != AMP_ARG_TENSOR) {
        return amp_fail(AMP_ERROR_INVALID, "define_op: the in-place form of '%s' would write '%s', which is no tensor",
                        schema->key, schema->args[0].name);
    }
    return AMP_OK;
}

static bool has_dtype_option(const amp_schema *schema) {
    for (int i = 0; i < schema->arg_count; i++) {
        if (schema->args[i].kind == AMP_ARG_DTYPE && strcmp(schema->args[i].name, "dtype") == 0) return true;
    }
    return false;
}

static amp_status read_policy(const char *name, const amp_schema *schema, amp_policy *policy) {
    *policy = AMP_POLICY_FALLTHROUGH;
    if (!name) return AMP_OK;
    int i = 0;
    while (i < AMP_POLICY_COUNT && strcmp(amp_policy_name((amp_policy)i), name) != 0) i++;
    *policy = (amp_policy)i;
    if (i == AMP_POLICY_COUNT) {
        return amp_fail(AMP_ERROR_INVALID,
                        "define_op: '%s': there is no policy '%.40s'; the policies are fallthrough, parts, lower, "
                        "fp32, fp32_set_opt_dtype, fp32_append_dtype, promote and banned",
                        schema->key, name);
    }
    const bool sets_dtype = i == AMP_POLICY_FP32_SET_OPT_DTYPE || i == AMP_POLICY_FP32_APPEND_DTYPE;
    if (!sets_dtype || has_dtype_option(schema)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "define_op: '%s': the policy %s needs an argument 'ScalarType? dtype=None'",
                    schema->key, name);
}

/* ---- Making the row -------------------------------------------------------------------------------------------- */
static amp_status fill_policies(user_op *op, const amp_op_device *const *devices) {
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) {
        amp_policy policy;
        AMP_TRY(read_policy(devices[d]->policy, &op->schema, &policy));
        for (int t = 0; t < AMP_TABLE_COUNT; t++) op->info.policy[t][d].policy = policy;
        op->run[d] = devices[d]->run;
    }
    if (op->run[AMP_DEVICE_CPU] || op->run[AMP_DEVICE_CUDA]) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "define_op: '%s' has no implementation on any device", op->schema.key);
}

static bool mutates(const amp_schema *schema) {
    for (int i = 0; i < schema->arg_count; i++) {
        if (schema->args[i].flags & AMP_ARG_MUTATED) return true;
    }
    return false;
}

static void fill_info(user_op *op, const amp_op_definition *d, const char *doc) {
    const amp_schema *schema = &op->schema;
    amp_op_info *info = &op->info;
    info->name = schema->name;
    info->overload = schema->overload;
    info->c_name = schema->name;
    info->schema = schema->text;
    info->doc = doc;
    info->args_size = info->args_used = schema->args_size;
    info->args = schema->args;
    info->arg_count = schema->arg_count;
    info->output_count = schema->output_count;
    info->result = "out";
    info->forms = AMP_FORM_FUNCTION | (d->in_place ? AMP_FORM_INPLACE : 0) | (d->out ? AMP_FORM_OUT : 0);
    info->flags = (d->not_differentiable ? AMP_OP_NOT_DIFFERENTIABLE : 0) | AMP_OP_DENSE_TARGET |
                  (d->elementwise ? AMP_OP_ELEMENTWISE : 0) | (schema->returns_list ? AMP_OP_RETURNS_LIST : 0) |
                  (mutates(schema) ? AMP_OP_MUTATES : 0);
    info->no_gradient = d->not_differentiable ? "defined by the program" : NULL;
}

static amp_status fill_gradient(user_op *op, const amp_op_definition *d) {
    amp_gradient_row *row = &op->gradient;
    AMP_TRY(amp_gradient_needs_parse(&op->schema, d->saves, op->needs, &row->need_count));
    row->function = d->gradient;
    row->needs = op->needs;
    row->is_parts = !d->gradient && op->info.policy[AMP_TABLE_TORCH][AMP_DEVICE_CPU].policy == AMP_POLICY_PARTS;
    if (d->gradient && d->not_differentiable)
        return amp_fail(AMP_ERROR_INVALID, "define_op: '%s' has a gradient, and is not differentiable", op->schema.key);
    return AMP_OK;
}

static amp_status build(user_op *op, const amp_op_definition *d, size_t doc_at) {
    const amp_op_device *const devices[AMP_DEVICE_COUNT] = {[AMP_DEVICE_CPU] = &d->cpu, [AMP_DEVICE_CUDA] = &d->cuda};
    AMP_TRY(amp_schema_parse(d->schema, op->room, &op->schema));
    AMP_TRY(check_struct(d, &op->schema));
    AMP_TRY(check_forms(d, &op->schema));
    AMP_TRY(fill_policies(op, devices));
    AMP_TRY(fill_gradient(op, d));
    strcpy(op->room + doc_at, d->doc ? d->doc : "");
    fill_info(op, d, op->room + doc_at);
    return AMP_OK;
}

/* Under the lock. */
static amp_status publish(user_op *op) {
    const int count = atomic_load_explicit(&op_count, memory_order_relaxed);
    AMP_TRY(check_name(&op->schema));
    if (count == AMP_MAX_USER_OPS) {
        return amp_fail(AMP_ERROR_INVALID, "define_op: '%s' is one more than the %d ops that can be defined",
                        op->schema.key, AMP_MAX_USER_OPS);
    }
    op->info.id = AMP_OP_ID_COUNT + count;
    ops[count] = op;
    atomic_store_explicit(&op_count, count + 1, memory_order_release);
    return AMP_OK;
}

static amp_status define(user_op **made, const amp_op_definition *d) {
    const size_t room = amp_schema_room(strlen(d->schema)), doc = d->doc ? strlen(d->doc) : 0;
    user_op *op = *made = amp_alloc_zeroed(sizeof *op + room + doc + 1);
    if (!op) return amp_fail(AMP_ERROR_MEMORY, "define_op: no memory for '%.200s'", d->schema);
    AMP_TRY(build(op, d, room));
    amp_lock(AMP_LOCK_USER_OPS);
    const amp_status status = publish(op);
    amp_unlock(AMP_LOCK_USER_OPS);
    return status;
}

static amp_status read_definition(const amp_op_definition *given, amp_op_definition *d) {
    AMP_TRY(amp_struct_read("define_op", "amp_op_definition", d, sizeof *d, offsetof(amp_op_definition, cuda), given));
    AMP_TRY(amp_struct_reserved("define_op", d->reserved, sizeof d->reserved));
    return d->schema ? AMP_OK : amp_fail(AMP_ERROR_INVALID, "define_op: the schema is NULL");
}

const amp_op *amp_define_op_call(const amp_op_definition *given) {
    amp_op_definition d;
    user_op *op = NULL;
    if (amp_failed() || read_definition(given, &d) != AMP_OK) return NULL;
    if (define(&op, &d) == AMP_OK) return &op->info;
    amp_free(op);
    return NULL;
}
