/* From the scores of a text recogniser to text: CTC, taking the best letter of each step. */
#ifndef EXAMPLES_LETTERS_H
#define EXAMPLES_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Class 0 is "no letter"; then come the lines of a text, then a space. */
typedef struct letters {
    int count;          /* of classes */
    const char **texts; /* points into … */
    char *lines;        /* … a copy of the text */
} letters;

/* false with a sentence in `why`: no memory, or no UTF-8. */
bool letters_open(letters *l, const char *lines, char *why, size_t room);
void letters_close(letters *l); /* of zeros, too */

/* The text of steps whose best classes, each below l->count, have these probabilities, as a string to be freed, and the
 * mean of its letters' probabilities (0 without letters). Letters that repeat without "no letter" between them are one.
 * NULL: no memory. */
char *letters_decode(const letters *l, const int64_t *best, const float *probabilities, int64_t steps,
                     double *confidence);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_LETTERS_H */
