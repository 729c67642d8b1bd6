// How long a child of a test may run.
#ifndef AMP_TESTS_PATIENCE_H
#define AMP_TESTS_PATIENCE_H

// Seconds for alarm(): it is only there so that a hang ends, and says nothing about how fast a machine must be.
constexpr unsigned hang_seconds = 300;

#endif // AMP_TESTS_PATIENCE_H
