/* Constants in files of their own: which files may be read, and mapping each once. */
#define _GNU_SOURCE /* O_PATH, strerror_r that returns a string */
#include "onnx/read/external.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "onnx/read/reader.h"

/* ---- Names ---- */

/* The length of a location's first part, and where the next one begins. */
static size_t part_length(const char *location, const char **next) {
    const size_t length = strcspn(location, "/");
    *next = location + length + strspn(location + length, "/");
    return length;
}

const char *amp_onnx_location_fault(const char *location) {
    if (*location == '\0') return "is empty";
    if (*location == '/') return "is an absolute path, expected one relative to the model";
    for (const char *next = NULL; *location; location = next) {
        if (part_length(location, &next) == 2 && strncmp(location, "..", 2) == 0)
            return "leaves the model's folder by '..'";
    }
    return NULL;
}

/* `path` is `folder`, a real path, and something below it, which is what is returned; NULL: it is not. */
static const char *below(const char *folder, const char *path) {
    const size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(folder, path, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* The two name the same file if no link is followed: `location` may have more slashes, and parts that are ".". */
static bool same_parts(const char *location, const char *real) {
    for (const char *next = NULL; *location; location = next) {
        const size_t length = part_length(location, &next);
        if (length == 1 && *location == '.') continue;
        if (strncmp(location, real, length) != 0 || (real[length] != '/' && real[length] != '\0')) return false;
        real += length + (real[length] == '/');
    }
    return *real == '\0';
}

/* The real path of a location in a folder; false: there is no such file, errno says why. */
static bool resolve(const char *folder, const char *location, char *path) {
    char joined[PATH_MAX];
    if (snprintf(joined, sizeof joined, "%s/%s", folder, location) >= (int)sizeof joined) {
        errno = ENAMETOOLONG;
        return false;
    }
    return realpath(joined, path) != NULL;
}

/* The file lies in the data folder, or is found there under its location. */
static bool in_data_folder(const char *data_folder, const char *location, bool found, char *path) {
    char real[PATH_MAX];
    if (!data_folder || !realpath(data_folder, real)) return false;
    if (found && below(real, path)) return true;
    return resolve(real, location, path) && below(real, path);
}

amp_status amp_onnx_locate(const char *folder, const char *data_folder, const char *location, char *path,
                           const char **why) {
    char real[PATH_MAX];
    const bool found = folder && realpath(folder, real) && resolve(real, location, path);
    const int error = errno;
    const char *inside = found ? below(real, path) : NULL;
    if (inside && same_parts(location, inside)) return AMP_OK;
    if (in_data_folder(data_folder, location, found, path)) return AMP_OK;
    *why = !folder            ? "the model has no folder"
           : found && !inside ? "a link leads out of the model's folder"
           : found            ? "a link leads to it"
           : error == ENOENT  ? "there is no such file"
                              : "it cannot be reached";
    return AMP_ERROR_IO;
}

/* ---- Files ---- */

/* One that is mapped already, or the next. */
static amp_status file_of_descriptor(amp_onnx_reader *reader, const char *path, int descriptor, int *number) {
    struct amp_onnx_memory *memory = reader->memory;
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        return amp_onnx_read_fail(reader, AMP_ERROR_IO, "%s is no regular file", path);
    }
    for (int i = 0; i < memory->file_count; i++) {
        *number = i;
        if (memory->files[i].device == info.st_dev && memory->files[i].number == info.st_ino) return AMP_OK;
    }
    if (memory->file_count == AMP_ONNX_MOST_FILES) {
        return amp_onnx_read_fail(reader, AMP_ERROR_IO, "external data lies in more than %d files",
                                  AMP_ONNX_MOST_FILES);
    }
    if (!memory->files) memory->files = amp_alloc(AMP_ONNX_MOST_FILES * sizeof *memory->files);
    if (!memory->files) return amp_onnx_no_memory(reader);
    amp_file_map *map = amp_file_map_descriptor("graph_load", path, descriptor);
    if (!map) return amp_pending_error();
    *number = memory->file_count++;
    memory->files[*number] = (amp_onnx_file){.device = info.st_dev, .number = info.st_ino, .map = map};
    return AMP_OK;
}

static amp_status open_file(amp_onnx_reader *reader, const char *what, const char *location, int *number) {
    char path[PATH_MAX];
    const char *why = amp_onnx_location_fault(location);
    if (why) {
        return amp_onnx_read_fail(reader, AMP_ERROR_IO, "external data of %s: location '%.200s' %s", what, location,
                                  why);
    }
    if (amp_onnx_locate(reader->folder, reader->data_folder, location, path, &why) != AMP_OK) {
        return amp_onnx_read_fail(reader, AMP_ERROR_IO, "external data of %s in '%.200s': %s", what, location, why);
    }
    /* NOFOLLOW: the path is a real one, and is not to become another meanwhile; NONBLOCK: a pipe must not hang */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) {
        char text[128];
        return amp_onnx_read_fail(reader, AMP_ERROR_IO, "external data of %s: cannot open '%.200s': %s", what, location,
                                  strerror_r(errno, text, sizeof text));
    }
    const amp_status status = file_of_descriptor(reader, path, descriptor, number);
    close(descriptor);
    return status;
}

/* Locations are remembered: models have hundreds of tensors in one file. */
static amp_status find_file(amp_onnx_reader *reader, const char *what, const char *location, int *number) {
    *number = amp_onnx_names_find(&reader->files, location);
    if (*number >= 0) return AMP_OK;
    AMP_TRY(open_file(reader, what, location, number));
    return amp_onnx_names_add(&reader->files, location, *number) == AMP_OK ? AMP_OK : amp_onnx_no_memory(reader);
}

/* ---- What the model says ---- */

typedef struct entries {
    const char *location, *offset, *length;
} entries;

static entries entries_of(const amp_onnx_tensor_proto *proto) {
    entries e = {0};
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = amp_onnx_text_of(proto->external_data[i]->key);
        const char *value = amp_onnx_text_of(proto->external_data[i]->value);
        if (strcmp(key, "location") == 0) e.location = value;
        if (strcmp(key, "offset") == 0) e.offset = value;
        if (strcmp(key, "length") == 0) e.length = value;
    }
    return e;
}

/* Digits only. */
static bool read_count(const char *text, uint64_t *count) {
    *count = 0;
    if (*text == '\0') return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(*count, 10u, count) ||
            __builtin_add_overflow(*count, (unsigned)(*text - '0'), count)) {
            return false;
        }
    }
    return true;
}

static amp_status check_number(const amp_onnx_reader *reader, const char *what, const char *key, const char *text,
                               uint64_t *count) {
    if (!text || read_count(text, count)) return AMP_OK;
    return amp_onnx_read_fail(reader, AMP_ERROR_IO, "external data of %s: %s '%.40s' is no number of bytes", what, key,
                              text);
}

amp_status amp_onnx_external(amp_onnx_reader *reader, const amp_onnx_tensor_proto *proto, const char *what,
                             uint64_t bytes, amp_onnx_source *source, amp_onnx_span *span) {
    const entries e = entries_of(proto);
    int number = -1;
    *span = (amp_onnx_span){.offset = 0, .length = bytes};
    AMP_TRY(check_number(reader, what, "offset", e.offset, &span->offset));
    AMP_TRY(check_number(reader, what, "length", e.length, &span->length));
    if (span->length != bytes) {
        return amp_onnx_read_fail(reader, AMP_ERROR_IO, "external data of %s has %llu bytes, but the tensor %llu", what,
                                  (unsigned long long)span->length, (unsigned long long)bytes);
    }
    AMP_TRY(find_file(reader, what, amp_onnx_text_of(e.location), &number));
    amp_file_map *map = reader->memory->files[number].map;
    *source = (amp_onnx_source){.data = amp_file_map_data(map), .bytes = amp_file_map_bytes(map), .map = map};
    if (span->offset <= source->bytes && bytes <= source->bytes - span->offset) return AMP_OK;
    return amp_onnx_read_fail(reader, AMP_ERROR_IO,
                              "external data of %s: %llu bytes at %llu are not in '%.200s', which has %zu", what,
                              (unsigned long long)bytes, (unsigned long long)span->offset, e.location, source->bytes);
}
