/* The driver's library and those over it, opened by name, and what is said where one cannot be. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda/module/driver.h"

bool amp_cuda_symbol(void *library, const char *name, void *pointer) {
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol); /* ISO C has no cast from an object to a function pointer */
    return symbol != NULL;
}

/* The loader's text begins with the name of what it did not find: this file, or one that this file needs. */
static bool is_of(const char *error, const char *file) {
    const size_t length = strlen(file);
    return strncmp(error, file, length) == 0 && error[length] == ':';
}

void *amp_cuda_open_library(const char *file, const char *subject, char *why, size_t why_size) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
    const char *error = dlerror();
    if (!error || is_of(error, file)) {
        snprintf(why, why_size, "%s is not installed", subject);
    } else {
        snprintf(why, why_size, "%s cannot be loaded: %s", subject, error);
    }
    return NULL;
}

void *amp_cuda_load_library(const char *file, const char *subject, const amp_cuda_function *functions, size_t count,
                            char *why, size_t why_size) {
    void *library = amp_cuda_open_library(file, subject, why, why_size);
    for (size_t i = 0; i < count && library; i++) {
        if (amp_cuda_symbol(library, functions[i].name, functions[i].pointer)) continue;
        snprintf(why, why_size, "%s has no %s", file, functions[i].name);
        library = NULL; /* it stays open, as one in use does */
    }
    return library;
}
