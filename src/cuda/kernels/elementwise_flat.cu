/* The formulas of flat.def over stretches of f32, f16 or bf16, and casts between them: what is in one dimension,
 * aligned, and of one dtype needs no choice at run time. In 40 registers at most and without local memory, so that six
 * blocks are on a multiprocessor, and twice the bytes are on their way that memory takes to answer. */
#include "cuda/kernels/elementwise.h"

/* What a word of memory holds. */
struct f32_word {
    enum { ELEMENTS = 1 };
    typedef uint32_t __attribute__((may_alias)) stored;
    AMP_DEVICE_MEMBER static float element(uint32_t word, int) {
        return float_of(word);
    }
    AMP_DEVICE_MEMBER static uint32_t join(const float *v) {
        return bits_of(v[0]);
    }
};
template <float from(uint16_t), uint32_t to_pair(float, float)>
struct half_word {
    enum { ELEMENTS = 2 };
    typedef uint16_t __attribute__((may_alias)) stored;
    AMP_DEVICE_MEMBER static float element(uint32_t word, int k) {
        return from(half_of(word, k));
    }
    AMP_DEVICE_MEMBER static uint32_t join(const float *v) {
        return to_pair(v[0], v[1]);
    }
};
typedef half_word<from_f16, to_f16_pair> f16_word;
typedef half_word<from_bf16, to_bf16_pair> bf16_word;
struct bool_word {
    enum { ELEMENTS = 4 };
    typedef uint8_t __attribute__((may_alias)) stored;
    AMP_DEVICE_MEMBER static float element(uint32_t word, int k) {
        return (word >> 8 * k & 0xffu) != 0 ? 1.0f : 0.0f;
    }
    AMP_DEVICE_MEMBER static uint32_t join(const float *v) {
        uint32_t word = 0;
        AMP_UNROLLED for (int k = 0; k < 4; k++) word |= (uint32_t)(v[k] != 0) << 8 * k;
        return word;
    }
};

/* Units of as many elements as the host's width_of() says, in pieces of 16 bytes or less. */
template <int WORDS>
AMP_DEVICE void read_unit(const void *data, int64_t number, uint32_t *w) {
    enum { PIECE = WORDS < 4 ? WORDS : 4 };
    const words<PIECE> *from = (const words<PIECE> *)((const char *)data + number * (WORDS * 4));
    AMP_UNROLLED for (int i = 0; i < WORDS / PIECE; i++) {
        const words<PIECE> piece = from[i];
        AMP_UNROLLED for (int k = 0; k < PIECE; k++) w[i * PIECE + k] = piece.w[k];
    }
}
template <int WORDS>
AMP_DEVICE void write_unit(void *data, int64_t number, const uint32_t *w) {
    enum { PIECE = WORDS < 4 ? WORDS : 4 };
    char *to = (char *)data + number * (WORDS * 4);
    AMP_UNROLLED for (int i = 0; i < WORDS / PIECE; i++) write_words<PIECE>(to + i * PIECE * 4, w + i * PIECE);
}
/* The first `count` elements of one, which memory ends with. */
template <class Word, int UNIT>
AMP_DEVICE void read_rest(const void *data, int64_t number, int count, uint32_t *w) {
    const typename Word::stored *from = (const typename Word::stored *)data + number * UNIT;
    AMP_UNROLLED for (int j = 0; j < UNIT; j++) {
        const uint32_t bits = j < count ? (uint32_t)from[j] << 32 / Word::ELEMENTS * (j % Word::ELEMENTS) : 0u;
        w[j / Word::ELEMENTS] = j % Word::ELEMENTS == 0 ? bits : w[j / Word::ELEMENTS] | bits;
    }
}
template <class Word, int UNIT>
AMP_DEVICE void write_rest(void *data, int64_t number, int count, const uint32_t *w) {
    typename Word::stored *to = (typename Word::stored *)data + number * UNIT;
    AMP_UNROLLED for (int j = 0; j < UNIT; j++) {
        if (j >= count) continue;
        to[j] = (typename Word::stored)(w[j / Word::ELEMENTS] >> 32 / Word::ELEMENTS * (j % Word::ELEMENTS));
    }
}

/* First: of the first operand, which may be a mask. */
template <class First, class From, class To, int N>
struct flat {
    enum {
        UNIT = To::ELEMENTS == 1 ? 4 : 8,
        FIRST_WORDS = UNIT / First::ELEMENTS,
        FROM_WORDS = UNIT / From::ELEMENTS,
        IN_WORDS = FIRST_WORDS > FROM_WORDS ? FIRST_WORDS : FROM_WORDS,
        OUT_WORDS = UNIT / To::ELEMENTS
    };
    const amp_cuda_elementwise &a;

    AMP_DEVICE_MEMBER bool is_there(int k) const {
        return N == 1 || a.in[k].data;
    }
    AMP_DEVICE_MEMBER void read(int64_t unit, uint32_t in[N][IN_WORDS]) const {
        if (is_there(0)) read_unit<FIRST_WORDS>(a.in[0].data, unit, in[0]);
        AMP_UNROLLED for (int k = 1; k < N; k++) {
            if (is_there(k)) read_unit<FROM_WORDS>(a.in[k].data, unit, in[k]);
        }
    }
    AMP_DEVICE_MEMBER void read_last(uint32_t in[N][IN_WORDS]) const {
        if (is_there(0)) read_rest<First, UNIT>(a.in[0].data, a.count, (int)a.rest, in[0]);
        AMP_UNROLLED for (int k = 1; k < N; k++) {
            if (is_there(k)) read_rest<From, UNIT>(a.in[k].data, a.count, (int)a.rest, in[k]);
        }
    }
    AMP_DEVICE_MEMBER void write(int64_t unit, const uint32_t out[OUT_WORDS]) const {
        if (unit < a.count) {
            write_unit<OUT_WORDS>(a.out.data, unit, out);
        } else {
            write_rest<To, UNIT>(a.out.data, unit, (int)a.rest, out);
        }
    }
    /* Of operand k: element j of a word. */
    AMP_DEVICE_MEMBER float value(int k, uint32_t word, int j) const {
        const float x = k == 0 ? First::element(word, j) : From::element(word, j);
        return is_there(k) ? x : (float)a.in[k].constant;
    }
    AMP_DEVICE_MEMBER float operand(const uint32_t in[N][IN_WORDS], int k, int j) const {
        if (k >= N) return 0;
        return k == 0 ? value(k, in[k][j / First::ELEMENTS], j % First::ELEMENTS)
                      : value(k, in[k][j / From::ELEMENTS], j % From::ELEMENTS);
    }
    AMP_DEVICE_MEMBER void move(uint32_t to[N][IN_WORDS], const uint32_t from[N][IN_WORDS]) const {
        AMP_UNROLLED for (int k = 0; k < N; k++) {
            AMP_UNROLLED for (int i = 0; i < IN_WORDS; i++) to[k][i] = from[k][i];
        }
    }
    template <class Formula>
    AMP_DEVICE_MEMBER void compute(const uint32_t in[N][IN_WORDS], uint32_t out[OUT_WORDS], Formula formula) const {
        AMP_UNROLLED for (int i = 0; i < OUT_WORDS; i++) {
            float v[To::ELEMENTS];
            AMP_UNROLLED for (int k = 0; k < To::ELEMENTS; k++) {
                const int j = i * To::ELEMENTS + k;
                v[k] = formula(operand(in, 0, j), operand(in, 1, j), operand(in, 2, j));
            }
            out[i] = To::join(v);
        }
    }
    /* A long formula stands here once: results go in behind the first operand's words as these go out in front, for
     * registers have no index that is known late. */
    template <class Formula>
    AMP_DEVICE_MEMBER void compute_in_turn(uint32_t in[N][IN_WORDS], Formula formula) const {
        static_assert((int)FIRST_WORDS == (int)OUT_WORDS && (int)FROM_WORDS == (int)OUT_WORDS, "of one dtype");
        AMP_ROLLED for (int i = 0; i < OUT_WORDS; i++) {
            float v[To::ELEMENTS] = {};
            AMP_ROLLED for (int k = 0; k < To::ELEMENTS; k++) {
                v[0] = v[To::ELEMENTS - 1];
                v[To::ELEMENTS - 1] = formula(value(0, in[0][0], k), N > 1 ? value(1, in[N > 1 ? 1 : 0][0], k) : 0,
                                              N > 2 ? value(2, in[N > 2 ? 2 : 0][0], k) : 0);
            }
            AMP_UNROLLED for (int k = 0; k < N; k++) {
                AMP_UNROLLED for (int j = 1; j < IN_WORDS; j++) in[k][j - 1] = in[k][j];
            }
            in[0][OUT_WORDS - 1] = To::join(v);
        }
    }
    template <class Formula>
    AMP_DEVICE_MEMBER void run(Formula formula) const {
        /* A thread waits for two reads at least, but where its registers go to numbers of f64. */
        enum { AT_ONCE = N > 1 || length<Formula>::in_f64 ? 1 : 2 };
        const int64_t units = a.count + (a.rest > 0);
        for (int64_t i = first_element(); i < units; i += AT_ONCE * element_step()) {
            uint32_t in[AT_ONCE][N][IN_WORDS];
            AMP_UNROLLED for (int k = 0; k < AT_ONCE; k++) {
                if (i + k * element_step() < a.count) read(i + k * element_step(), in[k]);
            }
            AMP_ROLLED for (int k = 0; k < AT_ONCE && i + k * element_step() < units; k++) {
                if (i + k * element_step() == a.count) read_last(in[0]);
                if constexpr (length<Formula>::in_turn) {
                    compute_in_turn(in[0], formula);
                    write(i + k * element_step(), in[0][0]);
                } else {
                    uint32_t out[OUT_WORDS];
                    compute(in[0], out, formula);
                    write(i + k * element_step(), out);
                }
                if (AT_ONCE > 1) move(in[0], in[AT_ONCE - 1]);
            }
        }
    }
};

#define FLAT_KERNEL(kernel, first, from, to, inputs, formula)                                                          \
    AMP_KERNEL_OF(kernel, amp_cuda_elementwise, AMP_BLOCK_THREADS, 6) {                                                \
        formula##_formula<float> f{numbers_of(a)};                                                                     \
        f.narrow = to::ELEMENTS == 2; /* known now */                                                                  \
        flat<first, from, to, inputs>{a}.run(f);                                                                       \
    }
#define FLAT(name, inputs)                                                                                             \
    FLAT_KERNEL(name##_flat_f32, f32_word, f32_word, f32_word, inputs, name)                                           \
    FLAT_KERNEL(name##_flat_f16, f16_word, f16_word, f16_word, inputs, name)                                           \
    FLAT_KERNEL(name##_flat_bf16, bf16_word, bf16_word, bf16_word, inputs, name)
#define QUESTION(name, inputs)                                                                                         \
    FLAT_KERNEL(name##_flat_f32, f32_word, f32_word, bool_word, inputs, name)                                          \
    FLAT_KERNEL(name##_flat_f16, f16_word, f16_word, bool_word, inputs, name)                                          \
    FLAT_KERNEL(name##_flat_bf16, bf16_word, bf16_word, bool_word, inputs, name)
#define MASKED(name, inputs)                                                                                           \
    FLAT_KERNEL(name##_flat_f32, bool_word, f32_word, f32_word, inputs, name)                                          \
    FLAT_KERNEL(name##_flat_f16, bool_word, f16_word, f16_word, inputs, name)                                          \
    FLAT_KERNEL(name##_flat_bf16, bool_word, bf16_word, bf16_word, inputs, name)
#include "cuda/args/flat.def"
FLAT(same, 1)
#undef FLAT
#undef QUESTION
#undef MASKED

#define CAST_KERNEL(kernel, from, to) FLAT_KERNEL(kernel, from, from, to, 1, same)
CAST_KERNEL(cast_f32_f16, f32_word, f16_word)
CAST_KERNEL(cast_f32_bf16, f32_word, bf16_word)
CAST_KERNEL(cast_f16_f32, f16_word, f32_word)
CAST_KERNEL(cast_f16_bf16, f16_word, bf16_word)
CAST_KERNEL(cast_bf16_f32, bf16_word, f32_word)
CAST_KERNEL(cast_bf16_f16, bf16_word, f16_word)
