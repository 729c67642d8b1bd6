#include "letters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_LETTER = 0, MOST_BYTES = 64 }; /* of a letter */

/* Enough for printing: each first byte has as many behind it as it says. */
static bool is_utf8(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    for (size_t more; *s; s += 1 + more) {
        if ((*s >= 0x80 && *s < 0xc2) || *s > 0xf4) return false;
        more = *s < 0x80 ? 0 : *s < 0xe0 ? 1 : *s < 0xf0 ? 2 : 3;
        for (size_t i = 1; i <= more; i++) {
            if ((s[i] & 0xc0) != 0x80) return false;
        }
    }
    return true;
}

static void split(letters *l) {
    int n = 0;
    l->texts[n++] = "";
    for (char *line = l->lines; line; n++) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        l->texts[n] = strlen(line) < MOST_BYTES ? line : "?";
        line = end ? end + 1 : NULL;
    }
    l->texts[n] = " ";
}

bool letters_open(letters *l, const char *lines, char *why, size_t room) {
    *l = (letters){.count = 3};
    if (!is_utf8(lines)) {
        snprintf(why, room, "the alphabet is not UTF-8");
        return false;
    }
    for (const char *c = lines; *c; c++) l->count += *c == '\n';
    const size_t bytes = strlen(lines) + 1;
    l->texts = malloc((size_t)l->count * sizeof *l->texts);
    l->lines = malloc(bytes);
    if (l->texts && l->lines) {
        memcpy(l->lines, lines, bytes);
        split(l);
        return true;
    }
    letters_close(l);
    snprintf(why, room, "no memory for an alphabet");
    return false;
}

void letters_close(letters *l) {
    free(l->texts);
    free(l->lines);
    *l = (letters){0};
}

char *letters_decode(const letters *l, const int64_t *best, const float *probabilities, int64_t steps,
                     double *confidence) {
    char *text = malloc((size_t)steps * MOST_BYTES + 1);
    size_t used = 0;
    double sum = 0, count = 0;
    for (int64_t step = 0, before = NO_LETTER; text && step < steps; before = best[step++]) {
        if (best[step] == NO_LETTER || best[step] == before) continue;
        const size_t bytes = strlen(l->texts[best[step]]);
        memcpy(text + used, l->texts[best[step]], bytes);
        used += bytes;
        sum += (double)probabilities[step];
        count++;
    }
    if (text) text[used] = '\0';
    *confidence = count > 0 ? sum / count : 0;
    return text;
}
