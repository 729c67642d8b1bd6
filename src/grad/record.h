/* The grad layer: writes calls down whose arguments require gradients. */
#ifndef AMP_GRAD_RECORD_H
#define AMP_GRAD_RECORD_H

#include <stdbool.h>

/* From now on every thread's calls come by. */
void amp_grad_install(void);

#endif /* AMP_GRAD_RECORD_H */
