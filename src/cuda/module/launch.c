/* Kernels by name: the fat binaries of the .cu files are part of this module, and each is loaded when one of its
 * kernels is first asked for. */
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
#undef AMP_CUDA_IMAGE
};
enum {
#define AMP_CUDA_IMAGE(name) IMAGE_##name,
#include "images.def"
    IMAGES
};

static const struct {
    const char *name;
    int image;
} known[] = {
#define AMP_CUDA_KERNEL(name, file) {#name, IMAGE_##file},
#include "cuda/module/kernels.def"
};
enum { KERNELS = sizeof known / sizeof *known, SLOTS = 1024 };
_Static_assert(KERNELS < SLOTS, "a slot stays free, at which a search ends");

typedef struct kernel {
    CUfunction function; /* NULL: not asked for yet */
    unsigned shared;     /* the most that the driver has been told of */
} kernel;

static struct {
    CUmodule modules[IMAGES];
    kernel kernels[KERNELS];
} loaded[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Names ------------------------------------------------------------------------------------------------------- */
/* 1 + the number of a kernel, open addressing by what its name says: the library whose name it is may be closed, and
 * another one lie there. */
static uint16_t slots[SLOTS];
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

static uint16_t *slot_of(const char *name) {
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c; c++) hash = (hash ^ (uint8_t)*c) * 16777619u;
    uint16_t *at = &slots[hash % SLOTS];
    while (*at && strcmp(known[*at - 1].name, name) != 0) at = at == &slots[SLOTS - 1] ? slots : at + 1;
    return at;
}

static void enter_names(void) {
    for (int i = 0; i < KERNELS; i++) *slot_of(known[i].name) = (uint16_t)(i + 1);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */
static amp_cuda_result load_image(int device, int image) {
    CUmodule *module = &loaded[device].modules[image];
    if (*module) return AMP_CUDA_OK;
    amp_cuda_relax();
    const CUresult result = cuda.module_load(module, images[image]);
    if (result != CUDA_SUCCESS) *module = NULL;
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
        result == CUDA_ERROR_INVALID_IMAGE) {
        return amp_cuda_say(AMP_CUDA_MISSING,
                            "this libamp_cuda.so has no kernels that the GPU and its driver can run: it was built with "
                            "CUDA %d.%d for certain GPUs (AMP_CUDA_ARCHITECTURES)",
                            CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    }
    return amp_cuda_check(result, "the kernels cannot be loaded");
}

/* What a kernel declares and is given together may be more than 48 KB where the driver is told before. */
static amp_cuda_result allow_shared(kernel *k, const char *name, unsigned shared) {
    if (shared <= k->shared) return AMP_CUDA_OK;
    const CUresult allowed =
        cuda.function_set(k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);
    AMP_CUDA_TRY(amp_cuda_check(allowed, name));
    k->shared = shared;
    return AMP_CUDA_OK;
}

static amp_cuda_result find_kernel(const char *name, unsigned shared, CUfunction *function) {
    const int device = amp_cuda_selected(), number = *slot_of(name) - 1;
    if (number < 0) return amp_cuda_say(AMP_CUDA_MISSING, "libamp_cuda.so has no kernel '%s'", name);
    const int image = known[number].image;
    kernel *k = &loaded[device].kernels[number];
    if (!k->function) {
        AMP_CUDA_TRY(load_image(device, image));
        const CUresult found = cuda.module_function(&k->function, loaded[device].modules[image], known[number].name);
        if (found != CUDA_SUCCESS) k->function = NULL;
        AMP_CUDA_TRY(amp_cuda_check(found, "a kernel cannot be loaded"));
    }
    *function = k->function;
    return allow_shared(k, name, shared);
}

amp_cuda_result amp_cuda_launch_kernel(const amp_cuda_launch *launch) {
    CUstream stream;
    CUfunction function = NULL;
    pthread_once(&names_once, enter_names);
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
