#include "digit_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 10000, LINE = 1024 };

/* "0,0,5,13,…,0" into 64 pixels and a label. */
static int read_line(const char *line, float *pixels, int64_t *label) {
    char *end = NULL;
    for (int i = 0; i <= DIGIT_PIXELS; i++) {
        const long value = strtol(line, &end, 10);
        if (end == line || value < 0 || value > (i < DIGIT_PIXELS ? 16 : DIGIT_CLASSES - 1)) return -1;
        if (*end != (i < DIGIT_PIXELS ? ',' : '\n')) return -1;
        line = end + 1;
        if (i < DIGIT_PIXELS)
            pixels[i] = (float)value / 16;
        else
            *label = value;
    }
    return 0;
}

static int read_lines(FILE *file, const char *path, digit_data *data, char *why, int why_size) {
    char line[LINE];
    while (fgets(line, sizeof line, file)) {
        const int i = data->count;
        if (i == MOST_DIGITS || read_line(line, data->pixels + (size_t)i * DIGIT_PIXELS, &data->labels[i]) != 0) {
            snprintf(why, (size_t)why_size, "%s:%d: expected 64 pixels from 0 to 16 and a label from 0 to 9", path,
                     i + 1);
            return -1;
        }
        data->count++;
    }
    if (!ferror(file) && data->count > DIGITS_HELD_BACK) return 0;
    snprintf(why, (size_t)why_size, "%s: %d digits can be read; expected more than %d", path, data->count,
             DIGITS_HELD_BACK);
    return -1;
}

static void swap(digit_data *d, int i, int j) {
    float pixels[DIGIT_PIXELS], *a = d->pixels + (size_t)i * DIGIT_PIXELS, *b = d->pixels + (size_t)j * DIGIT_PIXELS;
    const int64_t label = d->labels[i];
    memcpy(pixels, a, sizeof pixels);
    memmove(a, b, sizeof pixels);
    memcpy(b, pixels, sizeof pixels);
    d->labels[i] = d->labels[j];
    d->labels[j] = label;
}

/* Fisher and Yates, with the numbers of splitmix64: those who wrote the digits follow each other in the file. */
static void shuffle(digit_data *d, uint64_t seed) {
    for (int i = d->count - 1; i > 0; i--) {
        uint64_t z = seed += 0x9e3779b97f4a7c15U;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
        z = (z ^ z >> 27) * 0x94d049bb133111ebU;
        swap(d, i, (int)((z ^ z >> 31) % (uint64_t)(i + 1)));
    }
}

int digit_data_read(const char *path, uint64_t seed, digit_data *data, char *why, int why_size) {
    memset(data, 0, sizeof *data);
    FILE *file = fopen(path, "r");
    if (!file) {
        snprintf(why, (size_t)why_size, "%s: %s", path, strerror(errno));
        return -1;
    }
    data->pixels = malloc(sizeof(float) * MOST_DIGITS * DIGIT_PIXELS);
    data->labels = malloc(sizeof(int64_t) * MOST_DIGITS);
    int status = -1;
    if (data->pixels && data->labels)
        status = read_lines(file, path, data, why, why_size);
    else
        snprintf(why, (size_t)why_size, "%s: no memory", path);
    fclose(file);
    if (status != 0)
        digit_data_free(data);
    else
        shuffle(data, seed);
    return status;
}

void digit_data_free(digit_data *data) {
    free(data->pixels);
    free(data->labels);
    memset(data, 0, sizeof *data);
}
