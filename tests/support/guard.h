// A buffer that ends where an unreadable page begins: one byte too many is a crash, in any build.
#ifndef AMP_TESTS_GUARD_H
#define AMP_TESTS_GUARD_H

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

class GuardedBuffer {
  public:
    // Where `alignment` is not 1, up to alignment - 1 bytes lie between its end and the page.
    explicit GuardedBuffer(size_t size, size_t alignment = 1) : size_(size) {
        const size_t page = size_t(sysconf(_SC_PAGESIZE)), used = (size + page - 1) / page * page;
        mapped_ = used + page;
        base_ = (unsigned char *)mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base_ == MAP_FAILED || mprotect(base_ + used, page, PROT_NONE) != 0) abort();
        data_ = base_ + (used - size) / alignment * alignment;
    }
    ~GuardedBuffer() {
        munmap(base_, mapped_);
    }
    GuardedBuffer(const GuardedBuffer &) = delete;
    GuardedBuffer &operator=(const GuardedBuffer &) = delete;

    unsigned char *data() {
        return data_;
    }
    template <class T>
    T *as() {
        return reinterpret_cast<T *>(data_);
    }
    size_t size() const {
        return size_;
    }

  private:
    size_t size_, mapped_;
    unsigned char *base_, *data_;
};

// The same between two unreadable pages: it touches the one behind it, or the one before it.
class EnclosedBuffer {
  public:
    EnclosedBuffer(size_t size, bool at_end) {
        const size_t page = size_t(sysconf(_SC_PAGESIZE)), used = (size + page - 1) / page * page;
        mapped_ = used + 2 * page;
        base_ = (unsigned char *)mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base_ == MAP_FAILED || mprotect(base_ + page, used, PROT_READ | PROT_WRITE) != 0) abort();
        data_ = base_ + page + (at_end ? used - size : 0);
    }
    ~EnclosedBuffer() {
        munmap(base_, mapped_);
    }
    EnclosedBuffer(const EnclosedBuffer &) = delete;
    EnclosedBuffer &operator=(const EnclosedBuffer &) = delete;

    template <class T = unsigned char>
    T *as() {
        return reinterpret_cast<T *>(data_);
    }

  private:
    size_t mapped_;
    unsigned char *base_, *data_;
};

#endif // AMP_TESTS_GUARD_H
