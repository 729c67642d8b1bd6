/* Gradients made smaller: by their norm, or one by one. */
#include <math.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "train/devices.h"
#include "train/parameters.h"

/* Those that there are, in the caller's memory, of which there is enough for all. */
static int64_t gradients_of(const amp_parameters *p, amp_tensor **memory) {
    int64_t count = 0;
    for (int64_t i = 0; i < p->count; i++) {
        amp_tensor *g = amp_tensor_grad(p->items[i].tensor);
        if (g) memory[count++] = g;
    }
    return count;
}

/* Those from `first` on that are on its device, in one list. */
static amp_tensor_list group_from(amp_tensor **gradients, int64_t first, int64_t count) {
    return (amp_tensor_list){.items = gradients + first, .count = amp_first_devices(gradients + first, count - first)};
}

/* Times factor, and no further from 0 than limit. */
static amp_status clip_all(const amp_parameters *p, double factor, double limit, amp_tensor **memory) {
    const int64_t count = gradients_of(p, memory);
    for (int64_t i = 0; i < count;) {
        const amp_tensor_list list = group_from(memory, i, count);
        if (!amp_foreach_clip(list, factor, limit)) return amp_pending_error();
        i += list.count;
    }
    return AMP_OK;
}

static amp_status norms_of(const amp_parameters *p, double order, amp_tensor **memory, double *norms, int64_t *count) {
    *count = gradients_of(p, memory);
    for (int64_t i = 0; i < *count;) {
        const amp_tensor_list list = group_from(memory, i, *count);
        AMP_TRY(amp_read(amp_foreach_norm(list, order), AMP_F64, norms + i, (size_t)list.count * sizeof *norms));
        i += list.count;
    }
    return AMP_OK;
}

/* The norm of norms: PyTorch's, also where order 0 counts gradients and not elements. */
static amp_status norm_of(const amp_parameters *p, double order, amp_tensor **memory, double *total) {
    int64_t count = 0;
    double *norms = amp_alloc((size_t)(p->count + 1) * sizeof *norms);
    if (!norms) return amp_fail(AMP_ERROR_MEMORY, "clip_grad_norm: no memory");
    amp_status status = norms_of(p, order, memory, norms, &count);
    if (status == AMP_OK && count > 0) {
        amp_tensor *all = amp_from_data(norms, AMP_F64, 1, &count);
        amp_tensor *norm = all ? amp_linalg_vector_norm(all, .ord = amp_float(order)) : NULL;
        *total = norm ? amp_item(norm) : 0;
        status = amp_pending_error();
    }
    amp_free(norms);
    return status;
}

static amp_status clip_norm(const amp_clip_grad_norm_args *a, amp_tensor **memory, double *total) {
    const double order = a->norm_type.set == AMP_PRESENT ? a->norm_type.value : 2;
    AMP_TRY(norm_of(a->parameters, order, memory, total));
    if (a->error_if_nonfinite && !isfinite(*total))
        return amp_fail(AMP_ERROR_INVALID, "clip_grad_norm: the norm of the gradients is %g; nothing was clipped",
                        *total);
    const double factor = a->max_norm / (*total + 1e-6);
    if (factor >= 1) return AMP_OK; /* not so if it is NaN */
    return clip_all(a->parameters, factor, INFINITY, memory);
}

/* Memory for a list of all gradients; NULL with an error. */
static amp_tensor **memory_for(const char *what, const amp_parameters *p) {
    amp_tensor **memory = amp_alloc((size_t)(p->count + 1) * sizeof *memory);
    if (!memory) (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what);
    return memory;
}

static amp_status clip(const amp_clip_grad_norm_args *a, double *total) {
    amp_no_grad_here();
    amp_scope_here();
    amp_tensor **memory = memory_for("clip_grad_norm", a->parameters);
    if (!memory) return amp_pending_error();
    const amp_status status = clip_norm(a, memory, total);
    amp_free(memory);
    return status;
}

static amp_status check(const amp_clip_grad_norm_args *a) {
    AMP_TRY(amp_struct_reserved("clip_grad_norm", a->reserved, sizeof a->reserved));
    if (!a->parameters) return amp_fail(AMP_ERROR_INVALID, "clip_grad_norm: the list is NULL");
    AMP_TRY(amp_struct_mark("clip_grad_norm", "norm_type", a->norm_type.set, a->norm_type.value == 0));
    if (!isnan(a->max_norm) && !isnan(a->norm_type.value)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "clip_grad_norm: %s is NaN", isnan(a->max_norm) ? "max_norm" : "norm_type");
}

double amp_clip_grad_norm_call(const amp_clip_grad_norm_args *given) {
    amp_clip_grad_norm_args a;
    double total = 0;
    if (amp_failed()) return 0;
    if (amp_struct_read("clip_grad_norm", "amp_clip_grad_norm_args", &a, sizeof a, sizeof a.struct_size, given) !=
        AMP_OK)
        return 0;
    return check(&a) == AMP_OK && clip(&a, &total) == AMP_OK ? total : 0;
}

/* Complex numbers have no order to be clipped by. */
static amp_status check_real(const amp_parameters *p) {
    for (int64_t i = 0; i < p->count; i++) {
        const amp_tensor *g = amp_tensor_grad(p->items[i].tensor);
        if (g && amp_dtype_is_complex(g->dtype))
            return amp_fail(AMP_ERROR_DTYPE,
                            "clip_grad_value: the gradient of '%.200s' is %s; expected a floating dtype",
                            p->items[i].name, amp_describe(g));
    }
    return AMP_OK;
}

amp_status amp_clip_grad_value(amp_parameters *p, double clip_value) {
    AMP_TRY(amp_pending_error());
    if (!p || isnan(clip_value))
        return amp_fail(AMP_ERROR_INVALID, "clip_grad_value: %s", p ? "clip_value is NaN" : "the list is NULL");
    AMP_TRY(check_real(p));
    amp_no_grad_here();
    amp_scope_here();
    amp_tensor **memory = memory_for("clip_grad_value", p);
    if (!memory) return amp_pending_error();
    const amp_status status = clip_all(p, 1, clip_value, memory);
    amp_free(memory);
    return status;
}
