#include "picture.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 3, MOST_PIXELS = 50000000, MOST_POINTS = 8 };

bool picture_open(picture *p, const char *path, char *why, size_t room) {
    const png_color white = {255, 255, 255};
    png_image png = {.version = PNG_IMAGE_VERSION};
    *p = (picture){0};
    *why = '\0';
    if (png_image_begin_read_from_file(&png, path)) {
        png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
        png.format = PNG_FORMAT_RGB;
        if (png.height > MOST_PIXELS / png.width)
            snprintf(why, room, "%s: %u × %u pixels are more than %d", path, png.width, png.height, MOST_PIXELS);
        else if (!(p->rgb = malloc(PNG_IMAGE_SIZE(png))))
            snprintf(why, room, "%s: no memory for %u × %u pixels", path, png.width, png.height);
        else
            png_image_finish_read(&png, &white, p->rgb, 0, NULL);
    }
    if (!*why && PNG_IMAGE_FAILED(png)) snprintf(why, room, "%s: cannot be read as a PNG file: %s", path, png.message);
    p->width = (int)png.width;
    p->height = (int)png.height;
    png_image_free(&png);
    if (*why) picture_close(p);
    return !*why;
}

void picture_close(picture *p) {
    free(p->rgb);
    *p = (picture){0};
}

static int within(int i, int count) {
    return i < 0 ? 0 : i >= count ? count - 1 : i;
}

/* floor, where the library's is a call. */
static int round_down(double x) {
    const int towards_zero = (int)x;
    return towards_zero - (x < towards_zero);
}

/* Adds the colour at a point, between the centres of four pixels. */
static void add_point(const picture *p, double x, double y, double sum[CHANNELS]) {
    const int left = round_down(x - 0.5), top = round_down(y - 0.5);
    const double right_share = x - 0.5 - left, low_share = y - 0.5 - top;
    const unsigned char *rows[2], *pixels[4];
    for (int i = 0; i < 2; i++) rows[i] = p->rgb + (size_t)within(top + i, p->height) * (size_t)p->width * CHANNELS;
    for (int i = 0; i < 4; i++) pixels[i] = rows[i / 2] + (size_t)within(left + i % 2, p->width) * CHANNELS;
    for (int c = 0; c < CHANNELS; c++) {
        const double high = pixels[0][c] + right_share * (pixels[1][c] - pixels[0][c]);
        const double low = pixels[2][c] + right_share * (pixels[3][c] - pixels[2][c]);
        sum[c] += high + low_share * (low - high);
    }
}

void picture_sample(const picture *p, const picture_grid *g, int stride, float *planes) {
    const double step = fmax(hypot(g->across[0], g->across[1]), hypot(g->down[0], g->down[1]));
    const int points = within((int)ceil(step - 0.01), MOST_POINTS + 1) + (step <= 0.01);
    const size_t plane = (size_t)stride * (size_t)g->height;
    for (int row = 0; row < g->height; row++) {
        for (int column = 0; column < g->width; column++) {
            double sum[CHANNELS] = {0};
            for (int i = 0; i < points * points; i++) {
                const int across = i % points, down = i / points;
                const double a = column + (across + 0.5) / points, d = row + (down + 0.5) / points;
                add_point(p, g->x + a * g->across[0] + d * g->down[0], g->y + a * g->across[1] + d * g->down[1], sum);
            }
            float *to = planes + (size_t)row * (size_t)stride + (size_t)column;
            for (int c = 0; c < CHANNELS; c++)
                to[(size_t)c * plane] = (float)(sum[CHANNELS - 1 - c] / (points * points) / 127.5 - 1);
        }
    }
}
