/* A list of parameters, for who reads it. */
#ifndef AMP_TRAIN_PARAMETERS_H
#define AMP_TRAIN_PARAMETERS_H

#include "amp/parameters.h"
#include "core/tensor_impl.h"

typedef struct amp_parameter {
    char *name;
    amp_tensor *tensor; /* one owner of it */
} amp_parameter;

struct amp_parameters {
    amp_parameter *items;
    int64_t count, capacity;
};

/* A copy of the text, for amp_free; NULL without memory. */
char *amp_text_copy(const char *text);

/* Room for one more of `bytes` each behind `count` of them in *items, which has room for *capacity. False: no memory. */
bool amp_make_room(void **items, int64_t count, int64_t *capacity, size_t bytes);

#endif /* AMP_TRAIN_PARAMETERS_H */
