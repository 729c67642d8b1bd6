// How tests steer the fake driver: fake_cuda() of its library gives the state.
#ifndef AMP_TESTS_FAKE_CUDA_H
#define AMP_TESTS_FAKE_CUDA_H

#include <cstddef>
#include <cstdint>

struct fake_cuda_state {
    int devices;         // what cuDeviceGetCount says (AMP_FAKE_DEVICES, where it is set)
    size_t memory_limit; // of each device
    uint64_t launches, synchronizations;
    int fail_launch;  // the CUresult of the next launch, once
    bool slow;        // events are not ready before they have been waited for
    bool lose_launch; // the next launch seems well, and loses the device
    uint64_t trims;
    uint64_t products; // of the fake cuBLASLt
    uint64_t factors;  // steps of the fake cuSOLVER
};

extern "C" __attribute__((visibility("default"))) fake_cuda_state *fake_cuda(void);

// Device memory can be touched between the two: for the fake cuBLASLt.
extern "C" __attribute__((visibility("default"))) void fake_cuda_open(bool open);

#endif // AMP_TESTS_FAKE_CUDA_H
