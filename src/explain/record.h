/* The explain report's records: one per op, input types and shapes, and way it ran. */
#ifndef AMP_EXPLAIN_RECORD_H
#define AMP_EXPLAIN_RECORD_H

#include <stdint.h>

#include "dispatch/call.h"

enum { AMP_INPUTS_BYTES = 240 };

typedef struct amp_record {
    struct amp_record *next; /* in its hash bucket */
    uint64_t hash;
    const amp_op_info *op;
    unsigned form;
    amp_device device;
    char inputs[AMP_INPUTS_BYTES]; /* "f32[2, 3], f32[3]", before any cast */
    amp_dtype runs_in;             /* what autocast chose, else what the inputs promote to; NONE without inputs */
    amp_call_note note;            /* of the first such call; its counts are sums over all */
    uint64_t calls, failures, nanoseconds, fastest;
} amp_record;

/* Calls `visit` on every record under the lock of the report. */
void amp_records_for_each(void (*visit)(const amp_record *record, void *context), void *context);

#endif /* AMP_EXPLAIN_RECORD_H */
