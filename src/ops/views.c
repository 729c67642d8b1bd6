/* Views: new geometry over the same storage. Nothing here touches data, so every device shares it. */
#include <string.h>

#include "amp/ops.h"
#include "steps/shape_rules.h"

#define ARGS(op) const amp_##op##_args *a = call->args

/* Geometry under construction. */
typedef struct geometry {
    int rank;
    int64_t shape[AMP_MAX_RANK + 1], strides[AMP_MAX_RANK + 1]; /* one more: unsqueeze and unfold check at the end */
    int64_t offset;
} geometry;

static geometry geometry_of(const amp_tensor *t) {
    geometry g = {.rank = t->rank, .offset = t->offset};
    memcpy(g.shape, t->shape, (size_t)t->rank * sizeof *g.shape);
    memcpy(g.strides, t->strides, (size_t)t->rank * sizeof *g.strides);
    return g;
}

static amp_status return_geometry(amp_call *call, amp_tensor *base, const geometry *g) {
    return amp_return_view(call, base, g->rank, g->shape, g->strides, g->offset);
}

static void remove_dim(geometry *g, int d) {
    for (int i = d; i + 1 < g->rank; i++) {
        g->shape[i] = g->shape[i + 1];
        g->strides[i] = g->strides[i + 1];
    }
    g->rank--;
}

static void insert_dim(geometry *g, int d, int64_t extent, int64_t stride) {
    for (int i = g->rank; i > d; i--) {
        g->shape[i] = g->shape[i - 1];
        g->strides[i] = g->strides[i - 1];
    }
    g->shape[d] = extent;
    g->strides[d] = stride;
    g->rank++;
}

/* The dimension that is taken apart. */
static amp_status read_dim(const amp_call *call, const amp_tensor *input, int64_t dim, int *d) {
    if (input->rank > 0) return amp_wrap_dim(call, "dim", dim, input->rank, d);
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, which has no dimension to take apart", amp_call_name(call),
                    amp_describe(input));
}

/* ---- The same elements, another shape ------------------------------------------------------------------------- */

amp_status amp_op_view(amp_call *call) {
    ARGS(view);
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
    AMP_TRY(amp_infer_shape(call, "size", &a->size, a->input, shape));
    if (!amp_view_strides(a->input, a->size.count, shape, strides)) {
        return amp_fail(AMP_ERROR_INVALID,
                        "view: input %s with strides %s cannot be seen as %s without a copy; reshape "
                        "makes one",
                        amp_describe(a->input), amp_describe_shape(a->input->rank, a->input->strides),
                        amp_describe_shape(a->size.count, shape));
    }
    return amp_return_view(call, a->input, a->size.count, shape, strides, a->input->offset);
}

/* A view where strides allow it, else a view of a dense copy. */
static amp_status reshape_to(amp_call *call, amp_tensor *input, int rank, const int64_t *shape) {
    int64_t strides[AMP_MAX_RANK];
    if (!amp_view_strides(input, rank, shape, strides)) {
        const amp_contiguous_args copy = {.struct_size = sizeof copy, .input = input};
        input = amp_contiguous_call(&copy);
        if (!input) return amp_pending_error();
        amp_dense_strides(rank, shape, strides);
    }
    return amp_return_view(call, input, rank, shape, strides, input->offset);
}

amp_status amp_op_reshape(amp_call *call) {
    ARGS(reshape);
    int64_t shape[AMP_MAX_RANK];
    AMP_TRY(amp_infer_shape(call, "shape", &a->shape, a->input, shape));
    return reshape_to(call, a->input, a->shape.count, shape);
}

amp_status amp_op_flatten(amp_call *call) {
    ARGS(flatten);
    int start, end, rank = 0;
    int64_t shape[AMP_MAX_RANK], merged = 1;
    AMP_TRY(amp_wrap_dim(call, "start_dim", a->start_dim, a->input->rank, &start));
    AMP_TRY(amp_wrap_dim(call, "end_dim", a->end_dim.value, a->input->rank, &end));
    if (start > end) {
        return amp_fail(AMP_ERROR_INVALID, "flatten: 'start_dim' %d comes after 'end_dim' %d", start, end);
    }
    for (int d = 0; d < a->input->rank; d++) {
        if (d >= start && d <= end) merged *= a->input->shape[d];
        if (d < start || d > end) shape[rank++] = a->input->shape[d];
        if (d == end) shape[rank++] = merged;
    }
    if (a->input->rank == 0) shape[rank++] = 1;
    return reshape_to(call, a->input, rank, shape);
}

amp_status amp_op_unflatten(amp_call *call) {
    ARGS(unflatten);
    geometry g = geometry_of(a->input);
    int d;
    int64_t sizes[AMP_MAX_RANK];
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    AMP_TRY(amp_check_dims(call, "sizes", &a->sizes));
    if (a->sizes.count == 0 || g.rank - 1 + a->sizes.count > AMP_MAX_RANK) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "unflatten: 'sizes' has %d extents, input is %s; expected at least one, and at most %d dimensions "
            "of the result",
            a->sizes.count, amp_describe(a->input), AMP_MAX_RANK);
    }
    amp_tensor line = {.rank = 1, .dtype = a->input->dtype, .shape = {g.shape[d]}, .strides = {1}};
    AMP_TRY(amp_infer_shape(call, "sizes", &a->sizes, &line, sizes));
    const int64_t stride = g.strides[d];
    int64_t step = stride;
    remove_dim(&g, d);
    for (int i = a->sizes.count - 1; i >= 0; i--) {
        insert_dim(&g, d, sizes[i], step);
        if (__builtin_mul_overflow(step, sizes[i], &step)) step = 0; /* of no elements */
    }
    return return_geometry(call, a->input, &g);
}

/* ---- Order and number of dimensions --------------------------------------------------------------------------- */

amp_status amp_op_permute(amp_call *call) {
    ARGS(permute);
    geometry g = geometry_of(a->input);
    unsigned mask;
    AMP_TRY(amp_check_dims(call, "dims", &a->dims));
    if (a->dims.count != g.rank) {
        return amp_fail(AMP_ERROR_INVALID, "permute: 'dims' names %d dimensions, input %s has %d", a->dims.count,
                        amp_describe(a->input), g.rank);
    }
    AMP_TRY(amp_wrap_dims(call, "dims", &a->dims, false, g.rank, &mask));
    for (int d = 0; d < g.rank; d++) {
        int from;
        AMP_TRY(amp_wrap_dim(call, "dims", a->dims.values[d], g.rank, &from));
        g.shape[d] = a->input->shape[from];
        g.strides[d] = a->input->strides[from];
    }
    return return_geometry(call, a->input, &g);
}

amp_status amp_op_movedim(amp_call *call) {
    ARGS(movedim);
    geometry g = geometry_of(a->input);
    int from[AMP_MAX_RANK] = {0};
    unsigned sources, destinations;
    AMP_TRY(amp_check_dims(call, "source", &a->source));
    AMP_TRY(amp_check_dims(call, "destination", &a->destination));
    if (a->source.count != a->destination.count) {
        return amp_fail(AMP_ERROR_INVALID, "movedim: 'source' names %d dimensions, 'destination' %d; expected as many",
                        a->source.count, a->destination.count);
    }
    AMP_TRY(amp_wrap_dims(call, "source", &a->source, false, g.rank, &sources));
    AMP_TRY(amp_wrap_dims(call, "destination", &a->destination, false, g.rank, &destinations));
    for (int i = 0; g.rank > 0 && i < a->source.count; i++) {
        int d, e;
        AMP_TRY(amp_wrap_dim(call, "source", a->source.values[i], g.rank, &d));
        AMP_TRY(amp_wrap_dim(call, "destination", a->destination.values[i], g.rank, &e));
        from[e] = d;
    }
    for (int d = 0, other = 0; d < g.rank; d++) {
        if (destinations & 1u << d) continue;
        while (sources & 1u << other) other++;
        from[d] = other++;
    }
    for (int d = 0; d < g.rank; d++) {
        g.shape[d] = a->input->shape[from[d]];
        g.strides[d] = a->input->strides[from[d]];
    }
    return return_geometry(call, a->input, &g);
}

static amp_status return_swapped(amp_call *call, amp_tensor *input, int d, int e) {
    geometry g = geometry_of(input);
    if (g.rank > 0) {
        g.shape[d] = input->shape[e];
        g.shape[e] = input->shape[d];
        g.strides[d] = input->strides[e];
        g.strides[e] = input->strides[d];
    }
    return return_geometry(call, input, &g);
}

amp_status amp_op_transpose(amp_call *call) {
    ARGS(transpose);
    int d, e;
    AMP_TRY(amp_wrap_dim(call, "dim0", a->dim0, a->input->rank, &d));
    AMP_TRY(amp_wrap_dim(call, "dim1", a->dim1, a->input->rank, &e));
    return return_swapped(call, a->input, d, e);
}

amp_status amp_op_t(amp_call *call) {
    ARGS(t);
    if (a->input->rank > 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected a matrix, a vector or a number",
                        amp_call_name(call), amp_describe(a->input));
    }
    return return_swapped(call, a->input, 0, a->input->rank == 2 ? 1 : 0);
}

amp_status amp_op_squeeze(amp_call *call) {
    ARGS(squeeze);
    geometry g = geometry_of(a->input);
    unsigned mask;
    AMP_TRY(amp_wrap_dims(call, "dim", &a->dim, false, g.rank, &mask));
    for (int d = g.rank - 1; d >= 0; d--) {
        if ((mask & 1u << d) && g.shape[d] == 1) remove_dim(&g, d);
    }
    return return_geometry(call, a->input, &g);
}

amp_status amp_op_unsqueeze(amp_call *call) {
    ARGS(unsqueeze);
    geometry g = geometry_of(a->input);
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim, g.rank + 1, &d));
    insert_dim(&g, d, 1, d < g.rank ? g.shape[d] * g.strides[d] : 1);
    return return_geometry(call, a->input, &g);
}

amp_status amp_op_expand(amp_call *call) {
    ARGS(expand);
    const amp_tensor *input = a->input;
    geometry g = {.rank = a->size.count, .offset = input->offset};
    AMP_TRY(amp_check_dims(call, "size", &a->size));
    bool fits = g.rank >= input->rank;
    for (int d = 0; fits && d < g.rank; d++) {
        const int from = d - (g.rank - input->rank);
        const int64_t extent = a->size.values[d], old = from < 0 ? 1 : input->shape[from];
        if (extent == -1)
            fits = from >= 0;
        else
            fits = extent >= 0 && (old == 1 || extent == old);
        g.shape[d] = extent == -1 ? old : extent;
        g.strides[d] = from < 0 || (old == 1 && g.shape[d] != 1) ? 0 : input->strides[from];
    }
    if (!fits) {
        return amp_fail(AMP_ERROR_INVALID,
                        "expand: input %s cannot be expanded to %s; only extents of 1 and new leading "
                        "dimensions grow",
                        amp_describe(input), amp_describe_shape(a->size.count, a->size.values));
    }
    int64_t elements;
    AMP_TRY(amp_shape_elements("expand", g.rank, g.shape, &elements));
    return return_geometry(call, a->input, &g);
}

/* ---- Parts of a dimension ------------------------------------------------------------------------------------- */

amp_status amp_op_select(amp_call *call) {
    ARGS(select);
    geometry g = geometry_of(a->input);
    int d;
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    const int64_t extent = g.shape[d], index = a->index < 0 ? a->index + extent : a->index;
    if (index < 0 || index >= extent) {
        return amp_fail(AMP_ERROR_INVALID, "select: 'index' is %lld, dimension %d of input %s has %lld elements",
                        (long long)a->index, d, amp_describe(a->input), (long long)extent);
    }
    g.offset += index * g.strides[d];
    remove_dim(&g, d);
    return return_geometry(call, a->input, &g);
}

static amp_status return_narrow(amp_call *call, amp_tensor *input, int64_t dim, int64_t first, int64_t length) {
    geometry g = geometry_of(input);
    int d;
    AMP_TRY(read_dim(call, input, dim, &d));
    const int64_t extent = g.shape[d], start = first < 0 ? first + extent : first;
    if (length < 0 || start < 0 || start > extent || length > extent - start) {
        return amp_fail(AMP_ERROR_INVALID, "narrow: 'start' %lld and 'length' %lld do not fit dimension %d of input %s",
                        (long long)first, (long long)length, d, amp_describe(input));
    }
    g.offset += start * g.strides[d];
    g.shape[d] = length;
    return return_geometry(call, input, &g);
}

amp_status amp_op_narrow(amp_call *call) {
    ARGS(narrow);
    return return_narrow(call, a->input, a->dim, a->start, a->length);
}

static bool is_integer(amp_dtype dtype) {
    return !amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype) && dtype != AMP_BOOL;
}

amp_status amp_op_narrow_tensor(amp_call *call) {
    ARGS(narrow_tensor);
    if (a->start->rank > 0 || !is_integer(a->start->dtype)) {
        return amp_fail(AMP_ERROR_INVALID, "narrow: 'start' is %s; expected a 0-dim tensor of integers",
                        amp_describe(a->start));
    }
    const amp_tensor *start = amp_to_device(a->start, AMP_DEVICE_CPU, .dtype = AMP_I64);
    if (!start) return amp_pending_error();
    return return_narrow(call, a->input, a->dim, *(const int64_t *)amp_tensor_pointer(start), a->length);
}

static int64_t clip_bound(int64_t bound, int64_t extent) {
    if (bound < 0) bound = bound < -extent ? 0 : bound + extent;
    return bound > extent ? extent : bound;
}

amp_status amp_op_slice(amp_call *call) {
    ARGS(slice);
    geometry g = geometry_of(a->input);
    int d;
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    const int64_t extent = g.shape[d], step = a->step.value;
    if (step <= 0) {
        return amp_fail(AMP_ERROR_INVALID, "slice: 'step' is %lld; it must be positive", (long long)step);
    }
    const int64_t start = a->start.set ? clip_bound(a->start.value, extent) : 0;
    const int64_t end = a->end.set ? clip_bound(a->end.value, extent) : extent;
    g.offset += start * g.strides[d];
    g.shape[d] = end > start ? (end - start - 1) / step + 1 : 0;
    g.strides[d] = g.shape[d] > 1 ? g.strides[d] * step : g.strides[d];
    return return_geometry(call, a->input, &g);
}

amp_status amp_op_diagonal(amp_call *call) {
    ARGS(diagonal);
    geometry g = geometry_of(a->input);
    int d, e;
    AMP_TRY(amp_wrap_dim(call, "dim1", a->dim1, g.rank, &d));
    AMP_TRY(amp_wrap_dim(call, "dim2", a->dim2.value, g.rank, &e));
    if (d == e || g.rank < 2) {
        return amp_fail(AMP_ERROR_INVALID, "diagonal: 'dim1' and 'dim2' must name two dimensions of input %s",
                        amp_describe(a->input));
    }
    const int64_t rows = a->offset < 0 ? g.shape[d] + a->offset : g.shape[d];
    const int64_t columns = a->offset > 0 ? g.shape[e] - a->offset : g.shape[e];
    /* Strides over which no step is taken may be anything: their sum wraps. */
    const int64_t stride = (int64_t)((uint64_t)g.strides[d] + (uint64_t)g.strides[e]);
    const int64_t length = rows < columns ? rows : columns;
    if (length > 0) g.offset += a->offset < 0 ? -a->offset * g.strides[d] : a->offset * g.strides[e];
    remove_dim(&g, d > e ? d : e);
    remove_dim(&g, d > e ? e : d);
    insert_dim(&g, g.rank, length > 0 ? length : 0, stride);
    return return_geometry(call, a->input, &g);
}

amp_status amp_op_unfold(amp_call *call) {
    ARGS(unfold);
    geometry g = geometry_of(a->input);
    int d;
    AMP_TRY(amp_wrap_dim(call, "dimension", a->dimension, g.rank, &d));
    const int64_t extent = g.rank ? g.shape[d] : 1, stride = g.rank ? g.strides[d] : 1;
    if (a->size < 0 || a->size > extent || a->step <= 0) {
        return amp_fail(AMP_ERROR_INVALID, "unfold: 'size' %lld and 'step' %lld do not fit dimension %d of input %s",
                        (long long)a->size, (long long)a->step, d, amp_describe(a->input));
    }
    if (g.rank > 0) {
        g.shape[d] = (extent - a->size) / a->step + 1;
        g.strides[d] = g.shape[d] > 1 ? stride * a->step : stride;
    }
    insert_dim(&g, g.rank, a->size, stride);
    return return_geometry(call, a->input, &g);
}

/* ---- Another dtype -------------------------------------------------------------------------------------------- */

/* A GPU reads a complex number at once; lent memory may begin in the middle of one. */
static bool can_be_complex(const amp_tensor *t) {
    const bool at_once = t->storage && t->storage->device != AMP_DEVICE_CPU;
    return !at_once || (uintptr_t)amp_tensor_pointer(t) % (2 * amp_dtype_size(t->dtype)) == 0;
}

amp_status amp_op_view_as_complex(amp_call *call) {
    ARGS(view_as_complex);
    geometry g = geometry_of(a->input);
    if (a->input->dtype != AMP_F32 && a->input->dtype != AMP_F64) {
        return amp_fail(AMP_ERROR_DTYPE, "view_as_complex: input is %s; expected f32 or f64", amp_describe(a->input));
    }
    const int last = g.rank - 1;
    if (last < 0 || g.shape[last] != 2) {
        return amp_fail(AMP_ERROR_INVALID, "view_as_complex: input is %s; expected a last dimension of 2",
                        amp_describe(a->input));
    }
    bool pairs = g.strides[last] == 1 && g.offset % 2 == 0;
    for (int d = 0; d < last; d++) {
        pairs = pairs && g.strides[d] % 2 == 0;
        g.strides[d] /= 2;
    }
    if (!pairs) {
        return amp_fail(AMP_ERROR_INVALID,
                        "view_as_complex: input %s has strides %s and begins at element %lld of its memory; the last "
                        "stride must be 1, the others and the beginning even",
                        amp_describe(a->input), amp_describe_shape(a->input->rank, a->input->strides),
                        (long long)g.offset);
    }
    if (!can_be_complex(a->input)) {
        return amp_fail(AMP_ERROR_INVALID,
                        "view_as_complex: input %s does not begin at a multiple of a complex number's %zu bytes, as it "
                        "must on %s: clone it first",
                        amp_describe(a->input), 2 * amp_dtype_size(a->input->dtype),
                        amp_device_name(a->input->storage->device));
    }
    AMP_TRY(amp_return_view(call, a->input, last, g.shape, g.strides, g.offset / 2));
    call->outputs[0]->dtype = a->input->dtype == AMP_F32 ? AMP_C64 : AMP_C128;
    return AMP_OK;
}

/* Every part of a complex number has a real number's place. */
static geometry geometry_of_parts(const amp_tensor *t) {
    geometry g = geometry_of(t);
    for (int d = 0; d < g.rank; d++) g.strides[d] *= 2;
    g.offset *= 2;
    return g;
}

static amp_status need_complex(const amp_call *call, const amp_tensor *input) {
    if (amp_dtype_is_complex(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected c64 or c128", amp_call_name(call), amp_describe(input));
}

static amp_status return_parts(amp_call *call, amp_tensor *input, const geometry *g) {
    AMP_TRY(return_geometry(call, input, g));
    call->outputs[0]->dtype = input->dtype == AMP_C64 ? AMP_F32 : AMP_F64;
    return AMP_OK;
}

amp_status amp_op_view_as_real(amp_call *call) {
    ARGS(view_as_real);
    AMP_TRY(need_complex(call, a->input));
    geometry g = geometry_of_parts(a->input);
    insert_dim(&g, g.rank, 2, 1);
    return return_parts(call, a->input, &g);
}

amp_status amp_op_real(amp_call *call) {
    ARGS(real);
    geometry g = geometry_of(a->input);
    if (!amp_dtype_is_complex(a->input->dtype)) return return_geometry(call, a->input, &g);
    g = geometry_of_parts(a->input);
    return return_parts(call, a->input, &g);
}

amp_status amp_op_imag(amp_call *call) {
    ARGS(imag);
    AMP_TRY(need_complex(call, a->input));
    geometry g = geometry_of_parts(a->input);
    g.offset++;
    return return_parts(call, a->input, &g);
}

/* ---- Lists of views ------------------------------------------------------------------------------------------- */

/* Views along dimension d of the given lengths; length(i) of the last may be what is left. */
static amp_status return_pieces(amp_call *call, amp_tensor *input, int d, const int64_t *lengths, int64_t each,
                                int64_t count) {
    amp_tensor *few[16];
    amp_tensor *holder = NULL, **items = few;
    if (count > 16) { /* through a tensor of the call's frame, which the frame releases whatever happens */
        int64_t bytes;
        if (__builtin_mul_overflow(count, (int64_t)sizeof *items, &bytes)) {
            return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %lld views", amp_call_name(call), (long long)count);
        }
        holder = amp_tensor_new(call->op->name, AMP_U8, 1, &bytes);
        if (!holder) return amp_pending_error();
        items = amp_tensor_pointer(holder);
    }
    geometry g = geometry_of(input);
    int64_t left = g.shape[d];
    for (int64_t i = 0; i < count; i++) {
        const int64_t want = lengths ? lengths[i] : each;
        g.shape[d] = want < left ? want : left;
        items[i] = amp_tensor_view(call->op->name, input, g.rank, g.shape, g.strides, g.offset);
        if (!items[i]) return amp_pending_error();
        left -= g.shape[d];
        g.offset += g.shape[d] * g.strides[d];
    }
    return amp_call_list(call, items, count);
}

amp_status amp_op_chunk(amp_call *call) {
    ARGS(chunk);
    int d;
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    if (a->chunks < 1) {
        return amp_fail(AMP_ERROR_INVALID, "chunk: 'chunks' is %lld; it must be positive", (long long)a->chunks);
    }
    const int64_t extent = a->input->shape[d], each = extent / a->chunks + (extent % a->chunks != 0);
    const int64_t count = each ? extent / each + (extent % each != 0) : a->chunks;
    return return_pieces(call, a->input, d, NULL, each, count);
}

amp_status amp_op_split(amp_call *call) {
    ARGS(split);
    const amp_dims *sizes = &a->split_size_or_sections;
    int d;
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    AMP_TRY(amp_check_dims(call, "split_size_or_sections", sizes));
    const int64_t extent = a->input->shape[d];
    if (sizes->count == 1) {
        const int64_t each = sizes->values[0];
        if (each < 0 || (each == 0 && extent > 0)) {
            return amp_fail(AMP_ERROR_INVALID, "split: pieces of %lld elements cannot make up dimension %d of input %s",
                            (long long)each, d, amp_describe(a->input));
        }
        const int64_t count = each && extent ? extent / each + (extent % each != 0) : 1;
        return return_pieces(call, a->input, d, NULL, each, count);
    }
    int64_t sum = 0;
    bool fits = true;
    for (int i = 0; i < sizes->count; i++) {
        fits = fits && sizes->values[i] >= 0 && !__builtin_add_overflow(sum, sizes->values[i], &sum);
    }
    if (!fits || sum != extent) {
        return amp_fail(AMP_ERROR_INVALID, "split: sections %s do not add up to dimension %d of input %s",
                        amp_describe_shape(sizes->count, sizes->values), d, amp_describe(a->input));
    }
    return return_pieces(call, a->input, d, sizes->values, 0, sizes->count);
}

amp_status amp_op_unbind(amp_call *call) {
    ARGS(unbind);
    int d;
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    const int64_t count = a->input->shape[d];
    AMP_TRY(return_pieces(call, a->input, d, NULL, 1, count));
    for (int64_t i = 0; i < count; i++) { /* pieces of extent 1, whose dimension goes */
        amp_tensor *piece = call->list.items[i];
        for (int k = d; k + 1 < piece->rank; k++) {
            piece->shape[k] = piece->shape[k + 1];
            piece->strides[k] = piece->strides[k + 1];
        }
        piece->rank--;
    }
    return AMP_OK;
}

/* ---- tensor_split --------------------------------------------------------------------------------------------- */

static amp_status split_evenly(amp_call *call, amp_tensor *input, int d, int64_t sections) {
    const int64_t extent = input->shape[d];
    if (sections < 1) {
        return amp_fail(AMP_ERROR_INVALID, "tensor_split: 'sections' is %lld; it must be positive",
                        (long long)sections);
    }
    int64_t bytes;
    if (__builtin_mul_overflow(sections, (int64_t)sizeof bytes, &bytes)) bytes = INT64_MAX;
    amp_tensor *holder = amp_tensor_new(call->op->name, AMP_U8, 1, &bytes);
    if (!holder) return amp_pending_error();
    int64_t *lengths = amp_tensor_pointer(holder);
    for (int64_t i = 0; i < sections; i++) lengths[i] = extent / sections + (i < extent % sections);
    return return_pieces(call, input, d, lengths, 0, sections);
}

/* Pieces may be empty, and begin again before where the last one ended. */
static amp_status split_at(amp_call *call, amp_tensor *input, int d, const int64_t *indices, int64_t count) {
    const int64_t bytes = (count + 1) * (int64_t)sizeof(amp_tensor *), extent = input->shape[d];
    amp_tensor *holder = amp_tensor_new(call->op->name, AMP_U8, 1, &bytes);
    if (!holder) return amp_pending_error();
    amp_tensor **items = amp_tensor_pointer(holder);
    geometry g = geometry_of(input);
    int64_t start = 0;
    for (int64_t i = 0; i <= count; i++) {
        const int64_t end = i < count ? clip_bound(indices[i], extent) : extent;
        g.shape[d] = end > start ? end - start : 0;
        g.offset = input->offset + start * g.strides[d];
        items[i] = amp_tensor_view(call->op->name, input, g.rank, g.shape, g.strides, g.offset);
        if (!items[i]) return amp_pending_error();
        start = end;
    }
    return amp_call_list(call, items, count + 1);
}

amp_status amp_op_tensor_split(amp_call *call) {
    ARGS(tensor_split);
    int d;
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    return split_evenly(call, a->input, d, a->sections);
}

amp_status amp_op_tensor_split_indices(amp_call *call) {
    ARGS(tensor_split_indices);
    int d;
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    AMP_TRY(amp_check_dims(call, "indices", &a->indices));
    return split_at(call, a->input, d, a->indices.values, a->indices.count);
}

amp_status amp_op_tensor_split_tensor(amp_call *call) {
    ARGS(tensor_split_tensor);
    const amp_tensor *given = a->tensor_indices_or_sections;
    int d;
    AMP_TRY(read_dim(call, a->input, a->dim, &d));
    if (given->rank > 1 || !is_integer(given->dtype)) {
        return amp_fail(AMP_ERROR_INVALID,
                        "tensor_split: 'tensor_indices_or_sections' is %s; expected integers, a number or a vector",
                        amp_describe(given));
    }
    amp_tensor *host = amp_to_device(a->tensor_indices_or_sections, AMP_DEVICE_CPU, .dtype = AMP_I64);
    host = host ? amp_contiguous(host) : NULL;
    if (!host) return amp_pending_error();
    const int64_t *numbers = amp_tensor_pointer(host);
    return given->rank ? split_at(call, a->input, d, numbers, host->shape[0])
                       : split_evenly(call, a->input, d, *numbers);
}
