/* searchsorted, bucketize. */
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "cpu/move/rows.h"
#include "steps/indices.h"
#include "steps/steps.h"

/* ---- Arguments ------------------------------------------------------------------------------------------------ */

typedef struct search_args {
    const char *sequence_name, *values_name;
    amp_tensor *sequence, *values; /* values NULL: a number */
    const amp_scalar *number;
    bool out_int32, right;
    const char *side;
    amp_tensor *sorter;
} search_args;

static amp_status check_search_shapes(const amp_call *call, const search_args *a) {
    const amp_tensor *x = a->sequence, *v = a->values;
    const bool only_vector = a->number || !strcmp(a->sequence_name, "boundaries");
    if (x->rank == 0 || (only_vector && x->rank != 1)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected a vector%s", amp_call_name(call), a->sequence_name,
                        amp_describe(x), only_vector ? "" : ", or rows of them");
    }
    if (v && x->rank > 1 && !(x->rank == v->rank && amp_same_leading(x, v, x->rank - 1))) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, '%s' is %s; all but the last dimension must agree",
                        amp_call_name(call), a->values_name, amp_describe(v), a->sequence_name, amp_describe(x));
    }
    if (!a->sorter || amp_same_shape(a->sorter, x)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'sorter' is %s, '%s' is %s; expected equal shapes", amp_call_name(call),
                    amp_describe(a->sorter), a->sequence_name, amp_describe(x));
}

static amp_status read_side(const amp_call *call, const search_args *a, bool *right) {
    *right = a->right;
    if (!a->side) return AMP_OK;
    const bool is_right = !strcmp(a->side, "right");
    if (!is_right && strcmp(a->side, "left") != 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'side' is \"%s\"; expected \"left\" or \"right\"", amp_call_name(call),
                        a->side);
    }
    if (!is_right && a->right) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'side' is \"left\" and 'right' is true; they contradict each other",
                        amp_call_name(call));
    }
    *right = is_right;
    return AMP_OK;
}

static amp_status run(amp_call *call, const search_args *a) {
    amp_searching s = {.sequence = a->sequence};
    amp_rows value_rows, out_rows;
    AMP_TRY(check_search_shapes(call, a));
    AMP_TRY(read_side(call, a, &s.right));
    const amp_operand v[2] = {
        amp_tensor_operand(a->sequence_name, a->sequence),
        a->values ? amp_tensor_operand(a->values_name, a->values)
                  : amp_number_operand(a->values_name, *a->number)}; /* NOLINT(clang-analyzer-core.NullDereference) */
    s.compute = amp_compute_dtype(amp_operands_dtype(v, 2));
    if (s.compute == AMP_C128) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order ('%s' is %s)", amp_call_name(call),
                        a->sequence_name, amp_describe(a->sequence));
    }
    amp_tensor *values = a->values;
    if (!values) { /* the number as a 0-dim tensor of the type of the search */
        values = amp_backend_tensor(call->device, call->op->name, s.compute, 0, NULL);
        if (!values) return amp_pending_error();
        AMP_TRY(amp_fill_tensor_with(values, a->number));
    }
    const unsigned mask = a->sequence->rank == 1 ? (1u << values->rank) - 1 : 1u << (values->rank - 1);
    amp_tensor *out =
        amp_call_output(call, 0, a->out_int32 ? AMP_I32 : AMP_I64, values->rank, a->values ? values->shape : NULL);
    if (!out) return amp_pending_error();
    s.sorter = a->sorter ? amp_index_tensor(call, "sorter", a->sorter) : NULL;
    if (a->sorter && !s.sorter) return amp_pending_error();
    AMP_TRY(amp_rows_of(call, values, mask, &value_rows));
    AMP_TRY(amp_rows_for(call, out, mask, &out_rows));
    AMP_TRY(amp_steps_of(call)->search(call, &s, &value_rows, &out_rows));
    return amp_rows_finish(&out_rows);
}

amp_status cpu_searchsorted(amp_call *call) {
    const amp_searchsorted_args *a = call->args;
    return run(call, &(const search_args){"sorted_sequence", "values", a->sorted_sequence, a->values, NULL,
                                          a->out_int32, a->right, a->side, a->sorter});
}

amp_status cpu_searchsorted_scalar(amp_call *call) {
    const amp_searchsorted_scalar_args *a = call->args;
    return run(call, &(const search_args){"sorted_sequence", "values", a->sorted_sequence, NULL, &a->values,
                                          a->out_int32, a->right, a->side, a->sorter});
}

amp_status cpu_bucketize(amp_call *call) {
    const amp_bucketize_args *a = call->args;
    return run(call, &(const search_args){"boundaries", "input", a->boundaries, a->input, NULL, a->out_int32, a->right,
                                          NULL, NULL});
}

amp_status cpu_bucketize_scalar(amp_call *call) {
    const amp_bucketize_scalar_args *a = call->args;
    return run(call, &(const search_args){"boundaries", "input", a->boundaries, NULL, &a->input, a->out_int32, a->right,
                                          NULL, NULL});
}
