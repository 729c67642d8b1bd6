/* The transport of a process by itself. */
#include <string.h>

#include "distributed/world.h"

struct amp_transfer {
    char nothing;
};

static amp_transfer through;

static bool begin(int *rank, int *size) {
    *rank = 0;
    *size = 1;
    return true;
}

static amp_transfer *start(const void *from, void *to, size_t bytes) {
    if (from != to) memcpy(to, from, bytes);
    return &through;
}

static bool test(amp_transfer *transfer, bool *is_through) {
    *is_through = transfer == &through;
    return true;
}

static bool wait_for(amp_transfer *transfer) {
    return transfer == &through;
}

static bool broadcast(void *bytes, size_t count, int root) {
    (void)bytes;
    (void)count;
    return root == 0;
}

static bool finish(void) {
    return true;
}

static void abort_all(int status) {
    (void)status;
}

static const char *error(void) {
    return "";
}

const amp_transport amp_transport_alone = {.abi = AMP_TRANSPORT_ABI,
                                           .name = "none",
                                           .begin = begin,
                                           .start_exchange = start,
                                           .start_gather = start,
                                           .test = test,
                                           .wait = wait_for,
                                           .broadcast = broadcast,
                                           .abort = abort_all,
                                           .finish = finish,
                                           .error = error};
