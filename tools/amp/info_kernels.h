/* What `amp info --kernels` adds, and what `amp info --choices` prints. */
#ifndef AMP_TOOLS_INFO_KERNELS_H
#define AMP_TOOLS_INFO_KERNELS_H

#include <jansson.h>
#include <stdbool.h>

/* For people, on standard output; of the choices by kind only how many went to whom. */
void amp_print_kernels(void);
void amp_print_choices(void);
/* For programs; NULL without memory. The caller owns the arrays. */
json_t *amp_kernels_json(void);
json_t *amp_choices_json(void);

/* amp info --choices [GLOB]: each choice, or those whose name matches; pattern NULL: all. Returns the exit code. */
int amp_list_choices(const char *pattern, bool json);

#endif /* AMP_TOOLS_INFO_KERNELS_H */
