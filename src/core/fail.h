/* How libamp's own code reports failure: one call makes the sentence, AMP_TRY forwards the status. */
#ifndef AMP_CORE_FAIL_H
#define AMP_CORE_FAIL_H

#include <stdarg.h>
#include <stdbool.h>

#include "amp/error.h"

/* Records `code` and the formatted sentence as this thread's error, unless one stands already; returns `code`.
 * The sentence begins with the op ("linear: input is …") and ends without a full stop. Cold: what leads to it alone is
 * moved out of the way of the calls that succeed, which then need half the lines of the instruction cache. */
amp_status amp_fail(amp_status code, const char *format, ...) __attribute__((cold, format(printf, 2, 3)));
#ifdef __clang_analyzer__ /* which cannot see that this is never AMP_OK */
#define amp_fail(code, ...) (amp_fail((code), __VA_ARGS__), AMP_ERROR_INTERNAL)
#endif

/* The same of "<about>: <sentence>", for functions that are given the sentence's format and know what it is about. */
amp_status amp_fail_about(amp_status code, const char *about, const char *format, va_list arguments)
    __attribute__((cold, format(printf, 3, 0)));
#ifdef __clang_analyzer__
#define amp_fail_about(...) (amp_fail_about(__VA_ARGS__), AMP_ERROR_INTERNAL)
#endif

/* Puts the op that the user called in front of a standing error that another op made inside it: "einsum: bmm: …". */
void amp_fail_within(const char *op);

/* The status of the error that stands on this thread. */
amp_status amp_pending_error(void);

/* Whether an error stands on this thread. */
static inline bool amp_failed(void) {
    return amp_pending_error() != AMP_OK;
}

#ifdef __clang_analyzer__ /* to forward it: asked for where something has failed */
#define amp_pending_error() ((amp_pending_error)(), AMP_ERROR_INTERNAL)
#endif

#define AMP_TRY(expr)                                                                                                  \
    do {                                                                                                               \
        const amp_status amp_try_status_ = (expr);                                                                     \
        if (amp_try_status_ != AMP_OK) return amp_try_status_;                                                         \
    } while (0)

#endif /* AMP_CORE_FAIL_H */
