/* Where windows lie. */
#include "steps/pooling.h"

/* The windows of one dimension. */
typedef struct placement {
    int64_t kernel, stride, padding, dilation, extent;
} placement;

static amp_window place(const placement *p, int64_t index) {
    const int64_t first = index * p->stride - p->padding, end = first + p->dilation * (p->kernel - 1) + 1;
    const int64_t padded_end = end < p->extent + p->padding ? end : p->extent + p->padding;
    const int64_t inside_end = end < p->extent ? end : p->extent;
    const int64_t skipped = first < 0 ? (-first + p->dilation - 1) / p->dilation : 0;
    amp_window w = {.start = first + skipped * p->dilation, .padded = padded_end - first};
    if (inside_end > w.start) w.count = (inside_end - w.start - 1) / p->dilation + 1;
    return w;
}

/* So that products of two of them, and sums of those with extents, stay in range. */
enum { LARGEST = 1 << 30 };

amp_status amp_pool_check_dims(const amp_call *call, const char *name, const amp_dims *values, int dims, int64_t least,
                               int64_t most) {
    if (values->count != dims) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has %d values; expected %d%s", amp_call_name(call), name,
                        values->count, dims, dims > 1 ? ", or one for all" : "");
    }
    for (int d = 0; d < dims; d++) {
        if (values->values[d] >= least && values->values[d] <= most) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; each must be %lld to %lld", amp_call_name(call), name,
                        amp_describe_shape(dims, values->values), (long long)least, (long long)most);
    }
    return AMP_OK;
}

static int64_t count_windows(const placement *p, bool ceil_mode) {
    const int64_t room = p->extent + 2 * p->padding - p->dilation * (p->kernel - 1) - 1;
    if (room < 0) return ceil_mode && room + p->stride > 0;
    int64_t n = room / p->stride + 1;
    /* A last window that is cut off; it begins inside of the input or the padding in front. */
    if (ceil_mode && room % p->stride && n * p->stride < p->extent + p->padding) n++;
    return n;
}

static const amp_dims *stride_of(const amp_pool_options *o) {
    return o->stride->set && o->stride->count ? o->stride : o->kernel;
}

static amp_status check_options(const amp_call *call, int dims, const amp_pool_options *o) {
    AMP_TRY(amp_pool_check_dims(call, "kernel_size", o->kernel, dims, 1, LARGEST));
    AMP_TRY(amp_pool_check_dims(call, "stride", stride_of(o), dims, 1, LARGEST));
    AMP_TRY(amp_pool_check_dims(call, "padding", o->padding, dims, 0, LARGEST));
    if (o->dilation) AMP_TRY(amp_pool_check_dims(call, "dilation", o->dilation, dims, 1, LARGEST));
    for (int d = 0; d < dims; d++) {
        const int64_t kernel = o->kernel->values[d], padding = o->padding->values[d];
        const int64_t dilation = o->dilation ? o->dilation->values[d] : 1;
        if (padding <= ((kernel - 1) * dilation + 1) / 2) continue;
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'padding' %lld is more than half of the window ('kernel_size' %lld, dilation %lld)",
                        amp_call_name(call), (long long)padding, (long long)kernel, (long long)dilation);
    }
    return AMP_OK;
}

static int64_t largest_count(const amp_window *windows, int64_t n) {
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) most = windows[i].count > most ? windows[i].count : most;
    return most;
}

/* Tables for dimension k of D, H, W. */
static amp_status place_all(const amp_call *call, amp_pool *p, int k, const placement *where) {
    amp_window *table = amp_spatial_table(call, p->s.out[k], sizeof *table);
    if (!table) return amp_pending_error();
    for (int64_t i = 0; i < p->s.out[k]; i++) table[i] = place(where, i);
    p->windows[k] = table;
    p->step[k] = where->dilation;
    p->most[k] = largest_count(table, p->s.out[k]);
    return AMP_OK;
}

amp_status amp_pool_start(const amp_call *call, amp_pool *p, const amp_tensor *input, int dims,
                          const amp_pool_options *o) {
    placement where[AMP_SPATIAL_DIMS];
    AMP_TRY(amp_spatial_start(call, &p->s, input, dims));
    AMP_TRY(check_options(call, dims, o));
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        const int d = k - (AMP_SPATIAL_DIMS - dims);
        where[k] = (placement){1, 1, 0, 1, p->s.in[k]};
        if (d < 0) continue;
        where[k] = (placement){o->kernel->values[d], stride_of(o)->values[d], o->padding->values[d],
                               o->dilation ? o->dilation->values[d] : 1, p->s.in[k]};
        p->s.out[k] = count_windows(&where[k], o->ceil_mode);
        if (p->s.out[k] > 0) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: no window of %lld elements fits dimension %d of input %s",
                        amp_call_name(call), (long long)(where[k].dilation * (where[k].kernel - 1) + 1),
                        input->rank - dims + d, amp_describe(input));
    }
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) AMP_TRY(place_all(call, p, k, &where[k]));
    p->kernel = where[2].kernel;
    p->stride = where[2].stride;
    p->padding = where[2].padding;
    return AMP_OK;
}

amp_status amp_pool_start_adaptive(const amp_call *call, amp_pool *p, const amp_tensor *input, int dims,
                                   const amp_dims *output_size) {
    AMP_TRY(amp_spatial_start(call, &p->s, input, dims));
    AMP_TRY(amp_pool_check_dims(call, "output_size", output_size, dims, -1, LARGEST));
    for (int d = 0; d < dims; d++) {
        if (output_size->values[d] >= 0) *amp_spatial_out(&p->s, d) = output_size->values[d];
    }
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        const int64_t in = p->s.in[k], out = p->s.out[k];
        amp_window *table = amp_spatial_table(call, out, sizeof *table);
        if (!table) return amp_pending_error();
        for (int64_t i = 0; i < out; i++) {
            /* ⌊i·in/out⌋ up to ⌈(i + 1)·in/out⌉ without the product */
            const int64_t whole = in / out, rest = in % out;
            const int64_t start = i * whole + i * rest / out, end = (i + 1) * whole + ((i + 1) * rest + out - 1) / out;
            table[i] = (amp_window){start, end - start, end - start};
        }
        p->windows[k] = table;
        p->step[k] = 1;
        p->most[k] = largest_count(table, out);
    }
    p->kernel = 0;
    return AMP_OK;
}
