/* Any tensor as dense rows along one or several of its dimensions, for ops that walk rows: scans, sorting, arguments of
 * extremes, moments. What does not lie so is copied there, and results are copied back. */
#ifndef AMP_CPU_ROWS_H
#define AMP_CPU_ROWS_H

#include "call/call.h"
#include "cpu/convert/element.h"
#include "steps/rows.h"

/* The elements of `input` as rows along the dimensions of `mask`, in their own dtype. A copy belongs to the call. */
amp_status amp_rows_of(const amp_call *call, const amp_tensor *input, unsigned mask, amp_rows *rows);

/* Room for results of the same geometry: the memory of `out`, or a copy that amp_rows_finish brings there. */
amp_status amp_rows_for(const amp_call *call, amp_tensor *out, unsigned mask, amp_rows *rows);

amp_status amp_rows_finish(amp_rows *rows);

/* n elements of a row from number `at` on, in `compute` type: where they lie, or converted into the buffer. */
static inline const void *amp_rows_load(const amp_rows *rows, amp_dtype compute, int64_t row, int64_t at, int64_t n,
                                        void *buffer) {
    const char *from = rows->data + (row * rows->length + at) * rows->size;
    if (rows->dtype == compute) return from;
    amp_block_load(compute, buffer, rows->dtype, from, rows->size, n);
    return buffer;
}

/* Calls `loop` for ranges of rows, spread over threads; `cost`: simple operations for one element. */
typedef void amp_rows_loop(void *context, int64_t begin, int64_t end);

void amp_rows_run(const amp_rows *rows, int64_t cost, amp_rows_loop *loop, void *context);

#endif /* AMP_CPU_ROWS_H */
