/* Versions of the libraries that compute for us. */
#define _GNU_SOURCE /* dladdr, RTLD_DEFAULT */
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "amp/system.h"

static char onednn[32], openmp[96];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* OpenMP tells no runtime's name; the file that holds its functions does. */
static const char *runtime_file(void) {
    Dl_info found;
    void *function = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    if (!function || !dladdr(function, &found) || !found.dli_fname) return "unknown";
    const char *slash = strrchr(found.dli_fname, '/');
    return slash ? slash + 1 : found.dli_fname;
}

static const char *specification(void) {
    return _OPENMP >= 202011 ? "5.1" : _OPENMP >= 201811 ? "5.0" : _OPENMP >= 201511 ? "4.5" : "4.0 or older";
}

static void read_versions(void) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(onednn, sizeof onednn, "%d.%d.%d", v->major, v->minor, v->patch);
    snprintf(openmp, sizeof openmp, "%.64s, OpenMP %s", runtime_file(), specification());
}

const char *amp_onednn_version(void) {
    pthread_once(&once, read_versions);
    return onednn;
}

const char *amp_openmp_version(void) {
    pthread_once(&once, read_versions);
    return openmp;
}
