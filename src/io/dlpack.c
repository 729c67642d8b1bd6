/* DLPack, out and in: tensors share memory with other libraries, without a copy. */
#include "amp/dlpack.h"

#include <string.h>

#include "amp/cuda.h"
#include "amp/io.h"
#include "core/memory.h"
#include "core/thread.h"
#include "cuda/cuda_lent.h"
#include "io/file_map.h"

/* Layout checks: a struct that drifts from the ABI must not build. */
_Static_assert(sizeof(DLDataType) == 4 && sizeof(DLDevice) == 8, "DLPack ABI");
_Static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, shape) == 24, "DLPack ABI");
_Static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32, "DLPack ABI");

/* ---- Types ---- */

static const DLDataType dlpack_types[AMP_DTYPE_COUNT] = {
    [AMP_F64] = {kDLFloat, 64, 1},   [AMP_F32] = {kDLFloat, 32, 1},   [AMP_F16] = {kDLFloat, 16, 1},
    [AMP_BF16] = {kDLBfloat, 16, 1}, [AMP_I64] = {kDLInt, 64, 1},     [AMP_I32] = {kDLInt, 32, 1},
    [AMP_I16] = {kDLInt, 16, 1},     [AMP_I8] = {kDLInt, 8, 1},       [AMP_U8] = {kDLUInt, 8, 1},
    [AMP_BOOL] = {kDLBool, 8, 1},    [AMP_C64] = {kDLComplex, 64, 1}, [AMP_C128] = {kDLComplex, 128, 1},
};

static amp_dtype dtype_of(DLDataType type) {
    for (int dtype = AMP_DTYPE_NONE + 1; dtype < AMP_DTYPE_COUNT; dtype++) {
        if (memcmp(&dlpack_types[dtype], &type, sizeof type) == 0) return (amp_dtype)dtype;
    }
    return AMP_DTYPE_NONE;
}

static const char *name_of_code(uint8_t code) {
    static const char *const names[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    return code < sizeof names / sizeof names[0] ? names[code] : "unknown";
}

static DLDevice device_of(const amp_tensor *t) {
    if (t->storage->device != AMP_DEVICE_CUDA) return (DLDevice){kDLCPU, 0};
    return (DLDevice){kDLCUDA, amp_cuda_device_of(t)};
}

/* ---- Out ---- */

/* What both managed structs point at; the tensor is a handle of its own, so that the caller may release theirs. */
typedef struct exported {
    amp_tensor *tensor;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
    DLTensor view; /* as it went out */
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor unversioned;
    } managed;
} exported;

static void release_exported(exported *e) {
    amp_tensor_drop(e->tensor);
    amp_free(e);
}

static void delete_versioned(DLManagedTensorVersioned *self) {
    release_exported(self->manager_ctx);
}
static void delete_unversioned(DLManagedTensor *self) {
    release_exported(self->manager_ctx);
}

static exported *export_tensor(amp_tensor *tensor, DLTensor *view) {
    if (amp_failed()) return NULL;
    if (!tensor || amp_tensor_device(tensor) != AMP_DEVICE_CUDA) {
        if (amp_io_check_tensor("to_dlpack", "tensor", tensor) != AMP_OK || !tensor) return NULL;
    }
    if (amp_this_thread.layers & AMP_LAYER_CAPTURE && !amp_tensor_on_write(tensor, false))
        return NULL; /* who gets it may */
    exported *e = amp_alloc_zeroed(sizeof *e);
    if (!e) {
        amp_fail(AMP_ERROR_MEMORY, "to_dlpack: no memory for the managed tensor");
        return NULL;
    }
    e->tensor = amp_tensor_view("to_dlpack", tensor, tensor->rank, tensor->shape, tensor->strides, tensor->offset);
    if (!e->tensor) {
        amp_free(e);
        return NULL;
    }
    amp_scope_move(e->tensor, NULL);
    memcpy(e->shape, tensor->shape, sizeof e->shape);
    memcpy(e->strides, tensor->strides, sizeof e->strides);
    *view = (DLTensor){.data = amp_tensor_elements(tensor) ? amp_tensor_pointer(tensor) : NULL,
                       .device = device_of(tensor),
                       .ndim = tensor->rank,
                       .dtype = dlpack_types[tensor->dtype],
                       .shape = e->shape,
                       .strides = e->strides};
    e->view = *view;
    return e;
}

DLManagedTensorVersioned *amp_to_dlpack(amp_tensor *tensor) {
    DLTensor view;
    exported *e = export_tensor(tensor, &view);
    if (!e) return NULL;
    e->managed.versioned =
        (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                   .manager_ctx = e,
                                   .deleter = delete_versioned,
                                   .flags = tensor->storage->read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
                                   .dl_tensor = view};
    return &e->managed.versioned;
}

DLManagedTensor *amp_to_dlpack_unversioned(amp_tensor *tensor) {
    DLTensor view;
    exported *e = export_tensor(tensor, &view);
    if (!e) return NULL;
    if (tensor->storage->read_only) {
        release_exported(e);
        amp_fail(AMP_ERROR_INVALID,
                 "to_dlpack_unversioned: %s is read-only, which this struct cannot say: use amp_to_dlpack",
                 amp_describe(tensor));
        return NULL;
    }
    e->managed.unversioned = (DLManagedTensor){.dl_tensor = view, .manager_ctx = e, .deleter = delete_unversioned};
    return &e->managed.unversioned;
}

/* ---- In ---- */

static amp_status check_geometry(const DLTensor *t, int64_t *elements) {
    if (t->ndim < 0 || t->ndim > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "from_dlpack: the tensor has %d dimensions, expected 0 to %d", (int)t->ndim,
                        AMP_MAX_RANK);
    }
    if (t->ndim > 0 && !t->shape) return amp_fail(AMP_ERROR_INVALID, "from_dlpack: shape is NULL");
    AMP_TRY(amp_shape_elements("from_dlpack", t->ndim, t->shape, elements));
    if (*elements > 0 && !t->data) return amp_fail(AMP_ERROR_INVALID, "from_dlpack: data is NULL");
    return AMP_OK;
}

/* Nothing of `managed` is kept on failure. */
static amp_tensor *import_tensor(const DLTensor *t, void (*deleter)(void *), void *managed) {
    const amp_dtype dtype = dtype_of(t->dtype);
    int64_t elements = 0;
    const bool on_cuda = t->device.device_type == kDLCUDA || t->device.device_type == kDLCUDAManaged;
    if (t->device.device_type != kDLCPU && t->device.device_type != kDLCUDAHost && !on_cuda) {
        amp_fail(AMP_ERROR_DEVICE, "from_dlpack: the tensor is on DLPack device %d, expected %d (the CPU) or %d (CUDA)",
                 (int)t->device.device_type, kDLCPU, kDLCUDA);
        return NULL;
    }
    if (dtype == AMP_DTYPE_NONE) {
        amp_fail(AMP_ERROR_DTYPE, "from_dlpack: libamp has no type of %d-bit %s with %d lanes", t->dtype.bits,
                 name_of_code(t->dtype.code), t->dtype.lanes);
        return NULL;
    }
    if (check_geometry(t, &elements) != AMP_OK) return NULL;
    char *data = t->data ? (char *)t->data + t->byte_offset : NULL;
    /* A GPU reads a complex number at once. */
    const size_t alignment = amp_dtype_size(dtype) / (amp_dtype_is_complex(dtype) && !on_cuda ? 2 : 1);
    if ((uintptr_t)data % alignment != 0) {
        amp_fail(AMP_ERROR_INVALID, "from_dlpack: the data of %s is not aligned to %zu bytes: copy it first",
                 amp_dtype_name(dtype), alignment);
        return NULL;
    }
    if (on_cuda) {
        const amp_cuda_lent lent = {data, t->device.device_id, deleter, managed};
        return amp_cuda_from_memory("from_dlpack", &lent, dtype, t->ndim, t->shape, t->strides);
    }
    return amp_from_memory(data, dtype, t->ndim, t->shape, t->strides, deleter, managed);
}

static void call_versioned_deleter(void *managed) {
    DLManagedTensorVersioned *m = managed;
    if (m->deleter) m->deleter(m);
}

static void call_unversioned_deleter(void *managed) {
    DLManagedTensor *m = managed;
    if (m->deleter) m->deleter(m);
}

/* A tensor of libamp's that comes back shares its storage, and so its version and its casts. NULL for any other, or
 * with an error. */
static amp_tensor *come_back(const DLTensor *t, exported *e) {
    if (memcmp(t, &e->view, sizeof *t) != 0) return NULL; /* somebody made something else of it */
    amp_tensor *back = amp_tensor_view("from_dlpack", e->tensor, t->ndim, t->shape, t->strides, e->tensor->offset);
    if (back) release_exported(e);
    return back;
}

amp_tensor *amp_from_dlpack(DLManagedTensorVersioned *managed) {
    if (amp_failed()) return NULL;
    if (!managed) {
        amp_fail(AMP_ERROR_INVALID, "from_dlpack: managed is NULL");
        return NULL;
    }
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
        amp_fail(AMP_ERROR_INVALID, "from_dlpack: the tensor comes as DLPack %u.%u, expected %d.x",
                 managed->version.major, managed->version.minor, DLPACK_MAJOR_VERSION);
        return NULL;
    }
    if (managed->deleter == delete_versioned) {
        amp_tensor *back = come_back(&managed->dl_tensor, managed->manager_ctx);
        if (back || amp_failed()) return back;
    }
    amp_tensor *tensor = import_tensor(&managed->dl_tensor, call_versioned_deleter, managed);
    if (tensor) tensor->storage->read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    return tensor;
}

amp_tensor *amp_from_dlpack_unversioned(DLManagedTensor *managed) {
    if (amp_failed()) return NULL;
    if (!managed) {
        amp_fail(AMP_ERROR_INVALID, "from_dlpack_unversioned: managed is NULL");
        return NULL;
    }
    if (managed->deleter == delete_unversioned) {
        amp_tensor *back = come_back(&managed->dl_tensor, managed->manager_ctx);
        if (back || amp_failed()) return back;
    }
    return import_tensor(&managed->dl_tensor, call_unversioned_deleter, managed);
}
