/* The self-test of conversions. */
#include "cpu/convert/convert.h"

#include <stdio.h>
#include <string.h>

#include "cpu/registry/kernels.h"

enum { ELEMENTS = 97, GUARD = 16 };

/* Every kind of value beside every other: ±0, subnormals, ties, overflow, infinities, quiet and signalling NaN. */
static const uint32_t f32_samples[] = {
    0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00008000, 0x00018000, 0x3f800000, 0x3f808000, 0x3f818000,
    0xbf807fff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xff8fffff, 0x7fc12345, 0xffffffff,
    0x477fefff, 0x477ff000, 0x33000000, 0x33000001, 0x387fc000, 0x387fe000, 0x38801000, 0xb3800000, 0x40490fdb,
};
static const uint16_t half_samples[] = {
    0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x03ff, 0x0400, 0x3c00, 0x3f80, 0xbf81, 0x7bff, 0x7c00, 0xfc00,
    0x7c01, 0xfdff, 0x7e01, 0x7f7f, 0x7f80, 0xff80, 0x7f81, 0xff90, 0x7fc1, 0xffff, 0x4049, 0x5555,
};

bool amp_convert_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    unsigned char src[4 * ELEMENTS], got[4 * ELEMENTS + GUARD], want[4 * ELEMENTS + GUARD];
    const int64_t lengths[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, ELEMENTS};
    for (int i = 0; i < ELEMENTS; i++) {
        if (amp_dtype_size(kernel->in) == 4)
            memcpy(src + 4 * i, &f32_samples[i % (int)(sizeof f32_samples / sizeof *f32_samples)], 4);
        else
            memcpy(src + 2 * i, &half_samples[i % (int)(sizeof half_samples / sizeof *half_samples)], 2);
    }
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        memset(got, 0xa5, sizeof got);
        memset(want, 0xa5, sizeof want);
        ((amp_convert_function *)reference->function)(want, src, lengths[k]);
        ((amp_convert_function *)kernel->function)(got, src, lengths[k]);
        if (memcmp(got, want, sizeof got) != 0) {
            snprintf(message, size, "%s differs from %s on %d elements", kernel->name, reference->name,
                     (int)lengths[k]);
            return false;
        }
    }
    return true;
}
