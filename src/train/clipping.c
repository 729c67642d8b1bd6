/* Gradients made smaller: by their norm, or one by one. */
#include <math.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "train/parameters.h"

/* The norms of the gradients that there are, in f64: squares of f32 overflow. */
static amp_status norms_of(const amp_parameters *p, double order, double *norms, int64_t *count) {
    for (int64_t i = 0; i < p->count; i++) {
        amp_tensor *g = amp_tensor_grad(p->items[i].tensor);
        if (!g) continue;
        amp_tensor *norm = amp_linalg_vector_norm(g, .ord = amp_float(order), .dtype = AMP_F64);
        AMP_TRY(amp_read(norm, AMP_F64, &norms[(*count)++], sizeof *norms));
    }
    return AMP_OK;
}

/* The norm of norms: PyTorch's, also where order 0 counts gradients and not elements. */
static amp_status norm_of(const amp_parameters *p, double order, double *total) {
    int64_t count = 0;
    double *norms = amp_alloc((size_t)(p->count + 1) * sizeof *norms);
    if (!norms) return amp_fail(AMP_ERROR_MEMORY, "clip_grad_norm: no memory");
    amp_status status = norms_of(p, order, norms, &count);
    if (status == AMP_OK && count > 0) {
        amp_tensor *all = amp_from_data(norms, AMP_F64, 1, &count);
        amp_tensor *norm = all ? amp_linalg_vector_norm(all, .ord = amp_float(order)) : NULL;
        *total = norm ? amp_item(norm) : 0;
        status = amp_pending_error();
    }
    amp_free(norms);
    return status;
}

static amp_status clip(const amp_clip_grad_norm_args *a, double *total) {
    const double order = a->norm_type.set == AMP_PRESENT ? a->norm_type.value : 2;
    amp_no_grad_here();
    amp_scope_here();
    AMP_TRY(norm_of(a->parameters, order, total));
    if (a->error_if_nonfinite && !isfinite(*total))
        return amp_fail(AMP_ERROR_INVALID, "clip_grad_norm: the norm of the gradients is %g; nothing was clipped",
                        *total);
    const double factor = a->max_norm / (*total + 1e-6);
    if (factor >= 1) return AMP_OK; /* not so if it is NaN */
    for (int64_t i = 0; i < a->parameters->count; i++) {
        amp_tensor *g = amp_tensor_grad(a->parameters->items[i].tensor);
        if (g && !amp_mul_scalar_(g, amp_float(factor))) return amp_pending_error();
    }
    return AMP_OK;
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

amp_status amp_clip_grad_value(amp_parameters *p, double clip_value) {
    AMP_TRY(amp_pending_error());
    if (!p || isnan(clip_value))
        return amp_fail(AMP_ERROR_INVALID, "clip_grad_value: %s", p ? "clip_value is NaN" : "the list is NULL");
    amp_no_grad_here();
    amp_scope_here();
    for (int64_t i = 0; i < p->count; i++) {
        amp_tensor *g = amp_tensor_grad(p->items[i].tensor);
        if (g && !amp_clamp_(g, .min = amp_float(-clip_value), .max = amp_float(clip_value)))
            return amp_pending_error();
    }
    return amp_pending_error();
}
