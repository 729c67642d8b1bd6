/* Places that several indices name together, as offsets into a table. */
#include <string.h>

#include "cpu/cpu_steps.h"
#include "cpu/elementwise/iterate.h"

typedef struct stride {
    int64_t extent, stride;
} stride;

static void add_offsets(void *context, char *const *data, const int64_t *strides, int64_t count) {
    const stride *s = context;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = *(const int64_t *)(const void *)(data[1] + i * strides[1]);
        *(int64_t *)(void *)(data[0] + i * strides[0]) += (index < 0 ? index + s->extent : index) * s->stride;
    }
}

amp_status amp_cpu_make_offsets(const amp_call *call, const amp_tensor *table, amp_tensor *const *indices, int dims,
                                amp_tensor *offsets) {
    (void)call;
    memset(amp_tensor_pointer(offsets), 0, (size_t)amp_tensor_elements(offsets) * sizeof(int64_t));
    for (int d = 0; d < dims; d++) {
        if (!indices[d]) continue;
        stride s = {table->shape[d], table->strides[d]};
        amp_iterator it;
        amp_iterator_start(&it, offsets->rank, offsets->shape);
        amp_iterator_add(&it, offsets);
        amp_iterator_add(&it, indices[d]);
        amp_iterator_run(&it, add_offsets, &s, 1);
    }
    return AMP_OK;
}
