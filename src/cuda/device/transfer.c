/* Copies. What goes to the device passes through pinned memory, so that the caller may change theirs at once and the
 * copy runs on in the background; what comes back is waited for. */
#include <pthread.h>
#include <string.h>

#include "cuda/device/driver.h"

enum { PIECES = 4, PIECE_BYTES = 4 << 20 };

/* Pinned pieces, taken in turn. Each has an event that tells when the device has read it. */
typedef struct piece {
    void *memory;
    CUevent read;
} piece;

static struct {
    piece pieces[PIECES];
    unsigned next;
} staging[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The next piece, free of its last copy. Waits only where PIECES copies are still on their way: that is counted. */
static amp_cuda_result take_piece(piece **taken) {
    piece *p = &staging[amp_cuda_selected()].pieces[staging[amp_cuda_selected()].next++ % PIECES];
    *taken = p;
    if (!p->memory) {
        CUevent event = NULL;
        AMP_CUDA_TRY(amp_cuda_check(cuda.event_create(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC),
                                    "an event cannot be made"));
        const CUresult got = cuda.host_allocate(&p->memory, PIECE_BYTES, 0);
        if (got != CUDA_SUCCESS) {
            p->memory = NULL;
            (void)cuda.event_destroy(event);
            return amp_cuda_check(got, "pinned memory cannot be had");
        }
        p->read = event;
        return AMP_CUDA_OK;
    }
    return amp_cuda_check(cuda.event_synchronize(p->read), "waiting for an earlier copy");
}

static amp_cuda_result upload_pieces(CUdeviceptr to, const char *host, size_t bytes, CUstream stream) {
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        const size_t count = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        piece *p;
        AMP_CUDA_TRY(take_piece(&p));
        memcpy(p->memory, host + done, count);
        AMP_CUDA_TRY(amp_cuda_check(cuda.copy_to_device(to + done, p->memory, count, stream), "a copy to the device"));
        AMP_CUDA_TRY(amp_cuda_check(cuda.event_record(p->read, stream), "a copy to the device"));
    }
    return AMP_CUDA_OK;
}

amp_cuda_result amp_cuda_upload(void *to, const void *host, size_t bytes) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    pthread_mutex_lock(&lock);
    const amp_cuda_result result = upload_pieces((CUdeviceptr)to, host, bytes, stream);
    pthread_mutex_unlock(&lock);
    amp_cuda_count.uploads++;
    return result;
}

static amp_cuda_result download_pieces(char *host, CUdeviceptr from, size_t bytes, CUstream stream) {
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        const size_t count = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        piece *p;
        AMP_CUDA_TRY(take_piece(&p));
        AMP_CUDA_TRY(amp_cuda_check(cuda.copy_to_host(p->memory, from + done, count, stream), "a copy to the host"));
        AMP_CUDA_TRY(amp_cuda_wait(stream));
        memcpy(host + done, p->memory, count);
        AMP_CUDA_TRY(amp_cuda_check(cuda.event_record(p->read, stream), "a copy to the host"));
    }
    return bytes ? AMP_CUDA_OK : amp_cuda_wait(stream);
}

amp_cuda_result amp_cuda_download(void *host, const void *from, size_t bytes) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    pthread_mutex_lock(&lock);
    const amp_cuda_result result = download_pieces(host, (CUdeviceptr)from, bytes, stream);
    pthread_mutex_unlock(&lock);
    amp_cuda_count.downloads++;
    return result;
}

amp_cuda_result amp_cuda_copy(void *to, int to_device, const void *from, int from_device, size_t bytes) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    if (to_device == from_device) {
        return amp_cuda_check(cuda.copy_on_device((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream),
                              "a copy on the device");
    }
    return amp_cuda_say(AMP_CUDA_INVALID, "tensors of device %d cannot be copied to device %d yet; go through the cpu",
                        from_device, to_device);
}
