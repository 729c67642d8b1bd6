/* One long Fourier transform as many short ones: as a matrix of rows · columns numbers, its columns are transformed,
 * eight at a time, each number is turned, and then the rows are, eight at a time. Source: D. Bailey, FFTs in external
 * or hierarchical memory, J. Supercomputing 4 (1990). */
#include <string.h>

#include <omp.h>

#include "core/parallel.h"
#include "cpu/fft/fft.h"

#define LANES 1
#include "cpu/fft/fft_steps.h"

enum { WIDE = AMP_FFT_LANES, NUMBER = 2 * AMP_FFT_LANES };

static int64_t longer_room(const amp_fft_split *s) {
    return s->row_plan->room > s->column_plan->room ? s->row_plan->room : s->column_plan->room;
}

size_t amp_fft_long_scratch(const amp_fft_plan *plan, int threads) {
    return (size_t)threads * 2 * NUMBER * (size_t)longer_room(plan->split);
}

/* Numbers of `active` neighbours into lanes; lanes without one keep what they have. */
static void load_lanes(double *lanes, const double *from, int64_t lane_step, int active) {
    for (int l = 0; l < active; l++) {
        lanes[l] = from[l * lane_step];
        lanes[WIDE + l] = from[l * lane_step + 1];
    }
}

static void store_lanes(double *to, const double *lanes, int active) {
    for (int l = 0; l < active; l++) {
        to[2 * l] = lanes[l];
        to[2 * l + 1] = lanes[WIDE + l];
    }
}

/* lanes[l] · W^(k·(first + l)) */
static void turn_lanes(const amp_fft_split *s, int64_t k, int64_t first, double *lanes) {
    const int64_t t = k * first;
    const double *a = s->coarse + 2 * (t >> s->shift), *b = s->fine + 2 * (t & (((int64_t)1 << s->shift) - 1));
    const double c = a[0] * b[0] - a[1] * b[1], d = a[0] * b[1] + a[1] * b[0];
    const double *w = s->lane_twiddles + k * NUMBER;
    for (int l = 0; l < WIDE; l++) {
        const double w_re = w[l] * c - w[WIDE + l] * d, w_im = w[l] * d + w[WIDE + l] * c;
        const double x = lanes[l], y = lanes[WIDE + l];
        lanes[l] = x * w_re - y * w_im;
        lanes[WIDE + l] = x * w_im + y * w_re;
    }
}

static int active_lanes(int64_t first, int64_t end) {
    return end - first < WIDE ? (int)(end - first) : WIDE;
}

static void transform_columns(const amp_fft_split *s, const double *from, double *to, int64_t first, double *lanes) {
    const int active = active_lanes(first, s->columns);
    const amp_fft_plan *plan = s->column_plan;
    for (int64_t i = 0; i < s->rows; i++)
        load_lanes(lanes + i * NUMBER, from + 2 * (i * s->columns + first), 2, active);
    double *done = plan->function(plan->stage, plan->stages, lanes, lanes + plan->room * NUMBER);
    for (int64_t k = 0; k < s->rows; k++) {
        turn_lanes(s, k, first, done + k * NUMBER);
        store_lanes(to + 2 * (k * s->columns + first), done + k * NUMBER, active);
    }
}

static void transform_rows(const amp_fft_split *s, const double *from, double *to, int64_t first, double *lanes) {
    const int active = active_lanes(first, s->rows);
    const amp_fft_plan *plan = s->row_plan;
    const double *row = from + 2 * first * s->columns;
    for (int64_t j = 0; j < s->columns; j++) load_lanes(lanes + j * NUMBER, row + 2 * j, 2 * s->columns, active);
    double *done = plan->function(plan->stage, plan->stages, lanes, lanes + plan->room * NUMBER);
    for (int64_t k = 0; k < s->columns; k++) store_lanes(to + 2 * (k * s->rows + first), done + k * NUMBER, active);
}

/* data → spare → data. Eight columns, and eight rows, are one unit of work. */
static void split_step(const amp_fft_split *s, double *data, double *spare, double *lanes, int threads) {
    const int64_t room = 2 * NUMBER * longer_room(s);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        double *own = lanes + omp_get_thread_num() * room;
        memset(own, 0, (size_t)room * sizeof *own);
#pragma omp for schedule(static)
        for (int64_t first = 0; first < s->columns; first += WIDE) transform_columns(s, data, spare, first, own);
#pragma omp for schedule(static)
        for (int64_t first = 0; first < s->rows; first += WIDE) transform_rows(s, spare, data, first, own);
    }
}

typedef void range_step(const amp_fft_stage *stage, double *data, int64_t begin, int64_t end);

static void in_parts(range_step *step, const amp_fft_stage *stage, double *data, int64_t begin, int64_t end,
                     int threads) {
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range part = amp_parallel_part(end - begin, 1, omp_get_thread_num(), omp_get_num_threads());
        step(stage, data, begin + part.begin, begin + part.end);
    }
}

double *amp_fft_run_long(const amp_fft_plan *plan, double *data, double *spare, double *lanes, int threads) {
    for (const amp_fft_stage *s = plan->stage; s < plan->stage + plan->stages; s++) {
        switch (s->step) {
        case AMP_FFT_STEP_SPLIT: split_step(plan->split, data, spare, lanes, threads); break;
        case AMP_FFT_STEP_MULTIPLY:
            in_parts(multiply_step, s, data, 0, s->count, threads);
            fill_step(s, data);
            break;
        case AMP_FFT_STEP_UNPACK:
            unpack_ends(s, data);
            in_parts(unpack_step, s, data, 1, pairs_of(s), threads);
            break;
        case AMP_FFT_STEP_PACK:
            pack_ends(s, data);
            in_parts(pack_step, s, data, 1, pairs_of(s), threads);
            break;
        default: break;
        }
    }
    return data;
}
