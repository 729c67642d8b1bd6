/* take_along_dim, one_hot. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "cpu/index/index_walk.h"
#include "steps/indices.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

static amp_status flattened(const amp_call *call, const amp_tensor *t, amp_tensor *flat) {
    *flat = *t;
    if (!amp_tensor_is_dense(t)) {
        amp_tensor *copy = amp_backend_tensor(call->device, call->op->name, t->dtype, t->rank, t->shape);
        if (!copy) return amp_pending_error();
        AMP_TRY(amp_copy_tensor(copy, t));
        *flat = *copy;
    }
    flat->rank = 1;
    flat->shape[0] = amp_tensor_elements(t);
    flat->strides[0] = 1;
    return AMP_OK;
}

/* Both stretched to their common shape, but each keeps its own extent of `dim`. */
static bool stretch(amp_tensor *input, amp_tensor *index, int dim) {
    for (int d = 0; d < input->rank; d++) {
        if (d == dim || input->shape[d] == index->shape[d]) continue;
        amp_tensor *narrow = input->shape[d] == 1 ? input : index;
        if (narrow->shape[d] != 1) return false;
        narrow->shape[d] = narrow == input ? index->shape[d] : input->shape[d];
        narrow->strides[d] = 0;
    }
    return true;
}

amp_status cpu_take_along_dim(amp_call *call) {
    const amp_take_along_dim_args *a = call->args;
    amp_tensor *converted = amp_index_tensor(call, "indices", a->indices);
    if (!converted) return amp_pending_error();
    amp_tensor input = *a->input, index = *converted;
    int d = 0;
    if (a->dim.set) {
        AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, input.rank, &d));
        if (index.rank != input.rank) {
            return amp_fail(AMP_ERROR_INVALID, "%s: 'indices' is %s, input %s; expected as many dimensions",
                            amp_call_name(call), amp_describe(a->indices), amp_describe(a->input));
        }
    } else {
        AMP_TRY(flattened(call, a->input, &input));
        AMP_TRY(flattened(call, converted, &index));
    }
    input = amp_index_at_least_vector(&input);
    index = amp_index_at_least_vector(&index);
    if (!stretch(&input, &index, d)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'indices' is %s, input %s; their shapes do not broadcast beside 'dim'",
                        amp_call_name(call), amp_describe(a->indices), amp_describe(a->input));
    }
    const int rank = a->dim.set ? a->indices->rank : 1;
    return amp_steps_of(call)->read_along(call, &(const amp_reading){converted, &input, &index, d, rank});
}

static amp_status count_classes(const amp_call *call, const amp_tensor *index, int64_t *classes) {
    if (amp_tensor_elements(index) == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, from which 'num_classes' cannot be counted: give it",
                        amp_call_name(call), amp_describe(index));
    }
    if (!amp_steps_of(call)->largest_index) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED,
                        "%s: 'num_classes' must be given on %s: to count the classes would wait for the device",
                        amp_call_name(call), amp_device_name(call->device));
    }
    const int64_t largest = amp_steps_of(call)->largest_index(index);
    *classes = largest + (largest < INT64_MAX);
    return AMP_OK;
}

amp_status cpu_one_hot(amp_call *call) {
    const amp_one_hot_args *a = call->args;
    amp_tensor *index = amp_index_tensor(call, "input", a->input);
    if (!index) return amp_pending_error();
    int64_t classes = a->num_classes.value;
    if (classes == -1) AMP_TRY(count_classes(call, index, &classes));
    if (index->rank == AMP_MAX_RANK || classes < 1) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: input is %s and 'num_classes' %lld; expected classes from 1 up, and at "
                        "most %d dimensions",
                        amp_call_name(call), amp_describe(a->input), (long long)classes, AMP_MAX_RANK - 1);
    }
    int64_t shape[AMP_MAX_RANK], elements;
    memcpy(shape, index->shape, (size_t)index->rank * sizeof *shape);
    shape[index->rank] = classes;
    amp_tensor expected = {.dtype = AMP_I64, .rank = index->rank + 1};
    memcpy(expected.shape, shape, (size_t)expected.rank * sizeof *shape);
    AMP_TRY(amp_index_check(call, "input", index, classes, &expected, index->rank, false));
    AMP_TRY(amp_shape_elements(amp_call_name(call), index->rank + 1, shape, &elements));
    amp_tensor *out = amp_call_output(call, 0, AMP_I64, index->rank + 1, shape);
    if (!out) return amp_pending_error();
    const amp_scalar zero = amp_int(0);
    AMP_TRY(amp_fill_tensor_with(out, &zero));
    return amp_steps_of(call)->set_hot(call, index, out);
}
