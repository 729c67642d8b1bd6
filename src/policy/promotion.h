/* Ordinary type promotion, as PyTorch does it: no autocast involved. */
#ifndef AMP_POLICY_PROMOTION_H
#define AMP_POLICY_PROMOTION_H

#include "core/tensor_impl.h"

/* The dtype that holds values of both: bf16 + f32 → f32, bf16 + f16 → f32, float beats int, complex beats float,
 * i8 + u8 → i16. AMP_DTYPE_NONE is neutral. Symmetric. */
amp_dtype amp_promote(amp_dtype a, amp_dtype b);

/* The result type of a stronger and a weaker operand: the weaker counts only where its category is higher. */
amp_dtype amp_raise_category(amp_dtype stronger, amp_dtype weaker);

/* Result type of an op on several tensors and numbers: tensors with dimensions decide; 0-dim tensors and then numbers
 * only raise the category (bool < int < float < complex), in which case they bring their own dtype, a number the
 * default one (i64, f32, the complex type of the float so far). NULL tensors are skipped. */
amp_dtype amp_result_type(amp_tensor *const *tensors, int tensor_count, const amp_scalar *numbers, int number_count);

/* Whether a value of dtype `from` may be written into a tensor of dtype `to` by an in-place or out= form: everything
 * but complex → real, float → int, and anything but bool → bool. */
bool amp_can_cast(amp_dtype from, amp_dtype to);

/* The floating type that integer inputs of sin, mean, div … compute in: f32; floating and complex types stay. */
amp_dtype amp_floating_result(amp_dtype dtype);

#endif /* AMP_POLICY_PROMOTION_H */
