/* What `amp info --kernels` adds. */
#ifndef AMP_TOOLS_INFO_KERNELS_H
#define AMP_TOOLS_INFO_KERNELS_H

#include <jansson.h>

/* For people, on standard output. */
void amp_print_kernels(void);
/* For programs; NULL without memory. The caller owns the array. */
json_t *amp_kernels_json(void);
/* {"tested": …, "failed_count": …, "failed": […]}: all rows that this machine can run, beside the reference; NULL
 * without memory. */
json_t *amp_kernel_rows_json(void);

#endif /* AMP_TOOLS_INFO_KERNELS_H */
