/* Buckets: gradients on their way. */
#include <stdlib.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "distributed/data_parallel.h"

static const char what[] = "data_parallel_backward";

enum { LINE = 64, ELEMENTS_ALIGNED = 16, LARGE_BLOCK = 1 << 20 };

static int64_t rounded_up(int64_t value, int64_t to) {
    return (value + to - 1) / to * to;
}

/* ---- Layout ------------------------------------------------------------------------------------------------------ */
static amp_dtype sum_of(const amp_reduced *r) {
    return r->tensor->dtype == AMP_F64 ? AMP_F64 : AMP_F32;
}

/* What MPI counts in an int of bytes, and what is beyond in blocks. */
static size_t piece_bytes(size_t bytes) {
    const bool is_large = bytes > INT32_MAX;
    return (size_t)rounded_up((int64_t)bytes, is_large ? LARGE_BLOCK : LINE);
}

/* Of all ranks, for them and of them. */
static amp_status set_flags_apart(const amp_data_parallel *d, amp_bucket *b) {
    b->apart = amp_alloc_zeroed(2 * (size_t)d->size * b->flags);
    return b->apart ? AMP_OK : amp_fail(AMP_ERROR_MEMORY, "data_parallel_create: no memory for buckets");
}

static amp_status close_bucket(const amp_data_parallel *d, amp_bucket *b) {
    const int64_t per_block = LARGE_BLOCK / (int64_t)amp_dtype_size(b->wire);
    b->chunk = rounded_up((b->elements + d->size - 1) / d->size, ELEMENTS_ALIGNED);
    if ((size_t)b->chunk * amp_dtype_size(b->wire) > INT32_MAX) b->chunk = rounded_up(b->chunk, per_block);
    b->elements = b->chunk * d->size;
    b->flags = (size_t)rounded_up(b->count, LINE);
    const bool is_apart = d->place.kind->is_apart;
    b->piece = piece_bytes((is_apart ? 0 : b->flags) + (size_t)b->chunk * amp_dtype_size(b->wire));
    return is_apart ? set_flags_apart(d, b) : AMP_OK;
}

/* Whether the bucket goes on with this parameter. */
static bool has_room(const amp_data_parallel *d, const amp_bucket *b, const amp_reduced *r) {
    const int64_t bytes = (b->elements + r->count) * (int64_t)amp_dtype_size(b->wire);
    return b->sum == sum_of(r) && bytes <= d->bucket_bytes;
}

amp_status amp_buckets_lay_out(amp_data_parallel *d) {
    d->buckets = amp_alloc_zeroed((size_t)d->count * sizeof *d->buckets);
    if (!d->buckets) return amp_fail(AMP_ERROR_MEMORY, "data_parallel_create: no memory for buckets");
    amp_bucket *b = NULL;
    for (int i = 0; i < d->count; i++) {
        amp_reduced *r = &d->items[i];
        if (!b || !has_room(d, b, r)) {
            if (b) AMP_TRY(close_bucket(d, b));
            b = &d->buckets[d->bucket_count++];
            b->first = i;
            b->sum = sum_of(r);
            b->wire = b->sum == AMP_F64 ? AMP_F64 : d->wire;
        }
        r->bucket = d->bucket_count - 1;
        r->begin = b->elements;
        b->elements += rounded_up(r->count, ELEMENTS_ALIGNED);
        b->count++;
    }
    return b ? close_bucket(d, b) : AMP_OK;
}

/* ---- Elements in memory ------------------------------------------------------------------------------------------ */
/* Elements from `begin` up to `end` of the bucket that lie in chunk c. */
typedef struct range {
    int64_t begin, end;
} range;

static range in_chunk(const amp_bucket *b, const amp_reduced *r, int c) {
    const int64_t from = c * b->chunk, to = from + b->chunk, last = r->begin + r->count;
    return (range){r->begin > from ? r->begin : from, last < to ? last : to};
}

static amp_tensor *over(const amp_data_parallel *d, const amp_room *room, size_t at, amp_dtype dtype, int64_t count) {
    return d->place.kind->over(room, at, dtype, 1, &count);
}

/* Elements of chunk c, in the piece of a rank. */
static amp_tensor *in_piece(const amp_data_parallel *d, const amp_bucket *b, const amp_room *room, int rank, int c,
                            range e) {
    const size_t before = (size_t)rank * b->piece + (b->apart ? 0 : b->flags);
    const size_t at = before + (size_t)(e.begin - c * b->chunk) * amp_dtype_size(b->wire);
    return over(d, room, at, b->wire, e.end - e.begin);
}

static char *flags_for(const amp_bucket *b, int rank) {
    return b->apart ? b->apart + (size_t)rank * b->flags : b->sent.bytes + (size_t)rank * b->piece;
}

static const char *flags_of(const amp_data_parallel *d, const amp_bucket *b, int rank) {
    if (b->apart) return b->apart + (size_t)(d->size + rank) * b->flags;
    return b->received.bytes + (size_t)rank * b->piece;
}

/* ---- Filling ----------------------------------------------------------------------------------------------------- */
void amp_buckets_begin(amp_data_parallel *d) {
    d->exchanged = d->gathered = d->through = 0;
    d->is_flushing = d->is_broken = d->is_lost = false;
    d->last = NULL;
    for (int i = 0; i < d->bucket_count; i++) {
        amp_bucket *b = &d->buckets[i];
        b->waits_for = b->count;
        if (b->apart) memset(b->apart, 0, (size_t)d->size * b->flags); /* nobody need make `sent` before they go */
    }
}

static amp_status say_no_memory(void) {
    return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a bucket", what);
}

/* False: no memory. */
static bool make_sent(const amp_data_parallel *d, amp_bucket *b) {
    if (b->sent.owner) return true;
    if (!d->place.kind->take(&d->place, b->piece * (size_t)d->size, &b->sent)) return false;
    for (int c = 0; c < d->size && !b->apart; c++) memset(flags_for(b, c), 0, b->flags);
    return true;
}

/* In the dtype of sums, of the mean this rank's part. */
static amp_tensor *part_of(const amp_data_parallel *d, const amp_bucket *b, const amp_reduced *r,
                           amp_tensor *gradient) {
    amp_tensor *whole = r->held == AMP_HELD_LOCAL && gradient != r->before ? amp_add(r->before, gradient) : gradient;
    if (!whole || d->reduction == AMP_GRADIENT_SUM || d->size == 1) return whole;
    if (whole->dtype != b->sum) whole = amp_to(whole, b->sum);
    return amp_div_scalar(whole, amp_float(d->size));
}

amp_status amp_bucket_give(amp_data_parallel *d, amp_reduced *r, amp_tensor *gradient) {
    amp_bucket *b = &d->buckets[r->bucket];
    amp_no_grad_here();
    amp_scope_here();
    if (!make_sent(d, b)) return say_no_memory();
    amp_tensor *flat = amp_reshape(part_of(d, b, r, gradient), AMP_DIMS(r->count));
    for (int c = 0; c < d->size; c++) {
        const range e = in_chunk(b, r, c);
        flags_for(b, c)[r - &d->items[b->first]] = 1;
        if (e.begin >= e.end) continue;
        amp_tensor *to = in_piece(d, b, &b->sent, c, c, e);
        if (!amp_copy_(to, amp_narrow(flat, 0, e.begin - r->begin, e.end - e.begin))) break;
    }
    r->is_given = true;
    b->waits_for--;
    return amp_pending_error();
}

/* ---- Exchanging -------------------------------------------------------------------------------------------------- */
static const amp_transport *transport(void) {
    const amp_world *group = NULL;
    (void)amp_world_enter(what, &group);
    return group->transport;
}

static int own_rank(void) {
    return amp_distributed_rank();
}

static amp_status fail_transport(amp_data_parallel *d) {
    d->is_broken = d->is_lost = true;
    return amp_world_fail(what);
}

/* This rank cannot receive what the others send. */
static amp_status fail_memory(amp_data_parallel *d) {
    d->is_broken = true;
    return say_no_memory();
}

/* Nobody may have given anything. */
static bool make_exchanged(const amp_data_parallel *d, amp_bucket *b) {
    return make_sent(d, b) && d->place.kind->take(&d->place, b->piece * (size_t)d->size, &b->received);
}

/* On GPUs of the flags alone: the elements follow when all ranks have the memory for them. */
static amp_status exchange(amp_data_parallel *d, amp_bucket *b) {
    if (!b->apart && !make_exchanged(d, b)) return fail_memory(d);
    char *received = b->apart ? b->apart + (size_t)d->size * b->flags : b->received.bytes;
    b->transfer = transport()->start_exchange(flags_for(b, 0), received, b->apart ? b->flags : b->piece);
    if (!b->transfer) return fail_transport(d);
    d->exchanged++;
    return AMP_OK;
}

/* ---- Summing ----------------------------------------------------------------------------------------------------- */
static bool has_given(const amp_data_parallel *d, const amp_bucket *b, int rank, int number) {
    return flags_of(d, b, rank)[number] != 0;
}

/* The sum of a parameter's elements in this rank's chunk. What is the first is copied, and not added to a 0: −0
 * stays. */
static amp_status sum_up(const amp_data_parallel *d, const amp_bucket *b, int number, amp_tensor *to, range e) {
    const amp_reduced *r = &d->items[b->first + number];
    bool is_first = true;
    if (r->held == AMP_HELD_REDUCED) {
        amp_tensor *flat = amp_reshape(r->before, AMP_DIMS(r->count));
        if (!amp_copy_(to, amp_narrow(flat, 0, e.begin - r->begin, e.end - e.begin))) return amp_pending_error();
        is_first = false;
    }
    for (int rank = 0; rank < d->size; rank++) {
        if (!has_given(d, b, rank, number)) continue;
        amp_tensor *more = in_piece(d, b, &b->received, rank, own_rank(), e);
        if (!(is_first ? amp_copy_(to, more) : amp_add_(to, more))) return amp_pending_error();
        is_first = false;
    }
    return AMP_OK;
}

static amp_status sum_chunk(amp_data_parallel *d, amp_bucket *b) {
    amp_no_grad_here();
    for (int i = 0; i < b->count; i++) {
        amp_scope_here();
        amp_reduced *r = &d->items[b->first + i];
        const range e = in_chunk(b, r, own_rank());
        r->is_there = r->held == AMP_HELD_REDUCED;
        for (int rank = 0; rank < d->size && !r->is_there; rank++) r->is_there = has_given(d, b, rank, i);
        if (e.begin >= e.end || !r->is_there) continue;
        const size_t at = (size_t)e.begin * amp_dtype_size(b->sum);
        AMP_TRY(sum_up(d, b, i, over(d, &b->result, at, b->sum, e.end - e.begin), e));
    }
    return AMP_OK;
}

/* Rounds the sums to what all get. */
static amp_status round_chunk(const amp_data_parallel *d, const amp_bucket *b) {
    amp_no_grad_here();
    amp_scope_here();
    const size_t begin = (size_t)(own_rank() * b->chunk);
    amp_tensor *to = over(d, &b->gathered, begin * amp_dtype_size(b->wire), b->wire, b->chunk);
    amp_tensor *sums = over(d, &b->result, begin * amp_dtype_size(b->sum), b->sum, b->chunk);
    return amp_copy_(to, sums) ? AMP_OK : amp_pending_error();
}

static bool make_gathered(const amp_data_parallel *d, amp_bucket *b) {
    const size_t wire = amp_dtype_size(b->wire), sum = amp_dtype_size(b->sum);
    return d->place.kind->take(&d->place, (size_t)b->elements * sum, &b->result) &&
           (b->wire == b->sum || d->place.kind->take(&d->place, (size_t)b->elements * wire, &b->gathered));
}

/* The sums of all ranks, which have this one's at their place. */
typedef struct gathering {
    const char *own;
    char *all;
    size_t bytes;
} gathering;

static gathering gathering_of(const amp_bucket *b) {
    char *all = b->gathered.owner ? b->gathered.bytes : b->result.bytes;
    const size_t bytes = (size_t)b->chunk * amp_dtype_size(b->wire);
    return (gathering){all + (size_t)own_rank() * bytes, all, bytes};
}

/* The sums of this rank's chunk, as all get them. An error of this rank's does not keep it from taking part: the ranks
 * tell each other at the end. */
static void make_chunk(amp_data_parallel *d, amp_bucket *b) {
    if (!amp_failed() && sum_chunk(d, b) == AMP_OK && b->gathered.owner) (void)round_chunk(d, b);
}

static void drop_exchanged(const amp_data_parallel *d, amp_bucket *b) {
    d->place.kind->drop(&b->sent);
    d->place.kind->drop(&b->received);
}

static amp_status gather(amp_data_parallel *d, amp_bucket *b) {
    if (!make_gathered(d, b)) return fail_memory(d);
    make_chunk(d, b);
    const gathering g = gathering_of(b);
    b->transfer = transport()->start_gather(g.own, g.all, g.bytes);
    if (!b->transfer) return fail_transport(d);
    drop_exchanged(d, b);
    d->gathered++;
    return AMP_OK;
}

static void widen(const amp_data_parallel *d, amp_bucket *b) {
    amp_no_grad_here();
    amp_scope_here();
    if (b->gathered.owner && !amp_failed())
        (void)amp_copy_(over(d, &b->result, 0, b->sum, b->elements), over(d, &b->gathered, 0, b->wire, b->elements));
    d->place.kind->drop(&b->gathered);
}

/* ---- Moving on --------------------------------------------------------------------------------------------------- */
/* What this rank has sent to others. */
static void count_bytes(amp_data_parallel *d, size_t piece) {
    const int64_t bytes = (int64_t)piece * (d->size - 1);
    d->stats.bytes += bytes;
    if (d->is_active) d->stats.bytes_overlapped += bytes;
}

/* Whether the bucket's transfer is through. */
static amp_status is_transferred(amp_data_parallel *d, amp_bucket *b, bool waits, bool *done) {
    const bool good = waits ? transport()->wait(b->transfer) : transport()->test(b->transfer, done);
    if (waits) *done = true;
    if (!good) return fail_transport(d);
    if (*done) b->transfer = NULL;
    return AMP_OK;
}

/* Exchanges in the order of the buckets, gathers in that order too. */
static amp_status advance_exchanges(amp_data_parallel *d) {
    while (d->exchanged < d->bucket_count) {
        amp_bucket *b = &d->buckets[d->exchanged];
        if (b->waits_for > 0 && !d->is_flushing) break;
        AMP_TRY(exchange(d, b));
    }
    return AMP_OK;
}

static amp_status advance_gathers(amp_data_parallel *d, bool waits) {
    while (d->gathered < d->exchanged) {
        amp_bucket *b = &d->buckets[d->gathered];
        bool done = false;
        AMP_TRY(is_transferred(d, b, waits, &done));
        if (!done) break;
        count_bytes(d, b->piece);
        AMP_TRY(gather(d, b));
    }
    return AMP_OK;
}

static amp_status advance_ends(amp_data_parallel *d, bool waits) {
    while (d->through < d->gathered) {
        amp_bucket *b = &d->buckets[d->through];
        bool done = false;
        AMP_TRY(is_transferred(d, b, waits, &done));
        if (!done) break;
        count_bytes(d, (size_t)b->chunk * amp_dtype_size(b->wire));
        widen(d, b);
        d->through++;
    }
    return AMP_OK;
}

/* ---- On GPUs ----------------------------------------------------------------------------------------------------- */
static amp_status agree(void) {
    return amp_world_agree(what, amp_failed() ? amp_last_status() : AMP_OK, 0);
}

/* What a bucket's transfers need, once its flags are there. */
static amp_status prepare_apart(amp_data_parallel *d, amp_bucket *b) {
    bool done = false;
    AMP_TRY(is_transferred(d, b, true, &done));
    if (amp_failed() || (make_exchanged(d, b) && make_gathered(d, b))) return AMP_OK;
    (void)say_no_memory();
    return AMP_OK;
}

static void carry_bucket(amp_data_parallel *d, amp_bucket *b) {
    const amp_place_kind *kind = d->place.kind;
    const gathering g = gathering_of(b);
    (void)kind->exchange(what, &d->place, b->sent.bytes, b->received.bytes, b->piece);
    make_chunk(d, b);
    (void)kind->gather(what, &d->place, g.own, g.all, g.bytes);
    count_bytes(d, b->piece);
    count_bytes(d, g.bytes);
    drop_exchanged(d, b);
}

/* Nobody can take back a transfer that others wait for on their GPUs. So all ranks have the memory for all of them
 * before any begins the first; and nobody goes on to what may wait for the GPU before all have begun the last. */
static amp_status carry_apart(amp_data_parallel *d) {
    for (int i = 0; i < d->bucket_count; i++) AMP_TRY(prepare_apart(d, &d->buckets[i]));
    AMP_TRY(agree());
    for (int i = 0; i < d->bucket_count; i++) carry_bucket(d, &d->buckets[i]);
    AMP_TRY(agree());
    for (int i = 0; i < d->bucket_count; i++) widen(d, &d->buckets[i]);
    return AMP_OK;
}

amp_status amp_buckets_advance(amp_data_parallel *d, bool waits) {
    d->is_flushing = waits;
    if (d->is_broken) return amp_pending_error();
    AMP_TRY(advance_exchanges(d));
    if (d->place.kind->is_apart) return waits ? carry_apart(d) : AMP_OK;
    AMP_TRY(advance_gathers(d, waits));
    return advance_ends(d, waits);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */
amp_tensor *amp_bucket_result(const amp_data_parallel *d, const amp_reduced *r) {
    const amp_bucket *b = &d->buckets[r->bucket];
    return d->place.kind->keep(&b->result, (size_t)r->begin * amp_dtype_size(b->sum), b->sum, r->tensor);
}

void amp_buckets_end(amp_data_parallel *d) {
    for (int i = 0; i < d->bucket_count; i++) {
        amp_bucket *b = &d->buckets[i];
        amp_room *rooms[] = {&b->sent, &b->received, &b->gathered, &b->result};
        if (b->transfer && !d->is_lost) d->is_lost = !transport()->wait(b->transfer);
        const bool is_written = b->transfer && d->is_lost; /* it may still be */
        for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++) {
            if (!is_written) d->place.kind->drop(rooms[k]);
            *rooms[k] = (amp_room){NULL, NULL};
        }
        b->is_written = b->is_written || is_written;
        b->transfer = NULL;
    }
}

void amp_buckets_free(amp_data_parallel *d) {
    for (int i = 0; i < d->bucket_count; i++) {
        if (!d->buckets[i].is_written) amp_free(d->buckets[i].apart);
    }
    amp_free(d->buckets);
}
