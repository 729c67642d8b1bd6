/* Buckets: gradients on their way. */
#include <stdlib.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "distributed/data_parallel.h"

static const char what[] = "data_parallel_backward";

enum { LINE = 64, ELEMENTS_ALIGNED = 16, LARGE_BLOCK = 1 << 20 };

struct amp_shared_bytes {
    _Alignas(LINE) atomic_int references;
    _Alignas(LINE) char bytes[];
};

static amp_shared_bytes *shared_new(size_t bytes) {
    amp_shared_bytes *s = amp_alloc(sizeof *s + bytes);
    if (s) atomic_init(&s->references, 1);
    return s;
}

static void shared_drop(void *context) {
    amp_shared_bytes *s = context;
    if (s && atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) == 1) amp_free(s);
}

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

static void close_bucket(const amp_data_parallel *d, amp_bucket *b) {
    const int64_t per_block = LARGE_BLOCK / (int64_t)amp_dtype_size(b->wire);
    b->chunk = rounded_up((b->elements + d->size - 1) / d->size, ELEMENTS_ALIGNED);
    if ((size_t)b->chunk * amp_dtype_size(b->wire) > INT32_MAX) b->chunk = rounded_up(b->chunk, per_block);
    b->elements = b->chunk * d->size;
    b->flags = (size_t)rounded_up(b->count, LINE);
    b->piece = piece_bytes(b->flags + (size_t)b->chunk * amp_dtype_size(b->wire));
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
            if (b) close_bucket(d, b);
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
    if (b) close_bucket(d, b);
    return AMP_OK;
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

static amp_tensor *over(char *bytes, amp_dtype dtype, int64_t count) {
    return amp_from_memory(bytes, dtype, 1, &count, NULL, NULL, NULL);
}

/* The place of an element of chunk c in a piece. */
static char *in_piece(const amp_bucket *b, char *piece, int c, int64_t element) {
    return piece + b->flags + (size_t)(element - c * b->chunk) * amp_dtype_size(b->wire);
}

/* ---- Filling ----------------------------------------------------------------------------------------------------- */
void amp_buckets_begin(amp_data_parallel *d) {
    d->exchanged = d->gathered = d->through = 0;
    d->is_flushing = d->is_broken = d->is_lost = false;
    d->last = NULL;
    for (int i = 0; i < d->bucket_count; i++) d->buckets[i].waits_for = d->buckets[i].count;
}

/* False: no memory. */
static bool make_sent(const amp_data_parallel *d, amp_bucket *b) {
    if (b->sent) return true;
    b->sent = amp_alloc(b->piece * (size_t)d->size);
    for (int c = 0; b->sent && c < d->size; c++) memset(b->sent + (size_t)c * b->piece, 0, b->flags);
    return b->sent != NULL;
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
    if (!make_sent(d, b)) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a bucket", what);
    amp_tensor *flat = amp_reshape(part_of(d, b, r, gradient), AMP_DIMS(r->count));
    for (int c = 0; c < d->size; c++) {
        char *piece = b->sent + (size_t)c * b->piece;
        const range e = in_chunk(b, r, c);
        piece[r - &d->items[b->first]] = 1;
        if (e.begin >= e.end) continue;
        amp_tensor *to = over(in_piece(b, piece, c, e.begin), b->wire, e.end - e.begin);
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
    return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a bucket", what);
}

static amp_status exchange(amp_data_parallel *d, amp_bucket *b) {
    if (!make_sent(d, b)) return fail_memory(d); /* nobody may have given anything */
    b->received = amp_alloc(b->piece * (size_t)d->size);
    if (!b->received) return fail_memory(d);
    b->transfer = transport()->start_exchange(b->sent, b->received, b->piece);
    if (!b->transfer) return fail_transport(d);
    d->exchanged++;
    return AMP_OK;
}

/* ---- Summing ----------------------------------------------------------------------------------------------------- */
static bool has_given(const amp_bucket *b, int rank, int number) {
    return b->received[(size_t)rank * b->piece + (size_t)number] != 0;
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
        if (!has_given(b, rank, number)) continue;
        char *piece = b->received + (size_t)rank * b->piece;
        amp_tensor *more = over(in_piece(b, piece, own_rank(), e.begin), b->wire, e.end - e.begin);
        if (!(is_first ? amp_copy_(to, more) : amp_add_(to, more))) return amp_pending_error();
        is_first = false;
    }
    return AMP_OK;
}

static amp_status sum_chunk(amp_data_parallel *d, amp_bucket *b, char *sums) {
    amp_no_grad_here();
    const int64_t start = own_rank() * b->chunk;
    for (int i = 0; i < b->count; i++) {
        amp_scope_here();
        amp_reduced *r = &d->items[b->first + i];
        const range e = in_chunk(b, r, own_rank());
        r->is_there = r->held == AMP_HELD_REDUCED;
        for (int rank = 0; rank < d->size && !r->is_there; rank++) r->is_there = has_given(b, rank, i);
        if (e.begin >= e.end || !r->is_there) continue;
        char *place = sums + (size_t)(e.begin - start) * amp_dtype_size(b->sum);
        AMP_TRY(sum_up(d, b, i, over(place, b->sum, e.end - e.begin), e));
    }
    return AMP_OK;
}

/* Rounds the sums to what all get. */
static amp_status round_chunk(const amp_bucket *b, char *sums, char *to) {
    amp_no_grad_here();
    amp_scope_here();
    return amp_copy_(over(to, b->wire, b->chunk), over(sums, b->sum, b->chunk)) ? AMP_OK : amp_pending_error();
}

/* An error of this rank's does not keep it from taking part: the ranks tell each other at the end. */
static amp_status gather(amp_data_parallel *d, amp_bucket *b) {
    const size_t wire = amp_dtype_size(b->wire), sum = amp_dtype_size(b->sum);
    const bool rounds = b->wire != b->sum;
    b->result = shared_new((size_t)b->elements * sum);
    if (rounds) b->gathered = amp_alloc((size_t)b->elements * wire);
    if (!b->result || (rounds && !b->gathered)) return fail_memory(d);
    char *sums = b->result->bytes + (size_t)(own_rank() * b->chunk) * sum;
    char *all = rounds ? b->gathered : b->result->bytes, *own = all + (size_t)(own_rank() * b->chunk) * wire;
    if (!amp_failed() && sum_chunk(d, b, sums) == AMP_OK && rounds) (void)round_chunk(b, sums, own);
    b->transfer = transport()->start_gather(own, all, (size_t)b->chunk * wire);
    if (!b->transfer) return fail_transport(d);
    amp_free(b->sent);
    amp_free(b->received);
    b->sent = b->received = NULL;
    d->gathered++;
    return AMP_OK;
}

static void widen(amp_bucket *b) {
    amp_no_grad_here();
    amp_scope_here();
    if (b->gathered && !amp_failed())
        (void)amp_copy_(over(b->result->bytes, b->sum, b->elements), over(b->gathered, b->wire, b->elements));
    amp_free(b->gathered);
    b->gathered = NULL;
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
        widen(b);
        d->through++;
    }
    return AMP_OK;
}

amp_status amp_buckets_advance(amp_data_parallel *d, bool waits) {
    d->is_flushing = waits;
    if (d->is_broken) return amp_pending_error();
    AMP_TRY(advance_exchanges(d));
    AMP_TRY(advance_gathers(d, waits));
    return advance_ends(d, waits);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */
amp_tensor *amp_bucket_result(const amp_data_parallel *d, const amp_reduced *r) {
    const amp_bucket *b = &d->buckets[r->bucket];
    char *bytes = b->result->bytes + (size_t)r->begin * amp_dtype_size(b->sum);
    atomic_fetch_add_explicit(&b->result->references, 1, memory_order_relaxed);
    amp_tensor *t = amp_from_memory(bytes, b->sum, r->tensor->rank, r->tensor->shape, NULL, shared_drop, b->result);
    if (!t) shared_drop(b->result);
    return t && r->tensor->dtype != b->sum ? amp_to(t, r->tensor->dtype) : t;
}

void amp_buckets_end(amp_data_parallel *d) {
    for (int i = 0; i < d->bucket_count; i++) {
        amp_bucket *b = &d->buckets[i];
        if (b->transfer && !d->is_lost) d->is_lost = !transport()->wait(b->transfer);
        if (!b->transfer || !d->is_lost) { /* else it may still be written */
            amp_free(b->sent);
            amp_free(b->received);
            amp_free(b->gathered);
            shared_drop(b->result);
        }
        b->sent = b->received = b->gathered = NULL;
        b->result = NULL;
        b->transfer = NULL;
    }
}
