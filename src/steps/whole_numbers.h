/* Ops whose formula is another one for integers and bools: compositions, the same on every device. */
#ifndef AMP_OPS_WHOLE_NUMBERS_H
#define AMP_OPS_WHOLE_NUMBERS_H

#include "call/call.h"

bool amp_holds_whole_numbers(const amp_tensor *t);

/* hardtanh and threshold of integers: integers; the numbers of the call are cut to whole ones, as in PyTorch, and must
 * be such as the dtype holds. */
amp_status amp_whole_hardtanh(amp_call *call);
amp_status amp_whole_threshold(amp_call *call);

#endif /* AMP_OPS_WHOLE_NUMBERS_H */
