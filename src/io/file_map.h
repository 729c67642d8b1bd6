/* Files as libamp reads and writes them: whole files mapped with a reference count, and files that appear whole or
 * not at all. `who` is the function that messages begin with ("load_npy"). */
#ifndef AMP_IO_FILE_MAP_H
#define AMP_IO_FILE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/tensor_impl.h"

/* An error unless `tensor` is a live tensor on the CPU; `name` is the argument's, for the message. */
amp_status amp_io_check_tensor(const char *who, const char *name, const amp_tensor *tensor);

/* Opens a regular file for reading; *bytes gets its size. Returns the descriptor, or -1 with an error. */
int amp_file_open(const char *who, const char *path, uint64_t *bytes);

/* Reads exactly `bytes` bytes at `offset`, or fails with an error: the file shrank, or the disk did. */
amp_status amp_file_read(const char *who, const char *path, int descriptor, void *to, size_t bytes, uint64_t offset);

/* A private, writable mapping of a whole file: a write copies the page and stays in this process. */
typedef struct amp_file_map amp_file_map;

/* A map with one reference; NULL with an error. */
amp_file_map *amp_file_map_open(const char *who, const char *path);
/* The same of a regular file that is open; the descriptor stays the caller's. */
amp_file_map *amp_file_map_descriptor(const char *who, const char *path, int descriptor);
/* The pages that lie in this range whole need not stay in memory: they are read again when they are looked at, and what
 * was written to them is lost. */
void amp_file_map_let_go(const amp_file_map *map, uint64_t offset, uint64_t bytes);
void amp_file_map_retain(amp_file_map *map);
void amp_file_map_release(amp_file_map *map);
/* Of its size and of when it was written, as both were when it was mapped. */
uint64_t amp_file_map_stamp(const amp_file_map *map, uint64_t seed);
/* Of its bytes, whose pages are let go on the way. */
uint64_t amp_file_map_sum(const amp_file_map *map, uint64_t seed);
unsigned char *amp_file_map_data(const amp_file_map *map);
size_t amp_file_map_bytes(const amp_file_map *map);

/* A file being written beside its final path. */
typedef struct amp_file_writer {
    const char *who;
    char *path;      /* final, symbolic links resolved */
    char *temporary; /* in the same folder; NULL when there is nothing to remove */
    int descriptor;
    unsigned char *buffer;
    size_t used;
} amp_file_writer;

/* Each returns a status with an error recorded. Whatever happens, amp_file_abandon comes last. */
amp_status amp_file_create(amp_file_writer *writer, const char *who, const char *path);
amp_status amp_file_write(amp_file_writer *writer, const void *data, size_t bytes);
/* Writes the tensor's elements in row-major order, whatever its strides are. */
amp_status amp_file_write_tensor(amp_file_writer *writer, const amp_tensor *tensor);
/* Flushes to the disk, renames over the final path, and flushes the folder. */
amp_status amp_file_commit(amp_file_writer *writer);
/* Removes what was not committed and frees the writer's memory. */
void amp_file_abandon(amp_file_writer *writer);

#endif /* AMP_IO_FILE_MAP_H */
