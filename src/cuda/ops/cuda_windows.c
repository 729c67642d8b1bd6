/* Resampling, pooling and padding: the tables that the op layer makes are sent to the device, where one kernel reads
 * them. */
#include <string.h>

#include "core/compute_dtype.h"
#include "cuda/args/index_args.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"

/* ---- Geometry ---------------------------------------------------------------------------------------------------- */
static amp_cuda_steps steps_of(const amp_spatial *s, const amp_tensor *t) {
    const int channel = s->rank - s->dims - 1; /* 1 behind a batch */
    amp_cuda_steps steps = {.batch = channel ? t->strides[0] : 0, .channel = t->strides[channel]};
    for (int d = 0; d < s->dims; d++) steps.axis[AMP_SPATIAL_DIMS - s->dims + d] = t->strides[channel + 1 + d];
    return steps;
}

static void set_output_shape(const amp_spatial *s, const amp_tensor *input, int64_t *shape) {
    const int channel = s->rank - s->dims - 1;
    memcpy(shape, input->shape, (size_t)s->rank * sizeof *shape);
    for (int d = 0; d < s->dims; d++) shape[channel + 1 + d] = s->out[AMP_SPATIAL_DIMS - s->dims + d];
}

static amp_tensor *output(amp_call *call, const amp_spatial *s, int index, amp_dtype dtype, const amp_tensor *input) {
    int64_t shape[AMP_MAX_RANK];
    set_output_shape(s, input, shape);
    return amp_call_output_like(call, index, dtype, s->rank, shape, input);
}

/* Numbers of 8 bytes, on the device until the call is over; NULL with an error. */
static const void *sent(const amp_call *call, const void *numbers, int64_t count) {
    amp_tensor *t = amp_cuda_temporary(call, AMP_I64, 1, &count);
    void *to = t ? amp_cuda_address(call->op->name, t) : NULL;
    if (!to) return NULL;
    const amp_cuda_result result = amp_cuda_loaded()->upload(to, numbers, (size_t)count * sizeof(int64_t));
    return amp_cuda_status(call->op->name, result) == AMP_OK ? to : NULL;
}

static const char *kernel_for(amp_dtype compute, const char *const names[3]) {
    return names[compute == AMP_F32 ? 0 : compute == AMP_F64 ? 1 : 2];
}

/* The tables of `a` are set; the rest follows from the tensors. A thread for each of `count` elements. */
static amp_status launch_over(amp_call *call, const amp_spatial *s, const char *kernel, const amp_tensor *input,
                              const amp_tensor *out, const amp_tensor *places, int64_t count, amp_cuda_windows *a) {
    const char *op = call->op->name;
    a->count = count;
    a->channels = s->channels;
    a->by_channels = amp_cuda_divide_by(s->channels);
    a->in_dtype = input->dtype;
    a->out_dtype = out->dtype;
    a->in = amp_cuda_address(op, input);
    a->out = a->in ? amp_cuda_address(op, out) : NULL;
    if (a->out && places) a->places = amp_cuda_address(op, places);
    if (!a->out || (places && !a->places)) return amp_pending_error();
    a->in_steps = steps_of(s, input);
    a->out_steps = steps_of(s, out);
    if (places) a->place_steps = steps_of(s, places);
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        a->axis[k].in = s->in[k];
        a->axis[k].out = s->out[k];
        a->axis[k].by_out = amp_cuda_divide_by(s->out[k]);
    }
    return amp_cuda_launch_over(op, kernel, a, amp_cuda_unit_blocks(a->count));
}

static amp_status launch(amp_call *call, const amp_spatial *s, const char *kernel, const amp_tensor *input,
                         const amp_tensor *out, const amp_tensor *places, amp_cuda_windows *a) {
    return launch_over(call, s, kernel, input, out, places, amp_tensor_elements(out), a);
}

/* ---- One element, or weighted ones ------------------------------------------------------------------------------- */
amp_status amp_cuda_spatial_gather(amp_call *call, const amp_spatial *s, amp_tensor *input,
                                   const int64_t *const tables[AMP_SPATIAL_DIMS]) {
    amp_tensor *out = output(call, s, 0, input->dtype, input);
    amp_cuda_windows a = {.size = (int)amp_dtype_size(input->dtype)};
    if (!out || amp_tensor_elements(out) == 0) return out ? AMP_OK : amp_pending_error();
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        a.axis[k] = (amp_cuda_window_axis){.most = 1, .index = sent(call, tables[k], s->out[k])};
        if (!a.axis[k].index) return amp_pending_error();
    }
    return launch(call, s, "windows_move", input, out, NULL, &a);
}

amp_status amp_cuda_resample(amp_call *call, const amp_spatial *s, amp_tensor *input,
                             const amp_taps taps[AMP_SPATIAL_DIMS]) {
    amp_tensor *out = output(call, s, 0, input->dtype, input);
    amp_cuda_windows a = {.round = input->dtype == AMP_U8};
    if (!out || amp_tensor_elements(out) == 0) return out ? AMP_OK : amp_pending_error();
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        const int64_t room = s->out[k] * taps[k].most;
        amp_cuda_window_axis *axis = &a.axis[k];
        axis->most = taps[k].most;
        axis->counts = sent(call, taps[k].counts, s->out[k]);
        axis->index = axis->counts ? sent(call, taps[k].index, room) : NULL;
        axis->weights = axis->index ? sent(call, taps[k].weights, room) : NULL;
        if (!axis->weights) return amp_pending_error();
    }
    return launch(call, s, input->dtype == AMP_F64 ? "resample_f64" : "resample_f32", input, out, NULL, &a);
}

/* ---- Pooling ----------------------------------------------------------------------------------------------------- */
static amp_status send_windows(const amp_call *call, const amp_pool *p, int k, amp_cuda_window_axis *axis) {
    const int64_t out = p->s.out[k], most = p->most[k] > 0 ? p->most[k] : 1;
    int64_t *counts = amp_spatial_table(call, out * (most + 2), sizeof *counts);
    if (!counts) return amp_pending_error();
    int64_t *padded = counts + out, *index = padded + out;
    for (int64_t i = 0; i < out; i++) {
        const amp_window *w = &p->windows[k][i];
        counts[i] = w->count;
        padded[i] = w->padded;
        for (int64_t j = 0; j < most; j++) index[i * most + j] = j < w->count ? w->start + j * p->step[k] : 0;
    }
    axis->most = most;
    axis->stride = p->step[k];
    axis->counts = sent(call, counts, out * (most + 2));
    axis->padded = axis->counts ? axis->counts + out : NULL;
    axis->index = axis->counts ? axis->padded + out : NULL;
    return axis->counts ? AMP_OK : amp_pending_error();
}

static amp_status pool(amp_call *call, const amp_pool *p, const char *kernel, amp_tensor *input, amp_tensor *places,
                       amp_cuda_windows *a) {
    amp_tensor *out = output(call, &p->s, 0, input->dtype, input);
    if (!out || amp_tensor_elements(out) == 0) return out ? AMP_OK : amp_pending_error();
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) AMP_TRY(send_windows(call, p, k, &a->axis[k]));
    return launch(call, &p->s, kernel, input, out, places, a);
}

amp_status amp_cuda_pool_average(amp_call *call, const amp_pool *p, amp_tensor *input, bool count_padding,
                                 const int64_t *divisor) {
    static const char *const kernels[3] = {"average_f32", "average_f64", "average_i64"};
    amp_cuda_windows a = {.count_padding = count_padding, .divisor = divisor ? *divisor : 0};
    return pool(call, p, kernel_for(amp_compute_dtype(input->dtype), kernels), input, NULL, &a);
}

amp_status amp_cuda_pool_maximum(amp_call *call, const amp_pool *p, amp_tensor *input, bool return_indices) {
    static const char *const kernels[3] = {"maximum_windows_f32", "maximum_windows_f64", "maximum_windows_i64"};
    amp_cuda_windows a = {0};
    amp_tensor *places = return_indices ? output(call, &p->s, 1, AMP_I64, input) : NULL;
    if (return_indices && !places) return amp_pending_error();
    return pool(call, p, kernel_for(amp_compute_dtype(input->dtype), kernels), input, places, &a);
}

amp_status amp_cuda_unpool(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *indices) {
    amp_tensor *out = output(call, s, 0, input->dtype, input);
    amp_cuda_windows a = {.size = (int)amp_dtype_size(input->dtype)};
    const amp_scalar zero = amp_int(0);
    if (!out || amp_tensor_elements(out) == 0) return out ? AMP_OK : amp_pending_error();
    AMP_TRY(amp_cuda_fill(out, &zero));
    AMP_TRY(amp_cuda_report_of(call->op->name, &a.report));
    return launch_over(call, s, "windows_put_back", input, out, indices, amp_tensor_elements(input), &a);
}

amp_status amp_cuda_sample_grid(amp_call *call, const amp_spatial *s, const amp_sampling *r) {
    const char *op = call->op->name;
    const amp_tensor *grid = r->grid;
    amp_tensor *out = output(call, s, 0, r->input->dtype, r->input);
    if (!out || amp_tensor_elements(out) == 0) return out ? AMP_OK : amp_pending_error();
    amp_cuda_samples a = {.dtype = r->input->dtype,
                          .dims = s->dims,
                          .mode = (int)r->mode,
                          .border = (int)r->border,
                          .align = r->align,
                          .batch = s->batch,
                          .channels = s->channels,
                          .in_steps = steps_of(s, r->input),
                          .out_steps = steps_of(s, out),
                          .grid_steps = {.batch = grid->strides[0], .channel = grid->strides[grid->rank - 1]}};
    memcpy(a.in_extent, s->in, sizeof a.in_extent);
    memcpy(a.out_extent, s->out, sizeof a.out_extent);
    for (int d = 0; d < s->dims; d++) a.grid_steps.axis[AMP_SPATIAL_DIMS - s->dims + d] = grid->strides[1 + d];
    a.in = amp_cuda_address(op, r->input);
    a.grid = a.in ? amp_cuda_address(op, grid) : NULL;
    a.out = a.grid ? amp_cuda_address(op, out) : NULL;
    if (!a.out) return amp_pending_error();
    return amp_cuda_launch_over(op, a.dtype == AMP_F64 ? "sample_grid_f64" : "sample_grid_f32", &a,
                                amp_cuda_blocks(a.batch * s->out[0] * s->out[1] * s->out[2] * 4));
}

/* ---- Windows that samples place ---------------------------------------------------------------------------------- */
amp_status amp_cuda_pool_fractional(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *samples,
                                    const int64_t kernel[AMP_SPATIAL_DIMS], bool with_places) {
    const char *op = call->op->name;
    const amp_tensor *x = amp_cuda_dense(input), *numbers = x ? amp_cuda_dense(samples) : NULL;
    int64_t shape[AMP_MAX_RANK];
    set_output_shape(s, input, shape);
    const amp_tensor *out = numbers ? amp_call_dense_output(call, input->dtype, s->rank, shape) : NULL;
    const amp_tensor *places = out && with_places ? amp_call_output(call, 1, AMP_I64, s->rank, shape) : NULL;
    if (!out || (with_places && !places)) return amp_pending_error();
    amp_cuda_fractions a = {.dtype = input->dtype, .dims = s->dims, .count = amp_tensor_elements(out)};
    if (a.count == 0) return AMP_OK;
    memcpy(a.in_extent, s->in, sizeof a.in_extent);
    memcpy(a.out_extent, s->out, sizeof a.out_extent);
    memcpy(a.kernel, kernel, sizeof a.kernel);
    a.in = amp_cuda_address(op, x);
    a.samples = a.in ? amp_cuda_address(op, numbers) : NULL;
    a.out = a.samples ? amp_cuda_address(op, out) : NULL;
    if (a.out && places) a.places = amp_cuda_address(op, places);
    if (!a.out || (places && !a.places)) return amp_pending_error();
    return amp_cuda_launch_over(op, a.dtype == AMP_F64 ? "fractions_f64" : "fractions_f32", &a,
                                amp_cuda_blocks(a.count));
}
