/* Errors: the first failure of a thread stands, as one sentence, until it is cleared. */
#ifndef AMP_ERROR_H
#define AMP_ERROR_H

#include "amp/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum amp_status {
    AMP_OK = 0,
    AMP_ERROR_INVALID,         /* an argument is wrong: shape, value, name, unbalanced exit */
    AMP_ERROR_DTYPE,           /* a dtype does not fit, or is not supported there */
    AMP_ERROR_DEVICE,          /* a device is missing, or tensors are on different devices */
    AMP_ERROR_MEMORY,          /* an allocation failed */
    AMP_ERROR_IO,              /* a file is missing, unreadable or malformed */
    AMP_ERROR_NOT_IMPLEMENTED, /* the op is known, its kernel on this device is not written yet */
    AMP_ERROR_BANNED,          /* the autocast policy forbids the op; the message says what to call instead */
    AMP_ERROR_INTERNAL         /* a defect of libamp */
} amp_status;

/* The sentence of the first failure on this thread since the last amp_clear_error(); "" if there is none.
 * Valid until the thread's error is cleared. While an error stands, every op on the thread returns NULL and every
 * other call that can fail returns its status: one check at the end of a block is enough. What must happen all the same
 * does: scopes and regions open and close, tensors are released and marked. Calls that make a setting
 * (amp_set_num_threads, amp_set_allocator, amp_autocast_override, amp_autocast_set_table, amp_cuda_set_device,
 * amp_cuda_set_stream, amp_cuda_event_…), amp_cuda_synchronize and amp_cuda_trim_memory act, and return their own
 * status: AMP_OK where they did what they should. */
AMP_API const char *amp_last_error(void);
/* The status of that failure; AMP_OK if there is none. */
AMP_API amp_status amp_last_status(void);
/* Forgets the thread's error. */
AMP_API void amp_clear_error(void);
/* A function that is called once whenever an error begins to stand on a thread, there and then: the place for a
 * breakpoint, a log or a stack trace. One for the process, NULL takes it away; another thread that fails meanwhile may
 * still call the one before. It gets the status, the sentence as it stands so far (the op that the user called may be
 * put in front of it afterwards), and `context`. libamp may hold locks of its own: of its functions call only
 * amp_status_name in it, and let no exception and no longjmp out. What fails because an error stands calls nothing. */
typedef void (*amp_error_hook)(amp_status status, const char *sentence, void *context);
AMP_API void amp_set_error_hook(amp_error_hook hook, void *context);
/* Static name of a status: "ok", "invalid", … */
AMP_API const char *amp_status_name(amp_status status);

#ifdef __cplusplus
}
#endif

#endif /* AMP_ERROR_H */
