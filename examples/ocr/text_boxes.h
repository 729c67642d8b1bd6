/* From a map of "is this pixel text?" to boxes around lines of text, as DB ("Real-time Scene Text Detection with
 * Differentiable Binarization", Liao et al., 2020) does: pixels above a threshold, connected ones together, the
 * smallest rectangle around them, grown, for the network was taught to find the middle of lines. */
#ifndef EXAMPLES_TEXT_BOXES_H
#define EXAMPLES_TEXT_BOXES_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A rectangle at any angle. */
typedef struct text_box {
    double x, y;          /* its middle */
    double along[2];      /* of length 1, in the direction of reading; "down" is this turned right by 90° */
    double width, height; /* along and down */
    double score;         /* how sure it is that this is text: the mean of the map in the rectangle */
} text_box;

/* Its corners, from where the text begins, clockwise. */
void text_box_corners(const text_box *box, double corners[4][2]);

/* Puts at most `most` boxes into `boxes`, in the order in which people read. The map has `width` columns in rows of
 * `stride`. Returns how many; -1: no memory. */
int text_boxes_find(const float *map, int stride, int width, int height, text_box *boxes, int most);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_TEXT_BOXES_H */
