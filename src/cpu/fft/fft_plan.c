/* Plans of Fourier transforms: which stages a length takes, their tables, and a bounded cache of them.
 *
 * Lengths whose prime factors are small run by mixed radices; any other as a convolution with a chirp, by L.
 * Bluestein's algorithm (IEEE Trans. AU-18, 1970), through transforms of a power of two. No library serves: of those
 * that are packaged and free to link, kissfft is built for f32 only and takes quadratic time for primes; FFTW and GSL
 * are under the GPL. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "core/lock.h"
#include "core/memory.h"
#include "cpu/fft/fft.h"
#include "cpu/registry/kernels.h"

/* ---- Roots of one --------------------------------------------------------------------------------------------- */

void amp_fft_root(int64_t n, int64_t k, double *root) {
    /* By eighths of a turn, so that the angle is small and mirrored roots agree. */
    const int64_t eighths = 8 * k / n, quarter = (eighths + 1) / 2; /* nearest quarter turn */
    const int64_t rest = 4 * k - quarter * n;                       /* in units of a turn / 4n, −n/2 … n/2 */
    const long double angle = 1.57079632679489661923132169163975144L * (long double)rest / (long double)n;
    const double c = (double)cosl(angle), s = (double)sinl(angle);
    const double cosines[4] = {c, -s, -c, s}, sines[4] = {s, c, -s, -c};
    root[0] = cosines[quarter & 3];
    root[1] = -sines[quarter & 3];
}

/* Roots of a large n as products of two from short tables: W^t = coarse[t >> shift]·fine[t mod 2^shift]. */
typedef struct root_table {
    int64_t n;
    int shift;
    double *coarse, *fine;
} root_table;

static int root_shift(int64_t n) {
    int shift = 0;
    while ((int64_t)1 << (2 * shift) < n) shift++;
    return shift;
}

static int64_t root_table_size(int64_t n) {
    const int shift = root_shift(n);
    return 2 * (((n - 1) >> shift) + 1 + ((int64_t)1 << shift));
}

static root_table make_roots(int64_t n, double *memory) {
    root_table t = {n, root_shift(n), memory, memory + 2 * (((n - 1) >> root_shift(n)) + 1)};
    for (int64_t k = 0; k << t.shift < n; k++) amp_fft_root(n, k << t.shift, t.coarse + 2 * k);
    for (int64_t k = 0; k < (int64_t)1 << t.shift; k++) amp_fft_root(n, k % n, t.fine + 2 * k);
    return t;
}

static void take_root(const root_table *t, int64_t k, double *root) {
    const double *a = t->coarse + 2 * (k >> t->shift), *b = t->fine + 2 * (k & (((int64_t)1 << t->shift) - 1));
    root[0] = a[0] * b[0] - a[1] * b[1];
    root[1] = a[0] * b[1] + a[1] * b[0];
}

/* ---- Lengths -------------------------------------------------------------------------------------------------- */

/* The next radix to take out of n: eights as long as a four or more is left after them. */
static int next_radix(int64_t n) {
    if (n % 8 == 0 && n != 16) return 8;
    if (n % 4 == 0) return 4;
    if (n % 2 == 0) return 2;
    for (int r = 3; r <= AMP_FFT_LARGEST_RADIX; r += 2) {
        if (n % r == 0) return r;
    }
    return 0;
}

static bool has_small_factors(int64_t n) {
    while (n > 1) {
        const int radix = next_radix(n);
        if (!radix) return false;
        n /= radix;
    }
    return true;
}

/* At least 2n − 1: a power of two times 1, 3, 5, 9 or 15, whichever is the least. */
static int64_t chirp_length(int64_t n) {
    static const int64_t odd[] = {1, 3, 5, 9, 15};
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        int64_t m = odd[i];
        while (m < 2 * n - 1) m *= 2;
        if (m < best) best = m;
    }
    return best;
}

enum { LONG = 1 << 15, SHORTEST_SPLIT = 16, LONGEST_SPLIT = 1 << 16 };

/* The divisor of n that is nearest to its root; 1 where none is good enough. */
static int64_t find_rows(int64_t n) {
    int64_t rows = (int64_t)sqrt((double)n);
    while (rows > 1 && n % rows) rows--;
    return rows >= SHORTEST_SPLIT && n / rows <= LONGEST_SPLIT ? rows : 1;
}

bool amp_fft_is_long(int64_t n, int64_t transforms) {
    if (n > LONG) return true;
    return n >= 1024 && transforms < AMP_FFT_LANES / 2 && find_rows(n) > 1;
}

/* ---- Stages --------------------------------------------------------------------------------------------------- */

int64_t amp_fft_table_size(int64_t n) {
    int64_t size = 0;
    for (int64_t left = n; left > 1;) {
        const int radix = next_radix(left);
        left /= radix;
        size += 2 * (left * (radix - 1) + radix);
    }
    return size;
}

int amp_fft_write_stages(int64_t n, amp_fft_stage *stages, double *tables) {
    int count = 0;
    for (int64_t left = n, stride = 1; left > 1; count++) {
        const int radix = next_radix(left);
        const int64_t length = left;
        left /= radix;
        double *twiddles = tables, *roots = twiddles + 2 * left * (radix - 1);
        for (int64_t p = 0; p < left; p++) {
            for (int k = 1; k < radix; k++) amp_fft_root(length, p * k, twiddles + 2 * (p * (radix - 1) + k - 1));
        }
        for (int k = 0; k < radix; k++) amp_fft_root(radix, k, roots + 2 * k);
        stages[count] = (amp_fft_stage){.step = AMP_FFT_STEP_RADIX,
                                        .radix = radix,
                                        .count = left,
                                        .stride = stride,
                                        .table = twiddles,
                                        .roots = roots};
        stride *= radix;
        tables = roots + 2 * radix;
    }
    return count;
}

/* A plan under construction. */
typedef struct builder {
    amp_fft_plan *plan;
    double *next; /* free room in the plan's tables */
} builder;

static amp_fft_stage *add_stage(builder *b, amp_fft_stage stage) {
    amp_fft_stage *added = &b->plan->stage[b->plan->stages++];
    *added = stage;
    return added;
}

static double *take_table(builder *b, int64_t doubles) {
    double *table = b->next;
    b->next += doubles;
    return table;
}

static int64_t long_table_size(int64_t n) {
    return root_table_size(n) + find_rows(n) * 2 * AMP_FFT_LANES;
}

static amp_status add_split(builder *b, int64_t n) {
    amp_fft_split *split = amp_alloc_zeroed(sizeof *split);
    if (!split) return amp_fail(AMP_ERROR_MEMORY, "fft: no memory for a plan");
    b->plan->split = split;
    split->rows = find_rows(n);
    split->columns = n / split->rows;
    const root_table roots = make_roots(n, take_table(b, root_table_size(n)));
    split->coarse = roots.coarse;
    split->fine = roots.fine;
    split->shift = roots.shift;
    double *lanes = take_table(b, split->rows * 2 * AMP_FFT_LANES);
    split->lane_twiddles = lanes;
    for (int64_t k = 0; k < split->rows; k++) {
        for (int64_t l = 0; l < AMP_FFT_LANES; l++) {
            double root[2];
            amp_fft_root(n, k * l % n, root);
            lanes[k * 2 * AMP_FFT_LANES + l] = root[0];
            lanes[(k * 2 + 1) * AMP_FFT_LANES + l] = root[1];
        }
    }
    split->row_plan = amp_fft_plan_take(split->columns, AMP_FFT_COMPLEX, false);
    split->column_plan = split->row_plan ? amp_fft_plan_take(split->rows, AMP_FFT_COMPLEX, false) : NULL;
    return split->column_plan ? AMP_OK : amp_pending_error();
}

/* The stages of a transform of n numbers that needs no chirp. */
static amp_status add_direct(builder *b, int64_t n) {
    amp_fft_plan *plan = b->plan;
    if (plan->is_long) {
        if (!plan->split) AMP_TRY(add_split(b, n));
        add_stage(b, (amp_fft_stage){.step = AMP_FFT_STEP_SPLIT, .count = n});
    } else {
        plan->stages += amp_fft_write_stages(n, plan->stage + plan->stages, take_table(b, amp_fft_table_size(n)));
    }
    return AMP_OK;
}

static bool is_direct(int64_t n, bool is_long) {
    return is_long ? find_rows(n) > 1 : has_small_factors(n);
}

static int64_t direct_table_size(int64_t n, bool is_long) {
    return is_long ? long_table_size(n) : amp_fft_table_size(n);
}

/* The transform of the chirp's conjugate, which wraps around; divided by m, the inverse's normalisation. Run by the
 * stages that the plan has so far. */
static amp_status transform_chirp(const amp_fft_plan *plan, const amp_fft_stage *stages, int count, int64_t n,
                                  int64_t m, const double *chirp, double *spectrum) {
    const int64_t lanes = plan->is_long ? 1 : AMP_FFT_LANES;
    const size_t scratch = plan->is_long ? amp_fft_long_scratch(plan, 1) : 0;
    double *data = amp_alloc_zeroed(((size_t)(4 * m * lanes) + scratch) * sizeof *data);
    if (!data) return amp_fail(AMP_ERROR_MEMORY, "fft: no memory for a plan of length %lld", (long long)n);
    double *spare = data + 2 * m * lanes, *result;
    for (int64_t k = 0; k < n; k++) {
        const int64_t places[2] = {k, k ? m - k : 0};
        for (int i = 0; i < 2; i++) {
            data[places[i] * 2 * lanes] = chirp[2 * k];
            data[places[i] * 2 * lanes + lanes] = -chirp[2 * k + 1];
        }
    }
    if (plan->is_long) {
        amp_fft_plan part = *plan;
        memmove(part.stage, stages, (size_t)count * sizeof *stages);
        part.stages = count;
        result = amp_fft_run_long(&part, data, spare, spare + 2 * m, 1);
    } else {
        result = plan->function(stages, count, data, spare);
    }
    for (int64_t k = 0; k < m; k++) {
        spectrum[2 * k] = result[k * 2 * lanes] / (double)m;
        spectrum[2 * k + 1] = result[k * 2 * lanes + lanes] / (double)m;
    }
    amp_free(data);
    return AMP_OK;
}

/* exp(−πi·k²/n) for k < n: the (k² mod 2n)-th power of a root of 2n. */
static amp_status write_chirp(int64_t n, double *chirp) {
    double *memory = amp_alloc((size_t)root_table_size(2 * n) * sizeof *memory);
    if (!memory) return amp_fail(AMP_ERROR_MEMORY, "fft: no memory for a plan of length %lld", (long long)n);
    const root_table roots = make_roots(2 * n, memory);
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), k++) {
        take_root(&roots, square, chirp + 2 * k);
    }
    amp_free(memory);
    return AMP_OK;
}

static amp_status add_chirped(builder *b, int64_t n) {
    amp_fft_plan *plan = b->plan;
    const int64_t m = chirp_length(n);
    double *chirp = take_table(b, 2 * n), *spectrum = take_table(b, 2 * m);
    AMP_TRY(write_chirp(n, chirp));
    const amp_fft_stage multiply = {
        .step = AMP_FFT_STEP_MULTIPLY, .count = n, .fill = m, .sign_before = 1, .sign_after = 1, .table = chirp};
    add_stage(b, multiply);
    const int first = plan->stages;
    AMP_TRY(add_direct(b, m));
    const int count = plan->stages - first;
    AMP_TRY(transform_chirp(plan, plan->stage + first, count, n, m, chirp, spectrum));
    amp_fft_stage *product = add_stage(b, multiply), *end;
    product->count = product->fill = m;
    product->table = spectrum;
    product->sign_after = -1; /* the inverse is the conjugate of the conjugate's transform */
    for (int i = 0; i < count; i++) add_stage(b, plan->stage[first + i]);
    end = add_stage(b, multiply);
    end->fill = 0;
    end->sign_before = -1;
    return AMP_OK;
}

static amp_status add_half_turn(builder *b, amp_fft_step step, int64_t n) {
    const int64_t pairs = n / 4 + 1;
    double *table = take_table(b, 2 * pairs);
    double *memory = amp_alloc((size_t)root_table_size(n) * sizeof *memory);
    if (!memory) return amp_fail(AMP_ERROR_MEMORY, "fft: no memory for a plan of length %lld", (long long)n);
    const root_table roots = make_roots(n, memory);
    for (int64_t k = 0; k < pairs; k++) take_root(&roots, k, table + 2 * k);
    amp_free(memory);
    add_stage(b, (amp_fft_stage){.step = step, .count = n / 2, .table = table});
    return AMP_OK;
}

static amp_status fill_plan(amp_fft_plan *plan) {
    const bool is_real = plan->kind != AMP_FFT_COMPLEX;
    const int64_t n = is_real ? plan->n / 2 : plan->n;
    const bool direct = is_direct(n, plan->is_long);
    const int64_t m = direct ? n : chirp_length(n);
    const int64_t doubles =
        direct_table_size(m, plan->is_long) + (direct ? 0 : 2 * (n + m)) + (is_real ? 2 * (plan->n / 4 + 1) : 0);
    plan->room = ((direct ? n : m) + is_real + 1) / 2 * 2; /* even: what follows a buffer stays aligned */
    plan->bytes = sizeof *plan + (size_t)doubles * sizeof(double);
    plan->tables = amp_alloc((size_t)doubles * sizeof(double));
    if (!plan->tables) return amp_fail(AMP_ERROR_MEMORY, "fft: no memory for a plan of length %lld", (long long)n);
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_FFT, AMP_C128, AMP_C128);
    if (!kernel) return amp_pending_error();
    plan->function = (amp_fft_function *)kernel->function;
    builder b = {plan, plan->tables};
    if (plan->kind == AMP_FFT_PACK) AMP_TRY(add_half_turn(&b, AMP_FFT_STEP_PACK, plan->n));
    AMP_TRY(direct ? add_direct(&b, n) : add_chirped(&b, n));
    if (plan->kind == AMP_FFT_UNPACK) AMP_TRY(add_half_turn(&b, AMP_FFT_STEP_UNPACK, plan->n));
    return AMP_OK;
}

/* ---- The cache ------------------------------------------------------------------------------------------------ */

enum { CACHE_PLANS = 32, CACHE_BYTES = 32 << 20 };

static struct {
    amp_fft_plan *plans[CACHE_PLANS];
    size_t bytes;
    uint64_t clock;
} cache;

static void destroy_plan(amp_fft_plan *plan) {
    if (plan->split) {
        if (plan->split->row_plan) amp_fft_plan_give(plan->split->row_plan);
        if (plan->split->column_plan) amp_fft_plan_give(plan->split->column_plan);
        amp_free(plan->split);
    }
    amp_free(plan->tables);
    amp_free(plan);
}

static amp_fft_plan *make_plan(int64_t n, amp_fft_kind kind, bool is_long) {
    amp_fft_plan *plan = amp_alloc_zeroed(sizeof *plan);
    if (!plan) {
        (void)amp_fail(AMP_ERROR_MEMORY, "fft: no memory for a plan of length %lld", (long long)n);
        return NULL;
    }
    plan->n = n;
    plan->kind = kind;
    plan->is_long = is_long;
    if (fill_plan(plan) == AMP_OK) return plan;
    destroy_plan(plan);
    return NULL;
}

static amp_fft_plan *find_plan(int64_t n, amp_fft_kind kind, bool is_long) {
    for (int i = 0; i < CACHE_PLANS; i++) {
        amp_fft_plan *p = cache.plans[i];
        if (p && p->n == n && p->kind == kind && p->is_long == is_long) return p;
    }
    return NULL;
}

/* A free place, after throwing out what was not used for longest until there is room for `bytes`; −1: everything is in
 * use. What goes is hung into `gone`. */
static int make_place(size_t bytes, amp_fft_plan **gone) {
    for (int count = 0;;) {
        int oldest = -1, free_place = -1;
        for (int i = 0; i < CACHE_PLANS; i++) {
            const amp_fft_plan *p = cache.plans[i];
            if (!p)
                free_place = i;
            else if (!p->users && (oldest < 0 || p->last_use < cache.plans[oldest]->last_use))
                oldest = i;
        }
        if (free_place >= 0 && cache.bytes + bytes <= CACHE_BYTES) return free_place;
        if (oldest < 0) return -1;
        cache.bytes -= cache.plans[oldest]->bytes;
        gone[count++] = cache.plans[oldest];
        cache.plans[oldest] = NULL;
    }
}

static bool is_cached(const amp_fft_plan *plan) {
    for (int i = 0; i < CACHE_PLANS; i++) {
        if (cache.plans[i] == plan) return true;
    }
    return false;
}

/* Puts a new plan into the cache, if another thread has not been faster and there is room; else its owner is the only
 * user, and amp_fft_plan_give destroys it. */
static amp_fft_plan *keep_plan(amp_fft_plan *made, amp_fft_plan **gone) {
    amp_fft_plan *found = find_plan(made->n, made->kind, made->is_long);
    if (found) {
        gone[0] = made;
        return found;
    }
    const int place = made->bytes <= CACHE_BYTES / 2 ? make_place(made->bytes, gone) : -1;
    if (place >= 0) {
        cache.plans[place] = made;
        cache.bytes += made->bytes;
    }
    return made;
}

const amp_fft_plan *amp_fft_plan_take(int64_t n, amp_fft_kind kind, bool is_long) {
    amp_fft_plan *gone[CACHE_PLANS + 1] = {0};
    amp_lock(AMP_LOCK_FFT);
    amp_fft_plan *plan = find_plan(n, kind, is_long);
    if (!plan) {
        amp_unlock(AMP_LOCK_FFT);
        plan = make_plan(n, kind, is_long);
        if (!plan) return NULL;
        amp_lock(AMP_LOCK_FFT);
        plan = keep_plan(plan, gone);
    }
    plan->users++;
    plan->last_use = ++cache.clock;
    amp_unlock(AMP_LOCK_FFT);
    for (int i = 0; gone[i]; i++) destroy_plan(gone[i]);
    return plan;
}

void amp_fft_plan_give(const amp_fft_plan *plan) {
    amp_fft_plan *p = (amp_fft_plan *)(uintptr_t)plan;
    amp_lock(AMP_LOCK_FFT);
    const bool last = --p->users == 0 && !is_cached(p);
    amp_unlock(AMP_LOCK_FFT);
    if (last) destroy_plan(p);
}
