// A file of test_cxx that is compiled with AMP_EXCEPTIONS, beside one that is not.
#ifndef AMP_TESTS_CXX_EXCEPTIONS_H
#define AMP_TESTS_CXX_EXCEPTIONS_H

#include <string>

#include "amp/tensor.h"

// The sentence that a product of x and itself throws, inside a region; "" if it throws nothing.
std::string what_mm_throws(amp_tensor *x, amp_status *status);

#endif // AMP_TESTS_CXX_EXCEPTIONS_H
