/* cpu_ops.def as a table, and the CPU as a backend of the dispatcher. */
#include "call/backend.h"
#include "core/hot.h"
#include "generated/op_ids.h"

#include "cpu/convert/copy.h"

#define CPU_OP(op, implementation) amp_status implementation(amp_call *call);
#define CPU_OP_TAKES_PENDING CPU_OP
#define CPU_OP_TAKES_UNALIGNED CPU_OP
#define CPU_OP_PACKS CPU_OP
#include "cpu/cpu_ops.def"
#undef CPU_OP
#undef CPU_OP_TAKES_PENDING
#undef CPU_OP_TAKES_UNALIGNED
#undef CPU_OP_PACKS

static const amp_backend_op table[AMP_OP_ID_COUNT + 1] = {
#define CPU_OP(op, implementation) [AMP_OP_ID_##op] = {implementation, false, AMP_UNALIGNED_NONE},
#define CPU_OP_TAKES_PENDING(op, implementation) [AMP_OP_ID_##op] = {implementation, true, AMP_UNALIGNED_NONE},
#define CPU_OP_TAKES_UNALIGNED(op, implementation) [AMP_OP_ID_##op] = {implementation, false, AMP_UNALIGNED_ALL},
#define CPU_OP_PACKS(op, implementation) [AMP_OP_ID_##op] = {implementation, true, AMP_UNALIGNED_WEIGHTS},
#include "cpu/cpu_ops.def"
#undef CPU_OP
#undef CPU_OP_TAKES_PENDING
#undef CPU_OP_TAKES_UNALIGNED
#undef CPU_OP_PACKS
    [AMP_OP_ID_COUNT] = {NULL, false, AMP_UNALIGNED_NONE},
};

AMP_HOT static amp_backend_op find(const amp_op_info *op) {
    return table[op->id];
}

static amp_status fill(amp_tensor *tensor, const amp_scalar *value) {
    amp_cpu_fill(tensor, value);
    return AMP_OK;
}

const amp_backend amp_cpu_backend = {
    .name = "cpu",
    .find = find,
    .copy = amp_cpu_copy,
    .fill = fill,
};
