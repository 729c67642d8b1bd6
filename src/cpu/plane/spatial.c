/* Geometry, layouts and threads of ops on planes; and the one that moves elements by tables. */
#include "cpu/plane/spatial.h"

#include <omp.h>
#include <string.h>

#include "core/layout.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/cpu_steps.h"

static void layout_strides(const amp_spatial *s, const int64_t *shape, int64_t *strides) {
    if (s->channels_last) {
        amp_channels_last_strides(s->rank, shape, strides);
    } else {
        amp_dense_strides(s->rank, shape, strides);
    }
}

static bool has_layout(const amp_spatial *s, const amp_tensor *t) {
    int64_t strides[AMP_MAX_RANK] = {0};
    layout_strides(s, t->shape, strides);
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] != 1 && t->strides[d] != strides[d]) return false;
    }
    return true;
}

static amp_tensor *new_in_layout(const amp_call *call, const amp_spatial *s, amp_dtype dtype, const int64_t *shape) {
    amp_tensor *t = amp_tensor_new(call->op->name, dtype, s->rank, shape);
    if (t) layout_strides(s, shape, t->strides);
    return t;
}

amp_status amp_spatial_read(const amp_call *call, const amp_spatial *s, amp_tensor *tensor, amp_dtype dtype,
                            const void **data) {
    amp_tensor *dense = tensor;
    if (tensor->dtype != dtype || !has_layout(s, tensor)) {
        dense = new_in_layout(call, s, dtype, tensor->shape);
        if (!dense) return amp_pending_error();
        AMP_TRY(amp_cpu_copy(dense, tensor));
    }
    *data = amp_tensor_pointer(dense);
    return AMP_OK;
}

static amp_tensor *output(amp_call *call, const amp_spatial *s, int index, amp_dtype dtype) {
    int64_t shape[AMP_MAX_RANK];
    const int batched = s->rank - s->dims - 1;
    if (batched) shape[0] = s->batch;
    shape[batched] = s->channels;
    memcpy(shape + batched + 1, &s->out[AMP_SPATIAL_DIMS - s->dims], (size_t)s->dims * sizeof *shape);
    amp_tensor *t = amp_call_output(call, index, dtype, s->rank, shape), *made = call->outputs[index];
    if (made && made != call->target) layout_strides(s, shape, made->strides);
    return t;
}

amp_status amp_spatial_write(amp_call *call, const amp_spatial *s, int index, amp_dtype dtype, amp_dtype compute,
                             amp_spatial_result *result) {
    amp_tensor *t = output(call, s, index, dtype);
    if (!t) return amp_pending_error();
    *result = (amp_spatial_result){.tensor = t};
    if (dtype != compute || !has_layout(s, t)) {
        result->scratch = new_in_layout(call, s, compute, t->shape);
        if (!result->scratch) return amp_pending_error();
    }
    result->data = amp_tensor_pointer(result->scratch ? result->scratch : t);
    return AMP_OK;
}

amp_status amp_spatial_finish(const amp_spatial_result *result) {
    return result->scratch ? amp_cpu_copy(result->tensor, result->scratch) : AMP_OK;
}

/* ---- Threads -------------------------------------------------------------------------------------------------- */

amp_status amp_spatial_run(const amp_call *call, int64_t rows, int64_t cost, size_t scratch_bytes,
                           amp_spatial_rows *function, void *context) {
    if (rows == 0) return AMP_OK;
    int64_t work;
    if (__builtin_mul_overflow(rows, cost, &work)) work = INT64_MAX;
    const int wanted = amp_parallel_threads(work, AMP_GRAIN_ELEMENTS);
    const int threads = wanted > rows ? (int)rows : wanted;
    const size_t each = (scratch_bytes + 63) / 64 * 64;
    char *scratch = NULL;
    size_t bytes;
    const bool fits = !__builtin_mul_overflow(each, (size_t)threads, &bytes) && each >= scratch_bytes;
    if (scratch_bytes && (!fits || !(scratch = amp_alloc(bytes)))) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for rows of %zu bytes", amp_call_name(call), scratch_bytes);
    }
    if (threads == 1) {
        function(context, 0, rows, scratch);
    } else {
#pragma omp parallel num_threads(threads)
        {
            const int thread = omp_get_thread_num();
            const amp_range part = amp_parallel_part(rows, 1, thread, omp_get_num_threads());
            function(context, part.begin, part.end, scratch ? scratch + each * (size_t)thread : NULL);
        }
    }
    amp_free(scratch);
    return AMP_OK;
}

/* ---- Moving elements by tables -------------------------------------------------------------------------------- */

typedef struct gather {
    const amp_spatial *s;
    const char *in;
    char *out;
    const int64_t *const *tables;
    size_t block;       /* bytes that move together: one element, or a pixel's channels */
    amp_range straight; /* columns whose sources lie together */
} gather;

static amp_range longest_run(const int64_t *table, int64_t n) {
    amp_range best = {0, 0};
    for (int64_t begin = 0; begin < n;) {
        int64_t end = begin + 1;
        while (end < n && table[end] == table[end - 1] + 1) end++;
        if (end - begin > best.end - best.begin) best = (amp_range){begin, end};
        begin = end;
    }
    return best.end - best.begin >= 8 ? best : (amp_range){0, 0};
}

typedef struct bytes16 {
    uint64_t half[2];
} bytes16;

#define MOVE_COLUMNS(type)                                                                                             \
    for (int64_t i = begin; i < end; i++) ((type *)out)[i] = ((const type *)in)[table[i]]

static void move_columns(char *out, const char *in, const int64_t *table, size_t block, int64_t begin, int64_t end) {
    switch (block) {
    case 1: MOVE_COLUMNS(uint8_t); break;
    case 2: MOVE_COLUMNS(uint16_t); break;
    case 4: MOVE_COLUMNS(uint32_t); break;
    case 8: MOVE_COLUMNS(uint64_t); break;
    case 16: MOVE_COLUMNS(bytes16); break;
    default:
        for (int64_t i = begin; i < end; i++) {
            memcpy(out + i * (int64_t)block, in + table[i] * (int64_t)block, block);
        }
    }
}

static void gather_rows(void *context, int64_t begin, int64_t end, void *scratch) {
    const gather *g = context;
    const amp_spatial *s = g->s;
    const int64_t block = (int64_t)g->block, in_row = s->in[2] * block, out_row = s->out[2] * block;
    const int64_t *table = g->tables[2];
    const char *previous = NULL;
    (void)scratch;
    for (int64_t index = begin; index < end; index++) {
        const amp_spatial_row row = amp_spatial_row_at(s, index);
        const int64_t line = (row.outer * s->in[0] + g->tables[0][row.d]) * s->in[1] + g->tables[1][row.h];
        const char *in = g->in + line * in_row;
        char *out = g->out + index * out_row;
        if (in == previous) {
            memcpy(out, out - out_row, (size_t)out_row);
            continue;
        }
        const amp_range run = g->straight;
        move_columns(out, in, table, g->block, 0, run.begin);
        if (run.end > run.begin) {
            memcpy(out + run.begin * block, in + table[run.begin] * block, (size_t)((run.end - run.begin) * block));
        }
        move_columns(out, in, table, g->block, run.end, s->out[2]);
        previous = in;
    }
}

amp_status amp_cpu_spatial_gather(amp_call *call, const amp_spatial *s, amp_tensor *input,
                                  const int64_t *const tables[AMP_SPATIAL_DIMS]) {
    const amp_dtype dtype = input->dtype;
    amp_spatial_result result;
    const void *in;
    AMP_TRY(amp_spatial_write(call, s, 0, dtype, dtype, &result));
    AMP_TRY(amp_spatial_read(call, s, input, dtype, &in));
    gather g = {.s = s, .in = in, .out = result.data, .tables = tables};
    g.block = amp_dtype_size(dtype) * (size_t)s->inner;
    g.straight = longest_run(tables[2], s->out[2]);
    AMP_TRY(amp_spatial_run(call, amp_spatial_row_count(s), s->out[2] * s->inner, 0, gather_rows, &g));
    return amp_spatial_finish(&result);
}
