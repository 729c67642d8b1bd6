/* Values out of any tensor. */
#ifndef AMP_IO_READ_H
#define AMP_IO_READ_H

#include "core/tensor_impl.h"

/* Copies the values of a live tensor on any device into one of the same shape on the CPU, whose dtype they take. Made
 * in the innermost scope: what it takes to get them from a device. */
amp_status amp_read_into(amp_tensor *destination, const amp_tensor *source);

#endif /* AMP_IO_READ_H */
