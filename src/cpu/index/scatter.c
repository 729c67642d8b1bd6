/* scatter, scatter_add, index_add, index_copy: elements written where indices say. Where an index is named twice, what
 * comes later in the index wins, or is added later: the places of a line are taken in order, by one thread. Sums and
 * products of bf16, f16 and small integers are kept in f32 and i64 until they are complete. */
#include <complex.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/cpu_steps.h"
#include "cpu/index/index_walk.h"
#include "cpu/registry/convert.h"
#include "steps/constants.h"

typedef double _Complex complex128;

/* ---- Loops ---------------------------------------------------------------------------------------------------- */

#define WRITE_LOOP(bytes)                                                                                              \
    static void write_##bytes(const void *context, const amp_index_run *run) {                                         \
        const amp_index_run r = *run;                                                                                  \
        (void)context;                                                                                                 \
        if (r.index_step == 0 && r.table_step == bytes && r.values_step == bytes) { /* a dense piece of a slice */     \
            memcpy(r.table + amp_index_at(r.index, r.wrap) * r.scale, r.values, (size_t)r.n * bytes);                  \
            return;                                                                                                    \
        }                                                                                                              \
        if (r.index_step == sizeof(int64_t) && r.table_step == 0 && r.values_step == bytes && r.scale == bytes &&      \
            r.wrap == 0) { /* a dense line, of known steps */                                                          \
            const int64_t *index = (const int64_t *)(const void *)r.index;                                             \
            for (int64_t i = 0; i < r.n; i++) memcpy(r.table + index[i] * bytes, r.values + i * bytes, bytes);         \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < r.n; i++) {                                                                            \
            const int64_t index = amp_index_at(r.index + i * r.index_step, r.wrap);                                    \
            memcpy(r.table + i * r.table_step + index * r.scale, r.values + i * r.values_step, bytes);                 \
        }                                                                                                              \
    }

WRITE_LOOP(1)

WRITE_LOOP(2)

WRITE_LOOP(4)

WRITE_LOOP(8)

WRITE_LOOP(16)

static amp_index_loop *writer_of(amp_dtype dtype) {
    switch (amp_dtype_size(dtype)) {
    case 1: return write_1;
    case 2: return write_2;
    case 4: return write_4;
    case 8: return write_8;
    default: return write_16;
    }
}

/* The table's element and `alpha` times the value, joined. Where one index is for all, there are no duplicates. */
#define JOIN_LOOP(name, suffix, type, value_type, value_of, number, expression)                                        \
    static void name##_dense_##suffix(type *restrict to, const value_type *restrict values, type alpha, int64_t n) {   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const type x = to[i], y = alpha * value_of(values[i]);                                                     \
            to[i] = expression;                                                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_##suffix(const void *context, const amp_index_run *run) {                                       \
        const amp_index_run r = *run;                                                                                  \
        const int64_t size = (int64_t)sizeof(type), value_size = (int64_t)sizeof(value_type);                          \
        const type alpha = number;                                                                                     \
        (void)context;                                                                                                 \
        if (r.index_step == 0 && r.table_step == size && r.values_step == value_size) {                                \
            type *to = (type *)(void *)(r.table + amp_index_at(r.index, r.wrap) * r.scale);                            \
            name##_dense_##suffix(to, (const value_type *)(const void *)r.values, alpha, r.n);                         \
            return;                                                                                                    \
        }                                                                                                              \
        if (r.index_step == sizeof(int64_t) && r.table_step == 0 && r.values_step == value_size && r.scale == size) {  \
            type *to = (type *)(void *)r.table;                                                                        \
            const value_type *values = (const value_type *)(const void *)r.values;                                     \
            const int64_t *index = (const int64_t *)(const void *)r.index;                                             \
            for (int64_t i = 0; i < r.n; i++) {                                                                        \
                const type x = to[index[i]], y = alpha * value_of(values[i]);                                          \
                to[index[i]] = expression;                                                                             \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < r.n; i++) {                                                                            \
            const int64_t index = amp_index_at(r.index + i * r.index_step, r.wrap);                                    \
            type *to = (type *)(void *)(r.table + i * r.table_step + index * r.scale);                                 \
            const value_type value = *(const value_type *)(const void *)(r.values + i * r.values_step);                \
            const type x = *to, y = alpha * value_of(value);                                                           \
            *to = expression;                                                                                          \
        }                                                                                                              \
    }

#define ALPHA ((const amp_constant *)context)
#define COMPLEX_ALPHA (__builtin_complex(ALPHA->c128[0], ALPHA->c128[1]))
JOIN_LOOP(add, f32, float, float, , ALPHA->f32, x + y)

JOIN_LOOP(add, f64, double, double, , ALPHA->f64, x + y)

JOIN_LOOP(add, i64, uint64_t, uint64_t, , (uint64_t)ALPHA->i64, x + y)

JOIN_LOOP(add, c128, complex128, complex128, , COMPLEX_ALPHA, x + y)

JOIN_LOOP(multiply, f32, float, float, , 1, x *y)

JOIN_LOOP(multiply, f64, double, double, , 1, x *y)

JOIN_LOOP(multiply, i64, uint64_t, uint64_t, , 1, x *y)

JOIN_LOOP(multiply, c128, complex128, complex128, , 1, x *y)

/* Values of bf16 are widened on the way: a shift. */
static inline float widened(uint16_t value) {
    return amp_f32_bits((uint32_t)value << 16);
}

JOIN_LOOP(add, bf16, float, uint16_t, widened, ALPHA->f32, x + y)

JOIN_LOOP(multiply, bf16, float, uint16_t, widened, 1, x *y)

#define JOIN_EXTREMES(suffix, type, value_type, value_of)                                                              \
    JOIN_LOOP(largest, suffix, type, value_type, value_of, 1, x != x || x > y ? x : y)                                 \
    JOIN_LOOP(smallest, suffix, type, value_type, value_of, 1, x != x || x < y ? x : y)
JOIN_EXTREMES(f32, float, float, )
JOIN_EXTREMES(f64, double, double, )
JOIN_EXTREMES(i64, int64_t, int64_t, )
JOIN_EXTREMES(bf16, float, uint16_t, widened)

/* By the type that is computed in; complex numbers have no order. */
typedef struct joiners {
    amp_index_loop *f32, *f64, *i64, *c128, *bf16;
} joiners;

static amp_index_loop *joiner_of(amp_dtype compute, amp_dtype values, amp_scatter_kind kind) {
    static const joiners of[] = {
        [AMP_SCATTER_ADD] = {add_f32, add_f64, add_i64, add_c128, add_bf16},
        [AMP_SCATTER_MULTIPLY] = {multiply_f32, multiply_f64, multiply_i64, multiply_c128, multiply_bf16},
        [AMP_SCATTER_LARGEST] = {largest_f32, largest_f64, largest_i64, NULL, largest_bf16},
        [AMP_SCATTER_SMALLEST] = {smallest_f32, smallest_f64, smallest_i64, NULL, smallest_bf16}};
    if (values == AMP_BF16) return of[kind].bf16;
    switch (compute) {
    case AMP_F32: return of[kind].f32;
    case AMP_F64: return of[kind].f64;
    case AMP_C128: return of[kind].c128;
    default: return of[kind].i64;
    }
}

/* A bool is true or false: its sums and numbers go through i64, but a number is stored by its truth. */
static amp_dtype number_compute(amp_dtype dtype) {
    return dtype == AMP_BOOL ? AMP_BOOL : amp_compute_dtype(dtype);
}

amp_status amp_cpu_write_by_index(const amp_call *call, const amp_writing *w) {
    const amp_dtype dtype = w->table->dtype;
    amp_index_walk walk = amp_index_walk_of(w->table, w->values, (void *)(uintptr_t)w->number, w->index, w->dim);
    const bool writes = w->kind == AMP_SCATTER_WRITE;
    const amp_constant alpha = amp_constant_of(&w->alpha, writes ? number_compute(dtype) : dtype);
    (void)call;
    walk.loop = writes ? writer_of(dtype) : joiner_of(dtype, w->values ? w->values->dtype : dtype, w->kind);
    walk.context = &alpha;
    amp_index_walk_ordered(&walk);
    return AMP_OK;
}
