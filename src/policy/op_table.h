/* The table of ops: what tools/gen_ops.py makes of ops.def, one amp_op_info for each overload.
 *
 * Everything that treats ops alike reads this table: the dispatcher (defaults, tensor arguments), autocast (policies,
 * weight positions), amp_call_op (names, kinds), replay, explain, the docs and the generic tests. */
#ifndef AMP_POLICY_OP_TABLE_H
#define AMP_POLICY_OP_TABLE_H

#include "amp/error.h"
#include "amp/types.h"
#include "core/struct_size.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of argument, with the C type of the field in the op's argument struct. */
typedef enum amp_arg_kind {
    AMP_ARG_TENSOR,      /* amp_tensor *; NULL is absent */
    AMP_ARG_TENSOR_LIST, /* amp_tensor_list */
    AMP_ARG_SCALAR,      /* amp_scalar */
    AMP_ARG_FLOAT,       /* double */
    AMP_ARG_INT,         /* int64_t */
    AMP_ARG_BOOL,        /* bool */
    AMP_ARG_OPT_FLOAT,   /* amp_opt_float */
    AMP_ARG_OPT_INT,     /* amp_opt_int */
    AMP_ARG_OPT_BOOL,    /* amp_opt_bool */
    AMP_ARG_DIMS,        /* amp_dims */
    AMP_ARG_FLOATS,      /* amp_floats */
    AMP_ARG_DTYPE,       /* amp_dtype; AMP_DTYPE_NONE is absent */
    AMP_ARG_STRING,      /* const char *; NULL is absent */
    AMP_ARG_GENERATOR,   /* amp_generator *; NULL: the default one of the call's device */
    AMP_ARG_OUTPUT /* amp_tensor **: where a second, third, … result goes; NULL if the caller does not want it */
} amp_arg_kind;

enum {
    AMP_ARG_REQUIRED = 1u << 0, /* the schema gives no default */
    AMP_ARG_WEIGHT = 1u << 1,   /* weight position: its cast is cached from the first use */
    AMP_ARG_MUTATED = 1u << 2,  /* the op writes it (Tensor(a!)) */
    AMP_ARG_NULLABLE = 1u << 3, /* Tensor?, int?, …: may stay absent when the kernel runs */
    AMP_ARG_UNCAST = 1u << 4    /* floating point, yet no policy casts it (running statistics) */
};

typedef struct amp_arg_info {
    const char *name;
    amp_arg_kind kind;
    unsigned flags;
    size_t offset; /* in the argument struct */
    int dims;      /* N of int[N] or float[N]: a single value stands for N; 0 where any count fits */
    /* The default, for options that have one other than zero or absent. A string default is in default_string. */
    int has_default;
    double default_number; /* float, int, bool, scalar (scalar_kind tells); lists: the value for every dimension */
    amp_scalar_kind default_scalar_kind;
    const char *default_string;
} amp_arg_info;

typedef enum amp_policy {
    AMP_POLICY_FALLTHROUGH = 0,
    AMP_POLICY_PARTS, /* the implementation reaches its tensors through ops alone, and autocast looks at those */
    AMP_POLICY_LOWER,
    AMP_POLICY_FP32,
    AMP_POLICY_FP32_SET_OPT_DTYPE,
    AMP_POLICY_FP32_APPEND_DTYPE,
    AMP_POLICY_PROMOTE,
    AMP_POLICY_BANNED,
    AMP_POLICY_COUNT
} amp_policy;

/* Versions of the policy tables (SEMANTICS: "the policy tables keep both, as named table versions"). */
typedef enum amp_table { AMP_TABLE_TORCH = 0, AMP_TABLE_IPEX, AMP_TABLE_APEX, AMP_TABLE_COUNT } amp_table;

/* A policy, which may hold on a condition: what a word among the arguments is. The op falls through else. */
typedef struct amp_policy_cell {
    amp_policy policy;
    const char *argument; /* NULL: always */
    const char *value;    /* "area" */
    bool if_equal;        /* it holds where the argument is the value; else, unless it is */
} amp_policy_cell;

/* The forms of an op. */
enum { AMP_FORM_FUNCTION = 1u << 0, AMP_FORM_INPLACE = 1u << 1, AMP_FORM_OUT = 1u << 2 };

enum {
    AMP_OP_ELEMENTWISE = 1u << 0,  /* output element i needs only inputs' element i: the output may alias an input */
    AMP_OP_VIEW = 1u << 1,         /* the result shares the first argument's storage */
    AMP_OP_RETURNS_LIST = 1u << 2, /* -> Tensor[] */
    AMP_OP_NOT_DIFFERENTIABLE = 1u << 3,
    AMP_OP_MUTATES = 1u << 4,            /* it has arguments that it writes (AMP_ARG_MUTATED), in whatever form */
    AMP_OP_PLACED = 1u << 5,             /* its argument 'device' says where the result is made */
    AMP_OP_DENSE_TARGET = 1u << 6,       /* it writes a target only where that is dense; any other is copied to */
    AMP_OP_SHAPED_BY_ELEMENTS = 1u << 7, /* a result's size or place hangs on elements */
    AMP_OP_COMPOSED = 1u << 8,           /* made of calls of other ops, and looks at no element that these give */
    AMP_OP_MOVES = 1u << 9,              /* the first result has elements of the first argument, or a constant:
                                          * rounding before is rounding behind */
    AMP_OP_KEEPS_CHANNELS_LAST = 1u << 10
};

#define AMP_MAX_ARGS 24
#define AMP_MAX_OUTPUTS 4

/* Largest argument struct; the generator checks it. */
enum { AMP_MAX_ARGS_BYTES = AMP_MAX_STRUCT_BYTES };

typedef struct amp_op_info {
    int id;               /* its place in the table; never written to a file */
    const char *name;     /* PyTorch's name: "add" */
    const char *overload; /* "" or "scalar" */
    const char *c_name;   /* "add", "add_scalar": amp_<c_name> */
    const char *schema;   /* as in ops.def, without libamp's marks */
    const char *doc;      /* one line */
    const char *alias_of; /* c_name of the op that runs instead (seed names); NULL for most */
    size_t args_size;     /* sizeof the argument struct */
    size_t args_used;     /* … up to its reserved bytes, which are 0 */
    const amp_arg_info *args;
    int arg_count; /* AMP_ARG_OUTPUT fields included: last here, first in the struct */
    int output_count;
    const char *result;         /* what the first result is called as an out= tensor: "out", "values" */
    unsigned forms;             /* AMP_FORM_* that exist */
    unsigned flags;             /* AMP_OP_* */
    const char *banned_message; /* what to call instead, for a BANNED cell */
    const char *no_gradient;    /* why there is no gradient; NULL where there is one */
    amp_policy_cell policy[AMP_TABLE_COUNT][AMP_DEVICE_COUNT];
} amp_op_info;

extern const amp_op_info amp_op_table[];
extern const int amp_op_count;

/* First overload of a name ("add"), or the overload itself ("add.scalar", "add_scalar"); NULL if there is none. The
 * overloads of a name are adjacent in the table. Those that the program defined (policy/user_ops.h) are found
 * behind. */
const amp_op_info *amp_op_find(const char *name);

/* Whether the name that an op was found by, perhaps with a form's suffix behind it, means this overload alone. */
bool amp_op_names_one(const char *name, const amp_op_info *op);

/* The op that a wrong name may mean, PyTorch's prefixes ("aten::", "torch.") left out; NULL: none. */
const char *amp_op_near(const char *name);
/* AMP_ERROR_INVALID: there is no op of this name; and which one may be meant. */
amp_status amp_op_unknown(const char *what, const char *name);
/* The overload of the same name that is tried after this one; NULL after the last. */
const amp_op_info *amp_op_next_overload(const amp_op_info *op);

#ifdef __cplusplus
}
#endif

#endif /* AMP_POLICY_OP_TABLE_H */
