/* linalg_det, linalg_slogdet, logdet: from the diagonal of U and the exchanges of rows of LU factors. */
#include <math.h>

#include "ops/linalg/linalg.h"
#include "ops/math/compose.h"

/* What a determinant is the product of: a diagonal (batch…, n) and a sign (batch…), in the dtype to compute in. */
typedef struct factors {
    amp_tensor *diagonal, *sign;
} factors;

/* Every exchange of rows turns the sign. */
static amp_tensor *sign_of(const amp_call *call, amp_tensor *pivots, amp_dtype dtype) {
    const int64_t n = pivots->shape[pivots->rank - 1];
    amp_tensor *own = amp_arange_start(amp_int(1), amp_int(n + 1), .dtype = AMP_I32, .device = (int64_t)call->device);
    amp_tensor *moved = own ? amp_ne(pivots, own) : NULL;
    amp_tensor *count = moved ? amp_sum(moved, AMP_DIMS(-1)) : NULL;
    amp_tensor *odd = count ? amp_remainder_scalar(count, amp_int(2)) : NULL;
    amp_tensor *sign = odd ? amp_add_scalar(amp_mul_scalar(odd, amp_int(-2)), amp_int(1)) : NULL;
    return sign ? amp_to(sign, dtype) : NULL;
}

/* Of a matrix without elements, in any floating dtype: there is nothing to multiply. */
static amp_status no_factors(const amp_call *call, amp_tensor *a, factors *f) {
    amp_dims shape = amp_dims_of(a->rank - 2, a->shape);
    f->sign = amp_full(shape, amp_int(1), .dtype = a->dtype, .device = (int64_t)call->device);
    shape.values[shape.count++] = 0;
    f->diagonal = f->sign ? amp_reshape(a, shape) : NULL;
    return f->diagonal ? AMP_OK : amp_pending_error();
}

/* Small matrices of single precision in double precision. */
static amp_status factorise(const amp_call *call, const char *name, amp_tensor *a, factors *f) {
    const bool has_none = a->rank >= 2 && a->shape[a->rank - 1] == 0 && a->shape[a->rank - 2] == 0;
    if (has_none && !amp_is_whole(a->dtype)) return no_factors(call, a, f);
    AMP_TRY(amp_linalg_check(call, name, a, true));
    const int64_t n = a->shape[a->rank - 1];
    const amp_dtype dtype = amp_linalg_compute_dtype(a->dtype, n, n);
    amp_tensor *wide = dtype == a->dtype ? a : amp_to(a, dtype), *pivots = NULL;
    amp_tensor *lu = wide ? amp_lu_with_info(wide, .check_errors = AMP_SET(false), .pivots = &pivots) : NULL;
    f->diagonal = lu ? amp_diagonal(lu, 0, -2, AMP_SET(-1)) : NULL;
    f->sign = f->diagonal ? sign_of(call, pivots, dtype) : NULL;
    return f->sign ? AMP_OK : amp_pending_error();
}

static amp_tensor *narrowed(amp_tensor *t, amp_dtype dtype) {
    return t && t->dtype != dtype ? amp_to(t, dtype) : t;
}

amp_status amp_op_linalg_det(amp_call *call) {
    const amp_linalg_det_args *args = call->args;
    factors f = {0};
    AMP_TRY(factorise(call, "A", args->A, &f));
    amp_tensor *product = amp_prod(f.diagonal, AMP_SET(-1));
    return amp_return(call, product ? narrowed(amp_mul(product, f.sign), args->A->dtype) : NULL);
}

/* x/|x|, and 0 of 0. */
static amp_tensor *direction(amp_tensor *x, amp_tensor *length) {
    if (!amp_dtype_is_complex(x->dtype)) return amp_sign(x);
    amp_tensor *none = amp_eq_scalar(length, amp_int(0)),
               *divisor = none ? amp_masked_fill(length, none, amp_int(1)) : NULL;
    return divisor ? amp_div(x, divisor) : NULL;
}

/* The sign, and the logarithm of the absolute value, in the dtype that is computed in. */
static amp_status signed_logarithm(const amp_call *call, const char *name, amp_tensor *a, amp_tensor **sign,
                                   amp_tensor **logarithm) {
    factors f = {0};
    AMP_TRY(factorise(call, name, a, &f));
    amp_tensor *lengths = amp_abs(f.diagonal), *directions = lengths ? direction(f.diagonal, lengths) : NULL;
    amp_tensor *product = directions ? amp_prod(directions, AMP_SET(-1)) : NULL;
    *sign = product ? amp_mul(product, f.sign) : NULL;
    *logarithm = *sign ? amp_sum(amp_log(lengths), AMP_DIMS(-1)) : NULL;
    return *logarithm ? AMP_OK : amp_pending_error();
}

static amp_dtype real_dtype(amp_dtype dtype) {
    return dtype == AMP_C64 ? AMP_F32 : dtype == AMP_C128 ? AMP_F64 : dtype;
}

amp_status amp_op_linalg_slogdet(amp_call *call) {
    const amp_linalg_slogdet_args *args = call->args;
    amp_tensor *sign, *logarithm;
    AMP_TRY(signed_logarithm(call, "A", args->A, &sign, &logarithm));
    return amp_return_both(call, narrowed(sign, args->A->dtype), narrowed(logarithm, real_dtype(args->A->dtype)));
}

amp_status amp_op_logdet(amp_call *call) {
    const amp_logdet_args *args = call->args;
    const amp_dtype dtype = args->input->dtype;
    amp_tensor *sign, *logarithm;
    AMP_TRY(signed_logarithm(call, "input", args->input, &sign, &logarithm));
    if (amp_dtype_is_complex(dtype)) return amp_return(call, narrowed(amp_add(amp_log(sign), logarithm), dtype));
    amp_tensor *negative = amp_lt_scalar(sign, amp_int(0));
    return amp_return(call, negative ? narrowed(amp_masked_fill(logarithm, negative, amp_float(NAN)), dtype) : NULL);
}
