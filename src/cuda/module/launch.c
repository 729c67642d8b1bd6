/* Kernels by name: the fat binaries of the .cu files are part of this module, and are loaded when one of their kernels
 * is first asked for. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/module/driver.h"

/* NAME.cu as nvcc made it: images for several architectures, and PTX for later ones. */
#define AMP_CUDA_IMAGE(name)                                                                                           \
    __asm__(".section .rodata\n.balign 64\n" #name "_image:\n.incbin \"" AMP_CUDA_IMAGES "/" #name ".fatbin\"\n"       \
            ".byte 0\n.previous\n");                                                                                   \
    extern const char name##_image[];
#include "images.def" /* a row for each .cu file, written by cmake/cuda.cmake */
#undef AMP_CUDA_IMAGE

static const char *const images[] = {
#define AMP_CUDA_IMAGE(name) name##_image,
#include "images.def"
};
enum { IMAGES = sizeof images / sizeof *images, SLOTS = 512 };

typedef struct kernel {
    const char *name; /* the caller's, static */
    CUfunction function;
    unsigned shared; /* the most that the driver has been told of */
} kernel;

static struct {
    CUmodule modules[IMAGES];
    kernel kernels[SLOTS]; /* open addressing by the address of the name */
    int count;
} loaded[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static amp_cuda_result find_function(int device, const char *name, CUfunction *function) {
    for (int i = 0; i < IMAGES; i++) {
        CUmodule *module = &loaded[device].modules[i];
        if (!*module) {
            const CUresult result = cuda.module_load(module, images[i]);
            if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
                *module = NULL;
                return amp_cuda_say(AMP_CUDA_MISSING,
                                    "this build of libamp_cuda.so has no kernels for the GPU, or the driver is older "
                                    "than the toolkit that it was built with (set AMP_CUDA_ARCHITECTURES)");
            }
            AMP_CUDA_TRY(amp_cuda_check(result, "the kernels cannot be loaded"));
        }
        const CUresult found = cuda.module_function(function, *module, name);
        if (found != CUDA_ERROR_NOT_FOUND) return amp_cuda_check(found, "a kernel cannot be loaded");
    }
    return amp_cuda_say(AMP_CUDA_MISSING, "libamp_cuda.so has no kernel '%s'", name);
}

/* What a kernel declares and is given together may be more than 48 KB where the driver is told before. */
static amp_cuda_result allow_shared(kernel *k, unsigned shared) {
    if (shared <= k->shared) return AMP_CUDA_OK;
    const CUresult allowed =
        cuda.function_set(k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);
    AMP_CUDA_TRY(amp_cuda_check(allowed, k->name));
    k->shared = shared;
    return AMP_CUDA_OK;
}

/* One for which there is no slot left is looked up at every launch. */
static amp_cuda_result find_kernel(const char *name, unsigned shared, CUfunction *function) {
    const int device = amp_cuda_selected();
    kernel *kernels = loaded[device].kernels;
    size_t at = ((uintptr_t)name >> 2) % SLOTS;
    while (kernels[at].name && kernels[at].name != name) at = (at + 1) % SLOTS;
    kernel found = {.name = name}, *k = &kernels[at];
    if (!k->name) {
        const bool room = loaded[device].count < SLOTS - 1;
        AMP_CUDA_TRY(find_function(device, name, &found.function));
        if (room) *k = found, loaded[device].count++;
        if (!room) k = &found;
    }
    *function = k->function;
    return allow_shared(k, shared);
}

amp_cuda_result amp_cuda_launch_kernel(const amp_cuda_launch *launch) {
    CUstream stream;
    CUfunction function = NULL;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    pthread_mutex_lock(&lock);
    const amp_cuda_result found = find_kernel(launch->kernel, launch->shared, &function);
    pthread_mutex_unlock(&lock);
    AMP_CUDA_TRY(found);
    void *parameters[] = {(void *)launch->arguments};
    amp_cuda_count.launches++;
    return amp_cuda_check(
        cuda.launch(function, launch->blocks, 1, 1, launch->threads, 1, 1, launch->shared, stream, parameters, NULL),
        launch->kernel);
}
