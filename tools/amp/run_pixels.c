/* amp run: an image as the tensor that a model wants. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "run.h"

/* ---- Shape ------------------------------------------------------------------------------------------------------- */
static bool is_channels(int64_t extent) {
    return extent == 1 || extent == RUN_CHANNELS;
}

/* Where the model has channels, height and width. */
typedef struct places {
    int channels, height, width;
} places;

static places places_of(run_layout layout) {
    return layout == RUN_NHWC ? (places){3, 1, 2} : (places){1, 2, 3};
}

static run_layout layout_of(const run_input *input, const run_options *o) {
    if (o->layout != RUN_BY_SHAPE) return o->layout;
    return is_channels(input->shape[3]) && !is_channels(input->shape[1]) ? RUN_NHWC : RUN_NCHW;
}

static bool takes_images(const amp_graph_value *wanted) {
    const bool open = wanted->dtype == AMP_DTYPE_NONE;
    return (open || wanted->dtype == AMP_U8 || amp_dtype_is_floating(wanted->dtype)) &&
           (wanted->rank == 4 || wanted->rank == AMP_GRAPH_OPEN);
}

static int complain(const run_input *input, const char *why) {
    char *declared = run_declared_text(input->wanted);
    const int code = declared ? run_fail(AMP_EXIT_USAGE, "input '%s' %s %s takes no image: %s", input->wanted->name,
                                         amp_dtype_name(input->wanted->dtype), declared, why)
                              : run_no_memory();
    free(declared);
    return code;
}

static void fill(int64_t *extent, int64_t with) {
    if (*extent == AMP_GRAPH_OPEN) *extent = with;
}

/* Extents that the model leaves open, and no --shape gives, are the image's own. */
int run_pixels_shape(run_input *input, const run_options *o) {
    if (!takes_images(input->wanted)) return complain(input, "that is four extents of a floating type, or of u8");
    if (input->rank == AMP_GRAPH_OPEN) {
        input->rank = 4;
        for (int d = 0; d < input->rank; d++) input->shape[d] = AMP_GRAPH_OPEN;
    }
    if (input->rank != 4) return complain(input, "--shape is to have four extents");
    if (input->wanted->dtype == AMP_U8 && (o->mean.count || o->scale.count))
        return complain(input, "u8 has no room for --mean and --scale");
    input->layout = layout_of(input, o);
    const places at = places_of(input->layout);
    fill(&input->shape[0], 1);
    fill(&input->shape[at.channels], input->image.grey ? 1 : RUN_CHANNELS);
    fill(&input->shape[at.height], input->image.height);
    fill(&input->shape[at.width], input->image.width);
    if (input->shape[0] != 1) return complain(input, "a file is one image, not a batch of them");
    if (input->shape[at.height] < 1 || input->shape[at.width] < 1) return complain(input, "it has no pixels");
    if (is_channels(input->shape[at.channels])) return AMP_EXIT_OK;
    return complain(input, input->layout == RUN_NHWC
                               ? "its last extent is to be 1 or 3 channels; --layout nchw wants them behind the first"
                               : "its second extent is to be 1 or 3 channels; --layout nhwc wants them at the end");
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */
/* The pixels as (1, channels, height, width), 0 to 255. Grey is luma, as in JPEG. */
static amp_tensor *planes_of(const run_image *image, int64_t channels) {
    const int64_t pixels = image->height * image->width;
    amp_tensor *planes = amp_empty(AMP_DIMS(1, channels, image->height, image->width));
    float *to = amp_data_mut(planes);
    for (int64_t i = 0; to && i < pixels; i++) {
        const unsigned char *p = image->pixels + 3 * i;
        if (channels == 1) {
            const int luma = (299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000;
            to[i] = (float)luma;
        } else {
            for (int c = 0; c < RUN_CHANNELS; c++) to[c * pixels + i] = p[c];
        }
    }
    return planes;
}

static double number_of(const run_numbers *numbers, int64_t channel, double otherwise) {
    if (numbers->count == 0) return otherwise;
    return numbers->values[numbers->count == 1 ? 0 : channel];
}

/* (x / 255 - mean) / scale, a channel at a time; of u8 whole numbers. */
static void scale_values(amp_tensor *planes, bool whole, const run_options *o) {
    const int64_t channels = amp_tensor_size(planes, 1), pixels = amp_tensor_numel(planes) / channels;
    float *values = amp_data_mut(planes);
    for (int64_t c = 0; c < channels; c++) {
        const double mean = number_of(&o->mean, c, 0), scale = number_of(&o->scale, c, 1);
        for (int64_t i = 0; i < pixels; i++) {
            float *x = &values[c * pixels + i];
            *x = whole ? rintf(fminf(fmaxf(*x, 0), 255)) : (float)((*x / 255.0 - mean) / scale);
        }
    }
}

static amp_tensor *resized(amp_tensor *planes, int64_t height, int64_t width) {
    if (amp_tensor_size(planes, 2) == height && amp_tensor_size(planes, 3) == width) return planes;
    return amp_interpolate(planes, .size = AMP_DIMS(height, width), .mode = "bilinear", .antialias = true);
}

static amp_tensor *image_tensor(const run_input *input, const run_options *o) {
    const places at = places_of(input->layout);
    const amp_dtype wanted = input->wanted->dtype, dtype = wanted == AMP_DTYPE_NONE ? AMP_F32 : wanted;
    amp_tensor *x = planes_of(&input->image, input->shape[at.channels]);
    x = resized(x, input->shape[at.height], input->shape[at.width]);
    if (!x) return NULL;
    scale_values(x, dtype == AMP_U8, o);
    if (input->layout == RUN_NHWC) x = amp_contiguous(amp_permute(x, AMP_DIMS(0, 2, 3, 1)));
    return amp_keep(amp_to(x, dtype));
}

int run_pixels_make(run_input *input, const run_options *o) {
    const run_numbers *numbers[] = {&o->mean, &o->scale};
    const bool grey = input->shape[places_of(input->layout).channels] == 1;
    for (int i = 0; i < 2; i++) {
        if (grey && numbers[i]->count > 1)
            return complain(input, "it is grey, and --mean or --scale has numbers for three channels");
    }
    amp_scope {
        input->tensor = image_tensor(input, o);
    }
    return input->tensor ? AMP_EXIT_OK : run_fail_amp();
}
