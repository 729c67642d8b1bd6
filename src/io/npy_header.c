/* The header of an .npy file: a Python dictionary of which exactly three keys are understood. */
#include "io/npy_header.h"

#include <stdio.h>
#include <string.h>

#include "core/tensor_impl.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    char kind;
    int size;
    amp_dtype dtype;
    amp_npy_widen widen;
    int swap_size;
} npy_types[] = {
    {'f', 8, AMP_F64, AMP_NPY_SAME, 8},       {'f', 4, AMP_F32, AMP_NPY_SAME, 4},
    {'f', 2, AMP_F16, AMP_NPY_SAME, 2},       {'i', 8, AMP_I64, AMP_NPY_SAME, 8},
    {'i', 4, AMP_I32, AMP_NPY_SAME, 4},       {'i', 2, AMP_I16, AMP_NPY_SAME, 2},
    {'i', 1, AMP_I8, AMP_NPY_SAME, 0},        {'u', 1, AMP_U8, AMP_NPY_SAME, 0},
    {'b', 1, AMP_BOOL, AMP_NPY_SAME, 0},      {'c', 8, AMP_C64, AMP_NPY_SAME, 4},
    {'c', 16, AMP_C128, AMP_NPY_SAME, 8},     {'u', 2, AMP_I32, AMP_NPY_U16_TO_I32, 2},
    {'u', 4, AMP_I64, AMP_NPY_U32_TO_I64, 4}, {'u', 8, AMP_I64, AMP_NPY_U64_TO_I64, 8},
};

amp_status amp_npy_parse_prefix(const char *path, const unsigned char *bytes, size_t count, size_t *text_offset,
                                size_t *text_bytes) {
    if (count < 10 || memcmp(bytes, magic, sizeof magic) != 0) {
        return amp_fail(AMP_ERROR_IO, "load_npy: %s is not a .npy file: it does not begin with \\x93NUMPY", path);
    }
    const int major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0) {
        return amp_fail(AMP_ERROR_IO, "load_npy: %s has format version %d.%d, expected 1.0, 2.0 or 3.0", path, major,
                        minor);
    }
    *text_offset = major == 1 ? 10 : 12;
    if (count < *text_offset) return amp_fail(AMP_ERROR_IO, "load_npy: %s ends inside its header's length", path);
    *text_bytes = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (major > 1) *text_bytes |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (*text_bytes > AMP_NPY_MAX_HEADER) {
        return amp_fail(AMP_ERROR_IO, "load_npy: %s says that its header has %zu bytes, expected at most %d", path,
                        *text_bytes, AMP_NPY_MAX_HEADER);
    }
    return AMP_OK;
}

/* ---- The text: one Python dict literal of str, bool and tuple of int ---- */

typedef struct parser {
    const char *path;
    const char *at, *end;
} parser;

enum { SEEN_DESCR = 1, SEEN_ORDER = 2, SEEN_SHAPE = 4 };

static amp_status fail_syntax(const parser *p, const char *expected) {
    char seen[24] = "the end";
    if (p->at < p->end) {
        const unsigned char c = (unsigned char)*p->at;
        snprintf(seen, sizeof seen, c >= 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
    }
    return amp_fail(AMP_ERROR_IO, "load_npy: %s: malformed header: expected %s, got %s", p->path, expected, seen);
}

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r')) p->at++;
}

static bool accept(parser *p, char c) {
    skip_space(p);
    if (p->at >= p->end || *p->at != c) return false;
    p->at++;
    return true;
}

static bool accept_word(parser *p, const char *word) {
    const size_t length = strlen(word);
    skip_space(p);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, word, length) != 0) return false;
    p->at += length;
    return true;
}

/* A string without escapes: neither a key nor a type needs one. */
static amp_status parse_string(parser *p, const char *what, char *to, size_t room) {
    skip_space(p);
    if (p->at >= p->end || (*p->at != '\'' && *p->at != '"')) return fail_syntax(p, what);
    const char quote = *p->at++;
    size_t length = 0;
    while (p->at < p->end && *p->at != quote) {
        if (*p->at < 0x20 || *p->at == '\\' || *p->at == 0x7f) return fail_syntax(p, "plain text inside quotes");
        if (length + 1 >= room) return fail_syntax(p, "the end of the quoted text");
        to[length++] = *p->at++;
    }
    to[length] = '\0';
    if (p->at >= p->end) return fail_syntax(p, "a closing quote");
    p->at++;
    return AMP_OK;
}

static amp_status parse_extent(parser *p, int64_t *extent) {
    skip_space(p);
    if (p->at >= p->end || *p->at < '0' || *p->at > '9') return fail_syntax(p, "an extent of the shape");
    int64_t value = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p->at - '0', &value)) {
            return amp_fail(AMP_ERROR_IO, "load_npy: %s: malformed header: an extent of the shape is above 2^63-1",
                            p->path);
        }
    }
    if (p->at < p->end && *p->at == 'L') p->at++; /* Python 2 wrote longs so */
    *extent = value;
    return AMP_OK;
}

static amp_status parse_shape(parser *p, amp_npy_header *header) {
    if (!accept(p, '(')) return fail_syntax(p, "the shape, a tuple");
    header->rank = 0;
    while (!accept(p, ')')) {
        int64_t extent = 0;
        AMP_TRY(parse_extent(p, &extent));
        if (header->rank == AMP_MAX_RANK) {
            return amp_fail(AMP_ERROR_IO,
                            "load_npy: %s has more than %d dimensions, which is the most that a tensor has", p->path,
                            AMP_MAX_RANK);
        }
        header->shape[header->rank++] = extent;
        if (accept(p, ',')) continue;
        if (header->rank == 1) return fail_syntax(p, "',' after the only extent"); /* (3) is no tuple */
        if (!accept(p, ')')) return fail_syntax(p, "',' or ')' in the shape");
        break;
    }
    return AMP_OK;
}

static amp_status parse_type(parser *p, amp_npy_header *header) {
    char text[32];
    skip_space(p);
    if (p->at < p->end && (*p->at == '[' || *p->at == '(')) {
        return amp_fail(AMP_ERROR_IO, "load_npy: %s holds a structured array, expected one plain number type", p->path);
    }
    AMP_TRY(parse_string(p, "the element type", text, sizeof text));
    const char order = text[0];
    const bool ordered = order == '<' || order == '>' || order == '|' || order == '=';
    const char *name = ordered ? text + 1 : text;
    int size = 0, used = 0;
    if (name[0] == 'O') {
        return amp_fail(AMP_ERROR_IO, "load_npy: %s holds pickled Python objects (dtype '%s'), which are never loaded",
                        p->path, text);
    }
    if (name[0] == '?' && name[1] == '\0') name = "b1";
    if (name[0] != '\0' && name[1] >= '0' && name[1] <= '9' && sscanf(name + 1, "%3d%n", &size, &used) == 1 &&
        name[1 + used] == '\0') {
        for (size_t i = 0; i < sizeof npy_types / sizeof npy_types[0]; i++) {
            if (npy_types[i].kind != name[0] || npy_types[i].size != size) continue;
            header->dtype = npy_types[i].dtype;
            header->widen = npy_types[i].widen;
            header->stored_size = size;
            header->swap_size = order == '>' ? npy_types[i].swap_size : 0;
            return AMP_OK;
        }
    }
    if (name[0] == 'V' && size == 2) {
        return amp_fail(AMP_ERROR_IO,
                        "load_npy: %s has dtype '%s', two bytes without a meaning (bf16, perhaps): expected "
                        "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16; bf16 fits into safetensors",
                        p->path, text);
    }
    return amp_fail(AMP_ERROR_IO, "load_npy: %s has dtype '%s', expected f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16",
                    p->path, text);
}

static amp_status parse_entry(parser *p, amp_npy_header *header, unsigned *seen) {
    char key[32];
    AMP_TRY(parse_string(p, "a key", key, sizeof key));
    if (!accept(p, ':')) return fail_syntax(p, "':' after a key");
    const unsigned bit = !strcmp(key, "descr")           ? SEEN_DESCR
                         : !strcmp(key, "fortran_order") ? SEEN_ORDER
                         : !strcmp(key, "shape")         ? SEEN_SHAPE
                                                         : 0;
    if (!bit) return amp_fail(AMP_ERROR_IO, "load_npy: %s: malformed header: unknown key '%s'", p->path, key);
    if (*seen & bit) return amp_fail(AMP_ERROR_IO, "load_npy: %s: malformed header: '%s' is given twice", p->path, key);
    *seen |= bit;
    if (bit == SEEN_DESCR) return parse_type(p, header);
    if (bit == SEEN_SHAPE) return parse_shape(p, header);
    header->fortran_order = accept_word(p, "True");
    return header->fortran_order || accept_word(p, "False") ? AMP_OK : fail_syntax(p, "True or False");
}

static amp_status check_size(const char *path, uint64_t file_bytes, amp_npy_header *header) {
    int64_t bytes;
    header->elements = 1;
    bool empty = false, overflow = false;
    for (int d = 0; d < header->rank; d++) {
        if (header->shape[d] == 0)
            empty = true;
        else
            overflow |= __builtin_mul_overflow(header->elements, header->shape[d], &header->elements);
    }
    /* 16 bytes are the largest element: what passes here overflows nowhere later, widened or not */
    if (overflow || __builtin_mul_overflow(header->elements, 16, &bytes)) {
        return amp_fail(AMP_ERROR_IO, "load_npy: %s: shape %s is too large: its size in bytes is above 2^63-1", path,
                        amp_describe_shape(header->rank, header->shape));
    }
    if (empty) header->elements = 0;
    const uint64_t expected = (uint64_t)header->elements * (uint64_t)header->stored_size;
    const uint64_t present = file_bytes - header->data_offset;
    if (present == expected) return AMP_OK;
    return amp_fail(AMP_ERROR_IO, "load_npy: %s holds %llu bytes of data, expected %llu for %s in %d-byte elements%s",
                    path, (unsigned long long)present, (unsigned long long)expected,
                    amp_describe_shape(header->rank, header->shape), header->stored_size,
                    present < expected ? " (the file is truncated)"
                                       : " (more than one array in a file is not supported)");
}

amp_status amp_npy_parse_header(const char *path, const char *text, size_t text_bytes, size_t text_offset,
                                uint64_t file_bytes, amp_npy_header *header) {
    parser p = {path, text, text + text_bytes};
    unsigned seen = 0;
    *header = (amp_npy_header){.data_offset = text_offset + text_bytes};
    if (!accept(&p, '{')) return fail_syntax(&p, "'{'");
    while (!accept(&p, '}')) {
        AMP_TRY(parse_entry(&p, header, &seen));
        if (accept(&p, ',')) continue;
        if (!accept(&p, '}')) return fail_syntax(&p, "',' or '}'");
        break;
    }
    skip_space(&p);
    if (p.at < p.end) return fail_syntax(&p, "nothing after the header's '}'");
    if (seen != (SEEN_DESCR | SEEN_ORDER | SEEN_SHAPE)) {
        return amp_fail(AMP_ERROR_IO, "load_npy: %s: malformed header: '%s' is missing", path,
                        !(seen & SEEN_DESCR)   ? "descr"
                        : !(seen & SEEN_ORDER) ? "fortran_order"
                                               : "shape");
    }
    return check_size(path, file_bytes, header);
}

static const char *npy_type_of(amp_dtype dtype) {
    switch (dtype) {
    case AMP_F64: return "<f8";
    case AMP_F32: return "<f4";
    case AMP_F16: return "<f2";
    case AMP_I64: return "<i8";
    case AMP_I32: return "<i4";
    case AMP_I16: return "<i2";
    case AMP_I8: return "|i1";
    case AMP_U8: return "|u1";
    case AMP_BOOL: return "|b1";
    case AMP_C64: return "<c8";
    case AMP_C128: return "<c16";
    default: return NULL;
    }
}

size_t amp_npy_format_header(amp_dtype dtype, int rank, const int64_t *shape, char *to) {
    const char *type = npy_type_of(dtype);
    if (!type) return 0;
    memcpy(to, magic, sizeof magic);
    to[6] = 1;
    to[7] = 0;
    size_t used = 10;
    used += (size_t)sprintf(to + used, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int d = 0; d < rank; d++) {
        used += (size_t)sprintf(to + used, rank == 1 ? "%lld," : d ? ", %lld" : "%lld", (long long)shape[d]);
    }
    used += (size_t)sprintf(to + used, "), }");
    while ((used + 1) % 64) to[used++] = ' ';
    to[used++] = '\n';
    to[8] = (char)((used - 10) & 0xff);
    to[9] = (char)((used - 10) >> 8);
    return used;
}
