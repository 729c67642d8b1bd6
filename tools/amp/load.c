/* --load FILE: a shared object whose constructors define ops. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "amp/error.h"
#include "command.h"

bool amp_tool_load(const char *command, const char *file) {
    char here[PATH_MAX];
    const bool is_bare = !strchr(file, '/'); /* dlopen would look for it among the system's libraries only */
    snprintf(here, sizeof here, "./%s", file);
    if (!dlopen(is_bare ? here : file, RTLD_NOW | RTLD_GLOBAL)) {
        fprintf(stderr, "amp %s: --load: %s\n", command, dlerror());
        return false;
    }
    if (amp_last_status() == AMP_OK) return true;
    fprintf(stderr, "amp %s: --load: %s: %s\n", command, file, amp_last_error());
    return false;
}
