/* The function that was there before, and libamp's engine: what is found by name while the program runs. */
#define _GNU_SOURCE /* dladdr, dl_iterate_phdr, RTLD_NEXT */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "blas/module/module.h"

/* ---- The original ------------------------------------------------------------------------------------------------ */

static bool is_ours(const void *address) {
    static const char here;
    Dl_info mine, other;
    return dladdr(&here, &mine) && dladdr(address, &other) && mine.dli_fbase == other.dli_fbase;
}

/* In an object that is loaded, and what it depends on. */
static void *find_from(const char *path, const char *name) {
    void *object = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *found = object ? dlsym(object, name) : NULL;
    if (object) dlclose(object); /* it stays: it was loaded */
    return found && !is_ours(found) ? found : NULL;
}

static void *find_for(const void *caller, const char *name) {
    Dl_info from;
    return dladdr(caller, &from) && from.dli_fname ? find_from(from.dli_fname, name) : NULL;
}

typedef struct search {
    const char *name;
    void *found;
} search;

static int look_in(struct dl_phdr_info *object, size_t size, void *context) {
    search *s = context;
    (void)size;
    if (object->dlpi_name && *object->dlpi_name) s->found = find_from(object->dlpi_name, s->name);
    return s->found != NULL;
}

static void *find(const char *name, const void *caller) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) found = find_for(caller, name);
    search all = {name, found};
    if (!found) dl_iterate_phdr(look_in, &all);
    return all.found;
}

void *amp_blas_original(amp_blas_symbol *symbol, const void *caller) {
    void *known = atomic_load_explicit(&symbol->original, memory_order_acquire);
    if (known) return known;
    known = find(symbol->name, caller);
    if (!known) {
        fprintf(stderr, "libamp_blas: no library that is loaded has %s\n", symbol->name);
        _exit(127); /* as the loader does where a symbol is missing */
    }
    atomic_store_explicit(&symbol->original, known, memory_order_release);
    return known;
}

/* ---- The engine -------------------------------------------------------------------------------------------------- */

static const amp_blas_engine *engine;
static char why_not[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_engine(void) {
    void *library = dlopen(AMP_BLAS_LIBAMP, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, AMP_BLAS_ENGINE_ENTRY) : NULL;
    amp_blas_engine_function *entry = NULL;
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object to a function pointer */
    const amp_blas_engine *table = entry ? entry() : NULL;
    if (table && table->abi == AMP_BLAS_ABI) {
        engine = table;
        return;
    }
    const char *error = library ? "it is another version" : dlerror();
    snprintf(why_not, sizeof why_not, AMP_BLAS_LIBAMP " cannot be used: %s", error ? error : "no reason is given");
    fprintf(stderr, "libamp_blas: %s; all calls go to the library that was there\n", why_not);
}

const amp_blas_engine *amp_blas_engine_get(const char **why) {
    pthread_once(&once, open_engine);
    *why = why_not;
    return engine;
}
