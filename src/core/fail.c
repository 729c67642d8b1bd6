/* The thread's standing error. */
#include "core/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/hot.h"
#include "core/lock.h"
#include "core/thread.h"

__thread amp_thread amp_this_thread;

/* The hook and its context change together. */
static struct {
    amp_error_hook call;
    void *context;
} hook;

void amp_set_error_hook(amp_error_hook call, void *context) {
    amp_lock(AMP_LOCK_ERROR_HOOK);
    hook.call = call;
    hook.context = context;
    amp_unlock(AMP_LOCK_ERROR_HOOK);
}

static void tell_hook(amp_status code, const char *sentence) {
    amp_lock(AMP_LOCK_ERROR_HOOK);
    const amp_error_hook call = hook.call;
    void *const context = hook.context;
    amp_unlock(AMP_LOCK_ERROR_HOOK);
    if (call) call(code, sentence, context);
}

amp_status(amp_fail)(amp_status code, const char *format, ...) {
    if (amp_this_thread.error != AMP_OK) return amp_this_thread.error; /* the first error stands */
    amp_this_thread.error = code;
    va_list arguments;
    va_start(arguments, format);
    amp_thread_text *text = amp_this_thread_text();
    vsnprintf(text->message, sizeof text->message, format, arguments);
    va_end(arguments);
    for (char *c = text->message; *c; c++) { /* names from files are quoted: one line, and no escapes for a terminal */
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    }
    if (!amp_this_thread.is_trying) tell_hook(code, text->message);
    return code;
}

amp_status(amp_fail_about)(amp_status code, const char *about, const char *format, va_list arguments) {
    char sentence[900];
    vsnprintf(sentence, sizeof sentence, format, arguments);
    return amp_fail(code, "%s: %s", about, sentence);
}

/* "add: …", "add_: …" or "add_out: …", but not "addmm: …". */
static bool names_op(const char *message, const char *op, size_t length) {
    if (strncmp(message, op, length) != 0) return false;
    const char *rest = message + length;
    return *rest == ':' || strncmp(rest, "_:", 2) == 0 || strncmp(rest, "_out:", 5) == 0;
}

void amp_fail_within(const char *op) {
    char *message = amp_this_thread_text()->message;
    const size_t room = sizeof amp_this_thread_text()->message, name = strlen(op);
    if (names_op(message, op, name) || name + 3 > room) return;
    const size_t length = strlen(message), kept = length < room - name - 3 ? length : room - name - 3;
    memmove(message + name + 2, message, kept);
    memcpy(message, op, name);
    memcpy(message + name, ": ", 2);
    message[name + 2 + kept] = '\0';
}

AMP_HOT amp_status(amp_pending_error)(void) {
    return amp_this_thread.error;
}

const char *amp_last_error(void) {
    return amp_this_thread.error == AMP_OK ? "" : amp_this_thread_text()->message;
}

amp_status amp_last_status(void) {
    return amp_this_thread.error;
}

void amp_clear_error(void) {
    amp_this_thread.error = AMP_OK;
}

const char *amp_status_name(amp_status status) {
    static const char *const names[] = {
        [AMP_OK] = "ok",
        [AMP_ERROR_INVALID] = "invalid",
        [AMP_ERROR_DTYPE] = "dtype",
        [AMP_ERROR_DEVICE] = "device",
        [AMP_ERROR_MEMORY] = "memory",
        [AMP_ERROR_IO] = "io",
        [AMP_ERROR_NOT_IMPLEMENTED] = "not implemented",
        [AMP_ERROR_BANNED] = "banned",
        [AMP_ERROR_INTERNAL] = "internal",
    };
    const unsigned i = (unsigned)status;
    return i < sizeof names / sizeof names[0] ? names[i] : "?";
}
