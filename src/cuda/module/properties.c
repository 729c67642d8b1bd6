/* What is known of a device, of its memory, of the driver, and of NVIDIA's libraries that the loader finds. */
#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

#include "cuda/module/driver.h"
#if __has_include(<cudnn_version.h>)
#include <cudnn_version.h>
#endif
#if __has_include(<cufft.h>)
#include <cufft.h>
#endif
#if __has_include(<cusolverDn.h>)
#include <cusolverDn.h>
#endif

/* ---- Devices ----------------------------------------------------------------------------------------------------- */
amp_cuda_result amp_cuda_describe_device(int index, amp_cuda_facts *facts) {
    const int selected = amp_cuda_selected();
    CUdevice device;
    AMP_CUDA_TRY(amp_cuda_select(index)); /* says it if there is none */
    (void)amp_cuda_select(selected);
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } numbers[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &facts->major},
                   {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &facts->minor},
                   {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &facts->multiprocessors}};
    CUresult result = cuda.device_get(&device, index);
    if (result == CUDA_SUCCESS) result = cuda.device_name(facts->name, sizeof facts->name, device);
    if (result == CUDA_SUCCESS) result = cuda.device_memory(&facts->memory, device);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && result == CUDA_SUCCESS; i++) {
        result = cuda.device_attribute(numbers[i].value, numbers[i].attribute, device);
    }
    return amp_cuda_check(result, "the device cannot be described");
}

amp_cuda_result amp_cuda_memory_info(size_t *free_bytes, size_t *total_bytes) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream)); /* it is asked of the current context */
    return amp_cuda_check(cuda.memory_info(free_bytes, total_bytes), "the device's memory cannot be asked for");
}

/* ---- Libraries --------------------------------------------------------------------------------------------------- */
/* Two ways to tell one's version: by returning it, and by way of a pointer. */
typedef size_t version_returned(void);
typedef int version_written(int *version);

typedef struct library {
    const char *name, *file; /* file: of the version that the module was built with; NULL: it was built without */
    const char *version_of;
    bool returns;
    int unit; /* of the major version in that number; the minor one's is 100 */
} library;

static const library libraries[] = {
    {"cuBLASLt", AMP_CUDA_SONAME("libcublasLt", CUBLAS_VER_MAJOR), "cublasLtGetVersion", true, 10000},
#ifdef CUDNN_MAJOR
    {"cuDNN", AMP_CUDA_SONAME("libcudnn", CUDNN_MAJOR), "cudnnGetVersion", true, 10000},
#else
    {"cuDNN", NULL, NULL, true, 1},
#endif
#ifdef CUFFT_VER_MAJOR
    {"cuFFT", AMP_CUDA_SONAME("libcufft", CUFFT_VER_MAJOR), "cufftGetVersion", false, 1000},
#else
    {"cuFFT", NULL, NULL, false, 1},
#endif
#ifdef CUSOLVER_VER_MAJOR
    {"cuSOLVER", AMP_CUDA_SONAME("libcusolver", CUSOLVER_VER_MAJOR), "cusolverGetVersion", false, 1000},
#else
    {"cuSOLVER", NULL, NULL, false, 1},
#endif
    {"NCCL", "libnccl.so.2", "ncclGetVersion", false, 10000},
};

static long version_of(const library *l, void *opened) {
    version_returned *returned = NULL;
    version_written *written = NULL;
    int version = 0;
    if (l->returns && amp_cuda_symbol(opened, l->version_of, &returned)) return (long)returned();
    if (!l->returns && amp_cuda_symbol(opened, l->version_of, &written) && written(&version) == 0) return version;
    return 0;
}

static void describe(const library *l, char *text, size_t size) {
    if (!l->file) {
        snprintf(text, size, "this libamp was built without it");
        return;
    }
    void *opened = amp_cuda_open_library(l->file, l->file, text, size);
    if (!opened) return;
    const long version = version_of(l, opened), rest = version % l->unit;
    if (version) snprintf(text, size, "%ld.%ld.%ld", version / l->unit, rest / 100, rest % 100);
    if (!version) snprintf(text, size, "%s, which does not tell its version", l->file);
}

bool amp_cuda_describe_library(int index, const char **name, char *text, size_t size) {
    if (index < 0 || index > (int)(sizeof libraries / sizeof *libraries)) return false;
    if (index > 0) {
        *name = libraries[index - 1].name;
        describe(&libraries[index - 1], text, size);
        return true;
    }
    int version = 0;
    *name = "driver";
    snprintf(text, size, "does not tell its version");
    if (cuda.driver_version(&version) == CUDA_SUCCESS)
        snprintf(text, size, "for CUDA up to %d.%d; libamp_cuda.so was built with %d.%d", version / 1000,
                 version % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    return true;
}
