/* amp info: the devices that ops can run on, and what CUDA's ops are made with. */
#include "info_devices.h"

#include <stdio.h>

#include "amp/amp.h"
#include "cuda/cuda_backend.h"

static const double gibibyte = 1024.0 * 1024.0 * 1024.0;

/* Why CUDA cannot be used; "" if it can. */
static const char *cuda_reason(void) {
    const char *why = "";
    (void)amp_device_is_usable(AMP_DEVICE_CUDA, &why);
    return why;
}

static void print_device(int index) {
    amp_cuda_device_properties p;
    if (amp_cuda_get_device_properties(index, &p) != AMP_OK) {
        printf("  cuda:%-7d %s\n", index, amp_last_error());
        amp_clear_error();
        return;
    }
    printf("  cuda:%-7d %s, compute capability %d.%d, %d multiprocessors, %.1f GiB\n", index, p.name, p.major, p.minor,
           p.multiprocessors, (double)p.total_memory / gibibyte);
}

void amp_print_devices(void) {
    const char *why = cuda_reason(), *name;
    char text[512];
    printf("\nDevices\n  %-12s autocast to bf16 (default) or f16\n  %-12s %s\n", "cpu", "cuda",
           *why ? why : "autocast to f16 (default) or bf16");
    if (*why) return;
    for (int i = 0; i < amp_cuda_device_count(); i++) print_device(i);
    printf("\nCUDA\n");
    for (int i = 0; amp_cuda_loaded()->describe_library(i, &name, text, sizeof text); i++) {
        printf("  %-12s %s\n", name, text);
    }
}

static json_t *devices_json(void) {
    json_t *list = json_array();
    for (int i = 0; i < amp_cuda_device_count(); i++) {
        amp_cuda_device_properties p;
        if (amp_cuda_get_device_properties(i, &p) != AMP_OK) amp_clear_error();
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:i, s:I}", "name", p.name, "major", p.major, "minor",
                                              p.minor, "multiprocessors", p.multiprocessors, "memory_bytes",
                                              (json_int_t)p.total_memory));
    }
    return list;
}

static json_t *libraries_json(void) {
    const char *name;
    char text[512];
    json_t *libraries = json_object();
    for (int i = 0; amp_cuda_loaded()->describe_library(i, &name, text, sizeof text); i++) {
        json_object_set_new(libraries, name, json_string(text));
    }
    return libraries;
}

json_t *amp_cuda_json(void) {
    const char *why = cuda_reason();
    json_t *cuda = json_pack("{s:b, s:s}", "usable", (int)(*why == '\0'), "reason", why);
    if (!cuda || *why) return cuda;
    json_object_set_new(cuda, "devices", devices_json());
    json_object_set_new(cuda, "libraries", libraries_json());
    return cuda;
}
