/* The kernels of columns.h for avx2. */
#define COLUMNS_ISA avx2
#include "cpu/columns_body.h"
