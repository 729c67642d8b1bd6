/* Batches of matrices for LAPACK, and the loop over them. */
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/cpu_steps.h"
#include "cpu/linalg/lapack.h"
#include "machine/openblas_core.h"

/* ---- Views ----------------------------------------------------------------------------------------------------- */

amp_status amp_cpu_conjugate(amp_tensor *t) {
    const amp_lapack *l = amp_lapack_of(t->dtype);
    const int64_t columns = amp_matrix_columns(t), rows = columns ? amp_tensor_elements(t) / columns : 0;
    const int64_t step = columns * (int64_t)amp_element_sizes[l->dtype];
    for (int64_t i = 0; i < rows; i++) l->conjugate((int)columns, 1, (char *)amp_tensor_pointer(t) + i * step, 1);
    return AMP_OK;
}

/* Sizes in elements, reals and integers. */
typedef struct work_size {
    int64_t elements, reals, integers;
} work_size;

static int64_t whole(double count) {
    return count >= 0x1p62 ? INT64_MAX / 2 : (int64_t)count + (count > (double)(int64_t)count);
}

static amp_status find_work_size(const amp_call *call, const amp_linalg_loop *loop, work_size *size) {
    *size = (work_size){loop->elements + 1, loop->reals + 1, loop->integers + 1};
    if (loop->asks) {
        double elements[2] = {0}, real[1] = {0}, reals;
        int integer = 0;
        amp_lapack_work query = {elements, real, &integer, -1, -1, -1};
        (void)loop->run(loop->context, 0, &query);
        const double wanted = loop->lapack->first(&query, &reals);
        size->elements = amp_larger(size->elements, whole(wanted));
        size->reals = amp_larger(size->reals, whole(reals));
        size->integers = amp_larger(size->integers, integer);
    }
    if (size->elements <= INT_MAX && size->reals <= INT_MAX && size->integers <= INT_MAX) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the matrices are too large for LAPACK's 32-bit workspace sizes",
                    amp_call_name(call));
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

static void run_part(const amp_linalg_loop *loop, const work_size *size, char *memory, amp_range part) {
    const size_t elements = aligned((size_t)size->elements * amp_element_sizes[loop->lapack->dtype]);
    const size_t reals = aligned((size_t)size->reals * amp_element_sizes[loop->lapack->real_dtype]);
    amp_lapack_work work = {
        memory,           memory + elements,  (int *)(void *)(memory + elements + reals), (int)size->elements,
        (int)size->reals, (int)size->integers};
    for (int64_t i = part.begin; i < part.end; i++) {
        const int info = loop->run(loop->context, i, &work);
        if (loop->infos) loop->infos[i] = info;
    }
}

amp_status amp_cpu_linalg_run(amp_call *call, const amp_linalg_loop *loop) {
    const int64_t count = loop->batch->count, macs = amp_larger(loop->macs, 1);
    work_size size;
    const char *fault = amp_blas_fault();
    if (fault) return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: %s", amp_call_name(call), fault);
    AMP_TRY(find_work_size(call, loop, &size));
    const int wanted = amp_parallel_threads(count > INT64_MAX / macs ? INT64_MAX : count * macs, AMP_GRAIN_MACS);
    const int threads = wanted < count ? wanted : (int)count;
    const size_t bytes = aligned((size_t)size.elements * amp_element_sizes[loop->lapack->dtype]) +
                         aligned((size_t)size.reals * amp_element_sizes[loop->lapack->real_dtype]) +
                         aligned((size_t)size.integers * sizeof(int));
    char *memory = amp_alloc(bytes * (size_t)threads);
    if (!memory) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a workspace of %zu bytes", amp_call_name(call),
                        bytes * (size_t)threads);
    }
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const int thread = omp_get_thread_num();
        omp_set_num_threads(1); /* this region's setting only: OpenBLAS asks for it */
        run_part(loop, &size, memory + bytes * (size_t)thread,
                 amp_parallel_part(count, 1, thread, omp_get_num_threads()));
    }
    amp_free(memory);
    return AMP_OK;
}
