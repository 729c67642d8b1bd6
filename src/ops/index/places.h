/* Places where elements are not zero: what masks and nonzero come to. How many there are is known only when the
 * elements have been read, so this waits for a device. */
#ifndef AMP_OPS_PLACES_H
#define AMP_OPS_PLACES_H

#include "call/call.h"

/* i64, on the call's device, in row-major order: for each place its number among all (`flat`: [count]), or its index in
 * each dimension ([count, rank]). NULL with an error. */
amp_tensor *amp_places_of(const amp_call *call, amp_tensor *t, bool flat);

#endif /* AMP_OPS_PLACES_H */
