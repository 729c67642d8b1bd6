/* Whose f32 product with packed weights runs. */
#ifndef AMP_CPU_GEMM_CHOICE_H
#define AMP_CPU_GEMM_CHOICE_H

#include "cpu/dnnl/dnnl_matmul.h"
#include "cpu/gemm/gemm.h"

/* Whether oneDNN computes this product, described for both, faster than our kernel: as the table of choices says, which
 * measures the first product of a kind. The matrices of a batch are of one kind. */
bool amp_gemm_prefers_dnnl(const amp_gemm *g, const amp_dnnl_matmul *d);

#endif /* AMP_CPU_GEMM_CHOICE_H */
