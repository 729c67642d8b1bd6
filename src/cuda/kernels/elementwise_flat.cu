/* The formulas of flat.def over stretches of f32, f16 or bf16, and casts between them: what is in one dimension, aligned,
 * and of one dtype needs no choice at run time. In 40 registers at most, so that six blocks are on a multiprocessor, and
 * twice the bytes are on their way that memory takes to answer. */
#include "cuda/kernels/elementwise.h"

/* What a word of memory holds. */
struct f32_word {
    enum { ELEMENTS = 1 };
    AMP_DEVICE_MEMBER static float element(uint32_t word, int) {
        return float_of(word);
    }
    AMP_DEVICE_MEMBER static uint32_t join(const float *v) {
        return bits_of(v[0]);
    }
    AMP_DEVICE_MEMBER static float load(const void *data, int64_t at) {
        return ((const float *)data)[at];
    }
    AMP_DEVICE_MEMBER static void store(void *data, int64_t at, float x) {
        ((float *)data)[at] = x;
    }
};
template <float from(uint16_t), uint16_t to(float), uint32_t to_pair(float, float)>
struct half_word {
    enum { ELEMENTS = 2 };
    AMP_DEVICE_MEMBER static float element(uint32_t word, int k) {
        return from(half_of(word, k));
    }
    AMP_DEVICE_MEMBER static uint32_t join(const float *v) {
        return to_pair(v[0], v[1]);
    }
    AMP_DEVICE_MEMBER static float load(const void *data, int64_t at) {
        return from(((const uint16_t *)data)[at]);
    }
    AMP_DEVICE_MEMBER static void store(void *data, int64_t at, float x) {
        ((uint16_t *)data)[at] = to(x);
    }
};
typedef half_word<from_f16, to_f16, to_f16_pair> f16_word;
typedef half_word<from_bf16, to_bf16, to_bf16_pair> bf16_word;

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

template <class From, class To, int N>
struct flat {
    enum {
        UNIT = To::ELEMENTS == 1 ? 4 : 8,
        IN_WORDS = UNIT / From::ELEMENTS,
        OUT_WORDS = UNIT / To::ELEMENTS,
        AT_ONCE = N > 1 ? 1 : 2 /* so that a thread waits for two reads at least */
    };
    const amp_cuda_elementwise &a;

    AMP_DEVICE_MEMBER void read(int64_t unit, uint32_t in[N][IN_WORDS]) const {
        AMP_UNROLLED for (int k = 0; k < N; k++) {
            if (k == 0 || a.in[k].data) read_unit<IN_WORDS>(a.in[k].data, unit, in[k]);
        }
    }
    AMP_DEVICE_MEMBER float operand(const uint32_t in[N][IN_WORDS], int k, int j) const {
        if (k >= N) return 0;
        const float x = From::element(in[k][j / From::ELEMENTS], j % From::ELEMENTS);
        return k == 0 || a.in[k].data ? x : (float)a.in[k].constant;
    }
    AMP_DEVICE_MEMBER void move(uint32_t to[N][IN_WORDS], const uint32_t from[N][IN_WORDS]) const {
        AMP_UNROLLED for (int k = 0; k < N; k++) {
            AMP_UNROLLED for (int i = 0; i < IN_WORDS; i++) to[k][i] = from[k][i];
        }
    }
    template <class Formula>
    AMP_DEVICE_MEMBER void write(int64_t unit, const uint32_t in[N][IN_WORDS], Formula formula) const {
        uint32_t out[OUT_WORDS];
        AMP_UNROLLED for (int i = 0; i < OUT_WORDS; i++) {
            float v[To::ELEMENTS];
            AMP_UNROLLED for (int k = 0; k < To::ELEMENTS; k++) {
                const int j = i * To::ELEMENTS + k;
                v[k] = formula(operand(in, 0, j), operand(in, 1, j), operand(in, 2, j));
            }
            out[i] = To::join(v);
        }
        write_unit<OUT_WORDS>(a.out.data, unit, out);
    }
    /* What is left behind the units. */
    template <class Formula>
    AMP_DEVICE_MEMBER void finish(Formula formula) const {
        for (int64_t i = first_element(); i < a.rest; i += element_step()) {
            const int64_t at = a.count * UNIT + i;
            float v[3] = {0, 0, 0};
            AMP_UNROLLED for (int k = 0; k < N; k++) {
                v[k] = k == 0 || a.in[k].data ? From::load(a.in[k].data, at) : (float)a.in[k].constant;
            }
            To::store(a.out.data, at, formula(v[0], v[1], v[2]));
        }
    }
    template <class Formula>
    AMP_DEVICE_MEMBER void run(Formula formula) const {
        for (int64_t i = first_element(); i < a.count; i += AT_ONCE * element_step()) {
            uint32_t in[AT_ONCE][N][IN_WORDS];
            AMP_UNROLLED for (int k = 0; k < AT_ONCE; k++) {
                if (i + k * element_step() < a.count) read(i + k * element_step(), in[k]);
            }
            AMP_ROLLED for (int k = 0; k < AT_ONCE && i + k * element_step() < a.count; k++) {
                write(i + k * element_step(), in[0], formula);
                if (AT_ONCE > 1) move(in[0], in[AT_ONCE - 1]); /* registers have no index that is known late */
            }
        }
        finish(formula);
    }
};

/* A formula knows by `whole` that its result has 16 bits, where it asks for that. */
#define FLAT_KERNEL(kernel, from, to, inputs, formula, narrow)                                                         \
    AMP_KERNEL_OF(kernel, amp_cuda_elementwise, AMP_BLOCK_THREADS, 6) {                                                \
        formula##_formula<float> f{numbers_of(a)};                                                                     \
        f.whole = narrow;                                                                                              \
        flat<from, to, inputs>{a}.run(f);                                                                              \
    }
#define FLAT(name, inputs)                                                                                             \
    FLAT_KERNEL(name##_flat_f32, f32_word, f32_word, inputs, name, 0)                                                  \
    FLAT_KERNEL(name##_flat_f16, f16_word, f16_word, inputs, name, 1)                                                  \
    FLAT_KERNEL(name##_flat_bf16, bf16_word, bf16_word, inputs, name, 1)
#include "cuda/args/flat.def"
FLAT(same, 1)
#undef FLAT

FLAT_KERNEL(cast_f32_f16, f32_word, f16_word, 1, same, 0)
FLAT_KERNEL(cast_f32_bf16, f32_word, bf16_word, 1, same, 0)
FLAT_KERNEL(cast_f16_f32, f16_word, f32_word, 1, same, 0)
FLAT_KERNEL(cast_f16_bf16, f16_word, bf16_word, 1, same, 0)
FLAT_KERNEL(cast_bf16_f32, bf16_word, f32_word, 1, same, 0)
FLAT_KERNEL(cast_bf16_f16, bf16_word, f16_word, 1, same, 0)
