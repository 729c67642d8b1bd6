/* The kernels of columns.h for avx512. */
#define COLUMNS_ISA avx512
#include "cpu/columns_body.h"
