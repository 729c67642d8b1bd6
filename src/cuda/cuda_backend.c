/* The CUDA backend: memory, transfers, launches, the op table, and the public functions of amp/cuda.h. */
#include "cuda/cuda_backend.h"

#include <stdatomic.h>

#include "amp/cuda.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "cuda/cuda_lent.h"
#include "generated/op_ids.h"

/* ---- Errors ------------------------------------------------------------------------------------------------------ */
amp_status amp_cuda_status(const char *op, amp_cuda_result result) {
    static const amp_status codes[] = {[AMP_CUDA_NO_MEMORY] = AMP_ERROR_MEMORY,
                                       [AMP_CUDA_FAILED] = AMP_ERROR_DEVICE,
                                       [AMP_CUDA_MISSING] = AMP_ERROR_DEVICE,
                                       [AMP_CUDA_REFUSED] = AMP_ERROR_DEVICE,
                                       [AMP_CUDA_INVALID] = AMP_ERROR_INVALID};
    if (result == AMP_CUDA_OK) return AMP_OK;
    return amp_fail(codes[result], "%s: cuda: %s", op, amp_cuda_loaded()->error());
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */
static void release(void *block) {
    amp_cuda_loaded()->release(block);
}

/* Every storage on the device has a block, those of adopted memory too. */
static amp_cuda_block *block_of(const amp_tensor *t) {
    return t->storage->deleter_context;
}

static void *allocate(const char *op, size_t bytes, void **block) {
    void *address = NULL;
    amp_cuda_block *made = NULL;
    const amp_cuda_result result = amp_cuda_loaded()->allocate(bytes, &made, &address);
    *block = made;
    if (result == AMP_CUDA_OK) return address;
    if (result != AMP_CUDA_NO_MEMORY) (void)amp_cuda_status(op, result); /* of memory, the caller says how much */
    return NULL;
}

void *amp_cuda_address(const char *op, const amp_tensor *tensor) {
    const amp_cuda_result result = amp_cuda_loaded()->use(block_of(tensor));
    return amp_cuda_status(op, result) == AMP_OK ? amp_tensor_pointer(tensor) : NULL;
}

amp_tensor *amp_cuda_temporary(const amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    return amp_backend_tensor(AMP_DEVICE_CUDA, call->op->name, dtype, rank, shape);
}

amp_tensor *amp_cuda_dense(amp_tensor *tensor) {
    return amp_tensor_is_dense(tensor) ? tensor : amp_contiguous(tensor);
}

amp_tensor *amp_cuda_from_memory(const char *op, const amp_cuda_lent *lent, amp_dtype dtype, int rank,
                                 const int64_t *shape, const int64_t *strides) {
    const amp_backend *backend;
    amp_cuda_block *block = NULL;
    if (amp_cuda_backend(op, &backend) != AMP_OK) return NULL;
    const amp_cuda_module *module = amp_cuda_loaded();
    const int before = module->selected();
    amp_cuda_result result = module->select(lent->device);
    if (result == AMP_CUDA_OK) result = module->adopt(lent->data, lent->device, lent->deleter, lent->context, &block);
    (void)module->select(before);
    if (amp_cuda_status(op, result) != AMP_OK) return NULL;
    amp_tensor *t = amp_from_memory(lent->data, dtype, rank, shape, strides, release, block);
    if (t) t->storage->device = AMP_DEVICE_CUDA;
    if (!t) module->forget(block);
    return t;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */
/* The device that the thread's program chose; ops run on that of their arguments. */
static __thread int chosen_device;

static int device_of(const amp_tensor *t) {
    const amp_tensor *memory = t->source ? t->source : t;
    return amp_cuda_loaded()->device_of(block_of(memory));
}

static const amp_tensor *first_tensor(const amp_call *call) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR && *amp_call_tensor(call, arg)) return *amp_call_tensor(call, arg);
        if (arg->kind == AMP_ARG_TENSOR_LIST && amp_call_tensor_list(call, arg)->count > 0) {
            const amp_tensor *t = amp_call_tensor_list(call, arg)->items[0];
            if (t) return t;
        }
    }
    return NULL;
}

static amp_status expect_index(const amp_call *call, const char *name, const amp_tensor *t) {
    const int expected = device_of(first_tensor(call)), got = device_of(t);
    if (expected == got) return AMP_OK;
    return amp_fail(AMP_ERROR_DEVICE,
                    "%s: '%s' is on CUDA device %d, another argument on %d; all must be on one device",
                    amp_call_name(call), name, got, expected);
}

static amp_status check_index(const amp_call *call, const amp_arg_info *arg, amp_tensor *t) {
    return expect_index(call, arg->name, t);
}

/* An op runs on the device of its arguments; without any on that of its target, else where the op around it runs, or on
 * the chosen device. */
static amp_status begin(const amp_call *call) {
    const amp_cuda_module *module = amp_cuda_loaded();
    const amp_tensor *first = first_tensor(call);
    if (module->device_count() > 1) {
        AMP_TRY(amp_call_each_tensor(call, check_index));
        if (first && call->target) AMP_TRY(expect_index(call, "out", call->target));
        for (int i = 0; call->outs && i < call->op->output_count; i++) {
            AMP_TRY(expect_index(call, "out", call->outs[i]));
        }
    }
    module->begin(call->op->name);
    if (!first) first = call->target;
    return first ? amp_cuda_status(call->op->name, module->select(device_of(first))) : AMP_OK;
}

/* ---- Times of calls, for explain --------------------------------------------------------------------------------- */
typedef struct call_timing {
    amp_cuda_event *start, *end;
} call_timing;

static void free_timing(call_timing *t) {
    const amp_cuda_module *module = amp_cuda_loaded();
    if (t->start) module->event_free(t->start);
    if (t->end) module->event_free(t->end);
    amp_free(t);
}

/* Before the call's arguments are checked: they may be anything, and then it runs nowhere. */
static bool selects_device(const amp_call *call) {
    const amp_tensor *first = first_tensor(call), *memory = first && first->source ? first->source : first;
    if (!memory) return true;
    if (!memory->storage || memory->storage->device != AMP_DEVICE_CUDA) return false;
    return amp_cuda_loaded()->select(device_of(memory)) == AMP_CUDA_OK;
}

static void *begin_timing(const amp_call *call) {
    const amp_cuda_module *module = amp_cuda_loaded();
    const int selected = module->selected();
    call_timing *t = amp_alloc(sizeof *t);
    if (!t) return NULL;
    *t = (call_timing){NULL, NULL};
    module->begin(call->op->name); /* what goes wrong here is the call's */
    const bool made = selects_device(call) && module->event_make(true, &t->start) == AMP_CUDA_OK &&
                      module->event_make(true, &t->end) == AMP_CUDA_OK && module->event_record(t->start) == AMP_CUDA_OK;
    (void)module->select(selected);
    if (made) return t;
    free_timing(t);
    return NULL;
}

static void end_timing(void *timing) {
    call_timing *t = timing;
    (void)amp_cuda_loaded()->event_record(t->end); /* read_timing finds that it was not */
}

static amp_timing read_timing(void *timing, bool wait, uint64_t *nanoseconds) {
    const amp_cuda_module *module = amp_cuda_loaded();
    call_timing *t = timing;
    bool done = false;
    float milliseconds = 0;
    amp_cuda_result result = module->event_query(t->end, &done);
    const bool refused = result == AMP_CUDA_INVALID; /* this thread's stream is being captured; another may ask */
    if (!wait && (refused || (result == AMP_CUDA_OK && !done))) return AMP_TIMING_AHEAD;
    if (result == AMP_CUDA_OK && !done) result = module->event_finish(t->end);
    if (result == AMP_CUDA_OK) result = module->elapsed(t->start, t->end, &milliseconds);
    free_timing(t);
    *nanoseconds = milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
    return result == AMP_CUDA_OK ? AMP_TIMING_READ : AMP_TIMING_FAILED;
}

static void end(void) {
    (void)amp_cuda_loaded()->select(chosen_device);
}

int64_t amp_cuda_blocks(int64_t elements) {
    enum { ELEMENTS_EACH = 4, MOST = 132 * 16 };
    const int64_t blocks = (elements + AMP_CUDA_THREADS * ELEMENTS_EACH - 1) / (AMP_CUDA_THREADS * ELEMENTS_EACH);
    return blocks < MOST ? blocks : MOST;
}

/* A thread for each unit as long as that is little; then up to 4 units for each, so that blocks end, and make room for
 * others, all the time. */
int64_t amp_cuda_unit_blocks(int64_t units) {
    enum { AT_ONCE = 132 * 16, MOST_UNITS = 4 };
    const int64_t one_each = (units + AMP_CUDA_THREADS - 1) / AMP_CUDA_THREADS;
    const int64_t most_each = (one_each + MOST_UNITS - 1) / MOST_UNITS;
    return one_each < AT_ONCE ? one_each : most_each < AT_ONCE ? AT_ONCE : most_each;
}

amp_status amp_cuda_launch_over(const char *op, const char *kernel, const void *arguments, int64_t blocks) {
    if (blocks <= 0) return AMP_OK;
    const amp_cuda_launch launch = {.kernel = kernel,
                                    .arguments = arguments,
                                    .blocks = blocks < INT32_MAX ? (unsigned)blocks : INT32_MAX,
                                    .threads = AMP_CUDA_THREADS};
    return amp_cuda_status(op, amp_cuda_loaded()->launch(&launch));
}

amp_status amp_cuda_report_of(const char *op, amp_cuda_report *report) {
    report->op = op;
    return amp_cuda_status(op, amp_cuda_loaded()->faults(&report->faults));
}

/* ---- Transfers --------------------------------------------------------------------------------------------------- */
static amp_status send(const char *op, amp_tensor *destination, const void *source) {
    amp_cuda_loaded()->begin(op);
    void *to = amp_cuda_address(op, destination);
    if (!to) return amp_pending_error();
    const size_t bytes = (size_t)amp_tensor_elements(destination) * amp_dtype_size(destination->dtype);
    return amp_cuda_status(op, amp_cuda_loaded()->upload(to, source, bytes));
}

static amp_status fetch(const char *op, void *destination, const amp_tensor *source) {
    const void *from = amp_cuda_address(op, source);
    if (!from) return amp_pending_error();
    const size_t bytes = (size_t)amp_tensor_elements(source) * amp_dtype_size(source->dtype);
    return amp_cuda_status(op, amp_cuda_loaded()->download(destination, from, bytes));
}

amp_status amp_op_to_device(amp_call *call); /* ops/devices.c */

/* Memory is made on the chosen device and filled in stream order, without the host. */
static amp_tensor *on_chosen_device(const char *op, amp_tensor *source) {
    const amp_cuda_module *module = amp_cuda_loaded();
    const int from = device_of(source), to = chosen_device;
    if (amp_cuda_status(op, module->select(to)) != AMP_OK) return NULL;
    amp_tensor *made = amp_backend_tensor(AMP_DEVICE_CUDA, op, source->dtype, source->rank, source->shape);
    if (amp_cuda_status(op, module->select(from)) != AMP_OK || !made) return NULL;
    const void *data = amp_cuda_address(op, source);
    const size_t bytes = (size_t)amp_tensor_elements(source) * amp_dtype_size(source->dtype);
    if (!data || bytes == 0) return data ? made : NULL;
    const amp_cuda_result copied = module->copy_between(amp_tensor_pointer(made), to, data, from, bytes);
    return amp_cuda_status(op, copied) == AMP_OK ? made : NULL;
}

/* Converted before it goes where it was, so that its elements are converted once. */
amp_status cuda_to_device(amp_call *call) {
    const amp_to_device_args *a = call->args;
    if (a->device != AMP_DEVICE_CUDA || device_of(a->input) == chosen_device) return amp_op_to_device(call);
    amp_tensor *converted = a->dtype == AMP_DTYPE_NONE ? a->input : amp_to(a->input, a->dtype);
    amp_tensor *source = converted ? amp_contiguous(converted) : NULL;
    call->outputs[0] = source ? on_chosen_device(call->op->name, source) : NULL;
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* ---- The op table ------------------------------------------------------------------------------------------------ */
#define CUDA_OP(op, implementation) amp_status implementation(amp_call *call);
#define CUDA_OP_TAKES_PENDING CUDA_OP
#include "cuda/cuda_ops.def"
#undef CUDA_OP
#undef CUDA_OP_TAKES_PENDING

static const amp_backend_op table[AMP_OP_ID_COUNT + 1] = {
#define CUDA_OP(op, implementation) [AMP_OP_ID_##op] = {.run = implementation},
#define CUDA_OP_TAKES_PENDING(op, implementation)                                                                      \
    [AMP_OP_ID_##op] = {.run = implementation, .takes_pending_casts = true},
#include "cuda/cuda_ops.def"
#undef CUDA_OP
#undef CUDA_OP_TAKES_PENDING
    [AMP_OP_ID_COUNT] = {.run = NULL},
};

static amp_backend_op find(const amp_op_info *op) {
    return table[op->id];
}

const amp_backend amp_cuda_backend_table = {
    .name = "cuda",
    .find = find,
    .copy = amp_cuda_copy_tensor,
    .fill = amp_cuda_fill,
    .allocate = allocate,
    .release = release,
    .begin = begin,
    .end = end,
    .send = send,
    .fetch = fetch,
    .begin_timing = begin_timing,
    .end_timing = end_timing,
    .read_timing = read_timing,
};

/* ---- amp/cuda.h -------------------------------------------------------------------------------------------------- */
/* Settings are made, and tell their own status, while an error stands too. */
static amp_status need(const char *what, const amp_cuda_module **module) {
    const amp_backend *backend;
    AMP_TRY(amp_cuda_backend(what, &backend));
    *module = amp_cuda_loaded();
    return AMP_OK;
}

int amp_cuda_device_count(void) {
    return amp_cuda_loaded() ? amp_cuda_loaded()->device_count() : 0;
}

amp_status amp_cuda_set_device(int index) {
    const amp_cuda_module *module;
    AMP_TRY(need("cuda_set_device", &module));
    AMP_TRY(amp_cuda_status("cuda_set_device", module->select(index)));
    chosen_device = index;
    return AMP_OK;
}

int amp_cuda_get_device(void) {
    return chosen_device;
}

int amp_cuda_device_of(const amp_tensor *tensor) {
    if (amp_tensor_device(tensor) == AMP_DEVICE_CUDA) return device_of(tensor);
    if (!amp_failed()) amp_fail(AMP_ERROR_DEVICE, "cuda_device_of: %s is not on cuda", amp_describe(tensor));
    return -1;
}

amp_status amp_cuda_synchronize(void) {
    const amp_cuda_module *module;
    AMP_TRY(need("cuda_synchronize", &module));
    return amp_cuda_status("cuda_synchronize", module->synchronize());
}

amp_status amp_cuda_set_stream(void *stream) {
    const amp_cuda_module *module;
    AMP_TRY(need("cuda_set_stream", &module));
    return amp_cuda_status("cuda_set_stream", module->lend(stream));
}

static atomic_bool allow_tf32;

void amp_cuda_matmul_set_allow_tf32(bool allow) {
    atomic_store_explicit(&allow_tf32, allow, memory_order_relaxed);
}

bool amp_cuda_matmul_allow_tf32(void) {
    return atomic_load_explicit(&allow_tf32, memory_order_relaxed);
}

amp_status amp_cuda_trim_memory(void) {
    const amp_cuda_module *module;
    AMP_TRY(need("cuda_trim_memory", &module));
    return amp_cuda_status("cuda_trim_memory", module->trim());
}

amp_status amp_cuda_get_counters(amp_cuda_counts *counts, size_t bytes) {
    amp_cuda_statistics s = {0};
    if (amp_cuda_loaded()) amp_cuda_loaded()->statistics(&s);
    const amp_cuda_counts known = {.launches = s.launches,
                                   .products = s.products,
                                   .uploads = s.uploads,
                                   .downloads = s.downloads,
                                   .synchronizations = s.synchronizations,
                                   .stream_waits = s.stream_waits,
                                   .allocations = s.allocations,
                                   .live_blocks = s.live_blocks,
                                   .live_bytes = s.live_bytes};
    return amp_struct_write("cuda_get_counters", counts, bytes, &known, sizeof known);
}
