/* Tensors on paper, in files and in other libraries' hands: text, NumPy's .npy, safetensors, DLPack.
 *
 * Every reader treats its input as hostile: a file that lies about its sizes, is cut short or is not what its name says
 * gives NULL and one sentence that names the file, the tensor and what was expected (AMP_ERROR_IO), never a crash. */
#ifndef AMP_IO_H
#define AMP_IO_H

#include <stdio.h>

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Text -------------------------------------------------------------------------------------------------------
 * A tensor for people: a line with shape, dtype, device and, unless they are row-major, strides; then its values as
 * PyTorch prints them: four digits, of more than 1,000 elements the first and last three of each dimension, 80 columns.
 *
 *     [2, 3] bf16 cpu
 *     [[ 0.0000,  0.5000,  1.0000],
 *      [ 1.5000,     inf, -2.5000]]
 *
 * NULL is "NULL", with the error that stands. While one stands, a tensor is printed all the same; the error stays. */

/* Prints it to `file`, for instance stdout. Errors: file is NULL or cannot be written; no memory; those of reading from
 * a device. */
AMP_API amp_status amp_print(const amp_tensor *tensor, FILE *file);
/* The same as a text that ends without a line feed; the caller gives it to amp_repr_free. NULL with an error. */
AMP_API char *amp_repr(const amp_tensor *tensor);
AMP_API void amp_repr_free(char *text);

/* ---- .npy -------------------------------------------------------------------------------------------------------
 * Reads a NumPy array file: format versions 1 to 3, C and Fortran order, either byte order, any rank up to
 * AMP_MAX_RANK. The tensor is a fresh, contiguous, row-major one in the innermost scope.
 *
 * dtypes: f2 f4 f8, i1 i2 i4 i8, u1, b1, c8, c16 as they are. libamp has no unsigned 16-, 32- and 64-bit integers: u2
 * becomes i32 and u4 becomes i64, which hold every value; u8 becomes i64, and a value of 2^63 or more is an error.
 * Everything else (structured, object, string, time, long double) is an error. Bytes after the array are an error. */
AMP_API amp_tensor *amp_load_npy(const char *path);

/* Writes `tensor`, of any strides, as a row-major little-endian .npy. The file appears whole or not at all: it is
 * written beside `path` under another name, flushed to the disk, and renamed over it; an existing file keeps its
 * permissions and, on failure, its content. bf16 is an error, because NumPy has no such type: convert to f32, or
 * write safetensors. */
AMP_API amp_status amp_save_npy(const char *path, amp_tensor *tensor);

/* ---- safetensors ------------------------------------------------------------------------------------------------ */

/* An open file: its parsed header over a memory mapping. Immutable, so that threads may share it. */
typedef struct amp_safetensors amp_safetensors;

/* Maps the file and checks its whole header: JSON, names, dtypes, shapes, and that the tensors cover the data without
 * overlap, hole or overhang, as the format demands. Nothing of the data is read. NULL with an error. */
AMP_API amp_safetensors *amp_safetensors_open(const char *path);

/* Number of tensors; 0 for NULL. */
AMP_API int64_t amp_safetensors_count(const amp_safetensors *file);

/* Name of tensor `index`, in the order of the data; NULL outside 0 … count-1. Valid until the file is closed. */
AMP_API const char *amp_safetensors_name(const amp_safetensors *file, int64_t index);

/* Number of entries of `__metadata__`; 0 for NULL. */
AMP_API int64_t amp_safetensors_metadata_count(const amp_safetensors *file);

/* Key and value of metadata entry `index`; NULL outside the range. Valid until the file is closed. */
AMP_API const char *amp_safetensors_metadata_key(const amp_safetensors *file, int64_t index);
AMP_API const char *amp_safetensors_metadata_value(const amp_safetensors *file, int64_t index);

/* Value of a metadata key, NULL if there is none. Valid until the file is closed. */
AMP_API const char *amp_safetensors_metadata(const amp_safetensors *file, const char *key);

/* The tensor of that name, over the mapping: no copy is made, pages come in as they are touched, and the mapping lives
 * until the last such tensor and the file are gone, in any order. Writing to the tensor is allowed and private to the
 * process: the file never changes. Data that the file does not align to its element size is copied instead.
 * The tensor belongs to the innermost scope. NULL with an error: no such tensor (the message lists near ones), or a
 * dtype that libamp lacks (F8_*, U16, …). The file must not be truncated by others while it is mapped. */
AMP_API amp_tensor *amp_safetensors_get(amp_safetensors *file, const char *name);

/* Closes the file; tensors taken from it stay valid. NULL is allowed. */
AMP_API void amp_safetensors_close(amp_safetensors *file);

/* Writes `count` tensors under unique names, whole or not at all (as amp_save_npy). In the file, tensors of large
 * elements come first, otherwise in the caller's order: so every one is aligned. `metadata` is NULL or a list key,
 * value, key, value, …, NULL of UTF-8 strings. Tensors may have any strides; c128 is an error, because the format
 * lacks it. */
AMP_API amp_status amp_save_safetensors(const char *path, const char *const *names, amp_tensor *const *tensors,
                                        int64_t count, const char *const *metadata);

/* ---- DLPack -----------------------------------------------------------------------------------------------------
 * The structs are those of DLPack 1.0 (amp/dlpack.h, or the project's own header). Both directions share memory.
 * Whoever writes through a shared pointer calls amp_tensor_mark_dirty() afterwards. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* `tensor` as a versioned managed tensor, which keeps its storage alive until its deleter is called (by whoever
 * consumed it; from any thread). A read-only storage sets DLPACK_FLAG_BITMASK_READ_ONLY. NULL with an error. */
AMP_API struct DLManagedTensorVersioned *amp_to_dlpack(amp_tensor *tensor);

/* The same as the older, unversioned struct. It cannot say "read-only": a read-only tensor is an error. */
AMP_API struct DLManagedTensor *amp_to_dlpack_unversioned(amp_tensor *tensor);

/* A tensor of the innermost scope over `managed`'s memory. On success `managed` belongs to the tensor, which calls its
 * deleter when the storage dies; on failure (NULL with an error) it stays the caller's. A read-only one may be read by
 * every op; writing to it is an error. */
AMP_API amp_tensor *amp_from_dlpack(struct DLManagedTensorVersioned *managed);
AMP_API amp_tensor *amp_from_dlpack_unversioned(struct DLManagedTensor *managed);

#ifdef __cplusplus
}
#endif

#endif /* AMP_IO_H */
