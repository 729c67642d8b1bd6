/* NumPy's .npy files: read into a tensor, written from one. */
#include <string.h>
#include <unistd.h>

#include "amp/io.h"
#include "amp/tensor.h"
#include "core/memory.h"
#include "io/file_map.h"
#include "io/npy_header.h"

/* The parsers read little-endian integers bytewise, the data is taken as the machine has it. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "libamp is for little-endian machines");

static amp_status read_header(const char *path, int file, uint64_t file_bytes, amp_npy_header *header) {
    unsigned char prefix[AMP_NPY_PREFIX];
    const size_t prefix_bytes = file_bytes < sizeof prefix ? (size_t)file_bytes : sizeof prefix;
    size_t text_offset, text_bytes;
    AMP_TRY(amp_file_read("load_npy", path, file, prefix, prefix_bytes, 0));
    AMP_TRY(amp_npy_parse_prefix(path, prefix, prefix_bytes, &text_offset, &text_bytes));
    if (text_offset + text_bytes > file_bytes) {
        return amp_fail(AMP_ERROR_IO,
                        "load_npy: %s has %llu bytes, expected at least %zu for its header (the file is "
                        "truncated)",
                        path, (unsigned long long)file_bytes, text_offset + text_bytes);
    }
    char *text = amp_alloc(text_bytes);
    if (!text) return amp_fail(AMP_ERROR_MEMORY, "load_npy: %s: no memory for a header of %zu bytes", path, text_bytes);
    amp_status status = amp_file_read("load_npy", path, file, text, text_bytes, text_offset);
    if (status == AMP_OK) status = amp_npy_parse_header(path, text, text_bytes, text_offset, file_bytes, header);
    amp_free(text);
    return status;
}

static void swap_bytes(unsigned char *data, size_t bytes, int unit) {
    for (size_t at = 0; at < bytes; at += (size_t)unit) {
        for (int i = 0; i < unit / 2; i++) {
            const unsigned char low = data[at + (size_t)i];
            data[at + (size_t)i] = data[at + (size_t)(unit - 1 - i)];
            data[at + (size_t)(unit - 1 - i)] = low;
        }
    }
}

/* Column-major to row-major, element by element; `from` holds stored elements. */
static void transpose_elements(const amp_npy_header *h, const unsigned char *from, unsigned char *to) {
    const size_t size = (size_t)h->stored_size;
    int64_t index[AMP_MAX_RANK] = {0}, stride[AMP_MAX_RANK], at = 0, step = 1;
    for (int d = 0; d < h->rank; d++) {
        stride[d] = step;
        step *= h->shape[d];
    }
    for (int64_t i = 0; i < h->elements; i++) {
        memcpy(to + (size_t)i * size, from + (size_t)at * size, size);
        for (int d = h->rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < h->shape[d]) break;
            at -= h->shape[d] * stride[d];
            index[d] = 0;
        }
    }
}

/* From the last element on, because the wider results are written over the stored ones. */
static amp_status widen_elements(const char *path, const amp_npy_header *h, unsigned char *data) {
    for (int64_t i = h->elements - 1; i >= 0; i--) {
        uint64_t value = 0;
        memcpy(&value, data + (size_t)i * (size_t)h->stored_size, (size_t)h->stored_size);
        if (value > INT64_MAX) {
            return amp_fail(AMP_ERROR_IO, "load_npy: %s: element %lld of dtype u8 is %llu, which i64 cannot hold", path,
                            (long long)i, (unsigned long long)value);
        }
        memcpy(data + (size_t)i * amp_dtype_size(h->dtype), &value, amp_dtype_size(h->dtype));
    }
    return AMP_OK;
}

/* A stored bool may be any byte; every kernel relies on 0 or 1. */
static void normalise_bools(unsigned char *data, int64_t count) {
    for (int64_t i = 0; i < count; i++) data[i] = data[i] != 0;
}

static amp_status read_elements(const char *path, int file, const amp_npy_header *h, unsigned char *data) {
    const size_t bytes = (size_t)h->elements * (size_t)h->stored_size;
    if (h->fortran_order && h->rank > 1) {
        unsigned char *stored = amp_alloc(bytes);
        if (!stored) return amp_fail(AMP_ERROR_MEMORY, "load_npy: %s: no memory for %zu bytes", path, bytes);
        const amp_status status = amp_file_read("load_npy", path, file, stored, bytes, h->data_offset);
        if (status == AMP_OK) transpose_elements(h, stored, data);
        amp_free(stored);
        AMP_TRY(status);
    } else {
        AMP_TRY(amp_file_read("load_npy", path, file, data, bytes, h->data_offset));
    }
    if (h->swap_size) swap_bytes(data, bytes, h->swap_size);
    if (h->dtype == AMP_BOOL) normalise_bools(data, h->elements);
    return h->widen == AMP_NPY_SAME ? AMP_OK : widen_elements(path, h, data);
}

amp_tensor *amp_load_npy(const char *path) {
    if (amp_failed()) return NULL;
    uint64_t file_bytes = 0;
    const int file = amp_file_open("load_npy", path, &file_bytes);
    if (file < 0) return NULL;
    amp_npy_header header = {0};
    amp_tensor *tensor = NULL;
    if (read_header(path, file, file_bytes, &header) == AMP_OK) {
        tensor = amp_tensor_new("load_npy", header.dtype, header.rank, header.shape);
    }
    if (tensor && header.elements && read_elements(path, file, &header, amp_tensor_pointer(tensor)) != AMP_OK) {
        amp_tensor_drop(tensor);
        tensor = NULL;
    }
    close(file);
    return tensor;
}

amp_status amp_save_npy(const char *path, amp_tensor *tensor) {
    AMP_TRY(amp_pending_error());
    AMP_TRY(amp_io_check_tensor("save_npy", "tensor", tensor));
    char header[AMP_NPY_HEADER_ROOM];
    const size_t header_bytes = amp_npy_format_header(tensor->dtype, tensor->rank, tensor->shape, header);
    if (header_bytes == 0) {
        return amp_fail(AMP_ERROR_DTYPE,
                        "save_npy: NumPy has no %s: convert %s to f32 first, or use amp_save_safetensors",
                        amp_dtype_name(tensor->dtype), amp_describe(tensor));
    }
    amp_file_writer writer;
    amp_status status = amp_file_create(&writer, "save_npy", path);
    if (status == AMP_OK) status = amp_file_write(&writer, header, header_bytes);
    if (status == AMP_OK) status = amp_file_write_tensor(&writer, tensor);
    if (status == AMP_OK) status = amp_file_commit(&writer);
    amp_file_abandon(&writer);
    return status;
}
