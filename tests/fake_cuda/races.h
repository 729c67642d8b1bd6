// The argument of the kernel in races.cc.
#ifndef AMP_TESTS_FAKE_RACES_H
#define AMP_TESTS_FAKE_RACES_H

struct fake_races_args {
    int *order, *count; // blocks, by when they came to it
};

#endif // AMP_TESTS_FAKE_RACES_H
