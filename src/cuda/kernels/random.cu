/* Random numbers: a thread makes one block of Philox's words, and of each word what the CPU makes of it, by the same
 * formulas (cpu/random): the bits are the same. Neighbouring threads write neighbouring elements. */
#include "cuda/args/random_args.h"
#include "cuda/kernels/kernel.h"

/* The vocabulary of cpu/simd/simd_ref.h: a vector is one float. */
typedef float vf;
typedef int32_t vi;
typedef uint32_t vu;
typedef bool vm;
AMP_DEVICE vf v_set1(float x) {
    return x;
}
AMP_DEVICE vi v_set1_int(int32_t x) {
    return x;
}
AMP_DEVICE vu v_set1_unsigned(uint32_t x) {
    return x;
}
AMP_DEVICE vf v_from_int(vi x) {
    return (float)x;
}
AMP_DEVICE vi v_bits(vf x) {
    return (vi)bits_of(x);
}
AMP_DEVICE vf v_from_bits(vi x) {
    return float_of((uint32_t)x);
}
AMP_DEVICE vf v_fma(vf a, vf b, vf c) {
    return fmaf(a, b, c);
}
AMP_DEVICE vf v_min(vf a, vf b) {
    return a < b ? a : b;
}
AMP_DEVICE vf v_sqrt(vf x) {
    return sqrtf(x);
}
AMP_DEVICE vm v_lt(vf a, vf b) {
    return a < b;
}
AMP_DEVICE vm v_le_unsigned(vu a, vu b) {
    return a <= b;
}
AMP_DEVICE vf v_select(vm m, vf yes, vf no) {
    return m ? yes : no;
}

#define V_FUNCTION AMP_DEVICE
#include "cpu/random/random_formula.h"
#include "cpu/random/random_wide.h"

/* The words of a thread's block. */
struct words {
    uint32_t w[4];

    AMP_DEVICE_MEMBER words(const amp_random_place &place, int64_t block) {
        philox_counter(w, place.offset + (uint64_t)(block / PHILOX_BLOCKS), (uint32_t)(block % PHILOX_BLOCKS));
        philox_block(w, (uint32_t)place.seed, (uint32_t)(place.seed >> 32));
    }
};

AMP_DEVICE float element_f32(const amp_random_task &t, const words &of, int k, int64_t i) {
    const bool ones = t.kind == AMP_RANDOM_KEEP && !t.in;
    vf x, y;
    switch (t.kind) {
    case AMP_RANDOM_UNIFORM: return uniform_of(of.w[k], &t.numbers);
    case AMP_RANDOM_NORMAL: normal_of(of.w[k & ~1], of.w[k | 1], &t.numbers, &x, &y); return k & 1 ? y : x;
    case AMP_RANDOM_KEEP: return (ones ? 1.0f : load<float>(t.in, t.in_dtype, i)) * factor_of(of.w[k], &t.numbers);
    default: return is_below(of.w[k], load<float>(t.in, t.in_dtype, i));
    }
}

AMP_KERNEL(random_f32, amp_cuda_random) {
    const amp_random_task &t = a.task;
    const int64_t blocks = (t.count + AMP_RANDOM_WORDS - 1) / AMP_RANDOM_WORDS * PHILOX_BLOCKS;
    for (int64_t block = first_element(); block < blocks; block += element_step()) {
        const words of(t.place, block);
        const int64_t first = block / PHILOX_BLOCKS * AMP_RANDOM_WORDS + block % PHILOX_BLOCKS;
        AMP_UNROLLED
        for (int k = 0; k < 4; k++) {
            const int64_t i = first + PHILOX_BLOCKS * k;
            if (i < t.count) store<float>(t.out, t.dtype, i, element_f32(t, of, k, i));
        }
    }
}

/* Element number k of the block's: of one word, of two (k and k + 2), or of all four. */
AMP_DEVICE void store_wide(const amp_cuda_random &a, const words &of, int k, int64_t i) {
    const amp_random_task &t = a.task;
    const uint64_t pair = word_pair(of.w[k & 1], of.w[(k & 1) + 2]);
    double x, y;
    switch (t.kind) {
    case AMP_RANDOM_PLAIN: store<int64_t>(t.out, t.dtype, i, (int64_t)pair); break;
    case AMP_RANDOM_UNIFORM:
        x = t.low + wide_unit(pair) * t.width;
        store<double>(t.out, t.dtype, i, x < t.below ? x : t.below);
        break;
    case AMP_RANDOM_NORMAL:
        wide_normal(word_pair(of.w[0], of.w[2]), word_pair(of.w[1], of.w[3]), &x, &y);
        store<double>(t.out, t.dtype, i, (k ? y : x) * t.deviation + t.mean);
        break;
    case AMP_RANDOM_INTEGER: {
        const uint64_t number = a.per_group == 32 ? integer_below(pair, t.range)
                                                  : large_integer_below(pair, word_pair(of.w[1], of.w[3]), t.range);
        store<int64_t>(t.out, t.dtype, i, (int64_t)((uint64_t)t.first + number));
        break;
    }
    case AMP_RANDOM_KEEP:
        x = load<double>(t.in, t.in_dtype, i) * (of.w[k] <= t.numbers.last ? t.scale : 0.0);
        store<double>(t.out, t.dtype, i, x);
        break;
    default:
        x = (double)of.w[k] * 0x1p-32 < load<double>(t.in, t.in_dtype, i) ? 1.0 : 0.0;
        store<double>(t.out, t.dtype, i, x);
    }
}

AMP_KERNEL(random_wide, amp_cuda_random) {
    const int64_t each = a.per_group / PHILOX_BLOCKS;
    const int64_t blocks = (a.task.count + a.per_group - 1) / a.per_group * PHILOX_BLOCKS;
    for (int64_t block = first_element(); block < blocks; block += element_step()) {
        const words of(a.task.place, block);
        const int64_t first = block / PHILOX_BLOCKS * a.per_group + block % PHILOX_BLOCKS;
        for (int k = 0; k < each; k++) {
            const int64_t i = first + PHILOX_BLOCKS * k;
            if (i < a.task.count) store_wide(a, of, k, i);
        }
    }
}
