/* The thread's place. */
#include "policy/place.h"

__thread const char *amp_place;
