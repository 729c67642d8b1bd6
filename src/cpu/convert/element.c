/* Blocks of any dtype to and from the compute types: conversions of cpu/convert/convert_any.h. */
#include "cpu/convert/element.h"

#include <string.h>

#include "cpu/convert/convert_any.h"

/* A conversion that finds no kernel works without one; its error stands, and ends the op. */
void amp_block_prepare(void) {
    amp_conversion unused;
    const amp_dtype halves[] = {AMP_BF16, AMP_F16};
    for (int i = 0; i < 2; i++) {
        (void)amp_conversion_find(AMP_F32, halves[i], &unused);
        (void)amp_conversion_find(halves[i], AMP_F32, &unused);
    }
}

/* A broadcast element: converted once, then copied in runs that double. */
static void fill_block(amp_dtype compute, char *dst, amp_dtype dtype, const char *src, int64_t n) {
    const size_t size = amp_dtype_size(compute), bytes = (size_t)n * size;
    amp_block_load(compute, dst, dtype, src, (int64_t)amp_dtype_size(dtype), 1);
    for (size_t done = size; done < bytes; done *= 2) {
        memcpy(dst + done, dst, done < bytes - done ? done : bytes - done);
    }
}

void amp_block_load(amp_dtype compute, void *dst, amp_dtype dtype, const char *src, int64_t stride, int64_t n) {
    if (stride == 0 && n > 1) {
        fill_block(compute, dst, dtype, src, n);
        return;
    }
    amp_conversion conversion;
    (void)amp_conversion_find(compute, dtype, &conversion);
    amp_conversion_run_strided(&conversion, dst, (int64_t)conversion.dst_size, src, stride, n);
}

void amp_block_store(amp_dtype compute, const void *src, amp_dtype dtype, char *dst, int64_t stride, int64_t n) {
    amp_conversion conversion;
    (void)amp_conversion_find(dtype, compute, &conversion);
    amp_conversion_run_strided(&conversion, dst, stride, src, (int64_t)conversion.src_size, n);
}

double amp_element_double(amp_dtype dtype, const void *element) {
    double value;
    amp_block_load(AMP_F64, &value, dtype, element, 0, 1);
    return value;
}
