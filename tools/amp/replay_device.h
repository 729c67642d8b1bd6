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
/* NULL if cases can run on the device; else why not, a sentence. */
const char *replay_device_problem(amp_device device);

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
