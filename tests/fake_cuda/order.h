// Which work on the fake devices comes after which. Every stream has a clock: for each stream, how much of its work is
// over before what is enqueued here next. Two uses of a block, one of which writes, must be in an order; on a GPU that
// they are not shows only sometimes, here always.
#ifndef AMP_TESTS_FAKE_ORDER_H
#define AMP_TESTS_FAKE_ORDER_H

#include <cstddef>
#include <cstdint>
#include <vector>

using Clock = std::vector<uint64_t>; // by the numbers of streams

inline uint64_t at(const Clock &clock, size_t number) {
    return number < clock.size() ? clock[number] : 0;
}
inline void set(Clock *clock, size_t number, uint64_t time) {
    if (clock->size() <= number) clock->resize(number + 1);
    (*clock)[number] = time;
}
inline void join(Clock *clock, const Clock &other) {
    for (size_t i = 0; i < other.size(); i++) {
        if (at(*clock, i) < other[i]) set(clock, i, other[i]);
    }
}
inline bool covers(const Clock &clock, const Clock &other) {
    for (size_t i = 0; i < other.size(); i++) {
        if (at(clock, i) < other[i]) return false;
    }
    return true;
}

struct Stream {
    int device;
    bool blocking; // waits for the legacy default stream, and that for it
    size_t number;
    Clock clock;

    uint64_t now() const {
        return at(clock, number);
    }
    void step() {
        set(&clock, number, now() + 1);
    }
};

// What was done with a block last.
struct Uses {
    size_t writer;
    uint64_t written;
    Clock read;

    Uses() : writer(0), written(0) {} // memory that came without a stream
    explicit Uses(const Stream &s) : writer(s.number), written(s.now()) {}
    // Whether it is over before what the stream does now.
    bool are_before(const Stream &s, bool writes) const {
        return at(s.clock, writer) >= written && (!writes || covers(s.clock, read));
    }
    void add(const Stream &s, bool writes) {
        if (!writes) {
            set(&read, s.number, s.now());
            return;
        }
        writer = s.number;
        written = s.now();
        read.clear();
    }
};

#endif // AMP_TESTS_FAKE_ORDER_H
