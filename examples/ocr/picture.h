/* A picture out of a PNG file, and pieces of it at any scale and angle. */
#ifndef EXAMPLES_PICTURE_H
#define EXAMPLES_PICTURE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct picture {
    int width, height;
    unsigned char *rgb; /* height × width × 3 */
} picture;

/* false with one sentence in `why`, which names the file. */
bool picture_open(picture *p, const char *path, char *why, size_t room);
void picture_close(picture *p); /* of zeros, too */

/* Where a grid of pixels lies on a picture. */
typedef struct picture_grid {
    double x, y;       /* its first corner, in the picture's pixels: (0, 0) is the picture's corner */
    double across[2];  /* from one column of the grid to the next */
    double down[2];    /* from one row to the next */
    int width, height; /* columns and rows */
} picture_grid;

/* Samples a grid as PP-OCR's networks want it: blue, green and red as planes of stride × height, from -1 to 1. A pixel
 * of the grid is the mean of as many points as it covers pixels; beyond its edge the picture goes on as it ends. */
void picture_sample(const picture *p, const picture_grid *grid, int stride, float *planes);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_PICTURE_H */
