/* What the arguments of products may be, with their error messages: the same on every device. */
#ifndef AMP_OPS_PRODUCT_RULES_H
#define AMP_OPS_PRODUCT_RULES_H

#include "amp/ops.h"
#include "call/call.h"

amp_status amp_check_vector(const amp_call *call, const char *name, const amp_tensor *t);

/* Two vectors, an input that broadcasts to their outer product, and whole factors of integers. */
amp_status amp_check_addr(const amp_call *call, const amp_addr_args *args);

#endif /* AMP_OPS_PRODUCT_RULES_H */
