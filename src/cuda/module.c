/* The CUDA backend is a module of its own, loaded on the first use of AMP_DEVICE_CUDA: one binary serves machines with
 * and without a driver. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/backend.h"

#define MODULE_NAME "libamp_cuda.so"
#define ENTRY_NAME "amp_cuda_module"

typedef const amp_backend *(*module_entry)(char *why, size_t why_size);

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static const amp_backend *loaded;
static char why_not[256];

static module_entry find_entry(void *module) {
    void *symbol = dlsym(module, ENTRY_NAME);
    module_entry entry = NULL;
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object to a function pointer */
    return entry;
}

static void load(void) {
    void *module = dlopen(MODULE_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        const char *error = dlerror();
        const bool absent = !error || strncmp(error, MODULE_NAME ":", sizeof MODULE_NAME) == 0;
        snprintf(why_not, sizeof why_not,
                 absent ? "the backend module " MODULE_NAME " is not installed%s"
                        : "the backend module " MODULE_NAME " cannot be loaded: %s",
                 absent ? "" : error);
        return;
    }
    const module_entry entry = find_entry(module);
    if (!entry) {
        snprintf(why_not, sizeof why_not, MODULE_NAME " has no " ENTRY_NAME "; it belongs to another libamp");
        return;
    }
    const amp_backend *backend = entry(why_not, sizeof why_not); /* no driver, no device: it says so */
    if (backend && backend->abi != AMP_BACKEND_ABI) {
        snprintf(why_not, sizeof why_not, MODULE_NAME " was built for backend ABI %u, this libamp has %d", backend->abi,
                 AMP_BACKEND_ABI);
        return;
    }
    loaded = backend;
}

amp_status amp_cuda_backend(const char *op, const amp_backend **backend) {
    pthread_once(&load_once, load);
    *backend = loaded;
    if (loaded) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE, "%s: device cuda cannot be used: %s", op, why_not);
}

const char *amp_cuda_reason(void) {
    pthread_once(&load_once, load);
    return loaded ? "" : why_not;
}
