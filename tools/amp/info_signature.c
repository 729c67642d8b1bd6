/* An op's macro of include/amp/ops, from its row of the table. */
#include "info_signature.h"

#include <inttypes.h>

/* ---- Defaults ---------------------------------------------------------------------------------------------------- */
static void write_bool(FILE *out, const amp_arg_info *arg) {
    fputs(arg->default_number != 0 ? "true" : "false", out);
}

static void write_number(FILE *out, const amp_arg_info *arg) {
    fprintf(out, "%.10g", arg->default_number);
}

/* An option that tells whether it was given; `value` writes its default. */
static void write_set(FILE *out, const amp_arg_info *arg, void (*value)(FILE *, const amp_arg_info *)) {
    fputs("AMP_SET(", out);
    if (arg->has_default)
        value(out, arg);
    else
        fputs("…", out);
    fputc(')', out);
}

static void write_list(FILE *out, const amp_arg_info *arg, const char *macro) {
    fprintf(out, "%s(", macro);
    if (arg->has_default)
        write_number(out, arg);
    else
        fputs("…", out);
    fputc(')', out);
}

static void write_scalar(FILE *out, const amp_arg_info *arg) {
    if (!arg->has_default)
        fputs("amp_float(…)", out);
    else if (arg->default_scalar_kind == AMP_SCALAR_BOOL)
        fprintf(out, "amp_bool(%s)", arg->default_number != 0 ? "true" : "false");
    else
        fprintf(out, "%s(%.10g)", arg->default_scalar_kind == AMP_SCALAR_INT ? "amp_int" : "amp_float",
                arg->default_number);
}

static void write_default(FILE *out, const amp_arg_info *arg) {
    switch (arg->kind) {
    case AMP_ARG_SCALAR: write_scalar(out, arg); break;
    case AMP_ARG_BOOL: write_bool(out, arg); break;
    case AMP_ARG_FLOAT:
    case AMP_ARG_INT: write_number(out, arg); break;
    case AMP_ARG_OPT_FLOAT:
    case AMP_ARG_OPT_INT: write_set(out, arg, write_number); break;
    case AMP_ARG_OPT_BOOL: write_set(out, arg, write_bool); break;
    case AMP_ARG_DIMS: write_list(out, arg, "AMP_DIMS"); break;
    case AMP_ARG_FLOATS: write_list(out, arg, "AMP_FLOATS"); break;
    case AMP_ARG_TENSOR_LIST: fputs("AMP_LIST(…)", out); break;
    case AMP_ARG_DTYPE: fputs("AMP_DTYPE_NONE", out); break;
    case AMP_ARG_STRING:
        if (arg->default_string)
            fprintf(out, "\"%s\"", arg->default_string);
        else
            fputs("NULL", out);
        break;
    default: fputs("NULL", out); break;
    }
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */
static void write_required(FILE *out, const amp_arg_info *arg) {
    switch (arg->kind) {
    case AMP_ARG_DIMS: fprintf(out, "AMP_DIMS(%s…)", arg->name); break;
    case AMP_ARG_FLOATS: fprintf(out, "AMP_FLOATS(%s…)", arg->name); break;
    case AMP_ARG_TENSOR_LIST: fprintf(out, "AMP_LIST(%s…)", arg->name); break;
    case AMP_ARG_SCALAR: fprintf(out, "amp_float(%s)", arg->name); break;
    default: fputs(arg->name, out); break;
    }
}

void amp_write_call(FILE *out, const amp_op_info *op) {
    fprintf(out, "amp_%s(", op->c_name);
    for (int i = 0; i < op->arg_count; i++) {
        const amp_arg_info *arg = &op->args[i];
        if (i) fputs(", ", out);
        if (arg->flags & AMP_ARG_REQUIRED) {
            write_required(out, arg);
        } else {
            fprintf(out, ".%s = ", arg->name);
            write_default(out, arg);
        }
    }
    fputc(')', out);
}

void amp_write_forms(FILE *out, const amp_op_info *op) {
    if (op->forms & AMP_FORM_INPLACE) fprintf(out, "amp_%s_(…)", op->c_name);
    if (!(op->forms & AMP_FORM_OUT)) return;
    fprintf(out, "%samp_%s_out(%s", op->forms & AMP_FORM_INPLACE ? ", " : "", op->c_name, op->result);
    for (int i = 0; i < op->arg_count; i++)
        if (op->args[i].kind == AMP_ARG_OUTPUT) fprintf(out, ", %s", op->args[i].name);
    fputs(", …)", out);
}
