/* The CUDA backend's module is a library of its own, loaded on the first use of AMP_DEVICE_CUDA: one binary serves
 * machines with and without a driver. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda_backend.h"

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static const amp_cuda_module *loaded;
static char why_not[512];

static amp_cuda_module_entry *find_entry(void *module) {
    void *symbol = dlsym(module, AMP_CUDA_MODULE_ENTRY);
    amp_cuda_module_entry *entry = NULL;
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object to a function pointer */
    return entry;
}

static void load(void) {
    void *file = dlopen(AMP_CUDA_MODULE_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        const char *error = dlerror();
        const bool absent = !error || strncmp(error, AMP_CUDA_MODULE_FILE ":", sizeof AMP_CUDA_MODULE_FILE) == 0;
        snprintf(why_not, sizeof why_not,
                 absent ? "the backend module " AMP_CUDA_MODULE_FILE " is not installed%s"
                        : "the backend module " AMP_CUDA_MODULE_FILE " cannot be loaded: %s",
                 absent ? "" : error);
        return;
    }
    amp_cuda_module_entry *entry = find_entry(file);
    if (!entry) {
        snprintf(why_not, sizeof why_not,
                 AMP_CUDA_MODULE_FILE " has no " AMP_CUDA_MODULE_ENTRY "; it belongs to another libamp");
        return;
    }
    const amp_cuda_module *module = entry(why_not, sizeof why_not); /* no driver, no device: it says so */
    if (module && module->abi != AMP_CUDA_ABI) {
        snprintf(why_not, sizeof why_not, AMP_CUDA_MODULE_FILE " has ABI %u, this libamp needs %d", module->abi,
                 AMP_CUDA_ABI);
        return;
    }
    loaded = module;
}

const amp_cuda_module *amp_cuda_loaded(void) {
    pthread_once(&load_once, load);
    return loaded;
}

amp_status amp_cuda_backend(const char *op, const amp_backend **backend) {
    *backend = NULL;
    if (!amp_cuda_loaded()) return amp_fail(AMP_ERROR_DEVICE, "%s: device cuda cannot be used: %s", op, why_not);
    *backend = &amp_cuda_backend_table;
    return AMP_OK;
}

const char *amp_cuda_reason(void) {
    return amp_cuda_loaded() ? "" : why_not;
}
