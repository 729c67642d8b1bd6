/* The block loop under every elementwise op: operands that are dense and already of the compute type are used where
 * they lie, all others pass through buffers that stay in the first-level cache. */
#include "cpu/elementwise/elementwise.h"

#include <string.h>

#include "cpu/convert/element.h"
#include "cpu/elementwise/iterate.h"
#include "steps/constants.h"

/* Buffers of one thread; aligned for the kernels' benefit. */
typedef struct blocks {
    _Alignas(64) char out[AMP_BLOCK_BYTES];
    _Alignas(64) char in[AMP_ELEMENTWISE_INPUTS][AMP_BLOCK_BYTES];
} blocks;

typedef struct plan {
    const amp_elementwise *work;
    amp_dtype out_dtype, in_dtype[AMP_ELEMENTWISE_INPUTS];
    int64_t block; /* elements that fit every buffer */
} plan;

static bool usable_in_place(amp_dtype compute, amp_dtype dtype, int64_t stride) {
    return compute == dtype && stride == (int64_t)amp_element_sizes[dtype];
}

/* Dense elements of an input; `filled`: its buffer holds them already. */
static const void *input_block(const plan *p, int k, char *buffer, const char *data, int64_t stride, int64_t n,
                               bool filled) {
    const amp_dtype compute = p->work->in[k].compute;
    if (filled) return buffer;
    if (usable_in_place(compute, p->in_dtype[k], stride)) return data;
    amp_block_load(compute, buffer, p->in_dtype[k], data, stride, n);
    return buffer;
}

static bool all_in_place(const plan *p, const int64_t *strides) {
    bool in_place = usable_in_place(p->work->out_compute, p->out_dtype, strides[0]);
    for (int k = 0; k < p->work->inputs; k++)
        in_place &= usable_in_place(p->work->in[k].compute, p->in_dtype[k], strides[k + 1]);
    return in_place;
}

/* Blocks here too: functions may have buffers of that size. */
static void run_in_place(const plan *p, char *const *data, const int64_t *strides, int64_t count) {
    const amp_elementwise *work = p->work;
    for (int64_t at = 0; at < count; at += p->block) {
        const void *in[AMP_ELEMENTWISE_INPUTS];
        for (int k = 0; k < work->inputs; k++) in[k] = data[k + 1] + at * strides[k + 1];
        work->function(work->context, data[0] + at * strides[0], in, count - at < p->block ? count - at : p->block);
    }
}

/* `block` elements at a time; `filled` has a bit for each input whose buffer holds what is read in every block. */
static void run_blocks(const plan *p, blocks *b, char *const *data, const int64_t *strides, int64_t count,
                       int64_t block, unsigned filled) {
    const amp_elementwise *work = p->work;
    const bool in_place = usable_in_place(work->out_compute, p->out_dtype, strides[0]);
    for (int64_t at = 0; at < count; at += block) {
        const int64_t n = count - at < block ? count - at : block;
        const void *in[AMP_ELEMENTWISE_INPUTS];
        for (int k = 0; k < work->inputs; k++) {
            const int64_t stride = strides[k + 1];
            in[k] = input_block(p, k, b->in[k], data[k + 1] + at * stride, stride, n, filled >> k & 1);
            if (stride == 0) filled |= 1u << k;
        }
        char *target = data[0] + at * strides[0];
        work->function(work->context, in_place ? target : b->out, in, n);
        if (!in_place) amp_block_store(work->out_compute, b->out, p->out_dtype, target, strides[0], n);
    }
}

static void run_row(void *context, char *const *data, const int64_t *strides, int64_t count) {
    const plan *p = context;
    if (all_in_place(p, strides)) {
        run_in_place(p, data, strides, count);
        return;
    }
    blocks b;
    run_blocks(p, &b, data, strides, count, p->block, 0);
}

/* ---- Short rows, of which an operand has but one: a bias, the gates of channels ------------------------------------ */

/* Each operand's rows follow one another, or are one, and a block has room for several. */
static bool can_join(const plan *p, const int64_t *strides, const int64_t *row_strides, int64_t count, int64_t rows) {
    if (rows < 2 || count > p->block / 2 || row_strides[0] != count * strides[0]) return false;
    for (int k = 1; k <= p->work->inputs; k++) {
        if (row_strides[k] != count * strides[k] && row_strides[k] != 0) return false;
    }
    return true;
}

/* `count` elements, and again, `times` times in all. */
static void load_again(amp_dtype compute, char *buffer, amp_dtype dtype, const char *data, int64_t stride,
                       int64_t count, int64_t times) {
    const size_t row = (size_t)count * amp_dtype_size(compute), all = row * (size_t)times;
    amp_block_load(compute, buffer, dtype, data, stride, count);
    for (size_t done = row; done < all; done *= 2) memcpy(buffer + done, buffer, done < all - done ? done : all - done);
}

/* All rows as one; what each row reads again is laid out as often as a block holds rows. */
static void run_joined(const plan *p, char *const *data, const int64_t *strides, const int64_t *row_strides,
                       int64_t count, int64_t rows) {
    const int64_t fit = p->block / count, times = fit < rows ? fit : rows;
    unsigned filled = 0;
    blocks b;
    for (int k = 0; k < p->work->inputs; k++) {
        if (row_strides[k + 1] != 0 || strides[k + 1] == 0) continue;
        load_again(p->work->in[k].compute, b.in[k], p->in_dtype[k], data[k + 1], strides[k + 1], count, times);
        filled |= 1u << k;
    }
    run_blocks(p, &b, data, strides, rows * count, times * count, filled);
}

static void run_rows(void *context, char *const *data, const int64_t *strides, const int64_t *row_strides,
                     int64_t count, int64_t rows) {
    const plan *p = context;
    if (can_join(p, strides, row_strides, count, rows))
        run_joined(p, data, strides, row_strides, count, rows);
    else
        amp_iterator_row_by_row(run_row, context, 1 + p->work->inputs, data, strides, row_strides, count, rows);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

void amp_elementwise_run(const amp_elementwise *work, amp_tensor *out) {
    static const int64_t constant_strides[AMP_MAX_RANK];
    plan p = {.work = work, .out_dtype = out->dtype};
    size_t widest = amp_dtype_size(work->out_compute);
    amp_iterator it;
    amp_iterator_start(&it, out->rank, out->shape);
    amp_iterator_add(&it, out);
    for (int k = 0; k < work->inputs; k++) {
        const amp_elementwise_input *in = &work->in[k];
        p.in_dtype[k] = in->tensor ? in->tensor->dtype : in->compute;
        widest = larger(widest, amp_dtype_size(in->compute));
        if (in->tensor)
            amp_iterator_add(&it, in->tensor);
        else
            amp_iterator_add_memory(&it, (void *)(uintptr_t)in->constant, constant_strides);
    }
    p.block = (int64_t)(AMP_BLOCK_BYTES / widest);
    amp_block_prepare();
    amp_iterator_run_rows(&it, run_rows, &p, work->cost);
}

void amp_operands_run(const amp_operand *values, int count, amp_dtype compute, amp_dtype out_compute,
                      amp_dense_function *function, void *context, int64_t cost, amp_tensor *out) {
    amp_elementwise work = {
        .function = function, .context = context, .out_compute = out_compute, .inputs = count, .cost = cost};
    amp_constant constants[AMP_ELEMENTWISE_INPUTS];
    for (int i = 0; i < count; i++) {
        work.in[i].compute = compute;
        work.in[i].tensor = values[i].tensor;
        if (values[i].tensor) continue;
        constants[i] = amp_constant_of(&values[i].number, compute);
        work.in[i].constant = &constants[i];
    }
    amp_elementwise_run(&work, out);
}
