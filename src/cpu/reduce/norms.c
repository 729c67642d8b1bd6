/* Norms of many tensors in one pass: sums of squares of blocks of fixed size, and then those of each tensor in their
 * order. */
#include <math.h>

#include "core/memory.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/lists.h"
#include "cpu/registry/kernels.h"

enum { BLOCK = 32768, COLUMNS = 64, BUFFER = AMP_BLOCK_BYTES / sizeof(float) };

/* Side by side in COLUMNS sums, by the kernel that adds up columns. */
typedef struct lanes {
    double sums[COLUMNS];
} lanes;

typedef struct squares {
    amp_tensor *const *tensors;
    double *sums;         /* of blocks, those of one tensor behind those of the one before */
    const int64_t *first; /* the number of each tensor's first block */
    amp_columns_function *f32, *bf16;
} squares;

static void add_rows(lanes *l, amp_columns_function *kernel, const char *data, int64_t size, int64_t n) {
    const int64_t rows = n / COLUMNS;
    kernel(l->sums, data, COLUMNS * size, rows, COLUMNS);
    if (n % COLUMNS) kernel(l->sums, data + rows * COLUMNS * size, 0, 1, n % COLUMNS);
}

static void add_doubles(lanes *l, const double *x, int64_t n) {
    int64_t at = 0;
    for (; at + COLUMNS <= n; at += COLUMNS) {
        for (int i = 0; i < COLUMNS; i++) l->sums[i] += x[at + i] * x[at + i];
    }
    for (int i = 0; at + i < n; i++) l->sums[i] += x[at + i] * x[at + i];
}

static void add_halves(lanes *l, amp_columns_function *kernel, const char *data, int64_t n) {
    _Alignas(64) float buffer[BUFFER];
    for (int64_t at = 0; at < n; at += BUFFER, data += BUFFER * sizeof(uint16_t)) {
        const int64_t count = n - at < BUFFER ? n - at : BUFFER;
        amp_block_load(AMP_F32, buffer, AMP_F16, data, sizeof(uint16_t), count);
        add_rows(l, kernel, (const char *)buffer, sizeof *buffer, count);
    }
}

static double sum_of_block(const squares *s, const amp_tensor *t, int64_t begin, int64_t n) {
    lanes l = {{0}};
    const int64_t size = (int64_t)amp_element_sizes[t->dtype];
    const char *data = (const char *)amp_tensor_pointer(t) + begin * size;
    switch (t->dtype) {
    case AMP_F64: add_doubles(&l, (const double *)(const void *)data, n); break;
    case AMP_F16: add_halves(&l, s->f32, data, n); break;
    case AMP_BF16: add_rows(&l, s->bf16, data, size, n); break;
    default: add_rows(&l, s->f32, data, size, n); break;
    }
    for (int half = COLUMNS / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) l.sums[i] += l.sums[i + half];
    }
    return l.sums[0];
}

static void sum_piece(void *context, int64_t index, int64_t begin, int64_t end) {
    const squares *s = context;
    double *sum = s->sums + s->first[index] + begin / BLOCK;
    for (int64_t at = begin; at < end; at += BLOCK)
        *sum++ = sum_of_block(s, s->tensors[index], at, end - at < BLOCK ? end - at : BLOCK);
}

static int64_t blocks_of(const amp_tensor *t) {
    return (amp_tensor_elements(t) + BLOCK - 1) / BLOCK;
}

/* `first` and `sums` have room for all. */
static void sum_all(squares *s, const amp_tensor_list *grads, int64_t *first, double *norms) {
    int64_t blocks = 0;
    for (int64_t i = 0; i < grads->count; blocks += blocks_of(grads->items[i++])) first[i] = blocks;
    s->first = first;
    const amp_list_walk walk = {.tensors = *grads, .unit = BLOCK, .cost = 1, .piece = sum_piece, .context = s};
    amp_block_prepare();
    amp_list_walk_run(&walk);
    for (int64_t i = 0; i < grads->count; i++) {
        const int64_t end = i + 1 < grads->count ? first[i + 1] : blocks;
        double sum = 0;
        for (int64_t b = first[i]; b < end; b++) sum += s->sums[b];
        norms[i] = sqrt(sum);
    }
}

amp_status amp_cpu_norms(amp_call *call, const amp_tensor_list *grads, amp_tensor *out) {
    squares s = {.tensors = grads->items};
    s.f32 = (amp_columns_function *)amp_kernel_get(AMP_KERNEL_COLUMNS_SUM_SQUARES, AMP_F32, AMP_F32);
    s.bf16 = (amp_columns_function *)amp_kernel_get(AMP_KERNEL_COLUMNS_SUM_SQUARES, AMP_BF16, AMP_BF16);
    if (!s.f32 || !s.bf16) return amp_pending_error();
    int64_t blocks = 0;
    for (int64_t i = 0; i < grads->count; i++) blocks += blocks_of(grads->items[i]);
    int64_t *first = amp_alloc((size_t)(grads->count + 1) * sizeof *first);
    s.sums = amp_alloc((size_t)(blocks + 1) * sizeof *s.sums);
    const bool has_room = first && s.sums;
    if (has_room) sum_all(&s, grads, first, amp_tensor_pointer(out));
    amp_free(first);
    amp_free(s.sums);
    return has_room ? AMP_OK : amp_fail(AMP_ERROR_MEMORY, "%s: no memory", amp_call_name(call));
}
