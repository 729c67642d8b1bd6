/* Which samples are whose. */
#include "amp/distributed.h"
#include "amp/ops.h"
#include "amp/random.h"
#include "core/struct_size.h"
#include "core/thread.h"

static const char what[] = "distributed_sampler";

static amp_status read_args(amp_distributed_sampler_args *a, const amp_distributed_sampler_args *given) {
    AMP_TRY(amp_pending_error());
    AMP_TRY(amp_struct_read(what, "amp_distributed_sampler_args", a, sizeof *a, sizeof a->struct_size, given));
    AMP_TRY(amp_struct_reserved(what, a->reserved, sizeof a->reserved));
    AMP_TRY(amp_struct_mark(what, "batch", a->batch.set, a->batch.value == 0));
    AMP_TRY(amp_struct_mark(what, "shuffle", a->shuffle.set, !a->shuffle.value));
    if (!a->batch.set) a->batch.value = 1;
    if (!a->shuffle.set) a->shuffle.value = true;
    if (a->count < 1 || a->epoch < 0 || a->batch.value < 1)
        return amp_fail(AMP_ERROR_INVALID, "%s: count is %lld, epoch %lld, batch %lld; expected at least 1, 0 and 1",
                        what, (long long)a->count, (long long)a->epoch, (long long)a->batch.value);
    if (a->batch.value <= INT64_MAX / 2 / amp_distributed_size()) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: batch is %lld, which is too much for %d ranks", what,
                    (long long)a->batch.value, amp_distributed_size());
}

/* All samples, in the order of the epoch. Torch's seed of an epoch is the same sum. */
static amp_tensor *order_of(const amp_distributed_sampler_args *a) {
    if (!a->shuffle.value) return amp_arange(amp_int(a->count), .dtype = AMP_I64);
    amp_generator *generator = amp_generator_create(AMP_DEVICE_CPU);
    amp_tensor *order = NULL;
    if (generator && amp_generator_manual_seed(generator, a->seed + (uint64_t)a->epoch) == AMP_OK)
        order = amp_randperm(a->count, .generator = generator);
    amp_generator_destroy(generator);
    return order;
}

/* As long as `count`, from the beginning again where it ends. */
static amp_tensor *filled(amp_tensor *order, int64_t count) {
    const int64_t has = amp_tensor_size(order, 0);
    if (!order || has == count) return order;
    if (has > count) return amp_narrow(order, 0, 0, count);
    return amp_index_select(order, 0, amp_remainder_scalar(amp_arange(amp_int(count), .dtype = AMP_I64), amp_int(has)));
}

static amp_tensor *own_part(const amp_distributed_sampler_args *a) {
    const int64_t size = amp_distributed_size(), round = size * a->batch.value;
    const int64_t rounds = a->count / round + (!a->drop_last && a->count % round != 0);
    if (rounds == 0) {
        (void)amp_fail(AMP_ERROR_INVALID, "%s: %lld samples are less than a round of %lld", what, (long long)a->count,
                       (long long)round);
        return NULL;
    }
    amp_tensor *order = filled(order_of(a), rounds * round);
    amp_tensor *pieces = amp_reshape(order, AMP_DIMS(rounds, size, a->batch.value));
    return amp_reshape(amp_select(pieces, 1, amp_distributed_rank()), AMP_DIMS(rounds * a->batch.value));
}

amp_tensor *amp_distributed_sampler_call(const amp_distributed_sampler_args *given) {
    amp_distributed_sampler_args a;
    if (read_args(&a, given) != AMP_OK) return NULL;
    amp_tensor *part = NULL;
    amp_scope {
        part = amp_keep(amp_clone(own_part(&a)));
    }
    if (part)
        amp_scope_move(part, amp_this_thread.scope);
    else
        amp_fail_within(what);
    return part;
}
