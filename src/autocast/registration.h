/* The end of registration, for those who begin something else with it. */
#ifndef AMP_AUTOCAST_REGISTRATION_H
#define AMP_AUTOCAST_REGISTRATION_H

#include <stdbool.h>

/* Puts what was registered into effect, or with `enabled` false forgets it, unless that was done before. */
void amp_registration_take(bool enabled);

#endif /* AMP_AUTOCAST_REGISTRATION_H */
