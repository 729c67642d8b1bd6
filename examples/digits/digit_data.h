/* The 1,797 handwritten digits that scikit-learn ships, 8 × 8 pixels of 0 to 16 each (E. Alpaydin and C. Kaynak,
 * "Optical recognition of handwritten digits", UCI, 1998). */
#ifndef EXAMPLES_DIGIT_DATA_H
#define EXAMPLES_DIGIT_DATA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DIGIT_SIZE = 8, DIGIT_PIXELS = DIGIT_SIZE * DIGIT_SIZE, DIGIT_CLASSES = 10, DIGITS_HELD_BACK = 360 };

typedef struct digit_data {
    float *pixels;   /* [count][8][8], from 0 to 1 */
    int64_t *labels; /* [count], 0 to 9 */
    int count;
} digit_data;

/* Reads a file of lines with 64 pixels and a label, and puts them in an order that `seed` makes, always the same. 0, or
 * −1 with one sentence in why: no such file, a line that is none, fewer lines than are to be held back. */
int digit_data_read(const char *path, uint64_t seed, digit_data *data, char *why, int why_size);
void digit_data_free(digit_data *data);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_DIGIT_DATA_H */
