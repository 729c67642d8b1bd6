/* Checkpoints, for who has several processes agree on them. */
#ifndef AMP_TRAIN_TRAINING_H
#define AMP_TRAIN_TRAINING_H

#include "amp/training.h"

/* amp_training_load, which asks once all of the file is known to fit, or what does not, and before anything is written:
 * what `agree` gives is what happens. NULL: that it fits is enough. */
amp_status amp_training_load_if(const amp_training *training, const char *path,
                                amp_status (*agree)(void *context, amp_status status), void *context);

#endif /* AMP_TRAIN_TRAINING_H */
