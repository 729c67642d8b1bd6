/* The JSON header of a safetensors file, and the checks that make its offsets safe to follow. */
#include "io/safetensors_header.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/tensor_impl.h"

/* The format's own limit, and small enough that a parsed header cannot exhaust memory. */
#define MAX_HEADER 100000000u

/* Types that the format has. Those without a dtype of ours can be listed, but not loaded. */
static const struct {
    const char *name;
    int bits;
    amp_dtype dtype;
} types[] = {
    {"F64", 64, AMP_F64},
    {"F32", 32, AMP_F32},
    {"F16", 16, AMP_F16},
    {"BF16", 16, AMP_BF16},
    {"I64", 64, AMP_I64},
    {"I32", 32, AMP_I32},
    {"I16", 16, AMP_I16},
    {"I8", 8, AMP_I8},
    {"U8", 8, AMP_U8},
    {"BOOL", 8, AMP_BOOL},
    {"C64", 64, AMP_C64},
    {"U64", 64, AMP_DTYPE_NONE},
    {"U32", 32, AMP_DTYPE_NONE},
    {"U16", 16, AMP_DTYPE_NONE},
    {"F8_E4M3", 8, AMP_DTYPE_NONE},
    {"F8_E5M2", 8, AMP_DTYPE_NONE},
    {"F8_E8M0", 8, AMP_DTYPE_NONE},
    {"F6_E2M3", 6, AMP_DTYPE_NONE},
    {"F6_E3M2", 6, AMP_DTYPE_NONE},
    {"F4", 4, AMP_DTYPE_NONE},
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *amp_safetensors_type_of(amp_dtype dtype) {
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (dtype != AMP_DTYPE_NONE && types[i].dtype == dtype) return types[i].name;
    }
    return NULL;
}

/* Where the entry is that is being checked, for messages. */
typedef struct place {
    const char *path;
    const char *tensor;
} place;

static amp_status fail_entry(const place *at, const char *what) {
    return amp_fail(AMP_ERROR_IO, "safetensors_open: %s: tensor '%.200s': %s", at->path, at->tensor, what);
}

/* A tensor may have more dimensions than ours; their first extents are kept, for messages. */
static amp_status parse_shape(const place *at, const json_t *list, amp_safetensors_entry *entry) {
    if (!json_is_array(list)) return fail_entry(at, "'shape' is missing, expected a list of integers");
    const size_t rank = json_array_size(list);
    for (size_t d = 0; d < rank; d++) {
        const json_t *extent = json_array_get(list, d);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0) {
            return fail_entry(at, "'shape' has an extent that is not an integer from 0 to 2^63-1");
        }
        if (d < AMP_MAX_RANK) entry->shape[d] = json_integer_value(extent);
    }
    entry->rank = (int)rank; /* a header has fewer than 2^27 bytes */
    return AMP_OK;
}

static amp_status parse_offsets(const place *at, const json_t *list, uint64_t data_start, uint64_t data_bytes,
                                amp_safetensors_entry *entry) {
    const json_t *begin = json_array_get(list, 0), *end = json_array_get(list, 1);
    if (json_array_size(list) != 2 || !json_is_integer(begin) || !json_is_integer(end)) {
        return fail_entry(at, "'data_offsets' is not [begin, end], two integers");
    }
    const json_int_t first = json_integer_value(begin), last = json_integer_value(end);
    if (first < 0 || last < first || (uint64_t)last > data_bytes) {
        return amp_fail(AMP_ERROR_IO,
                        "safetensors_open: %s: tensor '%.200s' has data_offsets [%lld, %lld], expected "
                        "0 <= begin <= end <= %llu, the bytes of data in the file",
                        at->path, at->tensor, (long long)first, (long long)last, (unsigned long long)data_bytes);
    }
    entry->begin = data_start + (uint64_t)first;
    entry->end = data_start + (uint64_t)last;
    return AMP_OK;
}

/* The bytes between the offsets must be those of the shape. */
static amp_status check_product(const place *at, const json_t *list, const amp_safetensors_entry *entry, int bits) {
    int64_t product = bits;
    bool empty = false, overflow = false;
    for (size_t d = 0; d < json_array_size(list); d++) {
        const int64_t extent = json_integer_value(json_array_get(list, d));
        if (extent == 0)
            empty = true;
        else
            overflow |= __builtin_mul_overflow(product, extent, &product);
    }
    const char *shape = amp_describe_shape(entry->rank, entry->shape);
    if (overflow) {
        return amp_fail(AMP_ERROR_IO,
                        "safetensors_open: %s: tensor '%.200s' has shape %s, whose size is above 2^63 bits", at->path,
                        at->tensor, shape);
    }
    const uint64_t expected = empty ? 0 : ((uint64_t)product + 7) / 8;
    if ((empty || product % 8 == 0) && entry->end - entry->begin == expected) return AMP_OK;
    return amp_fail(
        AMP_ERROR_IO, "safetensors_open: %s: tensor '%.200s' has %llu bytes of data, expected %llu for %s %s", at->path,
        at->tensor, (unsigned long long)(entry->end - entry->begin), (unsigned long long)expected, shape, entry->type);
}

static amp_status parse_entry(const place *at, const json_t *object, uint64_t data_start, uint64_t data_bytes,
                              amp_safetensors_entry *entry) {
    if (!json_is_object(object)) return fail_entry(at, "expected an object with dtype, shape and data_offsets");
    const char *type = json_string_value(json_object_get(object, "dtype"));
    if (!type) return fail_entry(at, "'dtype' is missing, expected a string");
    int row = 0;
    while (row < TYPE_COUNT && strcmp(types[row].name, type) != 0) row++;
    entry->name = at->tensor;
    entry->type = type;
    entry->dtype = row < TYPE_COUNT ? types[row].dtype : AMP_DTYPE_NONE;
    const json_t *shape = json_object_get(object, "shape");
    AMP_TRY(parse_shape(at, shape, entry));
    AMP_TRY(parse_offsets(at, json_object_get(object, "data_offsets"), data_start, data_bytes, entry));
    /* a type from the future has a size that we cannot know: its bytes are only checked against its neighbours */
    return row < TYPE_COUNT ? check_product(at, shape, entry, types[row].bits) : AMP_OK;
}

static amp_status parse_metadata(const char *path, const json_t *object, amp_safetensors_header *header) {
    const char *key;
    json_t *value;
    if (!object || json_is_null(object)) return AMP_OK;
    if (!json_is_object(object)) {
        return amp_fail(AMP_ERROR_IO, "safetensors_open: %s: '__metadata__' is not an object of strings", path);
    }
    header->metadata = amp_alloc(json_object_size(object) * sizeof *header->metadata);
    if (!header->metadata) return amp_fail(AMP_ERROR_MEMORY, "safetensors_open: %s: no memory for the metadata", path);
    json_object_foreach((json_t *)object, key, value) {
        if (!json_is_string(value)) {
            return amp_fail(AMP_ERROR_IO, "safetensors_open: %s: metadata '%.200s' is not a string", path, key);
        }
        header->metadata[header->metadata_count++] = (amp_safetensors_pair){key, json_string_value(value)};
    }
    return AMP_OK;
}

static int compare_begin(const void *a, const void *b) {
    const amp_safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1; /* empty ones before what begins there */
    return strcmp(x->name, y->name);
}

/* In data order, each must begin where the one before ended: no overlap, no hole, nothing left over. */
static amp_status check_cover(const char *path, const amp_safetensors_header *header, uint64_t data_start,
                              uint64_t data_bytes) {
    uint64_t at = data_start;
    for (int64_t i = 0; i < header->count; i++) {
        const amp_safetensors_entry *entry = &header->entries[i];
        if (entry->begin != at) {
            return amp_fail(AMP_ERROR_IO,
                            "safetensors_open: %s: tensor '%.200s' begins at byte %llu of the data, expected "
                            "%llu: %s",
                            path, entry->name, (unsigned long long)(entry->begin - data_start),
                            (unsigned long long)(at - data_start),
                            entry->begin < at ? "it overlaps the tensor before it" : "there is a hole before it");
        }
        at = entry->end;
    }
    if (at == data_start + data_bytes) return AMP_OK;
    return amp_fail(AMP_ERROR_IO,
                    "safetensors_open: %s has %llu bytes of data, expected %llu: some belong to no tensor", path,
                    (unsigned long long)data_bytes, (unsigned long long)(at - data_start));
}

static int compare_name(const void *a, const void *b) {
    return strcmp((*(const amp_safetensors_entry *const *)a)->name, (*(const amp_safetensors_entry *const *)b)->name);
}

static amp_status parse_entries(const char *path, uint64_t data_start, uint64_t data_bytes,
                                amp_safetensors_header *header) {
    const json_t *root = header->document;
    const char *name;
    json_t *value;
    header->entries = amp_alloc(json_object_size(root) * sizeof *header->entries);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what it holds
    header->by_name = amp_alloc(json_object_size(root) * sizeof *header->by_name);
    if (!header->entries || !header->by_name) {
        return amp_fail(AMP_ERROR_MEMORY, "safetensors_open: %s: no memory for %zu tensors", path,
                        json_object_size(root));
    }
    json_object_foreach(header->document, name, value) {
        if (strcmp(name, "__metadata__") == 0) continue;
        const place at = {path, name};
        AMP_TRY(parse_entry(&at, value, data_start, data_bytes, &header->entries[header->count]));
        header->count++;
    }
    qsort(header->entries, (size_t)header->count, sizeof *header->entries, compare_begin);
    for (int64_t i = 0; i < header->count; i++) header->by_name[i] = &header->entries[i];
    // NOLINTNEXTLINE(bugprone-sizeof-expression)
    qsort(header->by_name, (size_t)header->count, sizeof *header->by_name, compare_name);
    return check_cover(path, header, data_start, data_bytes);
}

static amp_status parse_json(const char *path, const unsigned char *text, size_t bytes, json_t **document) {
    json_error_t error;
    if (bytes == 0 || text[0] != '{') {
        return amp_fail(AMP_ERROR_IO,
                        "safetensors_open: %s is not a safetensors file: its header does not begin with '{'", path);
    }
    *document = json_loadb((const char *)text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (*document) return AMP_OK;
    if (json_error_code(&error) == json_error_out_of_memory) {
        return amp_fail(AMP_ERROR_MEMORY, "safetensors_open: %s: no memory for a header of %zu bytes", path, bytes);
    }
    for (char *c = error.text; *c; c++) { /* the text quotes the file */
        if ((unsigned char)*c < 0x20) *c = ' ';
    }
    return amp_fail(AMP_ERROR_IO, "safetensors_open: %s: malformed JSON header at byte %d: %s", path, error.position,
                    error.text);
}

amp_status amp_safetensors_parse(const char *path, const unsigned char *data, size_t bytes,
                                 amp_safetensors_header *header) {
    *header = (amp_safetensors_header){0};
    if (bytes < 8) {
        return amp_fail(AMP_ERROR_IO, "safetensors_open: %s has %zu bytes, expected at least 8 for the header's length",
                        path, bytes);
    }
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | data[i];
    if ((length > bytes - 8 || length > MAX_HEADER) && (bytes == 8 || data[8] != '{')) {
        return amp_fail(AMP_ERROR_IO, "safetensors_open: %s is not a safetensors file%s", path,
                        memcmp(data, "\x93NUMPY", 6) == 0 ? ", but an .npy file: amp_load_npy reads it" : "");
    }
    if (length > bytes - 8 || length > MAX_HEADER) {
        return amp_fail(AMP_ERROR_IO, "safetensors_open: %s says that its header has %llu bytes, expected at most %llu",
                        path, (unsigned long long)length,
                        (unsigned long long)(bytes - 8 < MAX_HEADER ? bytes - 8 : MAX_HEADER));
    }
    json_t *document = NULL;
    AMP_TRY(parse_json(path, data + 8, (size_t)length, &document));
    header->document = document;
    amp_status status = parse_metadata(path, json_object_get(document, "__metadata__"), header);
    if (status == AMP_OK) status = parse_entries(path, 8 + length, bytes - 8 - length, header);
    if (status != AMP_OK) amp_safetensors_header_free(header);
    return status;
}

void amp_safetensors_header_free(amp_safetensors_header *header) {
    json_decref(header->document);
    amp_free(header->entries);
    amp_free(header->by_name);
    amp_free(header->metadata);
    *header = (amp_safetensors_header){0};
}

const amp_safetensors_entry *amp_safetensors_find(const amp_safetensors_header *header, const char *name) {
    int64_t low = 0, high = header->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(header->by_name[middle]->name, name);
        if (order == 0) return header->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
