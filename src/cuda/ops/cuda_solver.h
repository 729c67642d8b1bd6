/* Large matrices through cuSOLVER, where there is one. */
#ifndef AMP_CUDA_SOLVER_H
#define AMP_CUDA_SOLVER_H

#include "call/call.h"
#include "cuda/args/matrix_args.h"
#include "steps/linalg.h"

/* Runs the loop, whose kernel's arguments are `a`, matrix by matrix; *done stays false, and nothing has been touched,
 * where the matrices are not for cuSOLVER, or there is none. */
amp_status amp_cuda_solver_run(amp_call *call, const amp_linalg_loop *loop, const amp_cuda_matrices *a, bool *done);

#endif /* AMP_CUDA_SOLVER_H */
