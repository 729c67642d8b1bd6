/* Curves over steps, as a picture in SVG. */
#ifndef EXAMPLES_CURVES_H
#define EXAMPLES_CURVES_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct curve {
    const char *name;
    const double *values; /* above 0, of steps 1 … count; others are left out */
    int count;
} curve;

enum { CURVES_MOST = 4 };

/* Writes up to four curves on a logarithmic scale: each value faintly, their running means plainly, names at the
 * curves' ends; light or dark as the viewer likes. The texts must not need escaping. 0; −1 with errno if the file
 * cannot be written. */
int curves_write_svg(const char *path, const char *title, const char *unit, const curve *curves, int count);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_CURVES_H */
