#define _GNU_SOURCE /* what clang needs for dirent's types under c11 */
#include "text_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH = 4096, DEEPEST = 32 };

typedef struct pile {
    char *bytes;
    size_t count, most;
    int files;
} pile;

/* A text has no zero bytes; so much of it as there is room for is taken. */
static void add_file(pile *p, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return; /* what may not be read is not missed */
    const size_t got = fread(p->bytes + p->count, 1, p->most - p->count, file);
    if (got > 0 && !memchr(p->bytes + p->count, 0, got)) {
        p->count += got;
        p->files++;
    }
    fclose(file);
}

static int is_shown(const struct dirent *entry) {
    return entry->d_name[0] != '.' && strcmp(entry->d_name, "build") != 0;
}

static int add_folder(pile *p, const char *folder, int depth) {
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_shown, alphasort);
    if (count < 0) return -1;
    for (int i = 0; i < count; i++) {
        char path[PATH];
        struct stat about;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (length < PATH && lstat(path, &about) == 0 && p->count < p->most) {
            if (S_ISREG(about.st_mode)) add_file(p, path);
            if (S_ISDIR(about.st_mode) && depth < DEEPEST) (void)add_folder(p, path, depth + 1);
        }
        free(entries[i]);
    }
    free(entries);
    return 0;
}

char *text_files_read(const char *folder, size_t most, size_t *bytes, int *files, char *why, int why_size) {
    pile p = {.bytes = malloc(most), .most = most};
    if (!p.bytes)
        snprintf(why, (size_t)why_size, "no memory for %zu bytes of text", most);
    else if (add_folder(&p, folder, 0) != 0)
        snprintf(why, (size_t)why_size, "%s: %s", folder, strerror(errno));
    else if (p.count == 0)
        snprintf(why, (size_t)why_size, "%s: there is no text in this folder", folder);
    *bytes = p.count;
    *files = p.files;
    if (p.count > 0) return p.bytes;
    free(p.bytes);
    return NULL;
}
