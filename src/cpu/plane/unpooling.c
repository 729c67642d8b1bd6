/* max_unpool2d, max_unpool3d: values put back to where a maximum was found, zeros elsewhere. */
#include <stdatomic.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/cpu_steps.h"
#include "cpu/plane/spatial.h"

typedef struct unpool {
    const amp_spatial *s;
    const char *in;
    char *out;
    const int64_t *indices;
    size_t size;
    int64_t elements, places;  /* of a plane, in the input and in the output */
    _Atomic int64_t first_bad; /* in the order of planes, however they lie; INT64_MAX: none */
} unpool;

static void note_bad(unpool *u, int64_t position) {
    int64_t known = atomic_load(&u->first_bad);
    while (position < known && !atomic_compare_exchange_weak(&u->first_bad, &known, position)) {
    }
}

#define PUT(type) ((type *)(void *)out)[to] = ((const type *)(const void *)u->in)[from]
static inline void put(const unpool *u, char *out, int64_t to, int64_t from) {
    switch (u->size) {
    case 1: PUT(uint8_t); break;
    case 2: PUT(uint16_t); break;
    case 4: PUT(uint32_t); break;
    case 8: PUT(uint64_t); break;
    default: memcpy(out + to * (int64_t)u->size, u->in + from * (int64_t)u->size, u->size);
    }
}

/* Planes, or, channels last, images. Of several values for one place the last stays. */
static void unpool_planes(void *context, int64_t begin, int64_t end, void *scratch) {
    unpool *u = context;
    const int64_t inner = u->s->inner, plane = u->places * inner * (int64_t)u->size;
    (void)scratch;
    memset(u->out + begin * plane, 0, (size_t)((end - begin) * plane));
    for (int64_t outer = begin; outer < end; outer++) {
        char *out = u->out + outer * plane;
        for (int64_t i = 0; i < u->elements; i++) {
            for (int64_t c = 0; c < inner; c++) {
                const int64_t from = (outer * u->elements + i) * inner + c, place = u->indices[from];
                if (place < 0 || place >= u->places)
                    note_bad(u, (outer * inner + c) * u->elements + i);
                else
                    put(u, out, place * inner + c, from);
            }
        }
    }
}

amp_status amp_cpu_unpool(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *indices) {
    amp_spatial_result result;
    const void *in, *places;
    AMP_TRY(amp_spatial_write(call, s, 0, input->dtype, input->dtype, &result));
    AMP_TRY(amp_spatial_read(call, s, input, input->dtype, &in));
    AMP_TRY(amp_spatial_read(call, s, indices, AMP_I64, &places));
    unpool u = {.s = s, .in = in, .out = result.data, .indices = places, .first_bad = INT64_MAX};
    u.size = amp_dtype_size(input->dtype);
    u.elements = s->in[0] * s->in[1] * s->in[2];
    u.places = s->out[0] * s->out[1] * s->out[2];
    AMP_TRY(amp_spatial_run(call, s->outer, u.places * s->inner, 0, unpool_planes, &u));
    const int64_t bad = atomic_load(&u.first_bad);
    if (bad != INT64_MAX) {
        const int64_t plane = bad / u.elements, from = (plane / s->inner * u.elements + bad % u.elements) * s->inner;
        return amp_fail(AMP_ERROR_INVALID, "%s: 'indices' has %lld, but a plane of the result has %lld elements",
                        amp_call_name(call), (long long)u.indices[from + plane % s->inner], (long long)u.places);
    }
    return amp_spatial_finish(&result);
}
