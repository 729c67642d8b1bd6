/* Calls that compute every element of the result from those at its place. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "onnx/write/from.h"

/* A number that the dtype holds as it is. */
static bool holds(amp_dtype dtype, amp_scalar number) {
    if (number.kind != AMP_SCALAR_FLOAT && number.kind != AMP_SCALAR_INT && number.kind != AMP_SCALAR_BOOL)
        return false;
    if (dtype != AMP_BF16 && dtype != AMP_F16) return true;
    const double value = number.kind == AMP_SCALAR_FLOAT ? number.re : (double)number.i;
    double rounded = 0;
    const amp_tensor *t = amp_full(AMP_NO_DIMS, number, .dtype = dtype);
    return t && amp_read(t, AMP_F64, &rounded, sizeof rounded) == AMP_OK && (rounded == value || isnan(value));
}

amp_status from_unary(amp_written_call *c) {
    const amp_net_value *x = amp_written_value(c, "input"), *y = &c->net->values[c->node.results[0]];
    if (x && !amp_dtype_is_floating(x->dtype) && amp_dtype_is_floating(y->dtype)) { /* of integers, in f32 */
        c->dtype = y->dtype;
        const int wide = amp_made_cast(c->w, amp_written_operand(c, "input"), y->dtype);
        const amp_made_shape shape = amp_written_shape(c, 0);
        return amp_written_set(c, 0, AMP_MADE(c->w, c->to, &shape, wide));
    }
    const int input = amp_written_operand(c, "input");
    const amp_made_shape shape = amp_written_shape(c, 0);
    return amp_written_set(c, 0, AMP_MADE(c->w, c->to, &shape, input));
}

/* ---- Arithmetic ------------------------------------------------------------------------------------------------ */

/* The dtype that two operands are computed in: the result's, unless one has more than that. A number that is added is
 * rounded to the result's first (as in PyTorch), one that multiplies is not. */
static amp_dtype arithmetic_dtype(const amp_written_call *c, amp_scalar other) {
    const amp_dtype result = c->net->values[c->node.results[0]].dtype;
    const bool narrow = result == AMP_BF16 || result == AMP_F16;
    const bool adds = strcmp(c->to, "Add") == 0 || strcmp(c->to, "Sub") == 0;
    bool fits = adds || other.kind == AMP_SCALAR_NONE || holds(result, other);
    for (int i = 0; narrow && i < c->node.operand_count; i++)
        fits = fits && (c->seen->dtypes[i] == result || !amp_dtype_is_floating(c->seen->dtypes[i]));
    return narrow && !fits ? AMP_F32 : result;
}

static int in_dtype(amp_written_call *c, const char *argument, amp_dtype dtype) {
    return amp_made_cast(c->w, amp_written_operand(c, argument), dtype);
}

static bool is_one(amp_scalar s) {
    return s.kind == AMP_SCALAR_NONE || (s.kind == AMP_SCALAR_FLOAT ? s.re == 1 : s.i == 1);
}

/* Not rounded, as in the fused multiply-add of libamp's op. */
static bool multiplies_exactly(amp_scalar s, amp_dtype dtype) {
    int exponent = 0;
    const double value = s.kind == AMP_SCALAR_FLOAT ? s.re : (double)s.i;
    return !amp_dtype_is_floating(dtype) || fabs(frexp(value, &exponent)) == 0.5;
}

amp_status from_arithmetic(amp_written_call *c) {
    const char *second = strcmp(c->to, "Pow") == 0 ? "exponent" : "other";
    const bool scalar = *c->node.op->overload != 0;
    const amp_scalar number = scalar ? amp_written_scalar(c, second) : (amp_scalar){.kind = AMP_SCALAR_NONE};
    const amp_scalar alpha = amp_written_scalar(c, "alpha");
    const amp_dtype dtype = arithmetic_dtype(c, number);
    amp_made_shape shape = amp_written_shape(c, 0);
    shape.dtype = dtype;
    if (amp_dtype_is_floating(dtype)) c->dtype = dtype;
    const int x = in_dtype(c, "input", dtype);
    int y = scalar ? amp_made_number(c->w, dtype, number) : in_dtype(c, second, dtype);
    if (y < 0) return amp_pending_error();
    if (!is_one(alpha) && !multiplies_exactly(alpha, dtype))
        return amp_written_fail(c, "an alpha that is no power of two, whose product ONNX would round");
    if (!is_one(alpha)) {
        const amp_made_shape product = amp_made_shape_of(c->w, y);
        y = AMP_MADE(c->w, "Mul", &product, y, amp_made_number(c->w, dtype, alpha));
    }
    return amp_written_set(c, 0, AMP_MADE(c->w, c->to, &shape, x, y));
}

/* Integers are divided towards zero. */
amp_status from_div(amp_written_call *c) {
    const char *mode = amp_written_text(c, "rounding_mode", "");
    const amp_net_value *result = &c->net->values[c->node.results[0]];
    const bool whole = !amp_dtype_is_floating(result->dtype);
    if (strcmp(mode, "trunc") == 0 ? !whole : *mode != 0)
        return amp_written_fail(c, "the rounding mode '%s' of %s", mode, amp_dtype_name(result->dtype));
    return from_arithmetic(c);
}

amp_status from_comparison(amp_written_call *c) {
    const bool scalar = *c->node.op->overload != 0;
    const amp_scalar number = amp_written_scalar(c, "other");
    const amp_net_value *x = amp_written_value(c, "input"), *y = scalar ? x : amp_written_value(c, "other");
    const amp_made_shape shape = amp_written_shape(c, 0);
    if (!x || !y) return amp_written_fail(c, "an operand is missing");
    amp_dtype dtype = amp_dtype_is_floating(x->dtype) || !amp_dtype_is_floating(y->dtype) ? x->dtype : y->dtype;
    if (c->dtype != AMP_DTYPE_NONE) dtype = c->dtype;
    if (!amp_dtype_is_floating(dtype) && x->dtype != y->dtype) dtype = AMP_I64;
    if (scalar && number.kind == AMP_SCALAR_FLOAT && !amp_dtype_is_floating(dtype)) dtype = AMP_F32;
    if (scalar && !holds(dtype, number)) dtype = AMP_F32;
    const int a = in_dtype(c, "input", dtype);
    const int b = scalar ? amp_made_number(c->w, dtype, number) : in_dtype(c, "other", dtype);
    if (a < 0 || b < 0) return amp_pending_error();
    return amp_written_set(c, 0, AMP_MADE(c->w, c->to, &shape, a, b));
}

/* ---- Bounds ---------------------------------------------------------------------------------------------------- */

static int bound(amp_written_call *c, const char *name, amp_dtype dtype) {
    const amp_scalar number = amp_written_scalar(c, name);
    return number.kind == AMP_SCALAR_NONE ? AMP_MADE_NONE : amp_made_number(c->w, dtype, number);
}

amp_status from_clamp(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int x = amp_made_cast(c->w, amp_written_operand(c, "input"), shape.dtype);
    const int low = bound(c, "min", shape.dtype), high = bound(c, "max", shape.dtype);
    return amp_written_set(c, 0, AMP_MADE(c->w, "Clip", &shape, x, low, high));
}

amp_status from_clamp_tensor(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const amp_net_value *min = amp_written_value(c, "min"), *max = amp_written_value(c, "max");
    int x = amp_made_cast(c->w, amp_written_operand(c, "input"), shape.dtype);
    const int low = min ? amp_made_cast(c->w, amp_written_operand(c, "min"), shape.dtype) : AMP_MADE_NONE;
    const int high = max ? amp_made_cast(c->w, amp_written_operand(c, "max"), shape.dtype) : AMP_MADE_NONE;
    if ((!min || min->rank == 0) && (!max || max->rank == 0))
        return amp_written_set(c, 0, AMP_MADE(c->w, "Clip", &shape, x, low, high));
    if (min) x = AMP_MADE(c->w, "Max", &shape, x, low);
    if (max) x = AMP_MADE(c->w, "Min", &shape, x, high);
    return amp_written_set(c, 0, x);
}

/* ---- Activations ----------------------------------------------------------------------------------------------- */

amp_status from_slope(amp_written_call *c) {
    const bool leaky = strcmp(c->to, "LeakyRelu") == 0;
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int y = AMP_MADE(c->w, c->to, &shape, amp_written_operand(c, "input"));
    amp_made_float(c->w, "alpha", amp_written_float(c, leaky ? "negative_slope" : "alpha", leaky ? 0.01 : 1));
    return amp_written_set(c, 0, y);
}

amp_status from_gelu(amp_written_call *c) {
    const char *how = amp_written_text(c, "approximate", "none");
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int y = AMP_MADE(c->w, "Gelu", &shape, amp_written_operand(c, "input"));
    amp_made_text(c->w, "approximate", strcmp(how, "tanh") == 0 ? "tanh" : "none");
    return amp_written_set(c, 0, y);
}

amp_status from_hard_sigmoid(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int y = AMP_MADE(c->w, "HardSigmoid", &shape, amp_written_operand(c, "input"));
    amp_made_float(c->w, "alpha", 1.0 / 6);
    amp_made_float(c->w, "beta", 0.5);
    return amp_written_set(c, 0, y);
}

amp_status from_softplus(amp_written_call *c) {
    const amp_scalar beta = amp_written_scalar(c, "beta"), threshold = amp_written_scalar(c, "threshold");
    const double limit = threshold.kind == AMP_SCALAR_FLOAT ? threshold.re : (double)threshold.i;
    if (!is_one(beta) || (threshold.kind != AMP_SCALAR_NONE && limit != 20))
        return amp_written_fail(c, "ONNX has it with beta 1 and threshold 20 alone");
    return from_unary(c);
}

/* The slopes are one for each channel, dimension 1. */
amp_status from_prelu(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int x = amp_written_operand(c, "input");
    int slope = amp_written_operand(c, "weight");
    if (slope < 0) return amp_pending_error();
    int64_t extents[AMP_MAX_RANK], count = 1;
    for (int d = 0; d < c->w->values[slope].rank; d++) count *= c->w->values[slope].shape[d];
    for (int d = 0; d < shape.rank; d++) extents[d] = d == 1 ? count : 1;
    const int rank = shape.rank < 2 ? 1 : shape.rank - 1;
    slope = amp_made_reshape(c->w, slope, rank, shape.rank < 2 ? &count : extents + 1);
    return amp_written_set(c, 0, AMP_MADE(c->w, "PRelu", &shape, x, slope));
}

amp_status from_where(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const int condition = amp_written_operand(c, "condition"),
              x = amp_made_cast(c->w, amp_written_operand(c, "input"), shape.dtype),
              y = amp_made_cast(c->w, amp_written_operand(c, "other"), shape.dtype);
    return amp_written_set(c, 0, AMP_MADE(c->w, "Where", &shape, condition, x, y));
}

amp_status from_to(amp_written_call *c) {
    return amp_written_set(c, 0, amp_written_operand(c, "input")); /* which casts */
}
