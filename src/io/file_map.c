/* Files mapped into memory, with errors that say what was wrong with them. */
#define _GNU_SOURCE /* strerror_r in its thread-safe form that returns a string */
#include "io/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/memory.h"

enum { WRITE_BUFFER = 1 << 16 };

static amp_status fail_errno(const char *who, const char *path, const char *what, int error) {
    char text[128];
    return amp_fail(AMP_ERROR_IO, "%s: %s: cannot %s: %s", who, path, what, strerror_r(error, text, sizeof text));
}

amp_status amp_io_check_tensor(const char *who, const char *name, const amp_tensor *tensor) {
    if (!tensor) return amp_fail(AMP_ERROR_INVALID, "%s: %s is NULL, expected a tensor", who, name);
    if (!amp_tensor_is_live(tensor)) return amp_fail(AMP_ERROR_INVALID, "%s: %s was released", who, name);
    if (amp_tensor_device(tensor) == AMP_DEVICE_CPU) return amp_tensor_shown(tensor) ? AMP_OK : amp_pending_error();
    return amp_fail(AMP_ERROR_DEVICE, "%s: %s is on %s, expected a CPU tensor", who, name,
                    amp_device_name(amp_tensor_device(tensor)));
}

/* ---- Reading ---- */

int amp_file_open(const char *who, const char *path, uint64_t *bytes) {
    if (!path) {
        amp_fail(AMP_ERROR_INVALID, "%s: path is NULL, expected the name of a file", who);
        return -1;
    }
    /* O_NONBLOCK: a FIFO without a writer must give an error, not hang; it changes nothing for regular files */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        fail_errno(who, path, "open it", errno);
        return -1;
    }
    struct stat info;
    if (fstat(descriptor, &info) != 0) {
        fail_errno(who, path, "look at it", errno);
    } else if (S_ISDIR(info.st_mode)) {
        amp_fail(AMP_ERROR_IO, "%s: %s is a directory, expected a file", who, path);
    } else if (!S_ISREG(info.st_mode)) {
        amp_fail(AMP_ERROR_IO, "%s: %s is a pipe or a device, expected a regular file", who, path);
    } else {
        *bytes = (uint64_t)info.st_size;
        return descriptor;
    }
    close(descriptor);
    return -1;
}

amp_status amp_file_read(const char *who, const char *path, int descriptor, void *to, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(descriptor, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno(who, path, "read it", errno);
        if (got == 0) {
            return amp_fail(AMP_ERROR_IO, "%s: %s ended at byte %llu while it was read, expected %llu more", who, path,
                            (unsigned long long)offset + done, (unsigned long long)bytes - done);
        }
        done += (size_t)got;
    }
    return AMP_OK;
}

struct amp_file_map {
    atomic_int references;
    unsigned char *data;
    size_t bytes;
    int64_t written[2]; /* seconds, nanoseconds */
};

/* NORESERVE: weights of many gigabytes must not count against the commit limit because they could be written */
static amp_file_map *map_descriptor(const char *who, const char *path, int descriptor, uint64_t bytes) {
    amp_file_map *map = amp_alloc_zeroed(sizeof *map);
    if (!map) {
        amp_fail(AMP_ERROR_MEMORY, "%s: %s: no memory for the file's bookkeeping", who, path);
        return NULL;
    }
    struct stat info;
    atomic_init(&map->references, 1);
    map->bytes = (size_t)bytes;
    if (fstat(descriptor, &info) == 0) {
        map->written[0] = info.st_mtim.tv_sec;
        map->written[1] = info.st_mtim.tv_nsec;
    }
    void *data =
        bytes ? mmap(NULL, map->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0) : NULL;
    if (data == MAP_FAILED) {
        fail_errno(who, path, "map it into memory", errno);
        amp_free(map);
        return NULL;
    }
    map->data = data;
    return map;
}

amp_file_map *amp_file_map_open(const char *who, const char *path) {
    uint64_t bytes = 0;
    const int descriptor = amp_file_open(who, path, &bytes);
    if (descriptor < 0) return NULL;
    amp_file_map *map = map_descriptor(who, path, descriptor, bytes);
    close(descriptor);
    return map;
}

amp_file_map *amp_file_map_descriptor(const char *who, const char *path, int descriptor) {
    struct stat info;
    if (fstat(descriptor, &info) == 0) return map_descriptor(who, path, descriptor, (uint64_t)info.st_size);
    fail_errno(who, path, "look at it", errno);
    return NULL;
}

void amp_file_map_let_go(const amp_file_map *map, uint64_t offset, uint64_t bytes) {
    amp_pages_let_go(map->data + offset, bytes);
}

uint64_t amp_file_map_stamp(const amp_file_map *map, uint64_t seed) {
    const int64_t words[] = {(int64_t)map->bytes, map->written[0], map->written[1]};
    return XXH3_64bits_withSeed(words, sizeof words, seed);
}

uint64_t amp_file_map_sum(const amp_file_map *map, uint64_t seed) {
    enum { PIECE = 4 << 20 };
    for (size_t at = 0; at < map->bytes; at += PIECE) {
        const size_t bytes = map->bytes - at < PIECE ? map->bytes - at : PIECE;
        seed = XXH3_64bits_withSeed(map->data + at, bytes, seed);
        amp_pages_let_go(map->data + at, bytes);
    }
    return seed;
}

void amp_file_map_retain(amp_file_map *map) {
    atomic_fetch_add_explicit(&map->references, 1, memory_order_relaxed);
}

void amp_file_map_release(amp_file_map *map) {
    if (atomic_fetch_sub_explicit(&map->references, 1, memory_order_acq_rel) != 1) return;
    if (map->data) munmap(map->data, map->bytes);
    amp_free(map);
}

unsigned char *amp_file_map_data(const amp_file_map *map) {
    return map->data;
}
size_t amp_file_map_bytes(const amp_file_map *map) {
    return map->bytes;
}

/* ---- Writing ---- */

/* The path that rename must hit: writing through a symbolic link must replace the file, not the link. *mode gets the
 * permissions of an existing file, or 0. */
static amp_status resolve_target(const char *who, const char *path, char **target, mode_t *mode) {
    struct stat info;
    char resolved[PATH_MAX];
    *mode = 0;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            return amp_fail(AMP_ERROR_IO, "%s: %s is a directory, expected a file name", who, path);
        }
        if (!S_ISREG(info.st_mode)) {
            return amp_fail(AMP_ERROR_IO, "%s: %s is a pipe or a device, expected a file name", who, path);
        }
        *mode = info.st_mode & 07777;
        if (!realpath(path, resolved)) return fail_errno(who, path, "resolve its name", errno);
        path = resolved;
    }
    *target = amp_alloc(strlen(path) + 1);
    if (!*target) return amp_fail(AMP_ERROR_MEMORY, "%s: %s: no memory for the file's name", who, path);
    strcpy(*target, path);
    return AMP_OK;
}

amp_status amp_file_create(amp_file_writer *writer, const char *who, const char *path) {
    static atomic_uint serial;
    *writer = (amp_file_writer){.who = who, .descriptor = -1};
    if (!path) return amp_fail(AMP_ERROR_INVALID, "%s: path is NULL, expected the name of a file", who);
    mode_t mode = 0;
    AMP_TRY(resolve_target(who, path, &writer->path, &mode));
    const size_t room = strlen(writer->path) + 40;
    char *temporary = amp_alloc(room);
    writer->buffer = amp_alloc(WRITE_BUFFER);
    if (!temporary || !writer->buffer) {
        amp_free(temporary);
        return amp_fail(AMP_ERROR_MEMORY, "%s: %s: no memory for the write buffer", who, path);
    }
    do { /* O_EXCL: a name that exists, left by a crash or planted, is never written through */
        snprintf(temporary, room, "%s.%lx-%x.part", writer->path, (unsigned long)getpid(),
                 atomic_fetch_add(&serial, 1));
        writer->descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (writer->descriptor < 0 && errno == EEXIST);
    if (writer->descriptor < 0) {
        const int error = errno;
        amp_free(temporary);
        return fail_errno(who, path, "create a file beside it", error);
    }
    writer->temporary = temporary;
    if (mode && fchmod(writer->descriptor, mode) != 0) return fail_errno(who, path, "keep its permissions", errno);
    return AMP_OK;
}

static amp_status write_all(amp_file_writer *writer, const unsigned char *data, size_t bytes) {
    while (bytes > 0) {
        const ssize_t done = write(writer->descriptor, data, bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return fail_errno(writer->who, writer->path, "write it", errno);
        data += done;
        bytes -= (size_t)done;
    }
    return AMP_OK;
}

static amp_status flush_buffer(amp_file_writer *writer) {
    const size_t used = writer->used;
    writer->used = 0;
    return write_all(writer, writer->buffer, used);
}

amp_status amp_file_write(amp_file_writer *writer, const void *data, size_t bytes) {
    if (bytes > WRITE_BUFFER - writer->used) AMP_TRY(flush_buffer(writer));
    if (bytes >= WRITE_BUFFER) return write_all(writer, data, bytes);
    if (bytes) memcpy(writer->buffer + writer->used, data, bytes);
    writer->used += bytes;
    return AMP_OK;
}

amp_status amp_file_write_tensor(amp_file_writer *writer, const amp_tensor *tensor) {
    const int64_t count = amp_tensor_elements(tensor);
    const size_t size = amp_dtype_size(tensor->dtype);
    if (count == 0) return AMP_OK;
    const char *element = amp_tensor_pointer(tensor);
    if (amp_tensor_is_dense(tensor)) return amp_file_write(writer, element, (size_t)count * size);
    int64_t index[AMP_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        AMP_TRY(amp_file_write(writer, element, size));
        for (int d = tensor->rank - 1; d >= 0; d--) {
            element += tensor->strides[d] * (int64_t)size;
            if (++index[d] < tensor->shape[d]) break;
            element -= tensor->shape[d] * tensor->strides[d] * (int64_t)size;
            index[d] = 0;
        }
    }
    return AMP_OK;
}

/* A file system that cannot flush folders says EINVAL. The path is cut at its last slash meanwhile: no memory is asked
 * for where the file has its name already. */
static amp_status flush_folder(amp_file_writer *writer) {
    char *slash = strrchr(writer->path, '/');
    if (slash) *slash = '\0';
    const char *folder = !slash ? "." : slash == writer->path ? "/" : writer->path;
    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = descriptor < 0 || fsync(descriptor) != 0 ? errno : 0;
    if (slash) *slash = '/';
    if (descriptor >= 0) close(descriptor);
    if (error == 0 || error == EINVAL) return AMP_OK;
    return fail_errno(writer->who, writer->path, "flush its folder to the disk", error);
}

amp_status amp_file_commit(amp_file_writer *writer) {
    AMP_TRY(flush_buffer(writer));
    /* without it a crash soon after the rename could leave an empty file where a whole one was, and the rename itself
     * must outlive one */
    if (fsync(writer->descriptor) != 0) return fail_errno(writer->who, writer->path, "flush it to the disk", errno);
    const int closed = close(writer->descriptor);
    writer->descriptor = -1;
    if (closed != 0) return fail_errno(writer->who, writer->path, "finish writing it", errno);
    if (rename(writer->temporary, writer->path) != 0) {
        return fail_errno(writer->who, writer->path, "rename the new file over it", errno);
    }
    amp_free(writer->temporary);
    writer->temporary = NULL;
    return flush_folder(writer);
}

void amp_file_abandon(amp_file_writer *writer) {
    if (writer->descriptor >= 0) close(writer->descriptor);
    if (writer->temporary) unlink(writer->temporary);
    amp_free(writer->temporary);
    amp_free(writer->path);
    amp_free(writer->buffer);
    *writer = (amp_file_writer){.descriptor = -1};
}
