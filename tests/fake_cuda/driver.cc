// libcuda.so.1 for machines without a GPU: every stream runs at once, and kernels are those of src/cuda/kernels/*.cu,
// compiled for the host. Device memory can be read and written only while a kernel or a copy runs: host code that
// touches it dies of it. What the module asks of the driver is checked: pointers, the current context, events and
// streams that were made, limits of launches; that work on a block has an order (order.h); that the host leaves pinned
// memory alone until a copy is known to be over, before which it holds nothing. Tests steer it through fake_cuda.h.
#include "driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "threads.h"

using namespace fake_driver;

thread_local int64_t amp_fake_block, amp_fake_blocks; // what a kernel sees of its grid

namespace {

// Of every GPU that the module is built for. Kernels' registers allow no more threads (tests/cuda/check_cuda_kernels.sh),
// and what they are given must fit where drivers before 12.1 put it.
constexpr unsigned max_threads = 256, max_grid = 0x7fffffff;
constexpr size_t max_arguments = 4096;
// 10 · major + minor, for all choices among kernels; AMP_FAKE_CAPABILITY, where it is set, is every device's.
constexpr int capabilities[max_devices] = {90, 80, 75, 90, 90, 90, 90, 90};

struct Event {
    int device;
    bool recorded, waiting; // waiting: the host has not waited for it
    bool timed;
    Clock clock;
    double milliseconds; // when it was recorded
};
struct Kernel {
    int device;
    std::string name;
    void (*run)(const void *);
    size_t bytes;                    // of its arguments
    unsigned most_shared = 48 << 10; // bytes that may be asked for, until more are allowed
};

std::map<CUstream, Stream> streams;
Stream legacy[max_devices]; // the default streams
std::vector<int> device_of_number = std::vector<int>(max_devices);
Clock issued, completed; // the latter: what the host knows to be over
std::map<CUevent, Event> events;
std::map<std::pair<int, std::string>, Kernel> kernels;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool complain_of(const char *format, va_list arguments) {
    std::vsnprintf(state.complaint, sizeof state.complaint, format, arguments);
    std::fprintf(stderr, "fake CUDA: %s\n", state.complaint);
    state.complaints++;
    return false;
}
// The fake's clock, in milliseconds: launches, products, and copies from one place of a device to another.
double milliseconds() {
    return double(state.launches + state.products + device_copies);
}

int driver_version() {
    const char *given = std::getenv("AMP_FAKE_DRIVER_VERSION");
    return given ? std::atoi(given) : CUDA_VERSION;
}
int device_count() {
    const char *count = std::getenv("AMP_FAKE_DEVICES");
    return count ? std::atoi(count) : state.devices;
}

} // namespace

namespace fake_driver {

std::mutex lock;
Device devices[max_devices];
fake_cuda_state state;
uint64_t device_copies;
thread_local int current = -1;

CUresult problem() {
    if (current < 0) return CUDA_ERROR_INVALID_CONTEXT;
    return devices[current].lost;
}

bool has_pools() {
    return !std::getenv("AMP_FAKE_NO_POOLS");
}

bool complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)complain_of(format, arguments);
    va_end(arguments);
    return false;
}

CUresult outside_of_captures(const char *who) {
    if (!state.captured_globally || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    complain("%s breaks the capture of another thread's stream", who);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

Stream *find_stream(CUstream stream) {
    if (stream == CU_STREAM_LEGACY && current >= 0) {
        legacy[current].device = current;
        legacy[current].number = size_t(current);
        return &legacy[current];
    }
    const auto found = streams.find(stream);
    return found == streams.end() ? nullptr : &found->second;
}

// … and by the rules of the default stream.
void enqueue(Stream *s) {
    join(&s->clock, completed);
    const bool is_legacy = s == &legacy[s->device];
    if (s->blocking) join(&s->clock, legacy[s->device].clock);
    for (auto &[handle, other] : streams) {
        if (is_legacy && other.blocking && other.device == s->device) join(&s->clock, other.clock);
    }
    device_of_number.resize(std::max(device_of_number.size(), s->number + 1));
    device_of_number[s->number] = s->device;
    s->step();
    set(&issued, s->number, s->now());
}

CUresult ready(CUstream stream, Stream **found) {
    if (CUresult p = problem()) return p;
    *found = find_stream(stream);
    if (!*found) return CUDA_ERROR_INVALID_HANDLE;
    if (stream == state.captured) {
        complain("work became a part of the graph that the stream is captured for");
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    enqueue(*found);
    return CUDA_SUCCESS;
}

} // namespace fake_driver

namespace {

// The host begins to wait; without the lock.
void begin_waiting() {
    std::function<void()> meanwhile;
    {
        const std::lock_guard<std::mutex> guard(lock);
        state.synchronizations++;
        meanwhile = std::exchange(state.while_waiting, nullptr);
    }
    if (meanwhile) meanwhile();
}

// The host has waited.
void complete(const Clock &clock) {
    join(&completed, clock);
    end_copies(completed);
}

// Blocks of a grid-strided kernel, in turns at their barriers; of one thread each, the last one first.
bool run_grid(void (*kernel)(const void *), const void *arguments, unsigned grid, int threads, size_t shared) {
    amp_fake_blocks = grid < 3 ? grid : 3; // any number must do
#ifdef AMP_FAKE_THREADS
    return fake_run_blocks(kernel, arguments, int(amp_fake_blocks), threads, shared);
#else
    (void)threads;
    (void)shared;
    for (amp_fake_block = amp_fake_blocks; amp_fake_block-- > 0;) kernel(arguments);
    return true;
#endif
}

// One of the arguments' words that names a block.
struct Argument {
    CUdeviceptr start;
    size_t bytes;
    uint64_t hash;
};

// Kernels are given addresses among other numbers. They read those blocks; what they wrote is seen afterwards.
bool read_arguments(const Stream &s, const Kernel &k, const char *arguments, std::vector<Argument> *found) {
    bool good = true;
    for (size_t i = 0; i + sizeof(CUdeviceptr) <= k.bytes; i += sizeof(CUdeviceptr)) {
        CUdeviceptr address;
        std::memcpy(&address, arguments + i, sizeof address);
        if (!is_of_device(address)) continue;
        const Block *const block = find_block(address);
        if (!block) return complain("%s is given an address where there is no block", k.name.c_str());
        bool seen = false;
        for (const Argument &a : *found) seen = seen || a.start == block->start;
        if (seen) continue;
        good = use(s, s.device, k.name.c_str(), address, 0, false) && good;
        found->push_back({block->start, block->bytes, 0});
    }
    return good;
}

void hash_arguments(std::vector<Argument> *arguments) {
    for (Argument &a : *arguments) a.hash = hash_of(reinterpret_cast<const char *>(a.start), a.bytes);
}

bool note_writes(const Stream &s, const Kernel &k, const std::vector<Argument> &arguments) {
    bool good = true;
    for (const Argument &a : arguments) {
        if (hash_of(reinterpret_cast<const char *>(a.start), a.bytes) != a.hash)
            good = use(s, s.device, k.name.c_str(), a.start, 0, true) && good;
    }
    return good;
}

CUresult limits(const Kernel &k, unsigned grid, unsigned threads, unsigned shared) {
    if (k.device != current) return CUDA_ERROR_INVALID_HANDLE;
    if (grid > 0 && grid <= max_grid && threads > 0 && threads <= max_threads && k.bytes <= max_arguments &&
        shared <= k.most_shared)
        return CUDA_SUCCESS;
    complain("%s cannot be launched with %u blocks of %u threads, %zu bytes of arguments and %u of shared memory",
             k.name.c_str(), grid, threads, k.bytes, shared);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult take_failure() {
    const CUresult result = static_cast<CUresult>(state.fail_launch);
    state.fail_launch = CUDA_SUCCESS;
    return result;
}

} // namespace

extern "C" {

fake_cuda_state *fake_cuda(void) {
    return &state;
}

void fake_cuda_leave(size_t bytes) {
    state.memory_limit = bytes ? state.block_bytes + bytes : fake_cuda_state().memory_limit;
}

int fake_cuda_capability(int device) {
    const char *given = std::getenv("AMP_FAKE_CAPABILITY");
    return given ? std::atoi(given) : capabilities[device];
}
int fake_cuda_device(void) {
    return current;
}

void fake_cuda_lose(void) {
    const std::lock_guard<std::mutex> guard(lock);
    devices[current].lost = CUDA_ERROR_MISALIGNED_ADDRESS;
}

bool fake_cuda_complain(const char *format, ...) {
    const std::lock_guard<std::mutex> guard(lock);
    va_list arguments;
    va_start(arguments, format);
    (void)complain_of(format, arguments);
    va_end(arguments);
    return false;
}

bool fake_cuda_begin(void *stream, const char *who, const fake_access *accesses, size_t count) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (ready(static_cast<CUstream>(stream), &s)) return complain("%s was given no stream", who);
    if (s->device != current) return complain("%s was given another device's stream", who);
    state.library_stream = stream;
    for (size_t i = 0; i < count; i++) {
        const fake_access &a = accesses[i];
        if (a.bytes > 0 && !use(*s, current, who, reinterpret_cast<CUdeviceptr>(a.memory), a.bytes, a.writes))
            return false;
    }
    open_memory();
    return true;
}

void fake_cuda_end(void) {
    const std::lock_guard<std::mutex> guard(lock);
    close_memory();
}

CUresult cuInit(unsigned) {
    return device_count() == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = error == CUDA_ERROR_OUT_OF_MEMORY    ? "out of memory"
            : error == CUDA_ERROR_LAUNCH_FAILED  ? "unspecified launch failure"
            : error == CUDA_ERROR_INVALID_VALUE  ? "invalid argument"
            : error == CUDA_ERROR_INVALID_HANDLE ? "invalid resource handle"
                                                 : "an error of the fake driver";
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
    *count = device_count();
    return *count < 0 ? static_cast<CUresult>(-*count) : CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    std::snprintf(name, size_t(size), "Fake GPU %d", device);
    return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
    *bytes = state.memory_limit;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    const int capability = fake_cuda_capability(device);
    const std::map<int, int> values = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, capability / 10},
                                       {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, capability % 10},
                                       {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
                                       {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000}, // kHz
                                       {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
                                       {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, has_pools()}};
    const auto found = values.find(attribute);
    if (found == values.end()) return CUDA_ERROR_INVALID_VALUE;
    *value = found->second;
    return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
    *version = driver_version();
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = reinterpret_cast<CUcontext>(uintptr_t(device) + 1);
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
    current = int(reinterpret_cast<uintptr_t>(context)) - 1;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = reinterpret_cast<CUcontext>(uintptr_t(current + 1));
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    static uintptr_t last = 0x1000; // a handle is nobody's address, and never another stream's
    static size_t number = max_devices;
    *stream = reinterpret_cast<CUstream>(last += 16);
    streams[*stream] = {current, flags != CU_STREAM_NON_BLOCKING, number++, Clock()};
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!streams.erase(stream)) return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    const std::lock_guard<std::mutex> guard(lock);
    const Stream *s = find_stream(stream);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    *context = reinterpret_cast<CUcontext>(uintptr_t(s->device) + 1);
    return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!find_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    *status = stream == state.captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
    begin_waiting();
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    Clock all = legacy[current].clock;
    for (const auto &[handle, s] : streams) {
        if (s.device == current) join(&all, s.clock);
    }
    for (size_t i = 0; i < issued.size(); i++) { // of streams that are destroyed, too
        if (device_of_number[i] == current && at(all, i) < issued[i]) set(&all, i, issued[i]);
    }
    complete(all);
    return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
    begin_waiting();
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (CUresult p = ready(stream, &s)) return p;
    complete(s->clock);
    return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (CUresult p = ready(stream, &s)) return p;
    const auto found = events.find(event);
    if (found == events.end()) return CUDA_ERROR_INVALID_HANDLE;
    if (!found->second.recorded) complain("a stream waits for an event that was never recorded: for nothing");
    join(&s->clock, found->second.clock);
    state.last_waiting = stream;
    return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent *event, unsigned flags) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    if (const int failure = std::exchange(state.fail_event, 0)) return static_cast<CUresult>(failure);
    *event = reinterpret_cast<CUevent>(std::malloc(1));
    events[*event] = {current, false, false, !(flags & CU_EVENT_DISABLE_TIMING), Clock(), -1};
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (CUresult p = ready(stream, &s)) return p;
    const auto found = events.find(event);
    if (found == events.end() || s->device != found->second.device) return CUDA_ERROR_INVALID_HANDLE;
    found->second = {s->device, true, true, found->second.timed, s->clock, milliseconds()};
    state.last_recorded = stream;
    return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) {
    const std::lock_guard<std::mutex> guard(lock);
    const auto found = events.find(event);
    if (found == events.end()) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult p = problem()) return p;
    if (CUresult p = outside_of_captures("cuEventQuery")) return p;
    if (state.slow && found->second.waiting) return CUDA_ERROR_NOT_READY;
    complete(found->second.clock);
    return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent event) {
    begin_waiting();
    const std::lock_guard<std::mutex> guard(lock);
    const auto found = events.find(event);
    if (found == events.end()) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult p = problem()) return p;
    found->second.waiting = false;
    complete(found->second.clock);
    return CUDA_SUCCESS;
}
#undef cuEventElapsedTime // as drivers of CUDA 12 have it
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
    const std::lock_guard<std::mutex> guard(lock);
    for (CUevent event : {start, end}) {
        const auto found = events.find(event);
        if (found == events.end() || !found->second.timed || !found->second.recorded) return CUDA_ERROR_INVALID_HANDLE;
        if (state.slow && !covers(completed, found->second.clock)) return CUDA_ERROR_NOT_READY;
    }
    *ms = float(events[end].milliseconds - events[start].milliseconds);
    return problem();
}
CUresult cuEventDestroy(CUevent event) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!events.erase(event)) return CUDA_ERROR_INVALID_HANDLE;
    std::free(event);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *) {
    const std::lock_guard<std::mutex> guard(lock);
    if (current < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult p = outside_of_captures("cuModuleLoadData")) return p;
    if (const int failure = std::exchange(state.fail_module, 0)) return static_cast<CUresult>(failure);
    if (driver_version() / 1000 < CUDA_VERSION / 1000) return CUDA_ERROR_INVALID_IMAGE;
    *module = reinterpret_cast<CUmodule>(uintptr_t(current) + 1);
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    const std::lock_guard<std::mutex> guard(lock);
    const int device = int(reinterpret_cast<uintptr_t>(module)) - 1;
    Dl_info self;
    if (!dladdr(reinterpret_cast<void *>(&fake_cuda), &self)) return CUDA_ERROR_NOT_FOUND;
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *run = library ? dlsym(library, name) : nullptr;
    void *bytes = run ? dlsym(library, (std::string(name) + "_bytes").c_str()) : nullptr;
    if (library) dlclose(library);
    if (!bytes) return CUDA_ERROR_NOT_FOUND;
    Kernel &k = kernels[{device, name}];
    k.device = device;
    k.name = name;
    std::memcpy(&k.run, &run, sizeof run);
    size_t (*count)();
    std::memcpy(&count, &bytes, sizeof bytes);
    k.bytes = count();
    *function = reinterpret_cast<CUfunction>(&k);
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    const std::lock_guard<std::mutex> guard(lock);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > 227 << 10)
        return CUDA_ERROR_INVALID_VALUE;
    reinterpret_cast<Kernel *>(function)->most_shared = unsigned(value);
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                        unsigned shared, CUstream stream, void **parameters, void **) {
    if (CUresult p = problem()) return p;
    if (fake_cuda_is_idle()) {
        state.launches++;
        return CUDA_SUCCESS;
    }
    const Kernel &k = *reinterpret_cast<const Kernel *>(function);
    std::vector<Argument> arguments;
    Stream then;
    {
        const std::lock_guard<std::mutex> guard(lock);
        Stream *s;
        if (CUresult p = ready(stream, &s)) return p;
        state.last_stream = stream;
        std::snprintf(state.last_kernel, sizeof state.last_kernel, "%s", k.name.c_str());
        if (s->device != current) return CUDA_ERROR_INVALID_HANDLE;
        if (CUresult p = limits(k, grid, threads, shared)) return p;
        state.launches++;
        if (CUresult p = take_failure()) return p;
        then = *s;
        if (!read_arguments(then, k, static_cast<const char *>(parameters[0]), &arguments))
            return CUDA_ERROR_INVALID_VALUE;
        open_memory();
    }
    hash_arguments(&arguments);
    const bool together = run_grid(k.run, parameters[0], grid, int(threads), shared);
    const std::lock_guard<std::mutex> guard(lock);
    const bool good = note_writes(then, k, arguments);
    close_memory();
    if (!together) return CUDA_ERROR_LAUNCH_FAILED;
    if (!good) return CUDA_ERROR_INVALID_VALUE;
    if (state.lose_launch) devices[current].lost = CUDA_ERROR_LAUNCH_FAILED; // as after a wrong address
    state.lose_launch = false;
    return CUDA_SUCCESS;
}

} // extern "C"
