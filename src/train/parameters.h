/* A list of parameters, for who reads it. */
#ifndef AMP_TRAIN_PARAMETERS_H
#define AMP_TRAIN_PARAMETERS_H

#include "amp/parameters.h"
#include "train/loading.h"

typedef struct amp_parameter {
    char *name;
    amp_tensor *tensor; /* one owner of it */
    bool is_buffer;     /* no optimizer's */
} amp_parameter;

struct amp_parameters {
    amp_parameter *items;
    int64_t count, capacity;
};

/* A copy of the text, for amp_free; NULL without memory. */
char *amp_text_copy(const char *text);

/* Room for one more of `bytes` each behind `count` of them in *items, which has room for *capacity. False: no
 * memory. */
bool amp_make_room(void **items, int64_t count, int64_t *capacity, size_t bytes);

/* Whether an optimizer can have the list: an error where it has no parameter, or one that was released or is not
 * floating. */
amp_status amp_parameters_check_trained(const char *what, const amp_parameters *parameters);

/* Notes that the parameters get the tensors of their names, of which there must be no others. */
amp_status amp_parameters_note(amp_loading *loading, amp_parameters *parameters, const amp_named *tensors);

#endif /* AMP_TRAIN_PARAMETERS_H */
