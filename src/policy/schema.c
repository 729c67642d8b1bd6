/* Reading a schema: one pass from left to right, texts copied one behind the other into the caller's room. */
#include "policy/schema.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"

typedef struct reader {
    const char *at;     /* rest of the schema */
    const char *schema; /* all of it, for messages */
    char *room;         /* where the next text goes */
    amp_schema *out;
} reader;

/* What a field of each kind is in C. */
static const struct {
    const char *type;
    size_t size, align;
} fields[] = {
#define FIELD(kind, ctype) [AMP_ARG_##kind] = {#ctype, sizeof(ctype), _Alignof(ctype)}
    FIELD(TENSOR, amp_tensor *),
    FIELD(TENSOR_LIST, amp_tensor_list),
    FIELD(SCALAR, amp_scalar),
    FIELD(FLOAT, double),
    FIELD(INT, int64_t),
    FIELD(BOOL, bool),
    FIELD(DIMS, amp_dims),
    FIELD(OPT_FLOAT, amp_opt_float),
    FIELD(OPT_INT, amp_opt_int),
    FIELD(OPT_BOOL, amp_opt_bool),
    FIELD(DTYPE, amp_dtype),
    FIELD(STRING, const char *),
    FIELD(OUTPUT, amp_tensor **),
    FIELD(FLOATS, amp_floats),
    FIELD(GENERATOR, amp_generator *),
#undef FIELD
};

size_t amp_schema_room(size_t length) {
    /* The schema without marks, its name three times, and its arguments' names and default strings with a few bytes
     * each ("out_" and the end). */
    return 6 * (length + 1) + (size_t)AMP_MAX_ARGS * 8;
}

/* ---- Words ----------------------------------------------------------------------------------------------------- */
static amp_status unreadable(const reader *r, const char *expected) {
    return amp_fail(AMP_ERROR_INVALID, "define_op: '%.200s': expected %s at '%.40s'", r->schema, expected, r->at);
}

static void skip_spaces(reader *r) {
    while (isspace((unsigned char)*r->at)) r->at++;
}

/* Takes `token` if it comes next. */
static bool take(reader *r, const char *token) {
    skip_spaces(r);
    const size_t length = strlen(token);
    if (strncmp(r->at, token, length) != 0) return false;
    r->at += length;
    return true;
}

static const char *keep_text(reader *r, const char *text, size_t length) {
    char *kept = r->room;
    memcpy(kept, text, length);
    kept[length] = '\0';
    r->room += length + 1;
    return kept;
}

static size_t name_length(const char *text) {
    size_t length = 0;
    if (isdigit((unsigned char)*text)) return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_') length++;
    return length;
}

static amp_status read_name(reader *r, const char *what, const char **name) {
    skip_spaces(r);
    const size_t length = name_length(r->at);
    if (length == 0 || length > 60) return unreadable(r, what);
    *name = keep_text(r, r->at, length);
    r->at += length;
    return AMP_OK;
}

/* ---- One argument ---------------------------------------------------------------------------------------------- */
typedef enum base_type {
    BASE_TENSOR,
    BASE_SCALAR_TYPE,
    BASE_SCALAR,
    BASE_FLOAT,
    BASE_INT,
    BASE_BOOL,
    BASE_STR,
    BASE_GENERATOR
} base_type;

static const char *const base_names[] = {
    /* ScalarType before Scalar, which it begins with */
    [BASE_TENSOR] = "Tensor", [BASE_SCALAR_TYPE] = "ScalarType",
    [BASE_SCALAR] = "Scalar", [BASE_FLOAT] = "float",
    [BASE_INT] = "int",       [BASE_BOOL] = "bool",
    [BASE_STR] = "str",       [BASE_GENERATOR] = "Generator",
};

/* A type as it is written. */
typedef struct written_type {
    base_type base;
    bool listed, optional, mutated, holes;
    int count; /* N of int[N], float[N] */
} written_type;

static amp_status read_base(reader *r, base_type *base) {
    skip_spaces(r);
    const size_t length = name_length(r->at);
    for (size_t i = 0; i < sizeof base_names / sizeof base_names[0]; i++) {
        if (length != strlen(base_names[i]) || strncmp(r->at, base_names[i], length) != 0) continue;
        *base = (base_type)i;
        r->at += length;
        return AMP_OK;
    }
    return unreadable(r, "a type (Tensor, Scalar, float, int, bool, str, ScalarType, Generator)");
}

static amp_status read_list(reader *r, written_type *type) {
    if (*r->at != '[') return AMP_OK;
    r->at++;
    type->listed = true;
    char *end = (char *)r->at;
    const long count = isdigit((unsigned char)*r->at) ? strtol(r->at, &end, 10) : 0;
    if (*end != ']' || count > AMP_MAX_RANK) return unreadable(r, "']' after a number up to 8");
    r->at = end + 1;
    type->count = (int)count;
    if (type->base == BASE_TENSOR && count == 0) return AMP_OK;
    const bool exists = type->base == BASE_INT || type->base == BASE_FLOAT;
    return exists ? AMP_OK : unreadable(r, "no list of this type (Tensor[], int[] and float[] exist)");
}

static amp_status read_type(reader *r, written_type *type) {
    *type = (written_type){0};
    AMP_TRY(read_base(r, &type->base));
    if (type->base == BASE_TENSOR && r->at[0] == '(' && islower((unsigned char)r->at[1]) && r->at[2] == '!' &&
        r->at[3] == ')') {
        type->mutated = true;
        r->at += 4;
    }
    if (r->at[0] == '?' && r->at[1] == '[') {
        type->holes = true;
        r->at++;
    }
    AMP_TRY(read_list(r, type));
    type->optional = *r->at == '?';
    r->at += type->optional;
    return isspace((unsigned char)*r->at) ? AMP_OK : unreadable(r, "a space between type and name");
}

static amp_status read_marks(reader *r, amp_arg_info *arg) {
    static const struct {
        const char *name;
        unsigned flag;
    } marks[] = {{"@weight", AMP_ARG_WEIGHT}, {"@uncast", AMP_ARG_UNCAST}};
    while (*r->at == '@') {
        size_t i = 0;
        while (i < 2 && strncmp(r->at, marks[i].name, strlen(marks[i].name)) != 0) i++;
        if (i == 2) return unreadable(r, "the mark @weight or @uncast");
        arg->flags |= marks[i].flag;
        r->at += strlen(marks[i].name);
    }
    return AMP_OK;
}

/* A literal: True, False, a number. */
static amp_status read_number(reader *r, double *number, amp_scalar_kind *kind) {
    static const char *const truth[] = {"False", "True"};
    for (int i = 0; i < 2; i++) {
        if (!take(r, truth[i])) continue;
        *number = i;
        *kind = AMP_SCALAR_BOOL;
        return AMP_OK;
    }
    const size_t length = strcspn(r->at, ",) ");
    char *end = NULL;
    *number = amp_read_number(r->at, &end);
    if (length == 0 || end != r->at + length) return unreadable(r, "a number, True, False or None");
    *kind = strcspn(r->at, ".eEnN") < length ? AMP_SCALAR_FLOAT : AMP_SCALAR_INT;
    r->at = end;
    return AMP_OK;
}

static amp_status read_string(reader *r, amp_arg_info *arg) {
    if (!take(r, "\"")) return unreadable(r, "a string in double quotes, or None");
    const size_t length = strcspn(r->at, "\"");
    if (r->at[length] == '\0') return unreadable(r, "the end of the string");
    arg->default_string = keep_text(r, r->at, length);
    arg->has_default = 1;
    r->at += length + 1;
    return AMP_OK;
}

/* The kind of an argument without a default, with =None, or with a default of zero. */
static amp_arg_kind kind_of(const written_type *type, bool zero) {
    switch (type->base) {
    case BASE_TENSOR: return type->listed ? AMP_ARG_TENSOR_LIST : AMP_ARG_TENSOR;
    case BASE_SCALAR_TYPE: return AMP_ARG_DTYPE;
    case BASE_SCALAR: return AMP_ARG_SCALAR;
    case BASE_STR: return AMP_ARG_STRING;
    case BASE_GENERATOR: return AMP_ARG_GENERATOR;
    case BASE_FLOAT: return type->listed ? AMP_ARG_FLOATS : zero ? AMP_ARG_FLOAT : AMP_ARG_OPT_FLOAT;
    case BASE_BOOL: return zero ? AMP_ARG_BOOL : AMP_ARG_OPT_BOOL;
    default: return type->listed ? AMP_ARG_DIMS : zero ? AMP_ARG_INT : AMP_ARG_OPT_INT;
    }
}

/* Whether the number is one that an argument of the type can have. */
static amp_status check_default(const reader *r, base_type base, double number, amp_scalar_kind kind) {
    if (base == BASE_INT && (kind != AMP_SCALAR_INT || !(fabs(number) < 0x1p63))) return unreadable(r, "an integer");
    if (base == BASE_BOOL && kind != AMP_SCALAR_BOOL) return unreadable(r, "True or False");
    if (base == BASE_FLOAT && kind == AMP_SCALAR_BOOL) return unreadable(r, "a number");
    return AMP_OK;
}

static amp_status read_default(reader *r, const written_type *type, amp_arg_info *arg) {
    if (take(r, "None")) {
        arg->kind = kind_of(type, false);
        return type->optional ? AMP_OK : unreadable(r, "a type with ?, which =None needs,");
    }
    arg->kind = kind_of(type, false);
    if (arg->kind == AMP_ARG_STRING) return read_string(r, arg);
    if (type->base == BASE_TENSOR || type->base == BASE_SCALAR_TYPE || type->base == BASE_GENERATOR)
        return unreadable(r, "None, the only default there is,");
    double number = 0;
    amp_scalar_kind kind = AMP_SCALAR_NONE;
    const reader before = *r;
    AMP_TRY(read_number(r, &number, &kind));
    AMP_TRY(check_default(&before, type->base, number, kind));
    arg->kind = kind_of(type, number == 0);
    if (arg->kind == AMP_ARG_FLOAT || arg->kind == AMP_ARG_INT || arg->kind == AMP_ARG_BOOL) return AMP_OK;
    arg->has_default = 1;
    arg->default_number = number;
    if (arg->kind == AMP_ARG_SCALAR) arg->default_scalar_kind = kind;
    return AMP_OK;
}

static amp_status check_new_name(const reader *r, const char *name) {
    bool taken = strcmp(name, "struct_size") == 0;
    for (int i = 0; i < r->out->arg_count; i++) taken |= strcmp(r->out->args[i].name, name) == 0;
    if (!taken) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "define_op: '%.200s': the name '%s' appears twice", r->schema, name);
}

static amp_status add_argument(reader *r, amp_arg_info arg) {
    if (r->out->arg_count == AMP_MAX_ARGS) {
        return amp_fail(AMP_ERROR_INVALID, "define_op: '%.200s': more than %d arguments", r->schema, AMP_MAX_ARGS);
    }
    AMP_TRY(check_new_name(r, arg.name));
    r->out->args[r->out->arg_count++] = arg;
    return AMP_OK;
}

static amp_status read_argument(reader *r) {
    written_type type;
    amp_arg_info arg = {0};
    AMP_TRY(read_type(r, &type));
    AMP_TRY(read_name(r, "the argument's name", &arg.name));
    AMP_TRY(read_marks(r, &arg));
    arg.dims = type.count;
    arg.flags |= type.mutated ? AMP_ARG_MUTATED : 0;
    arg.flags |= type.optional || type.holes ? AMP_ARG_NULLABLE : 0;
    if (take(r, "=")) {
        skip_spaces(r);
        AMP_TRY(read_default(r, &type, &arg));
    } else {
        arg.kind = kind_of(&type, true);
        arg.flags |= AMP_ARG_REQUIRED;
    }
    return add_argument(r, arg);
}

static amp_status read_arguments(reader *r) {
    bool starred = false;
    do {
        if (!starred && take(r, "*")) {
            starred = true;
            continue;
        }
        AMP_TRY(read_argument(r));
    } while (take(r, ","));
    if (r->out->arg_count == 0) return unreadable(r, "an argument");
    return take(r, ")") ? AMP_OK : unreadable(r, "',' or ')'");
}

/* ---- Results --------------------------------------------------------------------------------------------------- */
static amp_status add_output(reader *r, const char *name) {
    const char *unique = name;
    for (int i = 0; i < r->out->arg_count; i++) {
        if (strcmp(r->out->args[i].name, name) != 0) continue;
        char *prefixed = r->room;
        r->room += sprintf(prefixed, "out_%s", name) + 1;
        unique = prefixed;
    }
    return add_argument(r, (amp_arg_info){.name = unique, .kind = AMP_ARG_OUTPUT, .flags = AMP_ARG_NULLABLE});
}

static amp_status read_several(reader *r) {
    do {
        const char *name = NULL;
        if (!take(r, "Tensor")) return unreadable(r, "Tensor");
        AMP_TRY(read_name(r, "the result's name", &name));
        if (++r->out->output_count > AMP_MAX_OUTPUTS) return unreadable(r, "at most 4 results before");
        if (r->out->output_count > 1) AMP_TRY(add_output(r, name));
    } while (take(r, ","));
    return take(r, ")") ? AMP_OK : unreadable(r, "',' or ')'");
}

static amp_status read_results(reader *r) {
    if (!take(r, "->")) return unreadable(r, "'-> ' and the results");
    if (take(r, "(")) {
        AMP_TRY(read_several(r));
    } else if (take(r, "Tensor[]")) {
        r->out->returns_list = true;
    } else if (take(r, "Tensor")) {
        r->out->output_count = 1;
    } else {
        return unreadable(r, "Tensor, Tensor[] or (Tensor a, Tensor b)");
    }
    skip_spaces(r);
    return *r->at == '\0' ? AMP_OK : unreadable(r, "the end");
}

/* ---- All of it ------------------------------------------------------------------------------------------------- */
static amp_status read_key(reader *r) {
    const char *start = (skip_spaces(r), r->at);
    r->out->overload = "";
    AMP_TRY(read_name(r, "the op's name", &r->out->name));
    if (*r->at == '.') {
        r->at++;
        if (isspace((unsigned char)*r->at)) return unreadable(r, "the overload's name");
        AMP_TRY(read_name(r, "the overload's name", &r->out->overload));
    }
    r->out->key = keep_text(r, start, (size_t)(r->at - start));
    return take(r, "(") ? AMP_OK : unreadable(r, "'('");
}

/* Argument number `i` in the order of the struct: further results, which are the last arguments, stand first. */
static int nth_field(const amp_schema *schema, int i) {
    const int further = schema->output_count > 1 ? schema->output_count - 1 : 0;
    return i < further ? schema->arg_count - further + i : i - further;
}

static void lay_out(amp_schema *schema) {
    size_t offset = sizeof(size_t), align = _Alignof(size_t);
    for (int i = 0; i < schema->arg_count; i++) {
        amp_arg_info *arg = &schema->args[nth_field(schema, i)];
        const size_t unit = fields[arg->kind].align;
        arg->offset = (offset + unit - 1) / unit * unit;
        offset = arg->offset + fields[arg->kind].size;
        if (unit > align) align = unit;
    }
    schema->args_size = (offset + align - 1) / align * align;
}

/* The schema as people read it: marks left out, white space made one space. */
static const char *plain_text(reader *r) {
    char *text = r->room, *to = text;
    bool quoted = false;
    for (const char *from = r->schema; *from; from++) {
        if (!quoted && *from == '@') {
            from += name_length(from + 1);
            continue;
        }
        quoted ^= *from == '"';
        const bool space = !quoted && isspace((unsigned char)*from);
        if (!space || (to > text && to[-1] != ' ')) *to++ = space ? ' ' : *from;
    }
    *to = '\0';
    r->room = to + 1;
    return text;
}

amp_status amp_schema_parse(const char *schema, char *room, amp_schema *parsed) {
    reader r = {.at = schema, .schema = schema, .room = room, .out = parsed};
    memset(parsed, 0, sizeof *parsed);
    AMP_TRY(read_key(&r));
    AMP_TRY(read_arguments(&r));
    AMP_TRY(read_results(&r));
    parsed->text = plain_text(&r);
    lay_out(parsed);
    return AMP_OK;
}

void amp_schema_struct(const amp_schema *schema, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "struct { size_t struct_size;");
    for (int i = 0; i <= schema->arg_count && used < bytes; i++) {
        const bool last = i == schema->arg_count;
        const amp_arg_info *arg = last ? NULL : &schema->args[nth_field(schema, i)];
        const char *type = last ? "" : fields[arg->kind].type;
        const bool pointer = !last && type[strlen(type) - 1] == '*';
        used += (size_t)snprintf(text + used, bytes - used,
                                 last      ? "%s }%s"
                                 : pointer ? " %s%s;"
                                           : " %s %s;",
                                 type, last ? "" : arg->name);
    }
}
