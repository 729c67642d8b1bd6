/* What replay asks of the library's inside. */
#ifndef AMP_TOOL_REPLAY_DEVICE_H
#define AMP_TOOL_REPLAY_DEVICE_H

#include <stdbool.h>

#include "amp/types.h"

#ifdef __cplusplus
extern "C" {
#endif

bool replay_op_is_known(const char *name);
bool replay_op_returns_list(const char *name);
/* Whether an argument of the op's first overload is one tensor. */
bool replay_argument_is_tensor(const char *op, const char *argument);
/* What the op calls the argument that a recording names: "other", "third" and "fourth", where no overload has such an
 * argument, are those at that place of the first overload that has a tensor there, or none. */
const char *replay_argument_name(const char *op, const char *recorded, bool is_tensor);
/* NULL if cases can run on the device; else why not, a sentence. */
const char *replay_device_problem(amp_device device);
/* The tensor on the device; NULL with libamp's error. */
amp_tensor *replay_move(amp_tensor *tensor, amp_device device);
/* A tensor on the device like `host`, which lies in `memory`: the same strides within a copy, *base, of all of the
 * memory. NULL with libamp's error. */
amp_tensor *replay_to_device(amp_device device, const amp_tensor *host, void *memory, size_t bytes, amp_tensor **base);
/* Copies it back. */
bool replay_from_device(amp_tensor *base, void *memory);

#ifdef __cplusplus
} /* extern "C" */

#include <stdexcept>

namespace replay {
inline bool op_is_known(const char *name) {
    return replay_op_is_known(name);
}
inline bool op_returns_list(const char *name) {
    return replay_op_returns_list(name);
}
inline void require_device(amp_device device) {
    if (const char *problem = replay_device_problem(device)) throw std::runtime_error(problem);
}
} // namespace replay
#endif

#endif /* AMP_TOOL_REPLAY_DEVICE_H */
