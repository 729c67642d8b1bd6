/* Ops that cut dimensions and lengthen them. */
#include <string.h>

#include "core/memory.h"
#include "onnx/ops.h"
#include "onnx/ops/compose.h"

/* ---- Slice ----------------------------------------------------------------------------------------------------- */

static int64_t clamp(int64_t i, int64_t least, int64_t most) {
    return i < least ? least : i > most ? most : i;
}

/* Backwards: the same elements forwards, then turned round. */
static amp_tensor *slice_back(amp_tensor *x, int64_t axis, int64_t start, int64_t end, int64_t step) {
    const int64_t n = x->shape[axis];
    start = clamp(start, -1, n - 1);
    end = clamp(end, -1, n - 1);
    const int64_t count = start > end ? (start - end - 1) / -step + 1 : 0;
    if (count == 0) return amp_narrow(x, axis, 0, 0);
    amp_tensor *part = amp_slice(x, .dim = axis, .start = AMP_SET(start + (count - 1) * step),
                                 .end = AMP_SET(start + 1), .step = AMP_SET(-step));
    return amp_flip(part, AMP_DIMS(axis));
}

static amp_tensor *slice(const amp_onnx_step *s, amp_tensor *x, int64_t axis, int64_t start, int64_t end,
                         int64_t step) {
    const int64_t n = x->shape[axis];
    if (step == 0) {
        (void)amp_onnx_fail(s, AMP_ERROR_INVALID, "the step of axis %lld is 0", (long long)axis);
        return NULL;
    }
    if (start < 0) start += n;
    if (end < 0) end += n;
    step = clamp(step, -n - 1, n + 1); /* further is the same */
    if (step < 0) return slice_back(x, axis, start, end, step);
    start = clamp(start, 0, n);
    end = clamp(end, start, n);
    return amp_slice(x, .dim = axis, .start = AMP_SET(start), .end = AMP_SET(end), .step = AMP_SET(step));
}

amp_status onnx_slice(amp_onnx_step *s) {
    enum { STARTS, ENDS, AXES, STEPS, LISTS };
    static const char *const names[LISTS] = {"starts", "ends", "axes", "steps"};
    int64_t lists[LISTS][AMP_MAX_RANK], counts[LISTS];
    amp_tensor *x = amp_onnx_required(s, 0);
    for (int k = 0; k < LISTS && x; k++) {
        counts[k] = amp_onnx_list(s, 1 + k, names[k], lists[k], AMP_MAX_RANK);
        if (counts[k] < 0) return amp_pending_error();
        if (counts[k] != counts[STARTS] && (k == ENDS || counts[k] > 0))
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld numbers in 'starts', but %lld in '%s'",
                                 (long long)counts[STARTS], (long long)counts[k], names[k]);
    }
    for (int64_t i = 0; x && i < counts[STARTS]; i++) {
        const int64_t axis = amp_onnx_axis(s, counts[AXES] > 0 ? lists[AXES][i] : i, x->rank);
        if (axis < 0) return amp_pending_error();
        x = slice(s, x, axis, lists[STARTS][i], lists[ENDS][i], counts[STEPS] > 0 ? lists[STEPS][i] : 1);
    }
    return amp_onnx_set(s, 0, x);
}

/* ---- Split ----------------------------------------------------------------------------------------------------- */

/* Equal parts; from opset 18 on the last may be shorter. */
static amp_status equal_parts(const amp_onnx_step *s, int64_t extent, int64_t *sizes, int count) {
    const int64_t each = count > 0 ? (extent + count - 1) / count : 0;
    if (each * count != extent && s->node->opset < 18)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "an extent of %lld has no %d equal parts", (long long)extent, count);
    for (int i = 0; i < count; i++, extent -= sizes[i - 1]) sizes[i] = each < extent ? each : extent;
    return AMP_OK;
}

amp_status onnx_split(amp_onnx_step *s) {
    int64_t sizes[AMP_ONNX_MOST_PLACES];
    amp_tensor *x = amp_onnx_required(s, 0);
    const int parts = s->node->output_count;
    const int64_t axis = x ? amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x->rank) : -1;
    const int64_t given = axis < 0 ? -1 : amp_onnx_list(s, 1, "split", sizes, AMP_ONNX_MOST_PLACES);
    if (given < 0) return amp_pending_error();
    if (given == 0) AMP_TRY(equal_parts(s, x->shape[axis], sizes, parts));
    if (given > 0 && given != parts)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld sizes of %d parts", (long long)given, parts);
    int64_t start = 0;
    for (int i = 0; i < parts; i++) {
        if (sizes[i] < 0 || sizes[i] > x->shape[axis] - start)
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "part %d of %lld from %lld on, of %s", i, (long long)sizes[i],
                                 (long long)start, amp_describe(x));
        if (amp_onnx_wants(s, i)) AMP_TRY(amp_onnx_set(s, i, amp_narrow(x, axis, start, sizes[i])));
        start += sizes[i];
    }
    if (start == x->shape[axis]) return AMP_OK;
    return amp_onnx_fail(s, AMP_ERROR_INVALID, "the parts have %lld of axis %lld of %s together", (long long)start,
                         (long long)axis, amp_describe(x));
}

/* ---- Pad ------------------------------------------------------------------------------------------------------- */

/* What is to come before and behind each dimension; negative numbers cut off. */
typedef struct padding {
    int64_t before[AMP_MAX_RANK], behind[AMP_MAX_RANK];
} padding;

static bool pads(const padding *p, int d) {
    return p->before[d] != 0 || p->behind[d] != 0;
}

/* A list has room for the pairs of the last four dimensions; another one changes places with the last. */
static amp_tensor *pad_constant(amp_tensor *x, const padding *p, amp_scalar value) {
    enum { PAIRS = AMP_MAX_RANK / 2 };
    amp_dims last = amp_onnx_dims(0, NULL);
    bool any = false;
    for (int d = x->rank - 1; d >= 0 && d >= x->rank - PAIRS; d--) {
        any = any || pads(p, d);
        last.values[last.count++] = p->before[d];
        last.values[last.count++] = p->behind[d];
    }
    const int others = x->rank - PAIRS;
    if (any) x = amp_constant_pad_nd(x, last, .value = value);
    for (int d = 0; d < others; d++) {
        if (!pads(p, d)) continue;
        x = amp_constant_pad_nd(amp_transpose(x, d, -1), AMP_DIMS(p->before[d], p->behind[d]), .value = value);
        x = amp_transpose(x, d, -1);
    }
    return x;
}

/* Where the element at i of a lengthened dimension of n comes from. */
static int64_t edge_source(int64_t i, int64_t n) {
    return clamp(i, 0, n - 1);
}
static int64_t wrap_source(int64_t i, int64_t n) {
    return (i % n + n) % n;
}
/* There and back; the ends are not repeated. */
static int64_t reflect_source(int64_t i, int64_t n) {
    const int64_t period = n > 1 ? 2 * (n - 1) : 1, at = wrap_source(i, period);
    return at < n ? at : period - at;
}

typedef int64_t (*source_of)(int64_t i, int64_t n);

static amp_tensor *pad_axis(const amp_onnx_step *s, amp_tensor *x, int axis, int64_t before, int64_t behind,
                            source_of source) {
    const int64_t n = x->shape[axis], length = n + before + behind;
    if (n == 0 && length > 0) {
        (void)amp_onnx_fail(s, AMP_ERROR_INVALID, "axis %d of %s cannot get %lld before and %lld behind", axis,
                            amp_describe(x), (long long)before, (long long)behind);
        return NULL;
    }
    int64_t *places = amp_onnx_room(s, length);
    for (int64_t i = 0; places && i < length; i++) places[i] = source(i - before, n);
    amp_tensor *y = places ? amp_index_select(x, axis, amp_onnx_vector_beside(x, places, length)) : NULL;
    amp_free(places);
    return y;
}

static amp_tensor *pad_from(const amp_onnx_step *s, amp_tensor *x, const padding *p, source_of source) {
    for (int d = 0; x && d < x->rank; d++) {
        if (pads(p, d)) x = pad_axis(s, x, d, p->before[d], p->behind[d], source);
    }
    return x;
}

/* All numbers before, then all behind, of all dimensions or of those in `axes`. */
static amp_status read_padding(const amp_onnx_step *s, const amp_tensor *x, padding *p) {
    enum { FAR = 1 << 30 }; /* sums of extents cannot overflow */
    int64_t given[2 * AMP_MAX_RANK];
    amp_dims axes;
    memset(p, 0, sizeof *p);
    AMP_TRY(amp_onnx_axes(s, 3, "", x->rank, &axes));
    const int count = axes.set ? axes.count : x->rank;
    const int64_t read = amp_onnx_list(s, 1, "pads", given, 2 * AMP_MAX_RANK);
    if (read < 0) return amp_pending_error();
    if (read != 2 * count)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld pads for %d axes of %s", (long long)read, count,
                             amp_describe(x));
    for (int i = 0; i < count; i++) {
        const int64_t axis = axes.set ? axes.values[i] : i;
        p->before[axis] = given[i];
        p->behind[axis] = given[count + i];
        if (given[i] != clamp(given[i], -FAR, FAR) || given[count + i] != clamp(given[count + i], -FAR, FAR))
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "pads of %lld and %lld", (long long)given[i],
                                 (long long)given[count + i]);
    }
    return AMP_OK;
}

static amp_status check_length(const amp_onnx_step *s, const amp_tensor *x, const padding *p) {
    amp_dims shape = amp_onnx_dims(x->rank, x->shape);
    for (int d = 0; d < x->rank; d++) {
        shape.values[d] += p->before[d] + p->behind[d];
        if (shape.values[d] < 0)
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "pads of %lld and %lld for axis %d of %s",
                                 (long long)p->before[d], (long long)p->behind[d], d, amp_describe(x));
    }
    return amp_onnx_check_made(s, x, x->rank, shape.values);
}

amp_status onnx_pad(amp_onnx_step *s) {
    static const struct {
        const char *mode;
        source_of source;
    } modes[] = {{"reflect", reflect_source}, {"edge", edge_source}, {"wrap", wrap_source}};
    amp_tensor *x = amp_onnx_required(s, 0);
    const amp_tensor *number = amp_onnx_input(s, 2);
    const char *mode = amp_onnx_text(s, "mode", "constant");
    amp_scalar value = amp_float(amp_onnx_float(s, "value", 0));
    padding p;
    if (!x) return amp_pending_error();
    AMP_TRY(read_padding(s, x, &p));
    AMP_TRY(check_length(s, x, &p));
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i].mode, mode) == 0) return amp_onnx_set(s, 0, pad_from(s, x, &p, modes[i].source));
    }
    if (strcmp(mode, "constant") != 0) return amp_onnx_fail(s, AMP_ERROR_INVALID, "there is no mode '%.40s'", mode);
    if (number) AMP_TRY(amp_onnx_read_number(s, number, &value));
    return amp_onnx_set(s, 0, pad_constant(x, &p, value));
}
