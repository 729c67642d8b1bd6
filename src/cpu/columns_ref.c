/* The kernels of columns.h for ref. */
#define COLUMNS_ISA ref
#include "cpu/columns_body.h"
