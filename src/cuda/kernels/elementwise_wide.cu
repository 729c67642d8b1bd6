/* The formulas in f64, i64 and c128: a kernel for each type, which branches by the formula. */
#include "cuda/kernels/elementwise.h"

enum {
#define F(name, inputs, types, expression) FORMULA_##name,
#include "cuda/args/formulas.def"
#undef F
};

/* A formula has the types of its row: r, rw, rc or rwc. */
#define F(name, inputs, types, expression) F_##types(name)
#define CASE(name, type)                                                                                               \
    case FORMULA_##name:                                                                                               \
        return name##_formula<type>{numbers_of(a)}(x, y, z);

#define F_r(name) CASE(name, double)
#define F_rw(name) CASE(name, double)
#define F_rc(name) CASE(name, double)
#define F_rwc(name) CASE(name, double)
AMP_DEVICE double result_of(const amp_cuda_elementwise &a, double x, double y, double z) {
    switch (a.formula) {
#include "cuda/args/formulas.def"
    default: return x;
    }
}
#undef F_r
#undef F_rw
#undef F_rc
#undef F_rwc

#define F_r(name)
#define F_rw(name) CASE(name, int64_t)
#define F_rc(name)
#define F_rwc(name) CASE(name, int64_t)
AMP_DEVICE int64_t result_of(const amp_cuda_elementwise &a, int64_t x, int64_t y, int64_t z) {
    switch (a.formula) {
#include "cuda/args/formulas.def"
    default: return x;
    }
}
#undef F_rw
#undef F_rc
#undef F_rwc

#define F_rw(name)
#define F_rc(name) CASE(name, complex128)
#define F_rwc(name) CASE(name, complex128)
AMP_DEVICE complex128 result_of(const amp_cuda_elementwise &a, complex128 x, complex128 y, complex128 z) {
    switch (a.formula) {
#include "cuda/args/formulas.def"
    default: return x;
    }
}

/* An input that the formula does not have is a constant. */
template <class T>
AMP_DEVICE void by_formula(const amp_cuda_elementwise &a) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        const places at = locate(a, i, AMP_CUDA_INPUTS);
        const T x = element<T>(a.in[0], at.in[0]), y = element<T>(a.in[1], at.in[1]), z = element<T>(a.in[2], at.in[2]);
        put<T>(a.out, at.out, result_of(a, x, y, z));
    }
}

AMP_KERNEL(elementwise_f64, amp_cuda_elementwise) {
    by_formula<double>(a);
}
AMP_KERNEL(elementwise_i64, amp_cuda_elementwise) {
    by_formula<int64_t>(a);
}
AMP_KERNEL(elementwise_c128, amp_cuda_elementwise) {
    by_formula<complex128>(a);
}

AMP_KERNEL(range, amp_cuda_range) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        if (a.integers) {
            store<int64_t>(a.out, a.dtype, i,
                           (int64_t)((uint64_t)a.whole_start + (uint64_t)i * (uint64_t)a.whole_step));
        } else {
            store<double>(a.out, a.dtype, i, a.start + (double)i * a.step);
        }
    }
}
