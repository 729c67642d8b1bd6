// How tests steer the fake driver: fake_cuda() of its library gives the state.
#ifndef AMP_TESTS_FAKE_CUDA_H
#define AMP_TESTS_FAKE_CUDA_H

#include <cmath>
#include <cstddef>
#include <cstdint>

struct fake_cuda_state {
    int devices = 4;                       // what cuDeviceGetCount says (AMP_FAKE_DEVICES, where it is set)
    size_t memory_limit = size_t(1) << 30; // of each device
    uint64_t launches = 0, synchronizations = 0;
    int fail_launch = 0;      // the CUresult of the next launch, once
    bool slow = false;        // events are not ready before they have been waited for
    bool lose_launch = false; // the next launch seems well, and loses the device
    uint64_t trims = 0;
    uint64_t products = 0;            // of the fake cuBLASLt
    uint64_t heuristics = 0;          // times that a library was asked for an algorithm
    bool refuse_epilogues = false;    // cuBLASLt has none for products with one
    uint64_t convolutions = 0;        // of the fake cuDNN
    bool refuse_convolutions = false; // it has no algorithm
    bool fail_convolution = false;    // it has one, and refuses when it is run
    uint64_t factors = 0;             // steps of the fake cuSOLVER
    int fail_factor = 0;              // the status of its next step, once
    size_t factor_device = 512;       // bytes that it asks for
    size_t factor_host = 64;          // and of the host's
    void *last_stream = nullptr;      // of a launch
};

extern "C" __attribute__((visibility("default"))) fake_cuda_state *fake_cuda(void);

// Device memory can be touched between the two: for the fake cuBLASLt.
extern "C" __attribute__((visibility("default"))) void fake_cuda_open(bool open);

// A factor with the 11 bits that TF32 keeps.
inline double fake_tf32(double x) {
    int exponent;
    const double fraction = std::isfinite(x) ? std::frexp(x, &exponent) : 0;
    return std::isfinite(x) ? std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11) : x;
}

#endif // AMP_TESTS_FAKE_CUDA_H
