/* The explain report's records: one per op, input types, shapes and layouts, and way it ran. */
#ifndef AMP_EXPLAIN_RECORD_H
#define AMP_EXPLAIN_RECORD_H

#include <stdint.h>

#include "amp/explain.h"
#include "call/call.h"

typedef enum amp_record_layout {
    AMP_RECORD_CONTIGUOUS,
    AMP_RECORD_CHANNELS_LAST,
    AMP_RECORD_STRIDED
} amp_record_layout;

/* A tensor argument before any cast. Its extents stand in the key's, behind those of the inputs before it. */
typedef struct amp_record_input {
    uint8_t arg; /* index in the op's table of arguments */
    uint8_t dtype, layout, rank;
} amp_record_input;

enum { AMP_RECORD_INPUTS = 16, AMP_RECORD_EXTENTS = 40, AMP_RECORD_OPTIONS = 24, AMP_RECORD_SAMPLES = 128 };

/* What makes two calls the same row. */
typedef struct amp_record_key {
    uint64_t hash; /* of the inputs, also of those that found no room, of the op and the label */
    char label[AMP_LABEL_BYTES];
    const amp_op_info *op;
    unsigned form;
    amp_device device;
    amp_dtype runs_in;  /* what autocast chose, else what the inputs promote to; NONE without inputs */
    amp_call_note note; /* of the first such call; in a record its counts are sums over all */
    int input_count;    /* all of them; those that found room: stored_inputs, with stored_extents */
    int stored_inputs, stored_extents;
    bool other_shapes; /* of the op, beyond the bound of rows: without inputs and options */
    amp_record_input inputs[AMP_RECORD_INPUTS];
    int64_t extents[AMP_RECORD_EXTENTS];
    /* Of windows and activations (stride, padding, groups, attr …), where they are not the defaults: the index of the
     * argument, how many values it has, the values; and so on. Of a text −n, and n words that hold it, zeros behind. */
    int option_words;
    int64_t options[AMP_RECORD_OPTIONS];
} amp_record_key;

typedef struct amp_record {
    struct amp_record *next; /* in its hash bucket */
    amp_record_key key;
    uint64_t calls, failures;
    uint64_t nanoseconds, fastest, first; /* of all calls, of the fastest, of the first: on their device */
    uint64_t host_nanoseconds;            /* of all calls, until they returned */
    double operations;                    /* of one call; 0: not known; below 0: not asked for yet */
    const amp_op_info *follower;          /* the activation that alone read results of such calls … */
    uint64_t followed;                    /* … so many times */
    bool may_have_follower;
    uint64_t random;
    /* Of the calls behind the first: all, then so many of them drawn with equal chances. */
    float samples[AMP_RECORD_SAMPLES];
} amp_record;

/* Nanoseconds of the clock during which calls were recorded, since the start or the last reset. */
uint64_t amp_records_wall_time(void);

/* Calls `visit` on every record under the lock of the report. */
void amp_records_for_each(void (*visit)(const amp_record *record, void *context), void *context);

/* AMP_EXPLAIN=FILE, when the library is loaded. */
void amp_explain_begin_from_environment(void);

#endif /* AMP_EXPLAIN_RECORD_H */
