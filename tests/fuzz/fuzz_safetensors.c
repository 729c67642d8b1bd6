/* libFuzzer target: any bytes as a safetensors file, through the same path as a user's. Whatever opens is read whole,
 * byte by byte, so that a tensor reaching outside of the file is found. */
#define _GNU_SOURCE /* memfd_create */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amp/io.h"
#include "amp/scope.h"
#include "amp/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition) {
    if (!condition) abort();
}

/* Returns the bytes that were read. */
static size_t read_tensor(amp_safetensors *file, const char *name) {
    amp_tensor *tensor = amp_safetensors_get(file, name);
    check(tensor || amp_last_status() == AMP_ERROR_DTYPE || strstr(amp_last_error(), "expected at most 8"));
    if (!tensor) {
        amp_clear_error();
        return 0;
    }
    const size_t bytes = (size_t)amp_tensor_numel(tensor) * amp_dtype_size(amp_tensor_dtype(tensor));
    const unsigned char *at = amp_data(tensor);
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += at[i];
    __asm__ volatile("" : : "r"(sum)); /* every byte is read, also by an optimiser's view */
    return bytes;
}

static void read_file(amp_safetensors *file, size_t size) {
    size_t bytes = 0;
    for (int64_t i = 0; i < amp_safetensors_count(file); i++) {
        const char *name = amp_safetensors_name(file, i);
        check(name && !amp_safetensors_name(file, amp_safetensors_count(file)));
        amp_scope
            bytes += read_tensor(file, name);
    }
    check(bytes <= size); /* no byte belongs to two tensors */
    for (int64_t i = 0; i < amp_safetensors_metadata_count(file); i++) {
        const char *value = amp_safetensors_metadata(file, amp_safetensors_metadata_key(file, i));
        check(value && strlen(value) <= size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    const int descriptor = memfd_create("safetensors", 0);
    check(descriptor >= 0 && write(descriptor, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    amp_safetensors *file = amp_safetensors_open(path);
    check(file || strlen(amp_last_error()) > 10);
    if (file) read_file(file, size);
    amp_safetensors_close(file);
    amp_clear_error();
    close(descriptor);
    return 0;
}
