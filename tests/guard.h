// A buffer that ends where an unreadable page begins: one byte too many is a crash, in any build.
#ifndef AMP_TESTS_GUARD_H
#define AMP_TESTS_GUARD_H

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

class GuardedBuffer {
  public:
    explicit GuardedBuffer(size_t size) : size_(size) {
        const size_t page = size_t(sysconf(_SC_PAGESIZE)), used = (size + page - 1) / page * page;
        mapped_ = used + page;
        base_ = (unsigned char *)mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base_ == MAP_FAILED || mprotect(base_ + used, page, PROT_NONE) != 0) abort();
        data_ = base_ + used - size;
    }
    ~GuardedBuffer() {
        munmap(base_, mapped_);
    }
    GuardedBuffer(const GuardedBuffer &) = delete;
    GuardedBuffer &operator=(const GuardedBuffer &) = delete;

    unsigned char *data() {
        return data_;
    }
    size_t size() const {
        return size_;
    }

  private:
    size_t size_, mapped_;
    unsigned char *base_, *data_;
};

#endif // AMP_TESTS_GUARD_H
