/* The version of these headers, and that of the library that the program runs with. */
#ifndef AMP_VERSION_H
#define AMP_VERSION_H

#include "amp/export.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AMP_VERSION_MAJOR 0
#define AMP_VERSION_MINOR 1
#define AMP_VERSION_PATCH 0

/* One number to compare: 0.1.0 is 100, 1.2.3 is 10203. */
#define AMP_VERSION (AMP_VERSION_MAJOR * 10000 + AMP_VERSION_MINOR * 100 + AMP_VERSION_PATCH)

/* AMP_VERSION as it was when the library was built. A program may refuse to run where it differs from its own. */
AMP_API int amp_version(void);

/* The same as text: "0.1.0". The string is static. */
AMP_API const char *amp_version_string(void);

#ifdef __cplusplus
}
#endif

#endif /* AMP_VERSION_H */
