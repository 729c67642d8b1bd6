/* The block macros as C has them: every way out of a block closes it. Called by test_scope.cc. */
#include "scope_blocks.h"

#include <setjmp.h>

#include "amp/amp.h"

static amp_tensor *one(void) {
    static const float value = 1.0F;
    return amp_from_data(&value, AMP_F32, 0, NULL);
}

static size_t live(void) {
    return amp_memory_statistics().live_tensors;
}

static int returns_from_the_block(void) {
    amp_scope {
        amp_autocast(AMP_DEVICE_CPU) {
            if (one()) return amp_autocast_nesting();
        }
    }
    return -1;
}

static const char *plain_end(size_t before) {
    amp_scope {
        one();
        if (live() != before + 1) return "the tensor is not there";
    }
    return live() == before ? NULL : "the end of the block left a tensor";
}

static const char *ways_out(size_t before) {
    int rounds = 0;
    amp_scope {
        one();
        break;
    }
    if (live() != before) return "break left a tensor";
    for (rounds = 0; rounds < 3; rounds++) {
        amp_scope {
            one();
            if (rounds == 1) continue; /* leaves the block, not the loop */
            one();
        }
        if (live() != before) return "continue left a tensor";
    }
    if (rounds != 3) return "continue left the loop around the block";
    if (returns_from_the_block() != 1 || live() != before) return "return left a tensor";
    amp_scope {
        amp_scope {
            one();
            goto out;
        }
    }
out:
    return live() == before ? NULL : "goto left a tensor";
}

static const char *regions(void) {
    amp_autocast(AMP_DEVICE_CPU, .dtype = AMP_F16, .strict = true) {
        if (amp_autocast_dtype(AMP_DEVICE_CPU) != AMP_F16) return "the region has another dtype";
        amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(false)) {
            if (amp_autocast_is_enabled(AMP_DEVICE_CPU)) return "enabled = false has no effect";
            goto out;
        }
    }
out:
    if (amp_autocast_nesting() != 0) return "goto left a region open";
    amp_autocast(AMP_DEVICE_CUDA)
        if (amp_autocast_nesting() != 1) return "a block of one statement";
    return amp_autocast_nesting() == 0 ? NULL : "a region stayed open";
}

/* A loop that ends by break, as that of a model which writes until it says "end": the block would end it never. */
static const char *here_in_a_loop(size_t before) {
    int rounds = 0;
    for (; rounds < 100; rounds++) {
        amp_scope_here();
        amp_autocast_here(AMP_DEVICE_CPU);
        one();
        if (live() != before + 1) return "a round has the tensors of another";
        if (amp_autocast_nesting() != 1) return "the region is not open";
        if (rounds == 1) continue;
        if (rounds == 5) break;
    }
    if (rounds != 5) return "break left the scope, not the loop";
    if (amp_autocast_nesting() != 0) return "break left a region open";
    return live() == before ? NULL : "break left a tensor of a scope that was declared";
}

static amp_tensor *kept_from_here(void) {
    amp_scope_here();
    amp_autocast_here(AMP_DEVICE_CPU, .dtype = AMP_F16);
    amp_scope_here();
    return amp_keep(amp_add(one(), one()));
}

static double item_from_here(void) {
    amp_scope_here();
    return amp_item(amp_add(one(), one()));
}

static const char *here(size_t before) {
    const char *why = here_in_a_loop(before);
    if (why) return why;
    amp_tensor *kept = kept_from_here();
    if (!kept || amp_item(kept) != 2.0 || live() != before + 1) return "return lost what it kept";
    if (amp_autocast_nesting() != 0) return "return left a region open";
    amp_release(kept);
    if (item_from_here() != 2.0) return "return came after the scope's end";
    {
        amp_scope_here();
        amp_autocast_here(AMP_DEVICE_CPU, .enabled = AMP_SET(false));
        one();
        if (amp_autocast_is_enabled(AMP_DEVICE_CPU)) return "enabled = false has no effect on a declaration";
        goto out;
    }
out:
    if (amp_autocast_nesting() != 0) return "goto left a region open";
    return live() == before ? NULL : "goto left a tensor of a scope that was declared";
}

/* A jump closes nothing: who catches it does. */
static const char *long_jump(size_t before) {
    static jmp_buf caught;
    if (setjmp(caught) == 0) {
        amp_scope_here();
        amp_autocast_here(AMP_DEVICE_CPU);
        one();
        longjmp(caught, 1);
    }
    if (amp_autocast_nesting() != 1 || live() != before + 1) return "longjmp closes scopes: let the header say so";
    if (amp_autocast_exit(AMP_DEVICE_CPU) != AMP_OK || amp_scope_exit() != AMP_OK) return "what longjmp left is lost";
    return live() == before ? NULL : "the exit behind a longjmp left a tensor";
}

static const char *expressions(size_t before) {
    amp_tensor *kept = NULL;
    amp_scope {
        amp_autocast(AMP_DEVICE_CPU) {
            kept = amp_keep(amp_add(amp_mul(one(), one()), one(), .alpha = amp_float(2)));
        }
    }
    if (!kept || amp_item(kept) != 3.0) return "the kept tensor is wrong";
    if (live() != before + 1) return "more than the kept tensor is alive";
    amp_release(kept);
    return NULL;
}

const char *scope_blocks_failure(void) {
    const size_t before = live();
    const char *why = plain_end(before);
    if (!why) why = ways_out(before);
    if (!why) why = regions();
    if (!why) why = here(before);
    if (!why) why = long_jump(before);
    if (!why) why = expressions(before);
    return why ? why : amp_last_status() == AMP_OK ? NULL : amp_last_error();
}
