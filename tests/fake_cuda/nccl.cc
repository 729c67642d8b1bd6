// libnccl for machines without a GPU: what ranks send lies for a moment in a file that all of them have mapped, and
// "device" memory is the host's. What is enqueued happens at once. A rank that calls something else than the others is
// told of, and so is one with a GPU that another has.
//
// AMP_FAKE_NCCL=NAME:RANK:N lets the N-th call of ncclNAME on that rank fail (counted from 1). As with the real one,
// the others know nothing: what they receive then is of no use, and their group must be aborted.
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "fake_cuda.h"

namespace {

constexpr int most_ranks = 8, seconds = 60;
constexpr size_t area_bytes = size_t(1) << 20; // of a rank: what it sends at once
enum Status { done = 0, system_error = 2, invalid_argument = 4, invalid_usage = 5, remote_error = 6 };

struct Id {
    char name[128];
};

struct Posted {
    int kind, device;
    size_t bytes;
};

struct Board {
    std::atomic<int> arrived, round, left;
    std::atomic<bool> broken;
    Posted posted[most_ranks];
    char areas[most_ranks][area_bytes];
};

struct Comm {
    Board *board;
    std::string name;
    int rank, size, device;
};

struct Part {
    bool sends;
    const char *from;
    char *to;
    size_t count;
    int peer;
};

struct Group {
    bool open = false;
    Comm *comm = nullptr;
    void *stream = nullptr;
    std::vector<Part> parts;
} group;

// ---- Failures -------------------------------------------------------------------------------------------------------
// Whether this call is the one that fails.
bool fails(const char *name, int rank) {
    static std::map<std::string, int> calls;
    const char *told = std::getenv("AMP_FAKE_NCCL");
    const std::string key = std::string(name) + ":" + std::to_string(rank) + ":" + std::to_string(++calls[name]);
    return told && key == told;
}

Status fail(Comm *comm) {
    comm->board->broken = true;
    return system_error;
}

// ---- Meeting --------------------------------------------------------------------------------------------------------
// Until all ranks are here; false: one has failed, and will not come.
bool meet(Comm *comm) {
    Board *const b = comm->board;
    const int round = b->round;
    const time_t begin = std::time(nullptr);
    if (b->broken) return false;
    if (++b->arrived == comm->size) {
        b->arrived = 0;
        b->round = round + 1;
        return true;
    }
    while (b->round == round) {
        if (b->broken) return false;
        if (std::time(nullptr) > begin + seconds) return fake_cuda_complain("NCCL: rank %d waits for ever", comm->rank);
        sched_yield();
    }
    return true;
}

// Puts this rank's bytes where all can read them.
bool post(Comm *comm, int kind, const void *from, size_t bytes, size_t told) {
    Board *const b = comm->board;
    if (bytes > area_bytes) return fake_cuda_complain("NCCL: %zu bytes are more than tests send", bytes);
    b->posted[comm->rank] = {kind, comm->device, told};
    if (bytes) std::memcpy(b->areas[comm->rank], from, bytes);
    if (!meet(comm)) return false;
    for (int r = 0; r < comm->size; r++) {
        if (b->posted[r].kind != kind || b->posted[r].bytes != told)
            return fake_cuda_complain("NCCL: ranks %d and %d do not call the same", comm->rank, r);
    }
    return true;
}

// One transfer: reads what the others have posted.
template <class Read>
Status transfer(Comm *comm, void *stream, int kind, std::vector<fake_access> accesses, const void *from, size_t bytes,
                size_t told, Read read) {
    if (comm->device != fake_cuda_device()) fake_cuda_complain("NCCL: the group is another device's");
    if (!fake_cuda_begin(stream, "NCCL", accesses.data(), accesses.size())) return invalid_argument;
    if (post(comm, kind, from, bytes, told)) {
        read(comm->board->areas);
        meet(comm); // before the next one writes
    } else {
        for (const fake_access &a : accesses)
            if (a.writes) std::memset(const_cast<void *>(a.memory), 0xff, a.bytes);
    }
    fake_cuda_end();
    return done;
}

// ---- Exchanges ------------------------------------------------------------------------------------------------------
const Part *find_part(bool sends, int peer) {
    for (const Part &p : group.parts)
        if (p.sends == sends && p.peer == peer) return &p;
    return nullptr;
}

// One send and one receive for each rank, of one size.
Status run_group() {
    Comm *const comm = group.comm;
    const size_t count = group.parts.empty() ? 0 : group.parts[0].count;
    std::vector<fake_access> accesses;
    std::vector<char> sent;
    if (!comm || group.parts.size() != 2 * size_t(comm->size)) return invalid_usage;
    for (const Part &p : group.parts) {
        if (p.count != count) return invalid_usage;
        accesses.push_back(p.sends ? fake_read(p.from, count) : fake_write(p.to, count));
    }
    fake_cuda_begin(group.stream, "NCCL", accesses.data(), accesses.size());
    for (int r = 0; r < comm->size; r++) {
        const Part *const p = find_part(true, r);
        if (p) sent.insert(sent.end(), p->from, p->from + count);
    }
    fake_cuda_end();
    if (sent.size() != count * size_t(comm->size)) return invalid_usage;
    const auto read = [&](const char(*areas)[area_bytes]) {
        for (int r = 0; r < comm->size; r++) {
            const Part *const p = find_part(false, r);
            if (p) std::memcpy(p->to, areas[r] + size_t(comm->rank) * count, count);
        }
    };
    return transfer(comm, group.stream, 1, accesses, sent.data(), sent.size(), count, read);
}

Status add_part(const char *name, Comm *comm, void *stream, Part part) {
    if (fails(name, comm->rank)) return fail(comm);
    if (!group.open || part.peer < 0 || part.peer >= comm->size) return invalid_usage;
    group.comm = comm;
    group.stream = stream;
    group.parts.push_back(part);
    return done;
}

void unmap(Comm *comm) {
    Board *const b = comm->board;
    if (++b->left == comm->size) shm_unlink(comm->name.c_str());
    munmap(b, sizeof *b);
    delete comm;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ncclGetVersion(int *version) {
    *version = 22907;
    return done;
}
EXPORT const char *ncclGetErrorString(int status) {
    return status == system_error       ? "unhandled system error"
           : status == invalid_argument ? "invalid argument"
           : status == invalid_usage    ? "invalid usage"
                                        : "an error of the fake NCCL";
}

EXPORT int ncclGetUniqueId(Id *id) {
    static int number = 0;
    if (fails("GetUniqueId", 0)) return system_error;
    std::snprintf(id->name, sizeof id->name, "/amp_fake_nccl_%d_%d", int(getpid()), number++);
    return done;
}

EXPORT int ncclCommInitRank(Comm **made, int size, Id id, int rank) {
    if (size > most_ranks || rank < 0 || rank >= size || fake_cuda_device() < 0) return invalid_argument;
    const int file = shm_open(id.name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(Board))) return system_error;
    void *memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return system_error;
    Comm *comm = new Comm{static_cast<Board *>(memory), id.name, rank, size, fake_cuda_device()};
    Status status = fails("CommInitRank", rank) ? fail(comm) : done;
    if (status == done && !post(comm, 0, nullptr, 0, 0)) status = remote_error;
    for (int r = 0; r < size && status == done; r++) {
        if (r != rank && comm->board->posted[r].device == comm->device) status = invalid_usage;
    }
    if (status != remote_error && status != system_error) meet(comm);
    if (status == done) *made = comm;
    if (status == done && rank == 0) shm_unlink(id.name); // all have mapped it
    if (status != done) unmap(comm);
    return status;
}
EXPORT int ncclCommDestroy(Comm *comm) {
    if (comm->board->broken) fake_cuda_complain("NCCL: a group that has failed is not aborted");
    unmap(comm);
    return done;
}
EXPORT int ncclCommAbort(Comm *comm) {
    comm->board->broken = true;
    unmap(comm);
    return done;
}
EXPORT int ncclCommGetAsyncError(Comm *comm, int *status) {
    *status = fails("CommGetAsyncError", comm->rank) ? int(fail(comm)) : int(done);
    return done;
}

EXPORT int ncclGroupStart() {
    if (group.open) return invalid_usage;
    group = Group();
    group.open = true;
    return done;
}
EXPORT int ncclGroupEnd() {
    if (!group.open) return invalid_usage;
    group.open = false;
    if (group.comm && group.comm->board->broken && group.parts.size() < 2 * size_t(group.comm->size)) return done;
    if (group.comm && fails("GroupEnd", group.comm->rank)) return fail(group.comm);
    return run_group();
}
EXPORT int ncclSend(const char *from, size_t count, int type, int peer, Comm *comm, void *stream) {
    return type == 1 ? add_part("Send", comm, stream, {true, from, nullptr, count, peer}) : invalid_argument;
}
EXPORT int ncclRecv(char *to, size_t count, int type, int peer, Comm *comm, void *stream) {
    return type == 1 ? add_part("Recv", comm, stream, {false, nullptr, to, count, peer}) : invalid_argument;
}

EXPORT int ncclAllGather(const char *from, char *to, size_t count, int type, Comm *comm, void *stream) {
    if (type != 1) return invalid_argument;
    if (fails("AllGather", comm->rank)) return fail(comm);
    const char *place = to + size_t(comm->rank) * count;
    if (from < to + size_t(comm->size) * count && from + count > to && from != place) return invalid_usage;
    fake_access read = fake_read(from, count);
    std::vector<char> sent(count);
    fake_cuda_begin(stream, "NCCL", &read, 1);
    std::memcpy(sent.data(), from, count);
    fake_cuda_end();
    return transfer(comm, stream, 2, {read, fake_write(to, size_t(comm->size) * count)}, sent.data(), count, count,
                    [&](const char(*areas)[area_bytes]) {
                        for (int r = 0; r < comm->size; r++) std::memcpy(to + size_t(r) * count, areas[r], count);
                    });
}
EXPORT int ncclBroadcast(const char *from, char *to, size_t count, int type, int root, Comm *comm, void *stream) {
    if (type != 1 || root < 0 || root >= comm->size) return invalid_argument;
    if (fails("Broadcast", comm->rank)) return fail(comm);
    const bool is_root = comm->rank == root;
    std::vector<char> sent(is_root ? count : 0);
    fake_access read = fake_read(from, count);
    if (is_root) {
        fake_cuda_begin(stream, "NCCL", &read, 1);
        std::memcpy(sent.data(), from, count);
        fake_cuda_end();
    }
    return transfer(comm, stream, 3 + root, {is_root ? read : fake_write(to, count)}, sent.data(), sent.size(), count,
                    [&](const char(*areas)[area_bytes]) {
                        if (!is_root) std::memcpy(to, areas[root], count);
                    });
}
