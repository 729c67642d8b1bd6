// libcuda.so.1 for machines without a GPU: every stream runs at once, and kernels are those of src/cuda/device/*.cu, compiled
// for the host. Device memory can be read and written only while a kernel or a copy runs: host code that touches it dies of it.
// What the module asks of the driver is checked: pointers, the current context, events and streams that were made. Tests
// steer it through fake_cuda.h.
#include <cuda.h>

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "fake_cuda.h"
#include "threads.h"

thread_local int64_t amp_fake_block, amp_fake_blocks; // what a kernel sees of its grid

namespace {

constexpr int max_devices = 8;

struct Device {
    CUresult lost = CUDA_SUCCESS; // after which the context is of no more use
    size_t used = 0, kept = 0;    // of the pool: handed out, and freed but not given back
};

std::mutex lock;
Device devices[max_devices];
std::map<CUdeviceptr, std::pair<int, size_t>> blocks; // address → device and size
std::map<CUstream, int> streams;                      // of which device
struct Event {
    int device;
    bool recorded; // and not waited for since
    bool timed;
    uint64_t at;    // launches before it: the fake's clock, in milliseconds
    uint64_t order; // of all records
};
std::map<CUevent, Event> events;
fake_cuda_state state;
thread_local int current = -1; // device of the current context

CUresult problem() {
    if (current < 0) return CUDA_ERROR_INVALID_CONTEXT;
    return devices[current].lost;
}

int device_count() {
    const char *count = std::getenv("AMP_FAKE_DEVICES");
    return count ? std::atoi(count) : state.devices;
}

// Whether [address, address + bytes) lies in one block of a device; of the current one.
bool is_memory_of(int device, CUdeviceptr address, size_t bytes) {
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) return false;
    const auto &[start, block] = *--after;
    return block.first == device && address + bytes <= start + block.second;
}
bool is_device_memory(CUdeviceptr address, size_t bytes) {
    return is_memory_of(current, address, bytes);
}

// Blocks of a grid-strided kernel, one after the other.
bool run_grid(void (*kernel)(const void *), const void *arguments, unsigned grid, int threads) {
    bool together = true;
    amp_fake_blocks = grid < 3 ? grid : 3; // any number must do
    for (amp_fake_block = 0; together && amp_fake_block < amp_fake_blocks; amp_fake_block++) {
#ifdef AMP_FAKE_THREADS
        together = fake_run_block(kernel, arguments, threads);
#else
        kernel(arguments);
        (void)threads;
#endif
    }
    return together;
}

// ---- Device memory -----------------------------------------------------------------------------------------------

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_poison_memory_region(void const volatile *, size_t);
extern "C" void __asan_unpoison_memory_region(void const volatile *, size_t);
#else
void __asan_poison_memory_region(void const volatile *, size_t) {}
void __asan_unpoison_memory_region(void const volatile *, size_t) {}
#endif

constexpr size_t arena_bytes = size_t(4) << 30, huge_page = size_t(2) << 20, redzone = 256;
// Sizes are few, so that memory is used again.
size_t size_of(size_t bytes) {
    size_t size = 512;
    while (size < bytes + redzone) size *= 2;
    return size;
}
char *arena, *arena_end;             // what was never handed out begins at arena_end
std::multimap<size_t, char *> freed; // by size
int open_count;                      // kernels and copies that are running

// Blocks are never given back to the system, only used again for the same size: tests need little.
void *take_memory(size_t bytes) {
    const size_t size = size_of(bytes);
    if (!arena) {
        void *memory =
            mmap(nullptr, arena_bytes + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return nullptr;
        arena = arena_end = static_cast<char *>(memory) + (huge_page - uintptr_t(memory) % huge_page) % huge_page;
        madvise(arena, arena_bytes, MADV_HUGEPAGE); // opening and closing it costs by the page
    }
    const auto again = freed.find(size);
    char *block = again != freed.end() ? again->second : arena_end;
    if (again != freed.end()) {
        freed.erase(again);
    } else {
        if (size > arena_bytes - size_t(arena_end - arena)) return nullptr;
        arena_end += size;
        __asan_poison_memory_region(block, size);
    }
    __asan_unpoison_memory_region(block, bytes);
    return block;
}

void give_memory(void *block, size_t bytes) {
    const size_t size = size_of(bytes);
    __asan_poison_memory_region(block, size);
    freed.emplace(size, static_cast<char *>(block));
}

// Device memory is there while one of these is. Under the lock.
void open_memory() {
    if (open_count++ == 0 && arena) mprotect(arena, arena_bytes, PROT_READ | PROT_WRITE);
}
void close_memory() {
    if (--open_count == 0 && arena) mprotect(arena, arena_bytes, PROT_NONE);
}

bool is_stream(CUstream stream) {
    return stream == CU_STREAM_LEGACY || streams.count(stream) > 0;
}

} // namespace

extern "C" {

void fake_cuda_open(bool open) {
    const std::lock_guard<std::mutex> guard(lock);
    if (open) {
        open_memory();
    } else {
        close_memory();
    }
}

fake_cuda_state *fake_cuda(void) {
    return &state;
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
    return CUDA_SUCCESS;
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
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
             : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? 132
                                                                         : -1;
    return *value < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(size_t *free_bytes, size_t *total) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    *total = state.memory_limit;
    *free_bytes = state.memory_limit - devices[current].used - devices[current].kept;
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

CUresult cuStreamCreate(CUstream *stream, unsigned) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    static uintptr_t last = 0x1000; // a handle is nobody's address, and never another stream's
    *stream = reinterpret_cast<CUstream>(last += 16);
    streams[*stream] = current;
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!streams.erase(stream)) return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    const int device = stream == CU_STREAM_LEGACY ? current : streams[stream];
    *context = reinterpret_cast<CUcontext>(uintptr_t(device) + 1);
    return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
    const std::lock_guard<std::mutex> guard(lock);
    state.synchronizations++;
    return problem();
}
CUresult cuStreamSynchronize(CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    state.synchronizations++;
    if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    return problem();
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!is_stream(stream) || !events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    return problem();
}
CUresult cuEventCreate(CUevent *event, unsigned flags) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    *event = reinterpret_cast<CUevent>(std::malloc(1));
    events[*event] = {current, false, !(flags & CU_EVENT_DISABLE_TIMING), 0, 0};
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!is_stream(stream) || !events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    if (stream != CU_STREAM_LEGACY && streams[stream] != events[event].device) return CUDA_ERROR_INVALID_HANDLE;
    events[event].recorded = true;
    events[event].at = state.launches;
    static uint64_t records = 0;
    events[event].order = ++records;
    return problem();
}
CUresult cuEventQuery(CUevent event) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    return state.slow && events[event].recorded ? CUDA_ERROR_NOT_READY : problem();
}
CUresult cuEventSynchronize(CUevent event) {
    const std::lock_guard<std::mutex> guard(lock);
    state.synchronizations++;
    if (!events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    for (auto &[other, seen] : events) { // what was recorded before it has happened too
        if (seen.device == events[event].device && seen.order <= events[event].order) seen.recorded = false;
    }
    return problem();
}
#undef cuEventElapsedTime // as drivers of CUDA 12 have it
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    const std::lock_guard<std::mutex> guard(lock);
    for (CUevent event : {start, end}) {
        if (!events.count(event) || !events[event].timed) return CUDA_ERROR_INVALID_HANDLE;
        if (state.slow && events[event].recorded) return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = float(events[end].at - events[start].at);
    return problem();
}
CUresult cuEventDestroy(CUevent event) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!events.erase(event)) return CUDA_ERROR_INVALID_HANDLE;
    std::free(event);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    *pool = reinterpret_cast<CUmemoryPool>(uintptr_t(properties->location.id) + 1);
    return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void *) {
    return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
    const std::lock_guard<std::mutex> guard(lock);
    devices[reinterpret_cast<uintptr_t>(pool) - 1].kept = 0;
    state.trims++;
    return CUDA_SUCCESS;
}
// What is kept cannot be handed out again before it has been given back: as badly split as a pool can be.
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    const int device = int(reinterpret_cast<uintptr_t>(pool)) - 1;
    Device &d = devices[device];
    if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes > state.memory_limit || d.used + d.kept > state.memory_limit - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    void *memory = take_memory(bytes);
    if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<CUdeviceptr>(memory);
    blocks[*address] = {device, bytes};
    d.used += bytes;
    return CUDA_SUCCESS;
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    const auto block = blocks.find(address);
    if (block == blocks.end() || !is_stream(stream)) return CUDA_ERROR_INVALID_VALUE;
    devices[block->second.first].used -= block->second.second;
    devices[block->second.first].kept += block->second.second;
    give_memory(reinterpret_cast<void *>(address), block->second.second);
    blocks.erase(block);
    return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
    *memory = std::malloc(bytes);
    return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    if (!is_device_memory(to, bytes) || !is_stream(stream)) return CUDA_ERROR_INVALID_VALUE;
    open_memory();
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    close_memory();
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    if (!is_device_memory(from, bytes) || !is_stream(stream)) return CUDA_ERROR_INVALID_VALUE;
    open_memory();
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
    close_memory();
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    if (!is_device_memory(to, bytes) || !is_device_memory(from, bytes) || !is_stream(stream)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    open_memory();
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    close_memory();
    return CUDA_SUCCESS;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    const auto device_of = [](CUcontext context) { return int(reinterpret_cast<uintptr_t>(context)) - 1; };
    if (!is_memory_of(device_of(to_context), to, bytes) || !is_memory_of(device_of(from_context), from, bytes) ||
        !is_stream(stream)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    open_memory();
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    close_memory();
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *) {
    *module = reinterpret_cast<CUmodule>(uintptr_t(1));
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name) {
    Dl_info self;
    if (!dladdr(reinterpret_cast<void *>(&fake_cuda), &self)) return CUDA_ERROR_NOT_FOUND;
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *kernel = library ? dlsym(library, name) : nullptr;
    if (library) dlclose(library);
    *function = static_cast<CUfunction>(kernel);
    return kernel ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                        unsigned, CUstream stream, void **parameters, void **) {
    if (CUresult p = problem()) return p;
    {
        const std::lock_guard<std::mutex> guard(lock);
        if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
        state.last_stream = stream;
        if (grid == 0 || threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
        state.launches++;
        if (state.fail_launch) {
            const CUresult result = static_cast<CUresult>(state.fail_launch);
            state.fail_launch = CUDA_SUCCESS;
            return result;
        }
    }
    void (*kernel)(const void *);
    std::memcpy(&kernel, &function, sizeof kernel);
    fake_cuda_open(true);
    const bool together = run_grid(kernel, parameters[0], grid, int(threads));
    fake_cuda_open(false);
    if (!together) return CUDA_ERROR_LAUNCH_FAILED;
    if (state.lose_launch) devices[current].lost = CUDA_ERROR_LAUNCH_FAILED; // as after a wrong address
    state.lose_launch = false;
    return CUDA_SUCCESS;
}

} // extern "C"
