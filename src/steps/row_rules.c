/* Rules of the arguments of ops on rows, channels and tables. */
#include "steps/row_rules.h"

#include "core/compute_dtype.h"
#include "steps/shape_rules.h"

amp_status amp_check_floating(const amp_call *call, const amp_tensor *input) {
    if (amp_dtype_is_floating(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype", amp_call_name(call),
                    amp_describe(input));
}

amp_status amp_check_logarithms(const amp_call *call, const amp_tensor *input) {
    if (amp_dtype_is_floating(input->dtype) || amp_dtype_is_complex(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating or complex dtype", amp_call_name(call),
                    amp_describe(input));
}

amp_dtype amp_total_dtype(const amp_call *call, const amp_tensor *input, amp_dtype given) {
    if (given != AMP_DTYPE_NONE) return given;
    const bool whole = amp_compute_dtype(input->dtype) == AMP_I64;
    return whole && call->form != AMP_FORM_INPLACE ? AMP_I64 : input->dtype;
}

amp_status amp_read_softmax(const amp_call *call, const amp_tensor *input, int64_t dim, amp_dtype given, int *wrapped,
                            amp_dtype *dtype) {
    *dtype = given == AMP_DTYPE_NONE ? input->dtype : given;
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, wrapped));
    if (amp_dtype_is_floating(*dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype, or one as 'dtype'",
                    amp_call_name(call), amp_describe(input));
}

amp_status amp_check_extreme(const amp_call *call, const amp_tensor *input, unsigned mask) {
    int64_t results = 1, each = 1;
    for (int d = 0; d < input->rank; d++) *(mask & 1u << d ? &each : &results) *= input->shape[d];
    if (amp_dtype_is_complex(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                        amp_describe(input));
    }
    if (each > 0 || results == 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, and of no element there is no extreme", amp_call_name(call),
                    amp_describe(input));
}

amp_status amp_read_glu(const amp_call *call, const amp_glu_args *args, int *wrapped) {
    const amp_tensor *input = args->input;
    AMP_TRY(amp_check_floating(call, input));
    AMP_TRY(amp_wrap_dim(call, "dim", args->dim.value, input->rank, wrapped));
    if (input->rank > 0 && input->shape[*wrapped] % 2 == 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected an even extent of dimension %d", amp_call_name(call),
                    amp_describe(input), *wrapped);
}

amp_status amp_read_slopes(const amp_call *call, const amp_prelu_args *args, amp_tensor *slopes) {
    const amp_tensor *input = args->input, *weight = args->weight;
    const int64_t channels = input->rank > 1 ? input->shape[1] : 1, count = amp_tensor_elements(weight);
    AMP_TRY(amp_check_floating(call, input));
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, "weight", weight));
    if (weight->rank > 1 || (count != 1 && count != channels)) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'weight' is %s, input is %s; expected one slope, or one for each of %lld channels",
                        amp_call_name(call), amp_describe(weight), amp_describe(input), (long long)channels);
    }
    *slopes = *weight;
    slopes->rank = input->rank;
    for (int d = 0; d < input->rank; d++) {
        slopes->shape[d] = d == 1 ? count : 1;
        slopes->strides[d] = d == 1 && weight->rank ? weight->strides[0] : 0;
    }
    return AMP_OK;
}

amp_status amp_check_channel_input(const amp_call *call, const amp_tensor *input) {
    if (input->rank >= 2) return amp_check_floating(call, input);
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected at least 2 dimensions, [batch, channels, …]",
                    amp_call_name(call), amp_describe(input));
}

amp_status amp_check_channel_numbers(const amp_call *call, const amp_tensor *input, const char *name,
                                     const amp_tensor *t) {
    if (!t) return AMP_OK;
    const bool narrow = input->dtype == AMP_BF16 || input->dtype == AMP_F16;
    if (t->rank != 1 || t->shape[0] != input->shape[1]) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, input is %s; expected one number for each channel, [%lld]",
                        amp_call_name(call), name, amp_describe(t), amp_describe(input), (long long)input->shape[1]);
    }
    if (t->dtype == input->dtype || (narrow && t->dtype == AMP_F32)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s, '%s' is %s; expected the same dtype%s", amp_call_name(call),
                    amp_describe(input), name, amp_describe(t), narrow ? " or f32" : "");
}

amp_status amp_check_running(const amp_call *call, const amp_tensor *input, const amp_tensor *mean,
                             const amp_tensor *variance, const char *option, bool needed) {
    AMP_TRY(amp_check_channel_numbers(call, input, "running_mean", mean));
    AMP_TRY(amp_check_channel_numbers(call, input, "running_var", variance));
    if (!needed || (mean && variance)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is missing; expected it where '%s' is false", amp_call_name(call),
                    mean ? "running_var" : "running_mean", option);
}

amp_status amp_check_groups(const amp_call *call, const amp_tensor *input, int64_t groups) {
    if (groups >= 1 && input->shape[1] % groups == 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'num_groups' is %lld, input is %s; expected a divisor of its channels",
                    amp_call_name(call), (long long)groups, amp_describe(input));
}

amp_status amp_check_table(const amp_call *call, const amp_tensor *index, const amp_tensor *table) {
    if (table->rank != 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'weight' is %s; expected a matrix [rows, width]", amp_call_name(call),
                        amp_describe(table));
    }
    if (index->dtype == AMP_I64 || index->dtype == AMP_I32) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected indices of i64 or i32", amp_call_name(call),
                    amp_describe(index));
}

amp_status amp_check_embedding(const amp_call *call, const amp_embedding_args *args) {
    AMP_TRY(amp_check_table(call, args->input, args->weight));
    if (args->input->rank < AMP_MAX_RANK) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; the result would have more than %d dimensions",
                    amp_call_name(call), amp_describe(args->input), AMP_MAX_RANK);
}

/* (…, width) of gradients for indices (…). */
amp_status amp_check_embedding_backward(const amp_call *call, const amp_embedding_dense_backward_args *a) {
    const amp_tensor *rows = a->grad_output, *index = a->indices;
    bool fits = rows->rank == index->rank + 1;
    for (int d = 0; fits && d < index->rank; d++) fits = rows->shape[d] == index->shape[d];
    if (!fits || a->num_weights < 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'grad_output' is %s, 'indices' is %s, 'num_weights' %lld; expected a row for each index, "
                        "and as many weights as indices can name",
                        amp_call_name(call), amp_describe(rows), amp_describe(index), (long long)a->num_weights);
    }
    if ((index->dtype == AMP_I64 || index->dtype == AMP_I32) &&
        (amp_dtype_is_floating(rows->dtype) || amp_dtype_is_complex(rows->dtype)))
        return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE,
                    "%s: 'grad_output' is %s, 'indices' is %s; expected a floating dtype, and i64 or i32",
                    amp_call_name(call), amp_describe(rows), amp_describe(index));
}
