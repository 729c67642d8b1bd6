/* libFuzzer target: any bytes as a .npy file, through the same path as a user's. What loads must save and load alike.
 * */
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

static void save_and_load_again(amp_tensor *tensor) {
    static char copy[64];
    if (!copy[0]) check(close(mkstemp(strcpy(copy, "/tmp/amp-fuzz-XXXXXX"))) == 0);
    check(amp_save_npy(copy, tensor) == AMP_OK);
    amp_tensor *back = amp_load_npy(copy);
    check(back && amp_tensor_dtype(back) == amp_tensor_dtype(tensor) &&
          amp_tensor_rank(back) == amp_tensor_rank(tensor));
    check(memcmp(amp_data(back), amp_data(tensor),
                 (size_t)amp_tensor_numel(tensor) * amp_dtype_size(amp_tensor_dtype(tensor))) == 0);
    unlink(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    const int file = memfd_create("npy", 0);
    check(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    amp_scope {
        amp_tensor *tensor = amp_load_npy(path);
        check((tensor != NULL) == (amp_last_status() == AMP_OK));
        check(tensor || strlen(amp_last_error()) > 10);
        if (tensor) save_and_load_again(tensor);
    }
    amp_clear_error();
    close(file);
    return 0;
}
