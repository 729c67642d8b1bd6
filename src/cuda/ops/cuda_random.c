/* Random elements on the device: one launch for all of them. */
#include "cuda/args/random_args.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"

amp_status amp_cuda_random_elements(amp_call *call, amp_random_task *task, const amp_tensor *out,
                                    const amp_tensor *in) {
    const char *op = amp_call_name(call);
    amp_cuda_random a = {.task = *task, .per_group = amp_random_per_group(task)};
    a.task.in = in ? amp_cuda_address(op, in) : NULL;
    a.task.out = amp_cuda_address(op, out);
    if (!a.task.out || (in && !a.task.in)) return amp_pending_error();
    const int64_t words = (task->count / a.per_group + 1) * (AMP_RANDOM_WORDS / 4); /* a thread for each four */
    return amp_cuda_launch_over(op, amp_random_is_wide(task) ? "random_wide" : "random_f32", &a,
                                amp_cuda_blocks(words));
}
