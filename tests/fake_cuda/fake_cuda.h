// How tests steer the fake driver: fake_cuda() of its library gives the state.
#ifndef AMP_TESTS_FAKE_CUDA_H
#define AMP_TESTS_FAKE_CUDA_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>

struct fake_cuda_state {
    int devices = 4; // what cuDeviceGetCount says (AMP_FAKE_DEVICES, where it is set; -N: it fails so)
    size_t memory_limit = size_t(1) << 30; // of each device
    uint64_t launches = 0, synchronizations = 0;
    int fail_launch = 0;      // the CUresult of the next launch, once
    int fail_event = 0;       // of the next event that is made
    bool slow = false;        // events are not ready before they have been waited for
    bool lose_launch = false; // the next launch seems well, and loses the device
    uint64_t trims = 0;
    uint64_t allocations = 0; // that the driver was asked for
    size_t block_bytes = 0;   // of the blocks that it has handed out, of all devices
    int fail_module = 0;      // the CUresult of the next image that is loaded, once
    char last_kernel[64] = "";
    size_t library_bytes = 0;         // that a library takes from the driver by itself, when it is called
    bool captured_globally = false;   // another thread captures a stream in CU_STREAM_CAPTURE_MODE_GLOBAL
    uint64_t products = 0;            // of the fake cuBLASLt
    uint64_t heuristics = 0;          // times that a library was asked for an algorithm
    bool refuse_epilogues = false;    // cuBLASLt has none for products with one
    uint64_t convolutions = 0;        // of the fake cuDNN
    size_t convolution_area = 4096;   // what its one good algorithm wants
    bool refuse_convolutions = false; // it has no algorithm
    bool fail_convolution = false;    // it has one, and refuses when it is run
    uint64_t factors = 0;             // steps of the fake cuSOLVER
    int fail_factor = 0;              // the status of its next steps,
    int fail_factors = 1;             // … so many
    size_t factor_device = 512;       // bytes that it asks for
    size_t factor_host = 64;          // and of the host's
    void *last_stream = nullptr;      // of a launch
    uint64_t bank_conflicts = 0;      // rows of a matrix that ldmatrix had to read one after the other
    void *library_stream = nullptr;   // of a library's call
    void *last_recorded = nullptr;    // the stream of the last event
    void *last_waiting = nullptr;     // the one that was made to wait for an event last
    void *captured = nullptr;         // the stream that is being captured
    uint64_t complaints = 0;          // of what a real driver or library would make a wrong answer or a crash of
    char complaint[256] = "";         // the last one
    // What happens as soon as the host waits for the device, once.
    std::function<void()> while_waiting;
};

extern "C" __attribute__((visibility("default"))) fake_cuda_state *fake_cuda(void);

// Each device has so many bytes more to give; 0: all that it had. For programs in C.
extern "C" __attribute__((visibility("default"))) void fake_cuda_leave(size_t bytes);

// What a library does with memory of the device.
struct fake_access {
    const void *memory;
    size_t bytes;
    bool writes;
};
inline fake_access fake_read(const void *memory, size_t bytes) {
    return {memory, bytes, false};
}
inline fake_access fake_write(const void *memory, size_t bytes) {
    return {memory, bytes, true};
}

// The status of a step that fails, or 0.
inline int fake_take_factor_failure(fake_cuda_state *state) {
    const int failure = state->fail_factor;
    if (failure && --state->fail_factors <= 0) state->fail_factor = 0, state->fail_factors = 1;
    return failure;
}

// The device whose context is current in this thread; -1: none.
extern "C" __attribute__((visibility("default"))) int fake_cuda_device(void);
// Its capability, 10 · major + minor.
extern "C" __attribute__((visibility("default"))) int fake_cuda_capability(int device);
// A call of a library on a stream of the current device: false, with a complaint, where it may not touch that memory
// there and then. Between the two the host can.
extern "C" __attribute__((visibility("default"))) bool fake_cuda_begin(void *stream, const char *who,
                                                                       const fake_access *accesses, size_t count);
extern "C" __attribute__((visibility("default"))) void fake_cuda_end(void);
// The current device is lost, as after an address that a kernel could not read.
extern "C" __attribute__((visibility("default"))) void fake_cuda_lose(void);
// Whether the driver has so much left of the current device, beside what the pool keeps.
extern "C" __attribute__((visibility("default"))) bool fake_cuda_has_room(size_t bytes);
// Says so on stderr and in the state; false.
extern "C" __attribute__((visibility("default"))) bool fake_cuda_complain(const char *format, ...);

// AMP_FAKE_IDLE is set: kernels and products do nothing, which leaves what the host does for them to be timed.
inline bool fake_cuda_is_idle() {
    static const bool idle = std::getenv("AMP_FAKE_IDLE") != nullptr;
    return idle;
}

// A factor with the 11 bits that TF32 keeps.
inline double fake_tf32(double x) {
    int exponent;
    const double fraction = std::isfinite(x) ? std::frexp(x, &exponent) : 0;
    return std::isfinite(x) ? std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11) : x;
}

#endif // AMP_TESTS_FAKE_CUDA_H
