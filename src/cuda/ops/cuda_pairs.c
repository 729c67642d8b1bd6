/* Steps on pairs of tensors, composed of formulas. */
#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_elementwise.h"

static amp_tensor *temporary_like(const amp_call *call, const amp_tensor *t, amp_dtype dtype) {
    return amp_backend_tensor(call->device, call->op->name, dtype, t->rank, t->shape);
}

amp_status amp_cuda_difference_of_products(const amp_call *call, const amp_tensor *const v[4], amp_dtype compute,
                                           amp_tensor *out) {
    amp_tensor own[4], *first = temporary_like(call, out, compute);
    if (!first) return amp_pending_error();
    for (int i = 0; i < 4; i++) own[i] = *v[i];
    const amp_operand product[2] = {amp_tensor_operand("input", &own[0]), amp_tensor_operand("other", &own[1])};
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_mul, product, 2, compute, (amp_formula_numbers){0}, first));
    const amp_operand rest[3] = {amp_tensor_operand("product", first), amp_tensor_operand("input", &own[2]),
                                 amp_tensor_operand("other", &own[3])};
    return amp_cuda_compute(call, AMP_FORMULA_addcmul, rest, 3, compute, (amp_formula_numbers){.p = -1.0, .whole = -1},
                            out);
}

amp_status amp_cuda_moduli(const amp_call *call, const amp_operand pair[2], amp_dtype compute, double eps,
                           amp_tensor *moduli) {
    return amp_cuda_compute(call, AMP_FORMULA_distance, pair, 2, compute, (amp_formula_numbers){.p = eps}, moduli);
}

amp_status amp_cuda_products(const amp_call *call, const amp_operand pair[2], amp_dtype compute, amp_tensor *products) {
    return amp_cuda_compute(call, AMP_FORMULA_mul, pair, 2, compute, (amp_formula_numbers){0}, products);
}

amp_status amp_cuda_cosines(const amp_call *call, const amp_operand sums[3], double eps, amp_tensor *out) {
    return amp_cuda_compute(call, AMP_FORMULA_cosine, sums, 3, AMP_F64, (amp_formula_numbers){.p = eps}, out);
}

amp_status amp_cuda_cosine_losses(const amp_call *call, const amp_operand *sums, int count, double margin,
                                  amp_tensor *losses) {
    static const double epsilon = 1e-12; /* PyTorch's */
    amp_tensor *cosines = temporary_like(call, losses, AMP_F64);
    if (!cosines) return amp_pending_error();
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_cosine_of_squares, sums, 3, AMP_F64, (amp_formula_numbers){.p = epsilon},
                             cosines));
    const amp_operand v[2] = {amp_tensor_operand("cosine", cosines), sums[count - 1]};
    return amp_cuda_compute(call, AMP_FORMULA_cosine_loss, v, 2, AMP_F64, (amp_formula_numbers){.p = margin}, losses);
}

amp_status amp_cuda_triplet_losses(const amp_call *call, const amp_operand *distances, int count, double margin,
                                   amp_tensor *losses) {
    const amp_operand v[3] = {distances[0], distances[1], distances[count - 1]};
    return amp_cuda_compute(call, AMP_FORMULA_triplet, v, 3, AMP_F64, (amp_formula_numbers){.p = margin}, losses);
}

amp_status amp_cuda_set_hot(const amp_call *call, const amp_tensor *index, amp_tensor *out) {
    static const int64_t one[2] = {1, 0}; /* as an element, with room for the largest */
    amp_tensor places = *index;
    places.shape[places.rank] = places.strides[places.rank] = 1;
    places.rank++;
    return amp_cuda_write_by_index(
        call,
        &(const amp_writing){.table = out, .index = &places, .number = one, .dim = index->rank, .alpha = amp_int(1)});
}
