/* The header of a .npy file: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef AMP_IO_NPY_HEADER_H
#define AMP_IO_NPY_HEADER_H

#include "core/fail.h"

/* How one stored element becomes one of ours. */
typedef enum amp_npy_widen {
    AMP_NPY_SAME = 0,
    AMP_NPY_U16_TO_I32,
    AMP_NPY_U32_TO_I64,
    AMP_NPY_U64_TO_I64 /* values of 2^63 and above are an error */
} amp_npy_widen;

typedef struct amp_npy_header {
    amp_dtype dtype; /* of the tensor that is made */
    amp_npy_widen widen;
    int stored_size; /* bytes of one stored element */
    int swap_size;   /* 0, or the unit whose bytes are to be reversed (half an element for complex ones) */
    bool fortran_order;
    int rank;
    int64_t shape[AMP_MAX_RANK];
    int64_t elements;
    uint64_t data_offset; /* of the first element in the file */
} amp_npy_header;

enum {
    AMP_NPY_PREFIX = 12,          /* bytes that tell the header's length: magic, version, length of versions 2 and 3 */
    AMP_NPY_MAX_HEADER = 1 << 20, /* far above what any array needs */
    AMP_NPY_HEADER_ROOM = 512     /* enough for amp_npy_format_header */
};

/* From the first bytes of a file (AMP_NPY_PREFIX of them, or fewer in a shorter file): where the header's text begins
 * and how long it is. `path` is for messages. */
amp_status amp_npy_parse_prefix(const char *path, const unsigned char *bytes, size_t count, size_t *text_offset,
                                size_t *text_bytes);

/* Reads the header's text, a Python literal, and checks it against the size of the whole file. */
amp_status amp_npy_parse_header(const char *path, const char *text, size_t text_bytes, size_t text_offset,
                                uint64_t file_bytes, amp_npy_header *header);

/* Writes prefix and text of a version 1 header into `to` (AMP_NPY_HEADER_ROOM bytes); returns their length, a multiple
 * of 64. 0: NumPy has no such dtype. */
size_t amp_npy_format_header(amp_dtype dtype, int rank, const int64_t *shape, char *to);

#endif /* AMP_IO_NPY_HEADER_H */
