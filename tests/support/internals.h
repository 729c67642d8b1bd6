// The library's internal headers for tests in C++. C11 atomics are seen as plain values of the same size and alignment,
// so a test may only look at them while no other thread runs.
#ifndef AMP_TESTS_INTERNALS_H
#define AMP_TESTS_INTERNALS_H

#include <gtest/gtest.h> // before <stdatomic.h>: clang's macros of that header break the C++ library's

#include <stdatomic.h>

#include "amp/amp.h"

#define _Atomic
#define atomic_int int
#define atomic_bool bool

extern "C" {
#include "call/ahead.h"
#include "call/backend.h"
#include "call/call.h"
#include "core/tensor_impl.h"
#include "dispatch/arguments.h"
#include "dispatch/layers.h"
#include "generated/op_ids.h"
#include "policy/cast_cache.h"
#include "policy/op_table.h"
}

#undef _Atomic
#undef atomic_int
#undef atomic_bool

#endif // AMP_TESTS_INTERNALS_H
