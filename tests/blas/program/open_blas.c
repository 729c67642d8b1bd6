/* open_blas LIBRARY TEST PRECISION: runs call_blas out of a library whose BLAS nobody else sees. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library ? dlsym(library, "call_blas_main") : NULL;
    if (symbol) return (*(int (*)(int, char **))(uintptr_t)symbol)(argc - 1, argv + 1);
    fprintf(stderr, "open_blas: %s\n", dlerror());
    return 3;
}
