/* A fuzzer's main without libFuzzer: runs it on every file of the folders that are given; `--random COUNT SEED` instead
 * on COUNT inputs of random bytes, the same on every machine. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    const size_t size = fread(data, 1, sizeof data, file);
    const int readable = !ferror(file);
    fclose(file);
    if (!readable) return 0;
    uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees a read past the end */
    if (!exact) return 0;
    for (size_t i = 0; i < size; i++) exact[i] = data[i];
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 1;
}

static int replay_random(int count, uint64_t state) {
    for (int i = 0; i < count; i++) {
        uint8_t data[48];
        for (size_t k = 0; k < sizeof data; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            data[k] = (uint8_t)(state >> 56);
        }
        LLVMFuzzerTestOneInput(data, sizeof data);
    }
    return count;
}

int main(int argc, char **argv) {
    int count = 0;
    if (argc == 4 && strcmp(argv[1], "--random") == 0) {
        count = replay_random(atoi(argv[2]), strtoull(argv[3], NULL, 10));
        argc = 0;
    }
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
            char path[4096];
            if (snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name) < (int)sizeof path)
                count += replay_file(path);
        }
        if (folder) closedir(folder);
    }
    printf("%d inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
