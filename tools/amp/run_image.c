/* amp run: image files, by libpng and libjpeg. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* behind stdio.h */
#include <jpeglib.h>
#include <png.h>

#include "run.h"

static const int64_t most_pixels = 100000000;

/* Room for the pixels; a code after saying why there is none. */
static int make_room(run_image *image, const char *path, int64_t height, int64_t width, bool grey) {
    if (height < 1 || width < 1 || height > most_pixels / width)
        return run_fail(AMP_EXIT_USAGE,
                        "image '%s' has %" PRId64 " x %" PRId64 " pixels; from one to a hundred million are allowed",
                        path, width, height);
    *image = (run_image){.height = height, .width = width, .grey = grey};
    image->pixels = malloc((size_t)(height * width) * 3);
    return image->pixels ? AMP_EXIT_OK : run_no_memory();
}

/* ---- PNG --------------------------------------------------------------------------------------------------------- */
static int read_png(run_image *image, const char *path) {
    const png_color white = {255, 255, 255};
    png_image png = {.version = PNG_IMAGE_VERSION};
    int code = AMP_EXIT_OK;
    if (png_image_begin_read_from_file(&png, path)) {
        const bool grey = (png.format & PNG_FORMAT_FLAG_COLOR) == 0;
        png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
        png.format = PNG_FORMAT_RGB;
        code = make_room(image, path, png.height, png.width, grey);
        if (code == AMP_EXIT_OK) png_image_finish_read(&png, &white, image->pixels, 0, NULL);
    }
    if (code == AMP_EXIT_OK && PNG_IMAGE_FAILED(png))
        code = run_fail(AMP_EXIT_USAGE, "cannot read the image '%s': %s", path, png.message);
    png_image_free(&png);
    return code;
}

/* ---- JPEG -------------------------------------------------------------------------------------------------------- */
/* libjpeg leaves an error by longjmp: all that is used afterwards is in here. */
typedef struct jpeg_reader {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
} jpeg_reader;

static void leave(j_common_ptr info) {
    jpeg_reader *r = (jpeg_reader *)info->client_data;
    info->err->format_message(info, r->message);
    longjmp(r->escape, 1);
}

/* A warning is of a file that is cut short or damaged. */
static void note(j_common_ptr info, int level) {
    if (level < 0) leave(info);
}

static int read_lines(jpeg_reader *r, run_image *image, const char *path) {
    jpeg_read_header(&r->info, TRUE);
    const bool grey = r->info.num_components == 1;
    r->info.out_color_space = JCS_RGB;
    const int code = make_room(image, path, r->info.image_height, r->info.image_width, grey);
    if (code) return code;
    jpeg_start_decompress(&r->info);
    while (r->info.output_scanline < r->info.output_height) {
        unsigned char *line = image->pixels + (size_t)r->info.output_scanline * (size_t)image->width * 3;
        jpeg_read_scanlines(&r->info, &line, 1);
    }
    jpeg_finish_decompress(&r->info);
    return AMP_EXIT_OK;
}

static int decode_jpeg(jpeg_reader *r, run_image *image, const char *path, FILE *file) {
    r->info.err = jpeg_std_error(&r->errors);
    r->info.client_data = r;
    r->errors.error_exit = leave;
    r->errors.emit_message = note;
    if (setjmp(r->escape)) return run_fail(AMP_EXIT_USAGE, "cannot read the image '%s': %s", path, r->message);
    jpeg_create_decompress(&r->info);
    jpeg_stdio_src(&r->info, file);
    return read_lines(r, image, path);
}

static int read_jpeg(run_image *image, const char *path) {
    FILE *file = fopen(path, "rb");
    jpeg_reader *r = calloc(1, sizeof *r);
    int code = AMP_EXIT_FAILED;
    if (!file) {
        code = run_fail(AMP_EXIT_USAGE, "cannot read '%s': %s", path, strerror(errno));
    } else if (!r) {
        code = run_no_memory();
    } else {
        code = decode_jpeg(r, image, path, file);
        jpeg_destroy_decompress(&r->info);
    }
    if (file) fclose(file);
    free(r);
    return code;
}

int run_image_read(run_image *image, const char *path) {
    unsigned char head[2] = {0};
    FILE *file = fopen(path, "rb");
    if (!file || fread(head, 1, sizeof head, file) != sizeof head) memset(head, 0, sizeof head);
    if (file) fclose(file);
    return head[0] == 0xff && head[1] == 0xd8 ? read_jpeg(image, path) : read_png(image, path);
}
