/* Tensors under names, as files have them: what is gathered to be saved, and what of a file is looked for. */
#ifndef AMP_TRAIN_NAMED_H
#define AMP_TRAIN_NAMED_H

#include "amp/io.h"
#include "core/tensor_impl.h"

typedef struct amp_named {
    char **names;         /* each for amp_free */
    amp_tensor **tensors; /* one more owner of each */
    int64_t count, name_room, tensor_room;
} amp_named;

/* Adds the tensor as "first.second", or as "second" where first is NULL. NULL: the error that stands. */
amp_status amp_named_add(amp_named *list, const char *first, const char *second, amp_tensor *tensor);
/* A tensor of these f64, or of these i64, of no dimension where count is 0. */
amp_status amp_named_add_numbers(amp_named *list, const char *first, const char *second, const double *numbers,
                                 int64_t count);
amp_status amp_named_add_wholes(amp_named *list, const char *first, const char *second, const int64_t *wholes,
                                int64_t count);
void amp_named_free(amp_named *list);

/* amp_save_safetensors, from any device. An error begins with `what`. */
amp_status amp_named_save(const amp_named *list, const char *what, const char *path, const char *const *metadata);

/* The tensors of a file whose names begin with "first.", without that; all, where first is NULL. */
amp_status amp_named_read(amp_named *list, amp_safetensors *file, const char *first);

/* An error where a name or a tensor of a program's list is missing. */
amp_status amp_named_check(const amp_named *list, const char *what);

/* NULL: there is none of that name. */
amp_tensor *amp_named_find(const amp_named *list, const char *name);
/* "; did you mean 'x'?", or "": good until the next call of this thread's. */
const char *amp_named_hint(const amp_named *list, const char *wanted);

#endif /* AMP_TRAIN_NAMED_H */
