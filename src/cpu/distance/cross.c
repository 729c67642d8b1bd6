/* The vector product. */
#include <complex.h>

#include "amp/ops.h"
#include "cpu/convert/element.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/elementwise/iterate.h"
#include "cuda/ops/cuda_elementwise.h"
#include "ops/shape_rules.h"

/* x y - z w, where every product of f32 is exact. */
#define DIFFERENCE_LOOP(suffix, type, wide)                                                                            \
    static void difference_##suffix(void *context, void *out, const void *const *in, int64_t n) {                      \
        const type *x = in[0], *y = in[1], *z = in[2], *w = in[3];                                                     \
        (void)context;                                                                                                 \
        for (int64_t i = 0; i < n; i++) ((type *)out)[i] = (type)((wide)x[i] * (wide)y[i] - (wide)z[i] * (wide)w[i]);  \
    }
DIFFERENCE_LOOP(f32, float, double)
DIFFERENCE_LOOP(f64, double, double)
DIFFERENCE_LOOP(i64, int64_t, uint64_t)
DIFFERENCE_LOOP(c128, double _Complex, double _Complex)

static amp_dense_function *difference_of(amp_dtype compute) {
    switch (compute) {
    case AMP_F32: return difference_f32;
    case AMP_F64: return difference_f64;
    case AMP_C128: return difference_c128;
    default: return difference_i64;
    }
}

/* v₀·v₁ − v₂·v₃ */
static amp_status difference_cuda(const amp_call *call, const amp_tensor *const v[4], amp_dtype compute,
                                  amp_tensor *out) {
    amp_tensor own[4], *first = amp_backend_tensor(call->device, call->op->name, compute, out->rank, out->shape);
    if (!first) return amp_pending_error();
    for (int i = 0; i < 4; i++) own[i] = *v[i];
    const amp_operand product[2] = {amp_tensor_operand("input", &own[0]), amp_tensor_operand("other", &own[1])};
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_mul, product, 2, compute, (amp_formula_numbers){0}, first));
    const amp_operand rest[3] = {amp_tensor_operand("product", first), amp_tensor_operand("input", &own[2]),
                                 amp_tensor_operand("other", &own[3])};
    return amp_cuda_compute(call, AMP_FORMULA_addcmul, rest, 3, compute, (amp_formula_numbers){.p = -1.0, .whole = -1},
                            out);
}

/* One of the three slices along d. */
static amp_tensor slice(const amp_tensor *t, int d, int index) {
    amp_tensor part = *t;
    part.offset += index * t->strides[d];
    part.shape[d] = 1;
    return part;
}

static amp_status find_dim(const amp_call *call, const amp_cross_args *a, int *d) {
    if (a->dim.set) return amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, d);
    for (*d = 0; *d < a->input->rank; ++*d) {
        if (a->input->shape[*d] == 3) return AMP_OK;
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, which has no dimension of extent 3", amp_call_name(call),
                    amp_describe(a->input));
}

static amp_status check(const amp_call *call, const amp_cross_args *a, int *d) {
    AMP_TRY(amp_call_check_same_dtype(call, "input", a->input, "other", a->other));
    if (a->input->dtype == AMP_BOOL) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; expected numbers", amp_call_name(call),
                        amp_describe(a->input));
    }
    if (a->input->rank != a->other->rank || a->input->rank == 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'input' is %s, 'other' is %s; expected as many dimensions, at least one",
                        amp_call_name(call), amp_describe(a->input), amp_describe(a->other));
    }
    AMP_TRY(find_dim(call, a, d));
    if (a->input->shape[*d] == 3 && a->other->shape[*d] == 3) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, 'other' is %s; both must have extent 3 along dimension %d",
                    amp_call_name(call), amp_describe(a->input), amp_describe(a->other), *d);
}

amp_status cpu_cross(amp_call *call) {
    const amp_cross_args *a = call->args;
    const amp_tensor *x = a->input, *y = a->other;
    int64_t shape[AMP_MAX_RANK];
    int d, rank;
    AMP_TRY(check(call, a, &d));
    if (!amp_broadcast_shapes(x->rank, x->shape, y->rank, y->shape, &rank, shape)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, 'other' is %s; their shapes do not broadcast",
                        amp_call_name(call), amp_describe(x), amp_describe(y));
    }
    amp_tensor *out = amp_call_output(call, 0, x->dtype, rank, shape);
    if (!out) return amp_pending_error();
    const amp_dtype compute = amp_compute_dtype(x->dtype);
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        const amp_tensor xj = slice(x, d, j), yk = slice(y, d, k), xk = slice(x, d, k), yj = slice(y, d, j);
        amp_tensor part = slice(out, d, i);
        if (call->device == AMP_DEVICE_CUDA) {
            const amp_tensor *const v[4] = {&xj, &yk, &xk, &yj};
            AMP_TRY(difference_cuda(call, v, compute, &part));
            continue;
        }
        const amp_elementwise work = {
            .function = difference_of(compute),
            .out_compute = compute,
            .inputs = 4,
            .in = {{&xj, NULL, compute}, {&yk, NULL, compute}, {&xk, NULL, compute}, {&yj, NULL, compute}},
            .cost = 4};
        amp_elementwise_run(&work, &part);
    }
    return AMP_OK;
}
