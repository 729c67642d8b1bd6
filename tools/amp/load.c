/* --load FILE: a shared object whose constructors define ops. */
#include <dlfcn.h>
#include <stdio.h>

#include "amp/error.h"
#include "command.h"

bool amp_tool_load(const char *command, const char *file) {
    if (!dlopen(file, RTLD_NOW | RTLD_GLOBAL)) {
        fprintf(stderr, "amp %s: --load: %s\n", command, dlerror());
        return false;
    }
    if (amp_last_status() == AMP_OK) return true;
    fprintf(stderr, "amp %s: --load: %s: %s\n", command, file, amp_last_error());
    return false;
}
