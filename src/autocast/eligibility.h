/* What autocast casts at all, and why it leaves the rest alone: f64, in-place and out= forms, other devices. */
#ifndef AMP_AUTOCAST_ELIGIBILITY_H
#define AMP_AUTOCAST_ELIGIBILITY_H

#include "call/call.h"

/* Defined, on the device, floating point, not f64. */
static inline bool amp_autocast_eligible(const amp_tensor *t, amp_device device) {
    if (!t || (t->dtype != AMP_F32 && t->dtype != AMP_F16 && t->dtype != AMP_BF16)) return false;
    return amp_tensor_memory(t)->storage->device == device;
}

/* Of the arguments that a policy may cast. */
bool amp_autocast_any_eligible(const amp_call *call);

/* Why an argument is left alone that the policy would cast; NULL if there is none such. Static text. */
const char *amp_autocast_argument_bypass(const amp_call *call);

/* Why a call of this form, which is not the plain function, is left alone. */
const char *amp_autocast_form_bypass(const amp_call *call);

/* Whether a cast is without effect on what the op runs in: the report shows no target then. Asked before the casts. */
bool amp_autocast_runs_as_it_is(const amp_call *call);

#endif /* AMP_AUTOCAST_ELIGIBILITY_H */
