/* Copies. What goes to the device passes through pinned memory, so that the caller may change theirs at once and the
 * copy runs on in the background; what comes back is waited for. */
#include <pthread.h>
#include <string.h>

#include "cuda/module/driver.h"

enum { PIECES = 4, PIECE_BYTES = 4 << 20 };

/* Pinned pieces, taken in turn. Each has an event that tells when the device has read it. */
typedef struct piece {
    void *memory;
    CUevent read;
    bool taken; /* by a thread, which alone touches the rest */
} piece;

static struct {
    piece pieces[PIECES];
    unsigned next;
} staging[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* never held while a thread waits for a device */
static pthread_cond_t given_back = PTHREAD_COND_INITIALIZER;

/* NULL: other threads have them all. */
static piece *free_piece(int device) {
    for (int i = 0; i < PIECES; i++) {
        piece *p = &staging[device].pieces[staging[device].next++ % PIECES];
        if (!p->taken) return p;
    }
    return NULL;
}

static void give_back(piece *p) {
    pthread_mutex_lock(&lock);
    p->taken = false;
    pthread_cond_broadcast(&given_back);
    pthread_mutex_unlock(&lock);
}

static CUresult make_piece(piece *p, const char **what) {
    CUevent event = NULL;
    *what = "an event cannot be made";
    CUresult result = cuda.event_create(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    if (result != CUDA_SUCCESS) return result;
    *what = "pinned memory cannot be had";
    result = cuda.host_allocate(&p->memory, PIECE_BYTES, 0);
    if (result == CUDA_SUCCESS) {
        p->read = event;
    } else {
        p->memory = NULL;
        (void)cuda.event_destroy(event);
    }
    return result;
}

/* Waits only where the device has not read the piece yet: PIECES copies are on their way. */
static CUresult wait_for_piece(const piece *p, const char **what) {
    *what = "waiting for an earlier copy";
    const CUresult state = cuda.event_query(p->read);
    if (state != CUDA_ERROR_NOT_READY) return state;
    amp_cuda_count.synchronizations++;
    return cuda.event_synchronize(p->read);
}

/* The next piece, free of its last copy, until give_back; NULL where *result is an error. */
static piece *take_piece(amp_cuda_result *result) {
    piece *p;
    const char *what = NULL;
    amp_cuda_relax();
    pthread_mutex_lock(&lock);
    while (!(p = free_piece(amp_cuda_selected()))) pthread_cond_wait(&given_back, &lock);
    p->taken = true;
    pthread_mutex_unlock(&lock);
    const CUresult ready = p->memory ? wait_for_piece(p, &what) : make_piece(p, &what);
    *result = amp_cuda_check(ready, what);
    if (ready == CUDA_SUCCESS) return p;
    give_back(p);
    return NULL;
}

/* One piece's part of a transfer. */
static amp_cuda_result upload_part(CUdeviceptr to, const char *host, size_t bytes, CUstream stream) {
    amp_cuda_result taken;
    piece *p = take_piece(&taken);
    if (!p) return taken;
    memcpy(p->memory, host, bytes);
    CUresult result = cuda.copy_to_device(to, p->memory, bytes, stream);
    if (result == CUDA_SUCCESS) result = cuda.event_record(p->read, stream);
    if (result != CUDA_SUCCESS) (void)cuda.context_synchronize(); /* the event does not tell of the copy */
    give_back(p);
    return amp_cuda_check(result, "a copy to the device");
}

static amp_cuda_result download_part(char *host, CUdeviceptr from, size_t bytes, CUstream stream) {
    amp_cuda_result result;
    piece *p = take_piece(&result);
    if (!p) return result;
    result = amp_cuda_check(cuda.copy_to_host(p->memory, from, bytes, stream), "a copy to the host");
    if (result == AMP_CUDA_OK) result = amp_cuda_finish();
    if (result == AMP_CUDA_OK) memcpy(host, p->memory, bytes);
    give_back(p);
    return result;
}

static size_t part_of(size_t rest) {
    return rest < PIECE_BYTES ? rest : PIECE_BYTES;
}

amp_cuda_result amp_cuda_upload(void *to, const void *host, size_t bytes) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    amp_cuda_count.uploads++;
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        AMP_CUDA_TRY(upload_part((CUdeviceptr)to + done, (const char *)host + done, part_of(bytes - done), stream));
    }
    return AMP_CUDA_OK;
}

amp_cuda_result amp_cuda_download(void *host, const void *from, size_t bytes) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    amp_cuda_count.downloads++;
    for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
        AMP_CUDA_TRY(download_part((char *)host + done, (CUdeviceptr)from + done, part_of(bytes - done), stream));
    }
    return bytes ? AMP_CUDA_OK : amp_cuda_finish();
}

amp_cuda_result amp_cuda_copy(void *to, const void *from, size_t bytes) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    return amp_cuda_check(cuda.copy_on_device((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream),
                          "a copy on the device");
}

static amp_cuda_result enter_device(int device, CUstream *stream) {
    AMP_CUDA_TRY(amp_cuda_select(device));
    return amp_cuda_enter(stream);
}

/* On the source's stream: after the making of the destination, and before what uses it. */
static amp_cuda_result copy_to_device(void *to, int to_device, const void *from, int from_device, size_t bytes) {
    CUstream here = NULL, there = NULL;
    AMP_CUDA_TRY(enter_device(from_device, &here));
    AMP_CUDA_TRY(enter_device(to_device, &there));
    AMP_CUDA_TRY(amp_cuda_follow(here, there));
    AMP_CUDA_TRY(enter_device(from_device, &here));
    AMP_CUDA_TRY(amp_cuda_check(cuda.copy_between((CUdeviceptr)to, amp_cuda_context(to_device), (CUdeviceptr)from,
                                                  amp_cuda_context(from_device), bytes, here),
                                "a copy between devices"));
    return amp_cuda_follow(there, here);
}

amp_cuda_result amp_cuda_copy_between(void *to, int to_device, const void *from, int from_device, size_t bytes) {
    const int selected = amp_cuda_selected();
    const amp_cuda_result result = copy_to_device(to, to_device, from, from_device, bytes);
    (void)amp_cuda_select(selected);
    return result;
}
