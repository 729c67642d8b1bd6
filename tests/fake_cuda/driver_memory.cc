// Memory of the fake driver's devices, pinned memory of the host, and copies between them. All devices' blocks lie in one
// arena, which can be read and written only while it is open.
#include "driver.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

using namespace fake_driver;

namespace {

// A copy that the host does not know to be over.
struct Copy {
    size_t stream;
    uint64_t time;
    char *host;
    size_t bytes;
    uint64_t hash;          // of what is read there, or …
    std::vector<char> data; // … what is written there
};

std::map<CUdeviceptr, Block> blocks; // by where they start
std::map<const char *, size_t> pinned;
std::vector<Copy> copies;

bool is_pinned(const char *memory, size_t bytes) {
    auto after = pinned.upper_bound(memory);
    if (after == pinned.begin()) return false;
    --after;
    return memory + bytes <= after->first + after->second;
}

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

CUresult allocate(CUdeviceptr *address, size_t bytes, int device, const Uses &uses) {
    Device &d = devices[device];
    state.allocations++;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > state.memory_limit || d.used + d.kept > state.memory_limit - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    void *memory = take_memory(bytes);
    if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<CUdeviceptr>(memory);
    blocks.insert_or_assign(*address, Block{device, *address, bytes, uses});
    d.used += bytes;
    state.block_bytes += bytes;
    return CUDA_SUCCESS;
}

Block *find_to_free(CUdeviceptr address) {
    const auto found = blocks.find(address);
    if (found != blocks.end()) return &found->second;
    complain("what is freed is no block");
    return nullptr;
}

void free_block(const Block &block) {
    const CUdeviceptr start = block.start;
    devices[block.device].used -= block.bytes;
    state.block_bytes -= block.bytes;
    give_memory(reinterpret_cast<void *>(start), block.bytes);
    blocks.erase(start);
}

} // namespace

namespace fake_driver {

bool is_of_device(CUdeviceptr address) {
    return arena && address >= reinterpret_cast<CUdeviceptr>(arena) &&
           address < reinterpret_cast<CUdeviceptr>(arena_end);
}

Block *find_block(CUdeviceptr address) {
    auto after = blocks.upper_bound(address);
    if (after == blocks.begin()) return nullptr;
    Block &block = (--after)->second;
    return address <= block.start + block.bytes ? &block : nullptr;
}

bool use(const Stream &s, int device, const char *who, CUdeviceptr address, size_t bytes, bool writes) {
    Block *const found = find_block(address);
    if (!found || found->device != device || address + bytes > found->start + found->bytes)
        return complain("%s touches %zu bytes that are not a block's of device %d", who, bytes, device);
    const bool ordered = found->uses.are_before(s, writes);
    found->uses.add(s, writes);
    return ordered || complain("%s %s memory while another stream may be using it", who, writes ? "writes" : "reads");
}

uint64_t hash_of(const char *data, size_t bytes) {
    uint64_t hash = bytes, word = 0;
    for (size_t i = 0; i < bytes; i += sizeof word) {
        word = 0;
        std::memcpy(&word, data + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

void open_memory() {
    if (open_count++ == 0 && arena) mprotect(arena, arena_bytes, PROT_READ | PROT_WRITE);
}
void close_memory() {
    if (--open_count == 0 && arena) mprotect(arena, arena_bytes, PROT_NONE);
}

void end_copies(const Clock &completed) {
    std::vector<Copy> left;
    for (Copy &c : copies) {
        if (at(completed, c.stream) < c.time) {
            left.push_back(std::move(c));
        } else if (!c.data.empty()) {
            std::memcpy(c.host, c.data.data(), c.bytes);
        } else if (hash_of(c.host, c.bytes) != c.hash) {
            complain("pinned memory was changed before a copy had read it");
        }
    }
    copies = std::move(left);
}

} // namespace fake_driver

extern "C" {

void fake_cuda_open(bool open) {
    const std::lock_guard<std::mutex> guard(lock);
    if (open) {
        open_memory();
    } else {
        close_memory();
    }
}

bool fake_cuda_has_room(size_t bytes) {
    const std::lock_guard<std::mutex> guard(lock);
    return devices[current].used + devices[current].kept + bytes <= state.memory_limit;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    *total = state.memory_limit;
    *free_bytes = state.memory_limit - devices[current].used - devices[current].kept;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    if (!has_pools()) return CUDA_ERROR_NOT_SUPPORTED;
    *pool = reinterpret_cast<CUmemoryPool>(uintptr_t(properties->location.id) + 1);
    return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void *) {
    return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = outside_of_captures("cuMemPoolTrimTo")) return p;
    devices[reinterpret_cast<uintptr_t>(pool) - 1].kept = 0;
    state.trims++;
    return CUDA_SUCCESS;
}
// What is kept cannot be handed out again before it has been given back: as badly split as a pool can be.
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (CUresult p = ready(stream, &s)) return p;
    if (CUresult p = outside_of_captures("cuMemAllocFromPoolAsync")) return p;
    const int device = int(reinterpret_cast<uintptr_t>(pool)) - 1;
    return s->device == device ? allocate(address, bytes, device, Uses(*s)) : CUDA_ERROR_INVALID_VALUE;
}
// At once, and in no stream's order.
CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    if (CUresult p = outside_of_captures("cuMemAlloc")) return p;
    return allocate(address, bytes, current, Uses());
}
// Waits for all of the device's work, as the real one does where it must.
CUresult cuMemFree(CUdeviceptr address) {
    if (CUresult p = cuCtxSynchronize()) return p;
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = outside_of_captures("cuMemFree")) return p;
    const Block *const block = find_to_free(address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    free_block(*block);
    return CUDA_SUCCESS;
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s = find_stream(stream);
    if (!s || current < 0) return CUDA_ERROR_INVALID_VALUE;
    const Block *const block = find_to_free(address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    if (stream == state.captured) {
        complain("memory is freed by the graph that the stream is captured for");
        return CUDA_ERROR_INVALID_VALUE;
    }
    enqueue(s);
    if (!devices[block->device].lost) (void)use(*s, block->device, "cuMemFreeAsync", address, 0, true);
    devices[block->device].kept += block->bytes;
    free_block(*block);
    return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
    const std::lock_guard<std::mutex> guard(lock);
    if (CUresult p = problem()) return p;
    if (CUresult p = outside_of_captures("cuMemHostAlloc")) return p;
    *memory = std::malloc(bytes);
    if (!*memory) return CUDA_ERROR_OUT_OF_MEMORY;
    pinned[static_cast<char *>(*memory)] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (CUresult p = ready(stream, &s)) return p;
    if (!use(*s, current, "cuMemcpyHtoDAsync", to, bytes, true)) return CUDA_ERROR_INVALID_VALUE;
    open_memory();
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    close_memory();
    char *host = static_cast<char *>(const_cast<void *>(from));
    if (is_pinned(host, bytes)) copies.push_back({s->number, s->now(), host, bytes, hash_of(host, bytes), {}});
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (CUresult p = ready(stream, &s)) return p;
    if (!use(*s, current, "cuMemcpyDtoHAsync", from, bytes, false)) return CUDA_ERROR_INVALID_VALUE;
    const char *data = reinterpret_cast<const char *>(from);
    char *host = static_cast<char *>(to);
    const bool later = bytes > 0 && is_pinned(host, bytes);
    open_memory();
    if (later) {
        copies.push_back({s->number, s->now(), host, bytes, 0, std::vector<char>(data, data + bytes)});
        std::memset(to, 0xcb, bytes);
    } else {
        std::memcpy(to, data, bytes);
    }
    close_memory();
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (CUresult p = ready(stream, &s)) return p;
    if (!use(*s, current, "cuMemcpyDtoDAsync", from, bytes, false) ||
        !use(*s, current, "cuMemcpyDtoDAsync", to, bytes, true))
        return CUDA_ERROR_INVALID_VALUE;
    open_memory();
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    close_memory();
    device_copies++;
    return CUDA_SUCCESS;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
    const std::lock_guard<std::mutex> guard(lock);
    Stream *s;
    if (CUresult p = ready(stream, &s)) return p;
    const auto device_of = [](CUcontext context) { return int(reinterpret_cast<uintptr_t>(context)) - 1; };
    if (!use(*s, device_of(from_context), "cuMemcpyPeerAsync", from, bytes, false) ||
        !use(*s, device_of(to_context), "cuMemcpyPeerAsync", to, bytes, true))
        return CUDA_ERROR_INVALID_VALUE;
    open_memory();
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
    close_memory();
    return CUDA_SUCCESS;
}

} // extern "C"
