/* Settings: the environment, which `amp blas` fills in, read at the first call of a process. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas/module/module.h"

enum { CACHE_MEGABYTES = 256 };

static amp_blas_settings settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
    const char *name;
    amp_blas_precision precision;
} precisions[] = {
    {"f32", AMP_BLAS_F32}, {"bf16x3", AMP_BLAS_BF16X3}, {"bf16x2", AMP_BLAS_BF16X2}, {"bf16", AMP_BLAS_BF16}};

static const char *setting(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* What is no precision is the one that changes nothing. */
static amp_blas_precision precision_of(const char *text) {
    if (!text) return AMP_BLAS_BF16X3;
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        if (strcmp(text, precisions[i].name) == 0) return precisions[i].precision;
    fprintf(stderr, "libamp_blas: AMP_BLAS_PRECISION is '%s'; it must be f32, bf16x3, bf16x2 or bf16\n", text);
    return AMP_BLAS_F32;
}

static bool is_on(const char *name) {
    const char *text = setting(name);
    return text && strcmp(text, "0") != 0;
}

/* libamp follows OMP_NUM_THREADS; whoever has told only the BLAS that was there how many threads to use means this one
 * too. */
static int threads(void) {
    static const char *const names[] = {"OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !setting("OMP_NUM_THREADS"); i++)
        if (setting(names[i])) return atoi(setting(names[i]));
    return 0;
}

static void read_settings(void) {
    const char *cache = setting("AMP_BLAS_CACHE");
    settings.request.precision = precision_of(setting("AMP_BLAS_PRECISION"));
    settings.request.everything = is_on("AMP_BLAS_ALL");
    settings.request.threads = threads();
    settings.request.cache_bytes = (size_t)(cache ? strtoul(cache, NULL, 10) : CACHE_MEGABYTES) << 20;
    settings.check = is_on("AMP_BLAS_CHECK");
    settings.json = is_on("AMP_BLAS_JSON");
    settings.report = setting("AMP_BLAS_REPORT");
}

const amp_blas_settings *amp_blas_settings_get(void) {
    pthread_once(&once, read_settings);
    return &settings;
}
