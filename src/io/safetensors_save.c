/* Writing safetensors files: under another name first, so that a reader never sees half of one. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/io.h"
#include "core/memory.h"
#include "io/file_map.h"
#include "io/safetensors_header.h"

/* One tensor to write. */
typedef struct item {
    const char *name;
    const amp_tensor *tensor;
    int64_t place; /* in the caller's list */
} item;

static amp_status check_name(const char *path, const char *name, int64_t index) {
    if (!name) {
        return amp_fail(AMP_ERROR_INVALID, "save_safetensors: %s: names[%lld] is NULL", path, (long long)index);
    }
    if (strcmp(name, "__metadata__") == 0) {
        return amp_fail(AMP_ERROR_INVALID, "save_safetensors: %s: a tensor cannot be called '__metadata__'", path);
    }
    return AMP_OK;
}

static amp_status collect_items(const char *path, const char *const *names, amp_tensor *const *tensors, int64_t count,
                                item *items) {
    for (int64_t i = 0; i < count; i++) {
        char argument[48];
        snprintf(argument, sizeof argument, "tensors[%lld]", (long long)i);
        AMP_TRY(check_name(path, names[i], i));
        AMP_TRY(amp_io_check_tensor("save_safetensors", argument, tensors[i]));
        if (!amp_safetensors_type_of(tensors[i]->dtype)) {
            return amp_fail(AMP_ERROR_DTYPE,
                            "save_safetensors: %s: tensor '%.200s' is %s, which the format does not have: "
                            "use amp_save_npy",
                            path, names[i], amp_describe(tensors[i]));
        }
        items[i] = (item){names[i], tensors[i], i};
    }
    return AMP_OK;
}

/* Large elements first: the format allows no padding between tensors, so this order is what aligns every one. */
static int compare_size(const void *a, const void *b) {
    const item *x = a, *y = b;
    const size_t x_size = amp_dtype_size(x->tensor->dtype), y_size = amp_dtype_size(y->tensor->dtype);
    if (x_size != y_size) return x_size > y_size ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static amp_status fail_json(const char *path, const char *what, const char *text) {
    return amp_fail(AMP_ERROR_INVALID, "save_safetensors: %s: %s '%.200s' is given twice, or is no UTF-8", path, what,
                    text);
}

static json_t *describe_item(const item *it, uint64_t *offset) {
    json_t *shape = json_array();
    const uint64_t begin = *offset;
    uint64_t bytes = amp_dtype_size(it->tensor->dtype);
    for (int d = 0; d < it->tensor->rank; d++) {
        json_array_append_new(shape, json_integer(it->tensor->shape[d]));
        bytes *= (uint64_t)it->tensor->shape[d];
    }
    *offset = begin + bytes;
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", amp_safetensors_type_of(it->tensor->dtype), "shape",
                              shape, "data_offsets", (json_int_t)begin, (json_int_t)*offset);
    return entry;
}

static amp_status add_metadata(const char *path, json_t *root, const char *const *metadata) {
    json_t *object = json_object();
    if (json_object_set_new(root, "__metadata__", object) != 0) {
        return amp_fail(AMP_ERROR_MEMORY, "save_safetensors: %s: no memory for the header", path);
    }
    for (; metadata[0]; metadata += 2) {
        if (!metadata[1]) {
            return amp_fail(AMP_ERROR_INVALID, "save_safetensors: %s: metadata '%.200s' has no value", path,
                            metadata[0]);
        }
        if (json_object_get(object, metadata[0]) ||
            json_object_set_new(object, metadata[0], json_string(metadata[1])) != 0) {
            return fail_json(path, "metadata", metadata[0]);
        }
    }
    return AMP_OK;
}

static amp_status fill_header(const char *path, json_t *root, const item *items, int64_t count,
                              const char *const *metadata) {
    uint64_t offset = 0;
    if (metadata && metadata[0]) AMP_TRY(add_metadata(path, root, metadata));
    for (int64_t i = 0; i < count; i++) {
        json_t *entry = describe_item(&items[i], &offset);
        if (!entry) return amp_fail(AMP_ERROR_MEMORY, "save_safetensors: %s: no memory for the header", path);
        if (json_object_get(root, items[i].name)) {
            json_decref(entry);
            return fail_json(path, "name", items[i].name);
        }
        if (json_object_set_new(root, items[i].name, entry) != 0) return fail_json(path, "name", items[i].name);
    }
    return AMP_OK;
}

/* Length, text, and spaces up to a multiple of 64, where the data then begins. */
static amp_status write_header(amp_file_writer *writer, const char *text) {
    static const char spaces[64] = "                                                                ";
    const size_t length = strlen(text), padded = (length + 8 + 63) / 64 * 64 - 8;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    AMP_TRY(amp_file_write(writer, prefix, sizeof prefix));
    AMP_TRY(amp_file_write(writer, text, length));
    return amp_file_write(writer, spaces, padded - length);
}

static amp_status write_file(const char *path, const char *text, const item *items, int64_t count) {
    amp_file_writer writer;
    amp_status status = amp_file_create(&writer, "save_safetensors", path);
    if (status == AMP_OK) status = write_header(&writer, text);
    for (int64_t i = 0; i < count && status == AMP_OK; i++) status = amp_file_write_tensor(&writer, items[i].tensor);
    if (status == AMP_OK) status = amp_file_commit(&writer);
    amp_file_abandon(&writer);
    return status;
}

static amp_status save_items(const char *path, const item *items, int64_t count, const char *const *metadata) {
    json_t *root = json_object();
    amp_status status = root ? fill_header(path, root, items, count, metadata) : AMP_OK;
    char *text = root && status == AMP_OK ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (status != AMP_OK) return status;
    if (!text) return amp_fail(AMP_ERROR_MEMORY, "save_safetensors: %s: no memory for the header", path);
    status = write_file(path, text, items, count);
    free(text); /* jansson's, not ours */
    return status;
}

amp_status amp_save_safetensors(const char *path, const char *const *names, amp_tensor *const *tensors, int64_t count,
                                const char *const *metadata) {
    AMP_TRY(amp_pending_error());
    if (!path || count < 0 || (count > 0 && (!names || !tensors))) {
        return amp_fail(AMP_ERROR_INVALID, "save_safetensors: %s",
                        !path       ? "path is NULL"
                        : count < 0 ? "count is negative"
                        : !names    ? "names is NULL"
                                    : "tensors is NULL");
    }
    size_t bytes;
    item *items = __builtin_mul_overflow(count, sizeof *items, &bytes) ? NULL : amp_alloc(bytes);
    if (!items)
        return amp_fail(AMP_ERROR_MEMORY, "save_safetensors: %s: no memory for %lld tensors", path, (long long)count);
    amp_status status = collect_items(path, names, tensors, count, items);
    if (status == AMP_OK) {
        qsort(items, (size_t)count, sizeof *items, compare_size);
        status = save_items(path, items, count, metadata);
    }
    amp_free(items);
    return status;
}
