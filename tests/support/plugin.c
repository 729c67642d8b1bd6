/* A shared object that defines an op, for `amp … --load`. Its libamp is the tool's. */
#include <stdlib.h>

#include "amp/amp.h"

typedef struct plugin_twice_args {
    size_t struct_size;
    amp_tensor *input;
} plugin_twice_args;

static amp_status twice(amp_call *call, const void *args) {
    amp_tensor *input = ((const plugin_twice_args *)args)->input;
    return amp_call_return(call, 0, amp_add(input, input));
}

__attribute__((constructor)) static void define_ops(void) {
    const int times = getenv("AMP_PLUGIN_TWICE") ? 2 : 1;
    for (int i = 0; i < times; i++) {
        amp_define_op("plugin_twice(Tensor input) -> Tensor", .doc = "input + input.",
                      .args_size = sizeof(plugin_twice_args), .cpu = {"lower", twice});
    }
}
