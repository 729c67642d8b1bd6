/* The header of a safetensors file: https://huggingface.co/docs/safetensors/index#format */
#ifndef AMP_IO_SAFETENSORS_HEADER_H
#define AMP_IO_SAFETENSORS_HEADER_H

#include "core/fail.h"

typedef struct amp_safetensors_entry {
    const char *name;
    const char *type; /* as the file spells it */
    amp_dtype dtype;  /* AMP_DTYPE_NONE: libamp has no such type */
    int rank;         /* above AMP_MAX_RANK: listed, but not loaded; shape has the first extents */
    int64_t shape[AMP_MAX_RANK];
    uint64_t begin, end; /* bytes from the start of the file */
} amp_safetensors_entry;

typedef struct amp_safetensors_pair {
    const char *key, *value;
} amp_safetensors_pair;

/* What a header says, once checked. Strings live in `document`. */
typedef struct amp_safetensors_header {
    void *document;                 /* json_t */
    amp_safetensors_entry *entries; /* in the order of the data */
    int64_t count;
    const amp_safetensors_entry **by_name; /* the same, sorted by name */
    amp_safetensors_pair *metadata;
    int64_t metadata_count;
} amp_safetensors_header;

/* Parses and checks the header of a file of `bytes` bytes at `data` (only the header is read). `path` is for messages.
 * On failure *header is empty. */
amp_status amp_safetensors_parse(const char *path, const unsigned char *data, size_t bytes,
                                 amp_safetensors_header *header);
void amp_safetensors_header_free(amp_safetensors_header *header);

/* The entry of that name; NULL if there is none. */
const amp_safetensors_entry *amp_safetensors_find(const amp_safetensors_header *header, const char *name);

/* The format's name of a dtype; NULL if it has none (c128). */
const char *amp_safetensors_type_of(amp_dtype dtype);

#endif /* AMP_IO_SAFETENSORS_HEADER_H */
