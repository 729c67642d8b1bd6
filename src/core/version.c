/* The version, as the library was built. */
#include "amp/version.h"

#define STRING(x) #x
#define DOTTED(major, minor, patch) STRING(major) "." STRING(minor) "." STRING(patch)

int amp_version(void) {
    return AMP_VERSION;
}

const char *amp_version_string(void) {
    return DOTTED(AMP_VERSION_MAJOR, AMP_VERSION_MINOR, AMP_VERSION_PATCH);
}
