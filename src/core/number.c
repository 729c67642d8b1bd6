/* Numbers in text. */
#define _GNU_SOURCE /* strtod_l */
#include "core/number.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale; /* lives as long as the process; glibc has it ready and allocates nothing */

static void make_locale(void) {
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double amp_read_number(const char *text, char **end) {
    pthread_once(&once, make_locale);
    return c_locale ? strtod_l(text, end, c_locale) : strtod(text, end);
}
