/* Tensors as text, in the form of PyTorch (torch/_tensor_str.py): widths and notation from the values that are
 * shown. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "amp/io.h"
#include "core/thread.h"
#include "io/read.h"

enum { MOST_ELEMENTS = 1000, EDGE = 3, LINE = 80, ELEMENT_ROOM = 340 }; /* -DBL_MAX has 309 digits */

/* How the real or the imaginary parts are written. */
typedef struct style {
    bool whole, scientific;
    int width;
} style;

/* The values that are shown: a dense copy on the CPU, as i64, f64 or c128. */
typedef struct corner {
    FILE *out;
    const amp_tensor *values;
    amp_dtype dtype;        /* of the tensor itself */
    bool cut[AMP_MAX_RANK]; /* between the first three and the last three there are more */
    int parts;              /* doubles in an element; 0: an integer */
    style styles[2];
} corner;

/* ---- The values -------------------------------------------------------------------------------------------------- */
/* `count` elements of a dimension. */
static amp_tensor *part(const amp_tensor *t, int dim, int64_t from, int64_t count) {
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    shape[dim] = count;
    return amp_tensor_view("print", (amp_tensor *)t, t->rank, shape, t->strides, t->offset + from * t->strides[dim]);
}

/* From `dim` on, what `to` is too small for is read from both ends. */
static amp_status read_ends(const amp_tensor *to, const amp_tensor *from, int dim) {
    while (dim < to->rank && to->shape[dim] == from->shape[dim]) dim++;
    if (dim == to->rank) return amp_read_into((amp_tensor *)to, from);
    for (int end = 0; end < 2; end++) {
        const amp_tensor *target = part(to, dim, end ? EDGE : 0, EDGE);
        const amp_tensor *source = part(from, dim, end ? from->shape[dim] - EDGE : 0, EDGE);
        if (!target || !source) return amp_pending_error();
        AMP_TRY(read_ends(target, source, dim + 1));
    }
    return AMP_OK;
}

static amp_status read_corner(corner *c, const amp_tensor *t) {
    if (!amp_tensor_shown(t)) return amp_pending_error();
    const bool floats = amp_dtype_is_floating(t->dtype), is_complex = amp_dtype_is_complex(t->dtype);
    int64_t shape[AMP_MAX_RANK];
    for (int d = 0; d < t->rank; d++) {
        c->cut[d] = amp_tensor_elements(t) > MOST_ELEMENTS && t->shape[d] > 2 * EDGE;
        shape[d] = c->cut[d] ? 2 * EDGE : t->shape[d];
    }
    c->parts = is_complex ? 2 : floats;
    amp_tensor *values = amp_tensor_new("print", is_complex ? AMP_C128 : floats ? AMP_F64 : AMP_I64, t->rank, shape);
    c->values = values;
    return values ? read_ends(values, t, 0) : amp_pending_error();
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */
static int write_float(char *text, double value, const style *s) {
    if (isnan(value)) return snprintf(text, ELEMENT_ROOM, "nan"); /* whatever its sign */
    if (s->scientific) return snprintf(text, ELEMENT_ROOM, "%.4e", value);
    if (!s->whole) return snprintf(text, ELEMENT_ROOM, "%.4f", value);
    return snprintf(text, ELEMENT_ROOM, isinf(value) ? "%.0f" : "%.0f.", value);
}

static int write_integer(char *text, int64_t value, amp_dtype dtype) {
    if (dtype == AMP_BOOL) return snprintf(text, ELEMENT_ROOM, value ? "True" : "False");
    return snprintf(text, ELEMENT_ROOM, "%" PRId64, value);
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

/* By the values that are neither 0 nor infinite: whole numbers, digits behind the point, or powers of ten. */
static style float_style(const double *values, int64_t count, int step) {
    style s = {.whole = true, .width = 1};
    double least = INFINITY, most = 0;
    char text[ELEMENT_ROOM];
    for (int64_t i = 0; i < count; i++) {
        const double v = values[i * step];
        if (v == 0 || !isfinite(v)) continue;
        least = fmin(least, fabs(v));
        most = fmax(most, fabs(v));
        s.whole = s.whole && v == ceil(v);
    }
    s.scientific = most > 0 && (most / least > 1000.0 || most > 1e8 || least < 1e-4);
    for (int64_t i = 0; i < count; i++) {
        const double v = values[i * step];
        if (v != 0 && isfinite(v)) s.width = larger(s.width, write_float(text, v, &s));
    }
    return s;
}

static style integer_style(const int64_t *values, int64_t count, amp_dtype dtype) {
    style s = {.width = 1};
    char text[ELEMENT_ROOM];
    for (int64_t i = 0; i < count; i++) s.width = larger(s.width, write_integer(text, values[i], dtype));
    return s;
}

static void choose_styles(corner *c) {
    const void *data = amp_tensor_pointer(c->values);
    const int64_t count = amp_tensor_elements(c->values);
    if (c->parts == 0) c->styles[0] = integer_style(data, count, c->dtype);
    for (int i = 0; i < c->parts; i++) c->styles[i] = float_style((const double *)data + i, count, c->parts);
}

/* An imaginary part is not padded, and has its sign. */
static void print_element(const corner *c, int64_t index) {
    const void *data = amp_tensor_pointer(c->values);
    const double *parts = (const double *)data + index * c->parts;
    char text[ELEMENT_ROOM];
    if (c->parts == 0) {
        write_integer(text, ((const int64_t *)data)[index], c->dtype);
    } else {
        write_float(text, parts[0], &c->styles[0]);
    }
    fprintf(c->out, "%*s", c->styles[0].width, text);
    if (c->parts < 2) return;
    write_float(text, parts[1], &c->styles[1]);
    fprintf(c->out, *text == '-' ? "%sj" : "+%sj", text);
}

/* ---- Brackets ---------------------------------------------------------------------------------------------------- */
/* A comma, `lines` line feeds, and what stands under the bracket. */
static void next_line(FILE *out, int lines, int indent) {
    fputc(',', out);
    for (int i = 0; i < lines; i++) fputc('\n', out);
    fprintf(out, "%*s", indent + 1, "");
}

static void print_row(const corner *c, int64_t index, int indent) {
    const int dim = c->values->rank - 1;
    const bool cut = c->cut[dim];
    const int length = c->styles[0].width + 2 + (c->parts == 2 ? c->styles[1].width + 1 : 0);
    const int64_t count = c->values->shape[dim] + cut, per_line = (LINE - indent) / length;
    fputc('[', c->out);
    for (int64_t i = 0; i < count; i++) {
        const bool gap = cut && i == EDGE;
        if (i > 0 && (per_line <= 1 || i % per_line == 0)) {
            next_line(c->out, 1, indent);
        } else if (i > 0) {
            fputs(", ", c->out);
        }
        if (gap) {
            fputs(" ...", c->out);
        } else {
            print_element(c, index + i - (cut && i > EDGE));
        }
    }
    fputc(']', c->out);
}

static void print_slices(const corner *c, int dim, int64_t index) {
    if (dim == c->values->rank - 1) {
        print_row(c, index, dim);
        return;
    }
    fputc('[', c->out);
    for (int64_t i = 0; i < c->values->shape[dim]; i++) {
        const int lines = c->values->rank - 1 - dim;
        if (i > 0) next_line(c->out, lines, dim);
        if (c->cut[dim] && i == EDGE) {
            fputs("...", c->out);
            next_line(c->out, lines, dim);
        }
        print_slices(c, dim + 1, index + i * c->values->strides[dim]);
    }
    fputc(']', c->out);
}

static void print_values(const corner *c) {
    if (amp_tensor_elements(c->values) == 0) {
        fputs("[]", c->out);
    } else if (c->values->rank == 0) {
        print_element(c, 0);
    } else {
        print_slices(c, 0, 0);
    }
}

/* ---- The text ---------------------------------------------------------------------------------------------------- */
static void print_head(FILE *out, const amp_tensor *t) {
    fprintf(out, "%s %s", amp_describe(t), amp_device_name(t->storage->device));
    if (!amp_tensor_is_dense(t)) fprintf(out, ", strides %s", amp_describe_shape(t->rank, t->strides));
    fputc('\n', out);
}

static amp_status print_live(FILE *out, const amp_tensor *t) {
    corner c = {.out = out, .dtype = t->dtype};
    amp_scope_frame frame;
    amp_scope_push(&frame);
    const amp_status status = read_corner(&c, t);
    if (status == AMP_OK) {
        print_head(out, t);
        choose_styles(&c);
        print_values(&c);
    }
    amp_scope_pop(&frame);
    return status;
}

/* The error that stood before stands again afterwards, so that one can look at the tensors around it. */
static amp_status print_in_spite_of_errors(FILE *out, const amp_tensor *t) {
    const amp_status stood = amp_last_status();
    char sentence[sizeof amp_this_thread_text()->message];
    memcpy(sentence, amp_this_thread_text()->message, sizeof sentence);
    amp_this_thread.error = AMP_OK;
    const amp_status status = print_live(out, t);
    if (stood == AMP_OK) return status;
    amp_this_thread.error = stood;
    memcpy(amp_this_thread_text()->message, sentence, sizeof sentence);
    return stood;
}

static amp_status print(FILE *out, const amp_tensor *t) {
    const char *error = amp_last_error();
    if (!t) {
        fprintf(out, "NULL%s%s", *error ? ": " : "", error);
        return amp_last_status();
    }
    if (amp_tensor_is_live(t)) return print_in_spite_of_errors(out, t);
    fputs("released", out);
    return amp_fail(AMP_ERROR_INVALID, "print: the tensor was released before");
}

char *amp_repr(const amp_tensor *tensor) {
    char *text = NULL;
    size_t size = 0;
    const amp_status stood = amp_last_status();
    FILE *out = open_memstream(&text, &size);
    const amp_status status = out ? print(out, tensor) : AMP_ERROR_MEMORY;
    const bool whole = out && fclose(out) == 0;
    if (whole && (status == AMP_OK || status == stood)) return text;
    free(text);
    if (!whole) amp_fail(AMP_ERROR_MEMORY, "print: no memory for the text");
    return NULL;
}

void amp_repr_free(char *text) {
    free(text);
}

amp_status amp_print(const amp_tensor *tensor, FILE *file) {
    if (!file) return amp_fail(AMP_ERROR_INVALID, "print: the file is NULL, expected one like stdout");
    char *text = amp_repr(tensor);
    if (!text) return amp_last_status();
    const bool written = fprintf(file, "%s\n", text) >= 0;
    amp_repr_free(text);
    return written ? amp_last_status() : amp_fail(AMP_ERROR_IO, "print: the file cannot be written");
}
