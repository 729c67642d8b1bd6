/* What a load will write, noted until all of it is known to fit: before that nothing is written, and once the first is
 * nothing can fail. */
#ifndef AMP_TRAIN_LOADING_H
#define AMP_TRAIN_LOADING_H

#include "train/named.h"

enum { AMP_LOADING_BYTES = 32 };

/* Gives an object the value that was noted for it. */
typedef void (*amp_loading_setter)(void *to, const void *value);

typedef struct amp_noted {
    void *to; /* gets `bytes` of `value`, by `set` if there is one; NULL: a tensor is noted */
    amp_loading_setter set;
    size_t bytes;
    _Alignas(8) char value[AMP_LOADING_BYTES];
    amp_tensor **place; /* what is there gets the elements of `from`; where nothing is, `from` goes there itself */
    amp_tensor *from;   /* one more owner, on the place's device; NULL: nothing is to be there */
} amp_noted;

typedef struct amp_loading {
    const char *what; /* what sentences begin with */
    amp_noted *items;
    int64_t count, capacity;
} amp_loading;

/* A number, or what a setter takes, of at most AMP_LOADING_BYTES. */
amp_status amp_loading_bytes(amp_loading *l, void *to, const void *value, size_t bytes);
amp_status amp_loading_set(amp_loading *l, void *to, amp_loading_setter set, const void *value, size_t bytes);
/* A tensor, `from` converted to the dtype and device of `like`, whose shape it has. */
amp_status amp_loading_tensor(amp_loading *l, amp_tensor **place, amp_tensor *like, amp_tensor *from);
/* Nothing is to be at the place. */
amp_status amp_loading_nothing(amp_loading *l, amp_tensor **place);
/* Writes what was noted, as if all had been read first: what lies in memory that is written is copied before. An error,
 * no memory for that: nothing is written. */
amp_status amp_loading_write(amp_loading *l);
/* The two halves of it: all that can fail, and what is left. */
amp_status amp_loading_prepare(amp_loading *l);
void amp_loading_put(amp_loading *l);
void amp_loading_free(amp_loading *l);

#endif /* AMP_TRAIN_LOADING_H */
