// What the files of the fake driver share: driver.cc has devices, streams, events and kernels, driver_memory.cc memory.
#ifndef AMP_TESTS_FAKE_DRIVER_H
#define AMP_TESTS_FAKE_DRIVER_H

#include <cuda.h>

#include <mutex>

#include "fake_cuda.h"
#include "order.h"

namespace fake_driver {

// ---- driver.cc ------------------------------------------------------------------------------------------------------

constexpr int max_devices = 8;

struct Device {
    CUresult lost = CUDA_SUCCESS; // after which the context is of no more use
    size_t used = 0, kept = 0;    // of the pool: handed out, and freed but not given back
};

extern std::mutex lock; // of all that follows: who calls these functions holds it
extern Device devices[max_devices];
extern fake_cuda_state state;
extern uint64_t device_copies;   // from one place of a device to another
extern thread_local int current; // device of the current context

// Of the current context.
CUresult problem();
bool has_pools();
// Says so on stderr and in the state; false.
bool complain(const char *format, ...);
// Of what a thread may not do while another one captures a stream, unless it has said that it knows.
CUresult outside_of_captures(const char *who);

Stream *find_stream(CUstream stream);
// What is enqueued on the stream now comes after what the host knows to be over, and by the rules of the default
// stream.
void enqueue(Stream *s);
// A stream on which the current device can do something now.
CUresult ready(CUstream stream, Stream **found);

// ---- driver_memory.cc -----------------------------------------------------------------------------------------------

struct Block {
    int device;
    CUdeviceptr start;
    size_t bytes;
    Uses uses;
};

// Whether the address was ever handed out, of any device.
bool is_of_device(CUdeviceptr address);
// The block that the address is in, or at the end of; nullptr: none.
Block *find_block(CUdeviceptr address);
// Notes that work of a stream touches [address, address + bytes) of a device's memory; false where it may not.
bool use(const Stream &s, int device, const char *who, CUdeviceptr address, size_t bytes, bool writes);
uint64_t hash_of(const char *data, size_t bytes);
// Device memory is there while one of these is.
void open_memory();
void close_memory();
// What the host knows of now.
void end_copies(const Clock &completed);

} // namespace fake_driver

#endif // AMP_TESTS_FAKE_DRIVER_H
