/* GridSample, AffineGrid, DeformConv, and what boxes need: NonMaxSuppression, RoiAlign, MaxRoiPool (on the host). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

/* ---- Grids -------------------------------------------------------------------------------------------------------- */

/* The place of a word in a list; -1 with an error. */
static int place_of(const amp_onnx_step *s, const char *attribute, const char *otherwise, const char *const *words) {
    const char *given = amp_onnx_text(s, attribute, otherwise);
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], given) == 0) return i;
    }
    amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute '%s' is '%s'", attribute, given);
    return -1;
}

amp_status onnx_grid_sample(amp_onnx_step *s) {
    static const char *const modes[] = {"bilinear", "nearest", "bicubic", "linear", "nearest", "cubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    amp_tensor *x = amp_onnx_required(s, 0), *grid = amp_onnx_required(s, 1);
    const int mode = place_of(s, "mode", "linear", modes), padding = place_of(s, "padding_mode", "zeros", paddings);
    if (mode < 0 || padding < 0) return amp_pending_error();
    return amp_onnx_set(s, 0, amp_grid_sampler(x, grid, mode % 3, padding, amp_onnx_int(s, "align_corners", 0) != 0));
}

/* The coordinates of each place of an output, the last dimension's first, and 1. */
static void fill_base_grid(int dims, const int64_t *size, bool corners, float *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (int d = dims - 1; d >= 0; d--) {
            const double at = (double)(rest % size[d]), extent = (double)size[d];
            const double inner = size[d] > 1 ? 2 * at / (extent - 1) - 1 : 0;
            *to++ = (float)(corners ? inner : (2 * at + 1) / extent - 1);
            rest /= size[d];
        }
        *to++ = 1;
    }
}

/* theta (N, dims, dims + 1), size (N, C, …). Sums of products in f32, not a matrix product, which a region would
 * round. */
amp_status onnx_affine_grid(amp_onnx_step *s) {
    amp_tensor *theta = amp_onnx_required(s, 0), *wanted = amp_onnx_required(s, 1);
    int64_t size[5];
    if (!theta || !wanted) return amp_pending_error();
    const int64_t rank = amp_onnx_read_ints(s, wanted, size, 5);
    if (rank < 0) return amp_pending_error();
    const int64_t dims = rank - 2;
    const bool fits = (rank == 4 || rank == 5) && theta->rank == 3 && theta->shape[0] == size[0] &&
                      theta->shape[1] == dims && theta->shape[2] == dims + 1;
    if (!fits)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "theta is %s for %lld extents", amp_describe(theta),
                             (long long)rank);
    const int64_t count = amp_onnx_product(s, (int)dims, size + 2, AMP_ONNX_MOST_MADE / 4);
    if (count < 0) return amp_pending_error();
    float *base = amp_onnx_memory(AMP_F32, count * (dims + 1) + 1);
    if (!base) return amp_pending_error();
    fill_base_grid((int)dims, size + 2, amp_onnx_int(s, "align_corners", 0) != 0, base, count);
    const int64_t shape[4] = {1, count, 1, dims + 1};
    amp_tensor *places = amp_to(amp_onnx_from_host(s, AMP_F32, 4, shape, base), theta->dtype);
    amp_tensor *grid = amp_sum(amp_mul(places, amp_unsqueeze(theta, 1)), .dim = AMP_DIMS(-1));
    int64_t result[5];
    result[0] = size[0];
    memcpy(result + 1, size + 2, (size_t)dims * sizeof *size);
    result[dims + 1] = dims;
    return amp_onnx_set(s, 0, amp_onnx_reshaped(grid, (int)rank, result));
}

/* ---- DeformConv --------------------------------------------------------------------------------------------------- */

typedef struct deformed {
    amp_tensor *x, *weight, *offset, *mask;
    amp_onnx_window w;
    int64_t samples, channels, taps, offset_groups, groups; /* taps: elements of the kernel */
} deformed;

/* Where tap k of the window at each output looks along dimension d before it is moved: (taps, oH, oW). */
static amp_tensor *resting_places(const amp_onnx_step *s, const deformed *p, int d) {
    const amp_onnx_window *w = &p->w;
    const int64_t shape[3] = {p->taps, w->output[0], w->output[1]};
    float *places = amp_onnx_memory(AMP_F32, shape[0] * shape[1] * shape[2]), *to = places;
    if (!places) return NULL;
    for (int64_t k = 0; k < p->taps; k++) {
        const int64_t tap = d == 0 ? k / w->kernel[1] : k % w->kernel[1];
        for (int64_t i = 0; i < shape[1]; i++) {
            for (int64_t j = 0; j < shape[2]; j++) {
                *to++ = (float)((d == 0 ? i : j) * w->stride[d] + tap * w->dilation[d] - w->before[d]);
            }
        }
    }
    return amp_onnx_from_host(s, AMP_F32, 3, shape, places);
}

/* The moved places along d as grid_sampler takes them: -1 and 1 are the borders of the image. */
static amp_tensor *moved_places(const amp_onnx_step *s, const deformed *p, int d) {
    const int64_t *o = p->w.output;
    amp_tensor *offset = amp_reshape(p->offset, AMP_DIMS(p->samples * p->offset_groups, p->taps, 2, o[0], o[1]));
    amp_tensor *at = amp_add(amp_to(amp_select(offset, 2, d), AMP_F32), resting_places(s, p, d));
    const double extent = (double)p->w.input[d];
    return amp_add_scalar(amp_mul_scalar(at, amp_float(2 / extent)), amp_float(1 / extent - 1));
}

/* (N, groups, channels of a group · taps, outputs). */
static amp_tensor *sample_columns(const amp_onnx_step *s, const deformed *p) {
    const int64_t *o = p->w.output, images = p->samples * p->offset_groups;
    amp_tensor *grid = amp_stack(AMP_LIST(moved_places(s, p, 1), moved_places(s, p, 0)), .dim = -1);
    grid = amp_to(amp_reshape(grid, AMP_DIMS(images, p->taps * o[0], o[1], 2)), p->x->dtype);
    amp_tensor *x = amp_reshape(p->x, AMP_DIMS(images, p->channels / p->offset_groups, p->w.input[0], p->w.input[1]));
    amp_tensor *seen = amp_grid_sampler(x, grid, 0, 0, false);
    if (p->mask) seen = amp_mul(seen, amp_reshape(p->mask, AMP_DIMS(images, 1, p->taps * o[0], o[1])));
    return amp_reshape(seen, AMP_DIMS(p->samples, p->groups, p->channels / p->groups * p->taps, o[0] * o[1]));
}

static amp_status check_deformed(const amp_onnx_step *s, deformed *p) {
    const amp_tensor *x = p->x, *weight = p->weight, *offset = p->offset;
    if (x->rank != 4 || weight->rank != 4 || offset->rank != 4) {
        return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "the input is %s, the weight %s: rank 4 is done",
                             amp_describe(x), amp_describe(weight));
    }
    AMP_TRY(amp_onnx_window_of(s, x, weight, &p->w));
    p->samples = x->shape[0];
    p->channels = x->shape[1];
    p->taps = p->w.kernel[0] * p->w.kernel[1];
    p->groups = amp_onnx_int(s, "group", 1);
    p->offset_groups = amp_onnx_int(s, "offset_group", 1);
    const int64_t g = p->groups, o = p->offset_groups;
    const bool fits = g >= 1 && o >= 1 && p->channels % g == 0 && p->channels % o == 0 && weight->shape[0] % g == 0 &&
                      weight->shape[1] == p->channels / g && offset->shape[1] == o * p->taps * 2 &&
                      offset->shape[2] == p->w.output[0] && offset->shape[3] == p->w.output[1];
    if (fits) return AMP_OK;
    return amp_onnx_fail(s, AMP_ERROR_INVALID,
                         "the input is %s, the weight %s, offsets are %s; %lld groups, %lld of offsets",
                         amp_describe(x), amp_describe(weight), amp_describe(offset), (long long)g, (long long)o);
}

amp_status onnx_deform_conv(amp_onnx_step *s) {
    deformed p = {.x = amp_onnx_required(s, 0), .weight = amp_onnx_required(s, 1), .offset = amp_onnx_required(s, 2)};
    amp_tensor *bias = amp_onnx_input(s, 3);
    p.mask = amp_onnx_input(s, 4);
    if (!p.x || !p.weight || !p.offset) return amp_pending_error();
    AMP_TRY(check_deformed(s, &p));
    const int64_t outputs = p.weight->shape[0], *o = p.w.output;
    amp_tensor *rows = amp_reshape(p.weight, AMP_DIMS(1, p.groups, outputs / p.groups, p.channels / p.groups * p.taps));
    amp_tensor *y = amp_reshape(amp_matmul(rows, sample_columns(s, &p)), AMP_DIMS(p.samples, outputs, o[0], o[1]));
    return amp_onnx_set(s, 0, bias && y ? amp_add(y, amp_onnx_along(bias, 1, 4)) : y);
}

/* ---- NonMaxSuppression -------------------------------------------------------------------------------------------- */

typedef struct candidate {
    float score;
    int64_t box;
} candidate;

static int by_score(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return (x->box > y->box) - (x->box < y->box);
}

/* Corners in order, of two opposite ones or of a middle and extents. */
static void read_box(const float *box, bool centre, float *lo, float *hi) {
    for (int d = 0; d < 2; d++) {
        const float a = centre ? box[d] - box[d + 2] / 2 : box[d], b = centre ? box[d] + box[d + 2] / 2 : box[d + 2];
        lo[d] = a < b ? a : b;
        hi[d] = a < b ? b : a;
    }
}

/* The area that two boxes share, over what they cover together. */
static float overlap(const float *a, const float *b, bool centre) {
    float lo[2][2], hi[2][2], shared = 1, area[2] = {1, 1};
    read_box(a, centre, lo[0], hi[0]);
    read_box(b, centre, lo[1], hi[1]);
    for (int d = 0; d < 2; d++) {
        const float from = fmaxf(lo[0][d], lo[1][d]), to = fminf(hi[0][d], hi[1][d]);
        shared *= to > from ? to - from : 0;
        for (int k = 0; k < 2; k++) area[k] *= hi[k][d] - lo[k][d];
    }
    const float all = area[0] + area[1] - shared;
    return all > 0 ? shared / all : 0;
}

typedef struct suppression {
    const float *boxes, *scores; /* (B, n, 4), (B, C, n) */
    int64_t batch, classes, count, most;
    float most_overlap, least_score;
    bool centre, has_least;
} suppression;

/* Chosen boxes of one class into `chosen`; how many. */
static int64_t choose(const suppression *p, int64_t b, int64_t c, candidate *candidates, int64_t *chosen) {
    const float *boxes = p->boxes + b * p->count * 4, *scores = p->scores + (b * p->classes + c) * p->count;
    int64_t found = 0, kept = 0;
    for (int64_t i = 0; i < p->count; i++) {
        if (!p->has_least || scores[i] > p->least_score) candidates[found++] = (candidate){scores[i], i};
    }
    qsort(candidates, (size_t)found, sizeof *candidates, by_score);
    for (int64_t i = 0; i < found && kept < p->most; i++) {
        bool free = true;
        for (int64_t k = 0; free && k < kept; k++) {
            free = !(overlap(boxes + candidates[i].box * 4, boxes + chosen[k] * 4, p->centre) > p->most_overlap);
        }
        if (free) chosen[kept++] = candidates[i].box;
    }
    return kept;
}

static amp_status read_suppression(const amp_onnx_step *s, suppression *p) {
    amp_tensor *boxes = amp_onnx_required(s, 0), *scores = amp_onnx_required(s, 1);
    const amp_tensor *most = amp_onnx_input(s, 2), *limits[2] = {amp_onnx_input(s, 3), amp_onnx_input(s, 4)};
    float *const to[2] = {&p->most_overlap, &p->least_score};
    if (!boxes || !scores) return amp_pending_error();
    const bool fits = boxes->rank == 3 && scores->rank == 3 && boxes->shape[2] == 4 &&
                      boxes->shape[0] == scores->shape[0] && boxes->shape[1] == scores->shape[2];
    if (!fits)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "boxes are %s, scores %s", amp_describe(boxes),
                             amp_describe(scores));
    if (most && amp_onnx_read_ints(s, most, &p->most, 1) != 1) {
        return amp_failed() ? amp_pending_error() : amp_onnx_fail(s, AMP_ERROR_INVALID, "no number of boxes");
    }
    for (int i = 0; i < 2; i++) {
        if (!limits[i] || amp_tensor_elements(limits[i]) == 0) continue;
        if (amp_tensor_elements(limits[i]) != 1) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "a threshold is %s", amp_describe(limits[i]));
        }
        AMP_TRY(amp_read(limits[i], AMP_F32, to[i], sizeof *to[i]));
        if (i == 1) p->has_least = true;
    }
    p->batch = scores->shape[0];
    p->classes = scores->shape[1];
    p->count = scores->shape[2];
    if (p->most > p->count) p->most = p->count;
    p->centre = amp_onnx_int(s, "center_point_box", 0) != 0;
    p->boxes = p->count && p->batch ? amp_onnx_host(boxes, AMP_F32) : NULL;
    p->scores = p->count && p->batch ? amp_onnx_host(scores, AMP_F32) : NULL;
    return amp_pending_error();
}

/* Rows of batch, class, box. */
amp_status onnx_non_max_suppression(amp_onnx_step *s) {
    suppression p = {.most = 0};
    AMP_TRY(read_suppression(s, &p));
    const int64_t most = p.most > 0 && p.boxes ? p.batch * p.classes * p.most : 0;
    int64_t *rows = amp_onnx_memory(AMP_I64, 3 * most + 1), *chosen = amp_onnx_memory(AMP_I64, p.count + 1), count = 0;
    candidate *candidates = amp_onnx_memory(AMP_I64, 2 * p.count + 2);
    if (!rows || !chosen || !candidates) return amp_pending_error();
    for (int64_t i = 0; most > 0 && i < p.batch * p.classes; i++) {
        const int64_t kept = choose(&p, i / p.classes, i % p.classes, candidates, chosen);
        for (int64_t k = 0; k < kept; k++, count++) {
            rows[3 * count] = i / p.classes;
            rows[3 * count + 1] = i % p.classes;
            rows[3 * count + 2] = chosen[k];
        }
    }
    const int64_t shape[2] = {count, 3};
    return amp_onnx_set(s, 0, amp_onnx_from_host(s, AMP_I64, 2, shape, rows));
}

/* ---- Regions ------------------------------------------------------------------------------------------------------ */

typedef struct regions {
    const float *x, *rois;
    int64_t n, channels, height, width, count, out_height, out_width, columns; /* columns: numbers of a region */
    double scale;
    double samples; /* that are left to RoiAlign */
    float *y;
} regions;

static amp_status read_regions(const amp_onnx_step *s, regions *p, int64_t columns) {
    amp_tensor *x = amp_onnx_required(s, 0), *rois = amp_onnx_required(s, 1);
    if (!x || !rois) return amp_pending_error();
    if (x->rank != 4 || rois->rank != 2 || rois->shape[1] != columns || amp_tensor_elements(x) == 0) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "the input is %s, regions are %s", amp_describe(x),
                             amp_describe(rois));
    }
    if (p->out_height < 1 || p->out_width < 1 || p->out_height > INT16_MAX || p->out_width > INT16_MAX) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "a result of %lld by %lld", (long long)p->out_height,
                             (long long)p->out_width);
    }
    p->n = x->shape[0], p->channels = x->shape[1], p->height = x->shape[2], p->width = x->shape[3];
    p->count = rois->shape[0];
    p->columns = columns;
    p->scale = amp_onnx_float(s, "spatial_scale", 1);
    p->x = amp_onnx_host(x, AMP_F32);
    p->rois = p->count ? amp_onnx_host(rois, AMP_F32) : NULL;
    const int64_t shape[4] = {p->count, p->channels, p->out_height, p->out_width};
    const int64_t count = amp_onnx_product(s, 4, shape, AMP_ONNX_MOST_MADE);
    p->y = count < 0 ? NULL : amp_onnx_memory(AMP_F32, count + 1);
    return amp_pending_error();
}

static amp_status set_regions(amp_onnx_step *s, const regions *p, amp_dtype dtype) {
    const int64_t shape[4] = {p->count, p->channels, p->out_height, p->out_width};
    return amp_onnx_set(s, 0, amp_to(amp_onnx_from_host(s, AMP_F32, 4, shape, p->y), dtype));
}

/* A place between four elements, and their shares. */
typedef struct corners {
    int64_t at[4];
    double share[4];
} corners;

static bool find_corners(const regions *p, double y, double x, corners *c) {
    if (!(y >= -1) || y > (double)p->height || !(x >= -1) || x > (double)p->width) return false;
    y = y > 0 ? y : 0;
    x = x > 0 ? x : 0;
    int64_t top = (int64_t)y, left = (int64_t)x;
    if (top >= p->height - 1) top = p->height - 1, y = (double)top;
    if (left >= p->width - 1) left = p->width - 1, x = (double)left;
    const int64_t bottom = top + 1 < p->height ? top + 1 : top, right = left + 1 < p->width ? left + 1 : left;
    const double down = y - (double)top, across = x - (double)left;
    *c = (corners){{top * p->width + left, top * p->width + right, bottom * p->width + left, bottom * p->width + right},
                   {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across}};
    return true;
}

/* One element of the result: `grid` samples of a bin that begins at `from` and is `size` large, of one plane. */
static float sample_bin(const regions *p, const float *plane, const double from[2], const double size[2],
                        const int64_t grid[2], bool maximum) {
    double sum = 0;
    bool any = false;
    for (int64_t i = 0; i < grid[0]; i++) {
        for (int64_t j = 0; j < grid[1]; j++) {
            corners c = {{0}, {0}};
            (void)find_corners(p, from[0] + ((double)i + 0.5) * size[0] / (double)grid[0],
                               from[1] + ((double)j + 0.5) * size[1] / (double)grid[1], &c);
            double all = 0, largest = -INFINITY;
            for (int k = 0; k < 4; k++) {
                const double part = c.share[k] * (double)plane[c.at[k]];
                all += part;
                if (part > largest) largest = part;
            }
            if (!maximum) sum += all;
            if (maximum && (!any || largest > sum)) sum = largest;
            any = true;
        }
    }
    const int64_t count = grid[0] * grid[1];
    return (float)(maximum || count < 1 ? sum : sum / (double)count);
}

/* Region r, of sample `b`. shift: what a place's number is less than its distance from the border. */
static amp_status align_region(const amp_onnx_step *s, regions *p, int64_t r, int64_t b, double shift, int64_t ratio,
                               bool maximum) {
    const int64_t extents[2] = {p->out_height, p->out_width};
    double begin[2], size[2];
    int64_t grid[2];
    for (int d = 0; d < 2; d++) {
        begin[d] = (double)p->rois[r * 4 + 1 - d] * p->scale - shift;
        double reach = (double)p->rois[r * 4 + 3 - d] * p->scale - shift - begin[d];
        if (shift == 0 && !(reach > 1)) reach = 1;
        size[d] = reach / (double)extents[d];
        const double samples = ratio > 0 ? (double)ratio : ceil(size[d]);
        if (!(samples < 4096)) return amp_onnx_fail(s, AMP_ERROR_INVALID, "region %lld is too large", (long long)r);
        grid[d] = samples > 0 ? (int64_t)samples : 0;
    }
    p->samples -= (double)(grid[0] * grid[1] * extents[0] * extents[1]) * (double)p->channels;
    if (p->samples < 0) return amp_onnx_fail(s, AMP_ERROR_INVALID, "region %lld has too many samples", (long long)r);
    float *y = p->y + r * p->channels * extents[0] * extents[1];
    for (int64_t c = 0; c < p->channels; c++) {
        const float *plane = p->x + (b * p->channels + c) * p->height * p->width;
        for (int64_t i = 0; i < extents[0]; i++) {
            for (int64_t j = 0; j < extents[1]; j++) {
                const double from[2] = {begin[0] + (double)i * size[0], begin[1] + (double)j * size[1]};
                *y++ = sample_bin(p, plane, from, size, grid, maximum);
            }
        }
    }
    return AMP_OK;
}

/* Of all regions: 16 × 16 of each element of the result, or, as where the ratio is left open, each region twice the image
 * each way. A few bytes of a file cannot ask for hours so. */
static double most_samples(const regions *p) {
    const double results = (double)p->out_height * (double)p->out_width, image = (double)p->height * (double)p->width;
    return 0x1p24 + (256 * results + 4 * image) * (double)p->count * (double)p->channels;
}

/* `to`: the default of coordinate_transformation_mode. The maximum is of the shares of single elements, as in ONNX. */
amp_status onnx_roi_align(amp_onnx_step *s) {
    static const char *const modes[] = {"avg", "max", NULL}, *const places[] = {"half_pixel", "output_half_pixel",
                                                                                NULL};
    amp_tensor *indices = amp_onnx_required(s, 2);
    regions p = {.out_height = amp_onnx_int(s, "output_height", 1), .out_width = amp_onnx_int(s, "output_width", 1)};
    const int mode = place_of(s, "mode", "avg", modes);
    const int place = place_of(s, "coordinate_transformation_mode", s->node->op->to, places);
    if (mode < 0 || place < 0 || !indices) return amp_pending_error();
    AMP_TRY(read_regions(s, &p, 4));
    int64_t *samples = amp_onnx_memory(AMP_I64, p.count + 1);
    if (!samples) return amp_pending_error();
    const int64_t given = amp_onnx_read_ints(s, indices, samples, p.count);
    if (given < 0) return amp_pending_error();
    p.samples = most_samples(&p);
    for (int64_t r = 0; r < p.count; r++) {
        if (given != p.count || samples[r] < 0 || samples[r] >= p.n) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "region %lld is of no sample of the input", (long long)r);
        }
        AMP_TRY(
            align_region(s, &p, r, samples[r], place == 0 ? 0.5 : 0, amp_onnx_int(s, "sampling_ratio", 0), mode == 1));
    }
    return set_regions(s, &p, amp_onnx_input(s, 0)->dtype);
}

static int64_t kept_between(double value, int64_t most) {
    return value > 0 ? value < (double)most ? (int64_t)value : most : 0;
}

/* The largest element of the part of a plane that belongs to bin (i, j); 0 of none. */
static float largest_in_bin(const regions *p, const float *plane, const double begin[2], const double size[2],
                            int64_t i, int64_t j) {
    const int64_t top = kept_between(begin[0] + floor((double)i * size[0]), p->height),
                  bottom = kept_between(begin[0] + ceil((double)(i + 1) * size[0]), p->height),
                  left = kept_between(begin[1] + floor((double)j * size[1]), p->width),
                  right = kept_between(begin[1] + ceil((double)(j + 1) * size[1]), p->width);
    float largest = top < bottom && left < right ? -INFINITY : 0;
    for (int64_t y = top; y < bottom; y++) {
        for (int64_t x = left; x < right; x++) {
            if (plane[y * p->width + x] > largest) largest = plane[y * p->width + x];
        }
    }
    return largest;
}

amp_status onnx_max_roi_pool(amp_onnx_step *s) {
    int count = 0;
    const int64_t *shape = amp_onnx_ints(s, "pooled_shape", &count);
    if (count != 2)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'pooled_shape' has %d values; expected 2", count);
    regions p = {.out_height = shape[0], .out_width = shape[1]};
    AMP_TRY(read_regions(s, &p, 5));
    float *to = p.y;
    for (int64_t r = 0; r < p.count; r++) {
        const float *roi = p.rois + 5 * r;
        double begin[2], size[2];
        for (int d = 0; d < 2; d++) {
            begin[d] = round((double)roi[2 - d] * p.scale);
            const double reach = round((double)roi[4 - d] * p.scale) - begin[d] + 1;
            size[d] = (reach > 1 ? reach : 1) / (double)shape[d];
        }
        if (!(roi[0] >= 0) || !(roi[0] < (float)p.n)) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "region %lld is of no sample of the input", (long long)r);
        }
        for (int64_t c = 0; c < p.channels; c++) {
            const float *plane = p.x + ((int64_t)roi[0] * p.channels + c) * p.height * p.width;
            for (int64_t i = 0; i < shape[0]; i++) {
                for (int64_t j = 0; j < shape[1]; j++) *to++ = largest_in_bin(&p, plane, begin, size, i, j);
            }
        }
    }
    return set_regions(s, &p, amp_onnx_input(s, 0)->dtype);
}
