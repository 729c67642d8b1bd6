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

/* NULL: no library has it. */
static void *find_once(amp_blas_symbol *symbol, const void *caller) {
    void *known = atomic_load_explicit(&symbol->original, memory_order_acquire);
    if (known) return known;
    known = find(symbol->name, caller);
    if (known) atomic_store_explicit(&symbol->original, known, memory_order_release);
    (void)dlerror(); /* a name that was not found here or there is not the program's error */
    return known;
}

void *amp_blas_original(amp_blas_symbol *symbol, const void *caller) {
    void *found = find_once(symbol, caller);
    if (found) return found;
    fprintf(stderr, "libamp_blas: no library that is loaded has %s\n", symbol->name);
    _exit(127); /* as the loader does where a symbol is missing */
}

/* ---- Its sort ---------------------------------------------------------------------------------------------------- */

/* Functions beside BLAS of libraries with kernels, and of small ones that hand calls on to such. */
static const char *const names_of_kernels[] = {
    "openblas_get_config", "openblas_get_config64_", "scipy_openblas_get_config", "scipy_openblas_get_config64_",
    "MKL_Get_Version",     "ATL_buildinfo",          "flexiblas_get_version",     "lbt_get_config"};

/* Reference BLAS has 0.45 MB; kernels for one processor after the other, as BLIS and PyTorch have them without any of
 * those names, take ten and more. */
enum { MOST_OF_LOOPS = 2 << 20 };

typedef struct measure {
    uintptr_t function;
    uint64_t bytes; /* of the object that it is in */
} measure;

static int measure_object(struct dl_phdr_info *object, size_t size, void *context) {
    measure *m = context;
    uint64_t bytes = 0;
    bool is_in = false;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD) continue;
        bytes += part->p_memsz;
        is_in |= m->function - object->dlpi_addr - part->p_vaddr < part->p_memsz;
    }
    if (is_in) m->bytes = bytes;
    return is_in;
}

static bool has_a_name_of_kernels(void *object) {
    bool has = false;
    for (size_t i = 0; i < sizeof names_of_kernels / sizeof *names_of_kernels; i++)
        has |= dlsym(object, names_of_kernels[i]) != NULL;
    (void)dlerror();
    return has;
}

/* What nothing is known of has kernels. */
static amp_blas_sort sort_of(const void *function) {
    measure m = {(uintptr_t)function, 0};
    Dl_info from;
    if (!function || !dladdr(function, &from) || !from.dli_fname) return AMP_BLAS_KERNELS;
    if (!dl_iterate_phdr(measure_object, &m) || m.bytes > MOST_OF_LOOPS) return AMP_BLAS_KERNELS;
    void *object = dlopen(from.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    const bool is_loops = object && !has_a_name_of_kernels(object);
    if (object) dlclose(object); /* it stays: it was loaded */
    return is_loops ? AMP_BLAS_LOOPS : AMP_BLAS_KERNELS;
}

bool amp_blas_is_over_loops(amp_blas_symbol *symbol, const void *caller) {
    amp_blas_sort sort = atomic_load_explicit(&symbol->sort, memory_order_relaxed);
    if (sort == AMP_BLAS_UNKNOWN) {
        sort = sort_of(find_once(symbol, caller));
        atomic_store_explicit(&symbol->sort, sort, memory_order_relaxed);
    }
    return sort == AMP_BLAS_LOOPS;
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
