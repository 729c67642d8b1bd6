// A kernel of the tests' own in which blocks race, to see that the driver lets that show.
#include "races.h"
#include "cuda/kernels/kernel.h"

// Who comes to write first, and who second, behind a barrier. (Blocks take turns on one thread of the host.)
AMP_KERNEL(fake_races, fake_races_args) {
    if (AMP_THREAD == 0) a.order[(*a.count)++] = (int)AMP_BLOCK;
    AMP_BARRIER();
    if (AMP_THREAD == 0) a.order[(*a.count)++] = (int)AMP_BLOCK;
}
