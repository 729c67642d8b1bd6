/* Type promotion by category and rank, two small tables. */
#include "policy/promotion.h"

/* Category first: a higher one wins and its dtype is taken (floats and complex mix below). */
enum { NOTHING, BOOLEAN, INTEGRAL, FLOATING, COMPLEX };

typedef struct promotion_traits {
    int category;
    int width; /* within the category; -1 marks the types that no order relates: bf16, f16, u8 */
} promotion_traits;

static const promotion_traits traits[AMP_DTYPE_COUNT] = {
    [AMP_BOOL] = {BOOLEAN, 1}, [AMP_U8] = {INTEGRAL, 1},  [AMP_I8] = {INTEGRAL, 1},  [AMP_I16] = {INTEGRAL, 2},
    [AMP_I32] = {INTEGRAL, 4}, [AMP_I64] = {INTEGRAL, 8}, [AMP_F16] = {FLOATING, 2}, [AMP_BF16] = {FLOATING, 2},
    [AMP_F32] = {FLOATING, 4}, [AMP_F64] = {FLOATING, 8}, [AMP_C64] = {COMPLEX, 4},  [AMP_C128] = {COMPLEX, 8},
};

static promotion_traits traits_of(amp_dtype d) {
    return (unsigned)d < AMP_DTYPE_COUNT ? traits[d] : (promotion_traits){NOTHING, 0};
}

amp_dtype amp_promote(amp_dtype a, amp_dtype b) {
    const promotion_traits ta = traits_of(a), tb = traits_of(b);
    if (a == b) return a;
    if (ta.category < tb.category) return amp_promote(b, a);
    if (ta.category != tb.category) {
        /* the complex type keeps a wide float's precision */
        return a == AMP_C64 && b == AMP_F64 ? AMP_C128 : a;
    }
    if (ta.width != tb.width) return ta.width > tb.width ? a : b;
    return ta.category == FLOATING ? AMP_F32 : AMP_I16; /* bf16 + f16; u8 + i8 */
}

static amp_dtype number_dtype(amp_scalar_kind kind, amp_dtype so_far) {
    switch (kind) {
    case AMP_SCALAR_BOOL: return AMP_BOOL;
    case AMP_SCALAR_INT: return AMP_I64;
    case AMP_SCALAR_FLOAT: return AMP_F32;
    case AMP_SCALAR_COMPLEX: return so_far == AMP_F64 ? AMP_C128 : AMP_C64;
    default: return AMP_DTYPE_NONE;
    }
}

amp_dtype amp_raise_category(amp_dtype stronger, amp_dtype weaker) {
    const int category = traits_of(stronger).category;
    if (traits_of(weaker).category <= category) return stronger;
    /* a float that turns complex keeps its precision, whatever that of the weaker one */
    if (category == FLOATING) return stronger == AMP_F64 ? AMP_C128 : AMP_C64;
    return amp_promote(stronger, weaker);
}

amp_dtype amp_result_type(amp_tensor *const *tensors, int tensor_count, const amp_scalar *numbers, int number_count) {
    amp_dtype dimensioned = AMP_DTYPE_NONE, zero_dim = AMP_DTYPE_NONE, number = AMP_DTYPE_NONE;
    for (int i = 0; i < tensor_count; i++) {
        if (!tensors[i]) continue;
        amp_dtype *group = tensors[i]->rank > 0 ? &dimensioned : &zero_dim;
        *group = amp_promote(*group, tensors[i]->dtype);
    }
    const amp_dtype of_tensors = amp_raise_category(dimensioned, zero_dim);
    for (int i = 0; i < number_count; i++) {
        number = amp_promote(number, number_dtype(numbers[i].kind, of_tensors));
    }
    return amp_raise_category(of_tensors, number);
}

bool amp_can_cast(amp_dtype from, amp_dtype to) {
    const int f = traits_of(from).category, t = traits_of(to).category;
    if (t == BOOLEAN) return f == BOOLEAN;
    if (f == COMPLEX) return t == COMPLEX;
    if (f == FLOATING) return t == FLOATING || t == COMPLEX;
    return true;
}

amp_dtype amp_floating_result(amp_dtype dtype) {
    return traits_of(dtype).category >= FLOATING ? dtype : AMP_F32;
}
