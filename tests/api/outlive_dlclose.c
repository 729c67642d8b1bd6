/* A thread that used libamp ends after dlclose: what it holds must still have the code that gives it back.
 *     outlive_dlclose LIBRARY */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "amp/amp.h"

static void *library;
static pthread_barrier_t used, closed;

static void *use(void *unused) {
    const int64_t shape[1] = {3};
    const float numbers[3] = {1, 2, 3};
    amp_tensor *(*from_data)(const void *, amp_dtype, int, const int64_t *);
    void (*release)(amp_tensor *);
    *(void **)&from_data = dlsym(library, "amp_from_data");
    *(void **)&release = dlsym(library, "amp_release");
    release(from_data(numbers, AMP_F32, 1, shape));
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "outlive_dlclose: %s\n", argc == 2 ? dlerror() : "one argument, the library");
        return 2;
    }
    pthread_barrier_init(&used, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    if (pthread_create(&thread, NULL, use, NULL) != 0) return 2;
    pthread_barrier_wait(&used);
    const int status = dlclose(library);
    pthread_barrier_wait(&closed);
    return pthread_join(thread, NULL) != 0 || status != 0;
}
