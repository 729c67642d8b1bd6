/* Depthwise convolutions: the weights as taps of all channels, lines of the output shared among threads. */
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "core/thread.h"
#include "cpu/conv/conv.h"
#include "cpu/convert/strided_copy.h"
#include "cpu/registry/kernels.h"

/* Of image and result: below, the processor's own fetching is faster. */
enum { FAR_BYTES = 4 << 20 };

/* [taps][channels] in f32; rounded to the dtype of the convolution on the way. */
static amp_status fill_taps(const amp_conv *c, const amp_cast_key *key, float *values) {
    const amp_dtype dtype = key->dtype;
    const int64_t shape[] = {c->axis[0].kernel, c->axis[1].kernel, c->axis[2].kernel, c->groups};
    const int64_t from[] = {key->strides[2], key->strides[3], key->strides[4], key->strides[0]};
    const int64_t count[] = {amp_conv_taps(c) * c->groups}, dense[] = {1};
    int64_t to[4];
    amp_dense_strides(4, shape, to);
    void *rounded = amp_alloc((size_t)count[0] * amp_dtype_size(dtype));
    if (!rounded) return amp_fail(AMP_ERROR_MEMORY, "conv: no memory for weights");
    amp_status status =
        amp_strided_copy_anywhere(rounded, dtype, to, amp_cast_key_pointer(key), key->source_dtype, from, 4, shape);
    if (status == AMP_OK) status = amp_strided_copy(values, AMP_F32, dense, rounded, dtype, dense, 1, count);
    amp_free(rounded);
    return status;
}

static amp_tensor *build_taps(const amp_cast_key *key, void *context) {
    const amp_conv *c = context;
    amp_tensor *made = amp_tensor_new("conv: weights", AMP_F32, 2, (const int64_t[]){amp_conv_taps(c), c->groups});
    if (!made || fill_taps(c, key, made->storage->data) == AMP_OK) return made;
    amp_tensor_drop(made);
    return NULL;
}

static size_t pairs_bytes(const amp_conv *c) {
    const int64_t taps[] = {c->axis[0].kernel, c->axis[1].kernel, c->axis[2].kernel};
    return (size_t)amp_depthwise_pack_bytes(taps, c->groups);
}

static amp_tensor *build_pairs(const amp_cast_key *key, void *context) {
    const amp_conv *c = context;
    const int64_t taps[] = {c->axis[0].kernel, c->axis[1].kernel, c->axis[2].kernel};
    const int64_t bytes = (int64_t)pairs_bytes(c);
    amp_tensor *plain = build_taps(key, context);
    amp_tensor *made = plain ? amp_tensor_new("conv: weights", AMP_U8, 1, &bytes) : NULL;
    if (made) amp_depthwise_pack(made->storage->data, plain->storage->data, taps, c->groups);
    if (plain) amp_tensor_drop(plain);
    return made;
}

static bool is_far(const amp_conv *c, amp_dtype dtype) {
    const int64_t in = c->axis[0].in * c->axis[1].in * c->axis[2].in;
    return c->batch * c->groups * (in + amp_conv_pixels(c)) * (int64_t)amp_dtype_size(dtype) > FAR_BYTES;
}

static amp_depthwise_epilogue epilogue_of(const amp_conv *c, const amp_conv_operands *o) {
    return (amp_depthwise_epilogue){
        .scale = (const float *)o->scale.data,
        .bias = (const float *)o->bias.data,
        .residual = o->residual.data,
        .residual_step = o->residual.axis[2],
        .residual_line = o->residual.axis[1],
        .activation = c->epilogue.activation,
        .numbers = {(float)c->epilogue.numbers[0], (float)c->epilogue.numbers[1]},
    };
}

/* The taps are packed, and the kernel was tested: somebody wants no more yet. */
static void give_zeros(const amp_depthwise *d, int64_t lines, size_t size) {
    const amp_gemm_window *w = d->window;
    for (int64_t i = 0; i < lines * w->out[2]; i++) {
        const int64_t offset = i / w->out[2] * d->y_line + i % w->out[2] * d->y_step;
        memset((char *)d->y + (size_t)offset * size, 0, (size_t)w->channels * size);
    }
}

amp_status amp_conv_depthwise(amp_call *call, const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y) {
    const amp_conv_plane *x = &o->x;
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_DEPTHWISE, x->dtype, x->dtype);
    if (!kernel) return amp_last_status();
    const bool pairs = kernel->isa == AMP_ISA_AVX512BF16;
    amp_cast *weights = NULL;
    const amp_layout layout = {pairs ? AMP_LAYOUT_CONV_PAIRS : AMP_LAYOUT_CONV_TAPS, 0};
    const size_t bytes = pairs ? pairs_bytes(c) : (size_t)(amp_conv_taps(c) * c->groups) * sizeof(float);
    AMP_TRY(amp_conv_obtain_weights(call, c, x->dtype, layout, bytes, pairs ? build_pairs : build_taps, &weights));
    amp_gemm_window window = amp_conv_window(c, o, y);
    const amp_depthwise_epilogue epilogue = epilogue_of(c, o);
    const bool fused = c->scale || c->residual.tensor || c->epilogue.activation > AMP_GEMM_RELU;
    window.channels = c->groups;
    const amp_depthwise d = {.window = &window,
                             .x = x->data,
                             .taps = pairs ? NULL : weights->memory->data,
                             .pairs = pairs ? weights->memory->data : NULL,
                             .bias = fused ? NULL : epilogue.bias,
                             .y = y->data,
                             .y_step = y->axis[2],
                             .y_line = y->axis[1],
                             .far = is_far(c, x->dtype),
                             .relu = !fused && c->epilogue.activation == AMP_GEMM_RELU,
                             .epilogue = fused ? &epilogue : NULL};
    const int64_t pixels = c->batch * amp_conv_pixels(c), lines = pixels / window.out[2]; /* windows may join lines */
    const int threads = amp_parallel_threads(pixels * c->groups * amp_conv_taps(c), AMP_GRAIN_MACS);
    amp_depthwise_function *const run = (amp_depthwise_function *)kernel->function;
    if (__builtin_expect(amp_this_thread.is_preparing, 0)) {
        give_zeros(&d, lines, amp_dtype_size(x->dtype));
    } else if (threads == 1) {
        run(&d, 0, lines);
    } else {
#pragma omp parallel num_threads(threads)
        {
            const amp_range mine = amp_parallel_part(lines, 1, omp_get_thread_num(), omp_get_num_threads());
            run(&d, mine.begin, mine.end);
        }
    }
    call->note.kernel = kernel->name;
    amp_cast_release(weights);
    return AMP_OK;
}
