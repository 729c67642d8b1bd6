/* safetensors files: mapped, each tensor lent from the mapping. */
#include <string.h>

#include "amp/io.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/near_name.h"
#include "core/thread.h"
#include "io/file_map.h"
#include "io/safetensors_header.h"

struct amp_safetensors {
    amp_file_map *map;
    char *path;
    amp_safetensors_header header;
    /* Tensors of the entries asked for so far, made once: everyone who asks for a name gets the same storage, so that
     * its casts are cached once. */
    amp_tensor **tensors;
};

static amp_safetensors *new_file(const char *path) {
    amp_safetensors *file = amp_alloc_zeroed(sizeof *file);
    char *copy = amp_alloc(strlen(path) + 1);
    if (!file || !copy) {
        amp_fail(AMP_ERROR_MEMORY, "safetensors_open: %s: no memory for the file's bookkeeping", path);
        amp_free(file);
        amp_free(copy);
        return NULL;
    }
    file->path = strcpy(copy, path);
    return file;
}

amp_safetensors *amp_safetensors_open(const char *path) {
    if (amp_failed()) return NULL;
    amp_file_map *map = amp_file_map_open("safetensors_open", path);
    if (!map) return NULL;
    amp_safetensors *file = new_file(path);
    if (!file) {
        amp_file_map_release(map);
        return NULL;
    }
    file->map = map;
    if (amp_safetensors_parse(path, amp_file_map_data(map), amp_file_map_bytes(map), &file->header) == AMP_OK) {
        // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are what it holds
        file->tensors = amp_alloc_zeroed((size_t)file->header.count * sizeof *file->tensors);
        if (file->tensors) return file;
        amp_fail(AMP_ERROR_MEMORY, "safetensors_open: %s: no memory for %lld tensors", path,
                 (long long)file->header.count);
    }
    amp_safetensors_close(file);
    return NULL;
}

void amp_safetensors_close(amp_safetensors *file) {
    if (!file) return;
    for (int64_t i = 0; file->tensors && i < file->header.count; i++) {
        if (file->tensors[i]) amp_tensor_drop(file->tensors[i]);
    }
    amp_free(file->tensors);
    amp_safetensors_header_free(&file->header);
    amp_file_map_release(file->map);
    amp_free(file->path);
    amp_free(file);
}

int64_t amp_safetensors_count(const amp_safetensors *file) {
    return file ? file->header.count : 0;
}

const char *amp_safetensors_name(const amp_safetensors *file, int64_t index) {
    return index >= 0 && index < amp_safetensors_count(file) ? file->header.entries[index].name : NULL;
}

int64_t amp_safetensors_metadata_count(const amp_safetensors *file) {
    return file ? file->header.metadata_count : 0;
}

const char *amp_safetensors_metadata_key(const amp_safetensors *file, int64_t index) {
    return index >= 0 && index < amp_safetensors_metadata_count(file) ? file->header.metadata[index].key : NULL;
}

const char *amp_safetensors_metadata_value(const amp_safetensors *file, int64_t index) {
    return index >= 0 && index < amp_safetensors_metadata_count(file) ? file->header.metadata[index].value : NULL;
}

const char *amp_safetensors_metadata(const amp_safetensors *file, const char *key) {
    for (int64_t i = 0; key && i < amp_safetensors_metadata_count(file); i++) {
        if (strcmp(file->header.metadata[i].key, key) == 0) return file->header.metadata[i].value;
    }
    return NULL;
}

/* ---- Tensors ---- */

static void fail_unknown_name(const amp_safetensors *file, const char *name) {
    amp_near_name near = {.wanted = name};
    for (int64_t i = 0; i < file->header.count; i++) amp_near_name_offer(&near, file->header.entries[i].name);
    amp_fail(AMP_ERROR_INVALID, "safetensors_get: %s has no tensor '%.200s' among its %lld%s", file->path, name,
             (long long)file->header.count, amp_near_name_hint(near.nearest));
}

static void release_map(void *map) {
    amp_file_map_release(map);
}

/* Bytes that the element's alignment asks for: of one part, for complex ones. */
static size_t alignment_of(amp_dtype dtype) {
    return amp_dtype_is_complex(dtype) ? amp_dtype_size(dtype) / 2 : amp_dtype_size(dtype);
}

/* A file may hold any byte as a bool; kernels rely on 0 or 1. Only pages with other bytes become private copies. */
static void normalise_bools(unsigned char *data, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (data[i] > 1) data[i] = 1;
    }
}

/* The tensor that the file keeps for an entry, outside of every scope. */
static amp_tensor *make_tensor(amp_safetensors *file, const amp_safetensors_entry *entry) {
    unsigned char *data = amp_file_map_data(file->map) + entry->begin;
    amp_tensor *tensor;
    if (entry->dtype == AMP_BOOL) normalise_bools(data, entry->end - entry->begin);
    if ((uintptr_t)data % alignment_of(entry->dtype) == 0 && entry->end > entry->begin) {
        amp_file_map_retain(file->map);
        tensor = amp_from_memory(data, entry->dtype, entry->rank, entry->shape, NULL, release_map, file->map);
        if (!tensor) amp_file_map_release(file->map);
    } else {
        tensor = amp_tensor_new("safetensors_get", entry->dtype, entry->rank, entry->shape);
        if (tensor && entry->end > entry->begin) memcpy(amp_tensor_pointer(tensor), data, entry->end - entry->begin);
    }
    if (tensor) {
        tensor->storage->user_memory = false; /* nobody else has the mapping */
        amp_scope_move(tensor, NULL);
    }
    return tensor;
}

amp_tensor *amp_safetensors_get(amp_safetensors *file, const char *name) {
    if (amp_failed()) return NULL;
    if (!file || !name) {
        amp_fail(AMP_ERROR_INVALID, "safetensors_get: %s is NULL", file ? "name" : "file");
        return NULL;
    }
    const amp_safetensors_entry *entry = amp_safetensors_find(&file->header, name);
    if (!entry) {
        fail_unknown_name(file, name);
        return NULL;
    }
    if (entry->dtype == AMP_DTYPE_NONE) {
        amp_fail(AMP_ERROR_DTYPE, "safetensors_get: %s: tensor '%.200s' has dtype %.40s, which libamp does not have",
                 file->path, name, entry->type);
        return NULL;
    }
    if (entry->rank > AMP_MAX_RANK) {
        amp_fail(AMP_ERROR_INVALID, "safetensors_get: %s: tensor '%.200s' has %d dimensions, expected at most %d",
                 file->path, name, entry->rank, AMP_MAX_RANK);
        return NULL;
    }
    amp_tensor **slot = &file->tensors[entry - file->header.entries];
    amp_lock(AMP_LOCK_SAFETENSORS);
    if (!*slot) *slot = make_tensor(file, entry);
    amp_tensor *whole = *slot;
    amp_unlock(AMP_LOCK_SAFETENSORS);
    if (!whole) return NULL;
    int64_t strides[AMP_MAX_RANK];
    amp_dense_strides(entry->rank, entry->shape, strides);
    amp_tensor *tensor = amp_tensor_view("safetensors_get", whole, entry->rank, entry->shape, strides, 0);
    if (!tensor) return NULL;
    tensor->is_view = false; /* it is the whole weight, of which the file keeps another handle */
    tensor->is_leaf = true;
    return tensor;
}
