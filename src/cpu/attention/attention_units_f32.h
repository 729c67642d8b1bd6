/* Units of f32 for attention_backward_body.h: one number each. Over a simd header. */
#ifndef AMP_CPU_ATTENTION_UNITS_F32_H
#define AMP_CPU_ATTENTION_UNITS_F32_H

#include "cpu/attention/attention_units.h"

#define UNIT_DTYPE f32
enum { PER_UNIT = 1 };

typedef float unit, element;
typedef vf u_vector;

static inline u_vector u_load(const unit *p) {
    return v_load(p);
}
static inline u_vector u_set1(const unit *p) {
    return v_set1(*p);
}
static inline vf u_dot(vf sum, u_vector x, u_vector y) {
    return v_fma(x, y, sum);
}
static inline void e_copy(element *to, const element *from) {
    v_store(to, v_load(from));
}
static inline vf e_load_first(const element *p, int64_t n) {
    return v_load_first(p, n);
}
static inline void e_store(element *p, vf x) {
    v_store(p, x);
}
/* PER_UNIT rows as one of units. */
static inline void u_store_along(unit *p, const vf *rows) {
    v_store(p, rows[0]);
}
/* Rows of `columns` elements, PER_UNIT of them to a row of units, in the room where that is not what they are. */
static inline unit *units_along(unit *room, unit *rows, int64_t count, int64_t columns) {
    (void)room, (void)count, (void)columns;
    return rows;
}
static inline void transpose_units(unit *to, int64_t to_step, const unit *from, int64_t from_step, int64_t count,
                                   int64_t columns) {
    transpose_words(to, to_step, from, from_step, count, columns);
}

#endif /* AMP_CPU_ATTENTION_UNITS_F32_H */
