/* Whether a GPU does what the tests' own driver and libraries have shown: a line for each question, "right" or "WRONG"
 * and what was found, status 1 if any is wrong. It measures nothing; scripts/gpu-check asks before it measures.
 *
 *     bench_probes [--smoke]
 *
 * --smoke: add, linear, conv2d, layer_norm, attention and a backward, in f32 and f16, against the CPU; it ends at the
 * first that is wrong. Else what NVIDIA's libraries do that libamp must keep away from its results:
 *
 *     nan           cuBLASLt's ReLU and cuDNN's make 0 of NaN
 *     bias          cuBLASLt is not told where a bias begins, and may lose the device
 *     rounding      a product that is split along its sums may add the parts in the result's type: 2048 + 1 is 2048
 *     convolution   with bias, residual and ReLU it is cuDNN's and not unfolded, where cuDNN is installed */
#define BENCH_NAME "bench_probes"
#include <math.h>

#include "bench_common.h"

/* ---- Tensors, and how far they are apart ------------------------------------------------------------------------- */
/* All are their scope's. */
static amp_tensor *numbers(amp_dims shape, amp_dtype dtype) {
    return bench_tensor(dtype, 1.0f, shape);
}

static amp_tensor *there(amp_tensor *t) {
    return t ? amp_to_device(t, AMP_DEVICE_CUDA) : NULL;
}

/* The first element, as the CPU reads it; false, with the sentence kept, where there is no result. */
static bool read_first(amp_tensor *t, float *value) {
    amp_tensor *wide = t ? amp_to(amp_to_device(t, AMP_DEVICE_CPU), AMP_F32) : NULL;
    if (wide) *value = *(const float *)amp_data(wide);
    return wide != NULL;
}

/* The largest |got - want|; infinite where there is no result, or a NaN on one side. */
static double distance(amp_tensor *got, amp_tensor *want) {
    amp_tensor *g = got ? amp_to(amp_to_device(got, AMP_DEVICE_CPU), AMP_F32) : NULL;
    amp_tensor *w = want ? amp_to(amp_contiguous(want), AMP_F32) : NULL;
    double most = 0;
    if (!g || !w || amp_tensor_numel(g) != amp_tensor_numel(w)) return INFINITY;
    g = amp_contiguous(g);
    for (int64_t i = 0; g && i < amp_tensor_numel(w); i++) {
        const double d = fabs((double)((const float *)amp_data(g))[i] - (double)((const float *)amp_data(w))[i]);
        most = d <= most ? most : isnan(d) ? INFINITY : d;
    }
    return g ? most : INFINITY;
}

/* ---- Telling ----------------------------------------------------------------------------------------------------- */
static int wrong;

/* An error that was told is forgotten: the next probe begins without it. */
static bool tell(bool right, const char *what, amp_dtype dtype, const char *found) {
    printf("%-6s %-14s %-5s%s%s\n", right ? "right" : "WRONG", what, amp_dtype_name(dtype), right ? "" : ": ",
           right ? "" : found);
    fflush(stdout); /* a GPU may hang, or the process die */
    wrong += !right;
    if (!right) amp_clear_error();
    return right;
}

static bool agree(const char *what, amp_dtype dtype, amp_tensor *got, amp_tensor *want, double tolerance) {
    char found[512];
    const double d = distance(got, want);
    snprintf(found, sizeof found, "%g from the CPU's result, more than %g", d, tolerance);
    return tell(d <= tolerance, what, dtype, got ? found : amp_last_error());
}

/* ---- Smoke ------------------------------------------------------------------------------------------------------- */
typedef amp_tensor *computation(amp_tensor *const *x);

static amp_tensor *add(amp_tensor *const *x) {
    return amp_add(x[0], x[0]);
}
static amp_tensor *linear(amp_tensor *const *x) {
    return amp_linear(x[0], x[1], x[2]);
}
static amp_tensor *conv2d(amp_tensor *const *x) {
    return amp_conv2d(x[3], x[4]);
}
static amp_tensor *layer_norm(amp_tensor *const *x) {
    return amp_layer_norm(x[0], AMP_DIMS(64));
}
static amp_tensor *attention(amp_tensor *const *x) {
    return amp_scaled_dot_product_attention(x[5], x[5], x[5]);
}
/* The gradient of the weight. */
static amp_tensor *backward(amp_tensor *const *x) {
    amp_tensor *w = amp_clone(x[1]);
    if (!w || amp_tensor_set_requires_grad(w, true) != AMP_OK) return NULL;
    amp_tensor *y = amp_linear(x[0], w), *loss = y ? amp_mean(amp_mul(y, y)) : NULL;
    return loss && amp_backward(loss) == AMP_OK ? amp_tensor_grad(w) : NULL;
}

static const struct {
    const char *name;
    computation *run;
} smoke_steps[] = {
    {"add", add},          {"linear", linear}, {"conv2d", conv2d}, {"layer_norm", layer_norm}, {"attention", attention},
    {"backward", backward}};

static bool smoke_in(amp_dtype dtype) {
    amp_scope_here();
    amp_tensor *x[] = {numbers(AMP_DIMS(32, 64), dtype),     numbers(AMP_DIMS(16, 64), dtype),
                       numbers(AMP_DIMS(16), dtype),         numbers(AMP_DIMS(2, 8, 12, 12), dtype),
                       numbers(AMP_DIMS(4, 8, 3, 3), dtype), numbers(AMP_DIMS(1, 2, 40, 64), dtype)};
    enum { COUNT = sizeof x / sizeof *x };
    amp_tensor *sent[COUNT];
    for (int i = 0; i < COUNT; i++) sent[i] = there(x[i]);
    for (size_t i = 0; i < sizeof smoke_steps / sizeof *smoke_steps; i++) {
        amp_tensor *got = smoke_steps[i].run(sent), *want = smoke_steps[i].run(x);
        if (!agree(smoke_steps[i].name, dtype, got, want, dtype == AMP_F32 ? 1e-4 : 0.04)) return false;
    }
    return true;
}

/* ---- Probes ------------------------------------------------------------------------------------------------------ */
static void tell_nan(const char *what, amp_dtype dtype, amp_tensor *y) {
    float got = 0;
    const bool is_there = read_first(y, &got);
    tell(is_there && isnan(got), what, dtype, is_there ? "it became a number" : amp_last_error());
}

static void probe_nan(amp_dtype dtype) {
    const float values[] = {NAN, -1, 2, 3};
    const int64_t shape[] = {4, 1};
    amp_tensor *x = there(amp_to(amp_from_data(values, AMP_F32, 2, shape), dtype));
    amp_tensor *one = there(amp_to(amp_ones(AMP_DIMS(1, 1)), dtype)), *b = there(amp_to(amp_ones(AMP_DIMS(1)), dtype));
    amp_tensor *images = amp_view(x, AMP_DIMS(4, 1, 1, 1)), *kernel = amp_view(one, AMP_DIMS(1, 1, 1, 1));
    tell_nan("nan, linear", dtype, amp_linear_pointwise(x, one, b, .attr = "relu"));
    tell_nan("nan, conv", dtype, amp_convolution_pointwise(images, kernel, b, .attr = "relu"));
}

static void probe_bias(amp_dtype dtype) {
    amp_tensor *x = numbers(AMP_DIMS(128, 256), dtype), *w = numbers(AMP_DIMS(128, 256), dtype);
    amp_tensor *b = numbers(AMP_DIMS(144), dtype), *sent = there(b), *x_there = there(x), *w_there = there(w);
    for (int64_t first = 1; first < 9; first++) {
        amp_tensor *got = amp_linear(x_there, w_there, amp_narrow(sent, 0, first, 128));
        if (!agree("bias", dtype, got, amp_linear(x, w, amp_narrow(b, 0, first, 128)), dtype == AMP_F32 ? 1e-3 : 0.15))
            return;
    }
}

/* Long sums of which the first half is large, and the second takes it away again, but for what a rounded half
 * forgets. */
static void probe_rounding(amp_dtype dtype) {
    enum { K = 1 << 15 };
    amp_tensor *x = amp_zeros(AMP_DIMS(1, K)), *w = amp_ones(AMP_DIMS(8, K));
    bench_require(x && w, "a row and a weight");
    float got = 0, *data = amp_data_mut(x);
    for (int i = 0; i < K; i++) data[i] = i == 0 ? 2048 : i == K - 1 ? -2048 : i == 1 || i == K - 2 ? 1 : 0;
    const bool is_there = read_first(amp_linear(there(amp_to(x, dtype)), there(amp_to(w, dtype))), &got);
    tell(is_there && got == 2, "rounding", dtype,
         is_there ? "the sum of 2048, 1, 1 and -2048 is not 2: parts of it were rounded" : amp_last_error());
}

static void probe_convolution(amp_dtype dtype) {
    amp_tensor *x = numbers(AMP_DIMS(2, 64, 14, 14), dtype), *w = numbers(AMP_DIMS(64, 64, 3, 3), dtype);
    amp_tensor *b = numbers(AMP_DIMS(64), dtype), *other = numbers(AMP_DIMS(2, 64, 12, 12), dtype);
    amp_explain_reset();
    amp_explain_begin();
    amp_tensor *got = amp_convolution_pointwise_binary(there(x), there(other), there(w), there(b), .attr = "relu");
    amp_explain_end();
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    const bool unfolded = report && strstr(report, "unfold") && !strstr(report, "cuDNN is not installed");
    agree("convolution", dtype, got, amp_convolution_pointwise_binary(x, other, w, b, .attr = "relu"), 0.3);
    if (got)
        tell(report && !unfolded, "convolution", dtype,
             report ? "cuDNN refused it, and it was unfolded" : amp_last_error());
    amp_explain_free(report);
}

static void probe_in(amp_dtype dtype) {
    amp_scope_here();
    probe_nan(dtype);
    probe_rounding(dtype);
    probe_convolution(dtype);
    probe_bias(dtype); /* the last: it may lose the device */
}

int main(int argc, char **argv) {
    const char *why = NULL;
    const bool smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    if (!amp_device_is_usable(AMP_DEVICE_CUDA, &why)) {
        printf("WRONG  no GPU can be used: %s\n", why);
        return 1;
    }
    if (smoke) return smoke_in(AMP_F32) && smoke_in(AMP_F16) ? 0 : 1;
    probe_in(AMP_F16);
    probe_in(AMP_BF16);
    return wrong > 0;
}
